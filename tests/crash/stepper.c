/* SPDX-License-Identifier: MIT */

/*
 * Runs a program and all that comes of it, and does something to them at system calls that somebody
 * else could see the effect of (or could have an effect on them), before the call is made.
 *
 * stepper kill N CMD..: kill the process at the N-th of these calls, be it its own or of one that
 * it has started, which lives on; the exit status is 137 then.
 *
 * stepper hold N FILE CMD..: make FILE at the N-th, and go on when it is not there any more.
 *
 * stepper nth N MS CMD..: each process waits at the N-th of its own since it was forked, and again
 * since it executed a program.
 *
 * stepper random SEED PERMILLE MS CMD..: so many of a thousand calls wait for up to MS.
 *
 * Otherwise the exit status is that of CMD (128 and the signal). It ends when the last of the
 * processes has ended: some outlive the first one, and could not go on without who traces them.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KILLED	    137
#define THREADS_MAX 4096
#define POLL_MS	    5
#define LOOK_MS	    200
#define OPTIONS                                                                                    \
	(PTRACE_O_EXITKILL | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |    \
	 PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC)

/* As far as this machine has them. */
static const int calls[] = {
	SYS_write,
	SYS_pwrite64,
	SYS_writev,
	SYS_fsync,
	SYS_fdatasync,
	SYS_syncfs,
	SYS_renameat,
	SYS_renameat2,
	SYS_unlinkat,
	SYS_mkdirat,
	SYS_linkat,
	SYS_symlinkat,
	SYS_ftruncate,
	SYS_truncate,
	SYS_fchmod,
	SYS_fchmodat,
	SYS_utimensat,
	SYS_connect,
	SYS_accept,
	SYS_accept4,
	SYS_bind,
	SYS_listen,
	SYS_sendto,
	SYS_sendmsg,
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_clone,
	SYS_execve,
	SYS_execveat,
	SYS_kill,
	SYS_flock,
	SYS_wait4,
	SYS_exit_group,
	SYS_setsid,
	SYS_shutdown,
	SYS_fallocate,
	SYS_fchown,
	SYS_fchownat,
	SYS_memfd_create,
#ifdef SYS_clone3
	SYS_clone3,
#endif
#ifdef SYS_pidfd_send_signal
	SYS_pidfd_send_signal,
#endif
#ifdef SYS_rename
	SYS_rename,
	SYS_unlink,
	SYS_mkdir,
	SYS_rmdir,
	SYS_link,
	SYS_symlink,
	SYS_chmod,
	SYS_fork,
	SYS_vfork,
#endif
};

#define N_CALLS (sizeof(calls) / sizeof(calls[0]))

struct thread {
	pid_t tid;
	unsigned int count;
	uint64_t until_ms; /* it waits; 0: it does not */
};

enum mode { MODE_KILL, MODE_HOLD, MODE_NTH, MODE_RANDOM };

static enum mode mode;
static unsigned int at, ms, permille;
static uint64_t seed;
static const char *hold_file;

static struct thread threads[THREADS_MAX];
static size_t n_threads;
static unsigned int total;
static pid_t first, held;
static bool killed;

static uint64_t now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static uint64_t draw(void)
{
	uint64_t z = seed += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

/* Of files that are opened only those that may be made or written. */
static void install_filter(void)
{
	static struct sock_filter code[2 * N_CALLS + 16];
	struct sock_fprog program = { .filter = code };
	unsigned short n = 0;
	const uint32_t writing = O_CREAT | O_WRONLY | O_RDWR | O_TRUNC;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < N_CALLS; i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							 (uint32_t)calls[i], 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
	}
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, args[2]));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, writing, 0, 1);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = n;
	/* Whoever may not do it as they are has to promise to gain nothing by programs. */
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 &&
	    (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	     prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)) {
		perror("stepper: seccomp");
		_exit(126);
	}
}

static struct thread *find(pid_t tid)
{
	for (size_t i = 0; i < n_threads; i++)
		if (threads[i].tid == tid)
			return &threads[i];
	if (n_threads == THREADS_MAX) {
		(void)fprintf(stderr, "stepper: there are too many threads\n");
		exit(126);
	}
	threads[n_threads] = (struct thread){ .tid = tid };
	return &threads[n_threads++];
}

static void forget(pid_t tid)
{
	struct thread *t = find(tid);

	*t = threads[--n_threads];
	if (held == tid)
		held = 0;
}

static void go_on(pid_t tid, int signum)
{
	(void)ptrace(PTRACE_CONT, tid, NULL, (void *)(intptr_t)signum);
}

static void on_call(pid_t tid)
{
	struct thread *t = find(tid);
	unsigned int wait_ms = 0;

	t->count++;
	total++;
	switch (mode) {
	case MODE_KILL:
		if (total == at) {
			killed = true;
			(void)kill(first, SIGKILL);
			go_on(tid, 0); /* what it has started lives on */
			return;
		}
		break;
	case MODE_HOLD:
		if (total == at) {
			int fd = open(hold_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

			if (fd >= 0)
				(void)close(fd);
			held = tid;
			return;
		}
		break;
	case MODE_NTH:
		wait_ms = t->count == at ? ms : 0;
		break;
	case MODE_RANDOM:
		wait_ms = draw() % 1000 < permille ? 1 + (unsigned int)(draw() % ms) : 0;
		break;
	}
	if (wait_ms)
		t->until_ms = now_ms() + wait_ms;
	else
		go_on(tid, 0);
}

static void on_stop(pid_t tid, int status)
{
	int signum = WSTOPSIG(status);

	switch (status >> 16) {
	case PTRACE_EVENT_SECCOMP:
		on_call(tid);
		return;
	case PTRACE_EVENT_EXEC:
		find(tid)->count = 0;
		go_on(tid, 0);
		return;
	case PTRACE_EVENT_STOP:
		/* A new one's first stop is a SIGTRAP; others are stops of its whole process. */
		if (signum != SIGTRAP)
			(void)ptrace(PTRACE_LISTEN, tid, NULL, NULL);
		else
			go_on(tid, 0);
		return;
	case 0:
		go_on(tid, signum);
		return;
	default:
		go_on(tid, 0);
	}
}

/* Lets those go on that have waited for long enough; how long until the next one has. */
static uint64_t let_go(void)
{
	uint64_t now = now_ms(), next = LOOK_MS;

	for (size_t i = 0; i < n_threads; i++) {
		struct thread *t = &threads[i];

		if (!t->until_ms)
			continue;
		if (t->until_ms <= now) {
			t->until_ms = 0;
			go_on(t->tid, 0);
		} else if (t->until_ms - now < next) {
			next = t->until_ms - now;
		}
	}
	if (held && access(hold_file, F_OK) < 0) {
		go_on(held, 0);
		held = 0;
	}
	return held && next > POLL_MS ? POLL_MS : next;
}

static int trace_all(void)
{
	sigset_t child;
	int result = 126;

	(void)sigemptyset(&child);
	(void)sigaddset(&child, SIGCHLD);
	for (;;) {
		int status;
		pid_t tid = waitpid(-1, &status, __WALL | WNOHANG);

		if (tid < 0 && errno == ECHILD)
			return result;
		if (tid <= 0) {
			uint64_t next = let_go();
			struct timespec ts = { (time_t)(next / 1000),
					       (long)(next % 1000) * 1000000 };

			(void)sigtimedwait(&child, NULL, &ts);
		} else if (WIFSTOPPED(status)) {
			on_stop(tid, status);
		} else {
			if (tid == first)
				result = killed		     ? KILLED
					 : WIFEXITED(status) ? WEXITSTATUS(status)
							     : 128 + WTERMSIG(status);
			forget(tid);
		}
	}
}

/* How many of the arguments are ours. */
static int parse(int argc, char **argv)
{
	static const struct {
		const char *name;
		int n;
	} modes[] = { [MODE_KILL] = { "kill", 1 },
		      [MODE_HOLD] = { "hold", 2 },
		      [MODE_NTH] = { "nth", 2 },
		      [MODE_RANDOM] = { "random", 3 } };

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]) && argc > 1; i++) {
		if (strcmp(argv[1], modes[i].name) != 0 || argc < modes[i].n + 3)
			continue;
		mode = (enum mode)i;
		at = (unsigned int)strtoul(argv[2], NULL, 10);
		seed = at;
		hold_file = argv[3];
		if (mode == MODE_NTH)
			ms = (unsigned int)strtoul(argv[3], NULL, 10);
		if (mode == MODE_RANDOM) {
			permille = (unsigned int)strtoul(argv[3], NULL, 10);
			ms = (unsigned int)strtoul(argv[4], NULL, 10);
		}
		return modes[i].n + 2;
	}
	(void)fprintf(stderr, "stepper: kill N | hold N FILE | nth N MS | random SEED PERMILLE MS, "
			      "and a command\n");
	exit(126);
}

int main(int argc, char **argv)
{
	int ours = parse(argc, argv), ready[2];
	sigset_t child, before;
	char byte = 0;

	(void)sigemptyset(&child);
	(void)sigaddset(&child, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &child, &before);
	if (pipe2(ready, O_CLOEXEC) < 0)
		return 126;
	first = fork();
	if (first == 0) {
		(void)sigprocmask(SIG_SETMASK, &before, NULL);
		(void)close(ready[1]);
		if (read(ready[0], &byte, 1) != 1)
			_exit(126);
		install_filter();
		(void)execvp(argv[ours], argv + ours);
		_exit(127);
	}
	if (first < 0 || ptrace(PTRACE_SEIZE, first, NULL, (void *)OPTIONS) < 0) {
		perror("stepper: ptrace");
		return 126;
	}
	if (write(ready[1], &byte, 1) != 1)
		return 126;
	(void)close(ready[0]);
	(void)close(ready[1]);
	return trace_all();
}
