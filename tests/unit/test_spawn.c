/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/nofile.h"
#include "base/spawn.h"
#include "base/str.h"
#include "base/strbuf.h"

static int open_sh(void)
{
	int fd = open("/bin/sh", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

/* What a shell says that is given this line; its exit status. */
static int say(struct spawn *s, const char *line, char **ret)
{
	cleanup_free char *text = xstrdup(line);
	char name[] = "sh", option[] = "-c", home[] = "MARK=here", path[] = "PATH=/usr/bin:/bin";
	char *const argv[] = { name, option, text, NULL }, *const env[] = { home, path, NULL };
	cleanup_strbuf struct strbuf out = STRBUF_INIT;
	char buf[4096];
	int fds[2], status;
	ssize_t n;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	s->argv = argv;
	s->env = env;
	s->fds[1] = s->fds[2] = fds[1];

	pid_t pid = spawn_start(s);

	assert_true(pid > 0);
	(void)close(fds[1]);
	while ((n = read(fds[0], buf, sizeof(buf))) > 0)
		strbuf_addf(&out, "%.*s", (int)n, buf);
	(void)close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	*ret = xstrdup(strbuf_str(&out));
	return WEXITSTATUS(status);
}

static int count_open(void)
{
	int n = 0;

	for (int fd = 0; fd < 200; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void expect(struct spawn *s, const char *line, int code, const char *text)
{
	cleanup_free char *said = NULL;
	int open_before = count_open(), r = say(s, line, &said);

	assert_string_equal(said, text);
	assert_int_equal(r, code);
	assert_int_equal(count_open(), open_before);
}

#define LIST "cd /proc/$$/fd; for i in *; do [ -e $i ] && echo $i; done; :"

static void it_has_what_it_is_given_and_nothing_else(void **state)
{
	cleanup_fd int sh = open_sh(), other = open("/", O_RDONLY);
	struct spawn s = SPAWN_INIT;
	int pair[2];

	assert_int_equal(spawn_reserve(), 0);

	/* One that is passed on by exec, with a number far away, and one as it is usual. */
	cleanup_fd int far = fcntl(other, F_DUPFD, 100),
		       file = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	assert_true(far >= 100 && file > other);
	s.program = sh;
	expect(&s, "echo $MARK $(pwd)", 0, "here /\n");
	expect(&s, LIST, 0, "0\n1\n2\n");
	expect(&s, "readlink /proc/$$/fd/0; exit 7", 7, "/dev/null\n");

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	s.fds[3] = pair[1];
	s.fds[0] = file;
	expect(&s, LIST, 0, "0\n1\n2\n3\n");
	expect(&s, "readlink /proc/$$/fd/0; echo hello >&3", 0, "/dev/zero\n");

	char buf[16] = "";

	/* The copy that was made for it is closed here: nobody else has the other end. */
	assert_int_equal(recv(pair[0], buf, sizeof(buf), MSG_DONTWAIT), 6);
	(void)close(pair[1]);
	assert_int_equal(recv(pair[0], buf, sizeof(buf), MSG_DONTWAIT), 0);
	(void)close(pair[0]);
}

static void its_signals_are_at_their_default(void **state)
{
	cleanup_fd int sh = open_sh();
	struct spawn s = SPAWN_INIT;
	sigset_t blocked, old, now;

	(void)sigemptyset(&blocked);
	(void)sigaddset(&blocked, SIGUSR1);
	assert_int_equal(sigprocmask(SIG_BLOCK, &blocked, &old), 0);
	(void)signal(SIGTERM, SIG_IGN);
	s.program = sh;
	s.session = true;
	expect(&s,
	       "grep -E '^Sig(Blk|Ign)' /proc/$$/status | tr -d 0; cut -d' ' -f6 /proc/$$/stat | "
	       "grep -x $$ >/dev/null && echo leads",
	       0, "SigBlk:\t\nSigIgn:\t\nleads\n");
	assert_ptr_equal(signal(SIGTERM, SIG_DFL), SIG_IGN);
	assert_int_equal(sigprocmask(SIG_SETMASK, &old, &now), 0);
	assert_true(sigismember(&now, SIGUSR1) && !sigismember(&now, SIGUSR2));
}

/* By an error where it could be waited for, else by its end. */
static void what_is_no_program_is_told(void **state)
{
	cleanup_fd int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	char name[] = "x";
	char *const argv[] = { name, NULL };
	struct spawn s = SPAWN_INIT;
	int status;

	s.program = fd;
	s.argv = argv;
	s.env = environ;

	pid_t pid = spawn_start(&s);

	if (pid > 0) {
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(WEXITSTATUS(status), 127);
		return;
	}
	assert_int_equal(pid, -EACCES);
	assert_int_equal(waitpid(-1, &status, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

/* A file system that other kernels may have could hang: it is copied from, and not waited for. */
static void a_program_on_another_file_system(void **state)
{
	cleanup_fd int proc = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	cleanup_fd int status_file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	char name[] = "x";
	char *const argv[] = { name, NULL };
	struct spawn s = SPAWN_INIT;
	int status;

	assert_true(fs_is_shared(status_file) && proc >= 0);
	s.program = status_file;
	s.argv = argv;
	s.env = environ;

	pid_t pid = spawn_start(&s);

	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 127);
}

/* close_range() is as on a kernel that does not have it, in this process and for good. */
static void forbid_close_range(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(*code), .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		_exit(77);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* In a child; its exit status: which check failed. The last descriptor is above the soft limit, as
 * one is that was opened before that was lowered: who tries all numbers does not get there. */
static int close_some(void)
{
	const struct rlimit low = { .rlim_cur = 64, .rlim_max = 1024 };

	forbid_close_range();
	for (int fd = 20; fd < 200; fd++)
		if (dup2(STDERR_FILENO, fd) < 0)
			return 1;
	if (setrlimit(RLIMIT_NOFILE, &low) < 0)
		return 2;
	nofile_close(30, 189);
	for (int fd = 20; fd < 200; fd++)
		if (is_open(fd) != (fd < 30 || fd > 189))
			return 3;
	nofile_close(3, ~0U);
	for (int fd = 0; fd < 200; fd++)
		if (is_open(fd) != (fd < 3))
			return 4;
	return 0;
}

static void what_is_open_is_closed_without_close_range(void **state)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(close_some());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void *reserve_and_open(void *data)
{
	int *fd = data;

	*fd = spawn_reserve() == 0 ? open("/dev/zero", O_RDONLY | O_CLOEXEC) : -1;
	return NULL;
}

/* In a child, in which nobody has done so before. */
static int open_in_a_thread(void)
{
	pthread_t thread;
	int fd = -1;

	if (pthread_create(&thread, NULL, reserve_and_open, &fd) || pthread_join(thread, NULL))
		return 1;
	return fd < 0 ? 2 : is_open(fd) ? 0 : 3;
}

/* Descriptors stay those of all threads, whichever of them is the first to start a program. */
static void a_thread_does_not_get_a_table_of_its_own(void **state)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(open_in_a_thread());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_does_not_get_a_table_of_its_own), /* the first */
		cmocka_unit_test(it_has_what_it_is_given_and_nothing_else),
		cmocka_unit_test(its_signals_are_at_their_default),
		cmocka_unit_test(what_is_no_program_is_told),
		cmocka_unit_test(a_program_on_another_file_system),
		cmocka_unit_test(what_is_open_is_closed_without_close_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
