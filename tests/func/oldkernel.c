/* SPDX-License-Identifier: MIT */

/*
 * For LD_PRELOAD: a kernel of before 5.3. It does not know MFD_EXEC, and of the calls that came
 * later none is there (ENOSYS). With SANDBOX in the environment those that we ourselves make are
 * forbidden instead (EPERM); with the others no C library would work.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define N_CALLS (sizeof(calls) / sizeof(*calls))

static const struct {
	uint32_t number;
	int ours;
} calls[] = {
	{ SYS_pidfd_send_signal, 1 }, { SYS_pidfd_open, 1 }, { SYS_close_range, 1 },
	{ SYS_openat2, 1 },	      { SYS_faccessat2, 0 }, { SYS_clone3, 0 },
};

int memfd_create(const char *name, unsigned int flags)
{
	if (flags & ~0x7U) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_memfd_create, name, flags);
}

/* What is started from here has it, too, whatever its environment. */
__attribute__((constructor)) static void install_filter(void)
{
	struct sock_filter code[2 * N_CALLS + 2];
	struct sock_fprog program = { .filter = code };
	unsigned short n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < N_CALLS; i++) {
		uint32_t errnum = calls[i].ours && getenv("SANDBOX") ? EPERM : ENOSYS;

		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number,
							 0, 1);
		code[n++] =
			(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | errnum);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = n;
	/* Whoever may not do it as they are has to promise to gain nothing by programs. */
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 &&
	    (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	     prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0))
		_exit(126);
}
