/* SPDX-License-Identifier: MIT */
#include "agent/guardspawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int guardspawn_copy_self(struct err *e)
{
	cleanup_fd int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (self < 0 || fstat(self, &st) < 0)
		return err_sys(e, errno, "open /proc/self/exe");

	cleanup_fd int copy = memfd_create("tenure", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (copy < 0)
		return err_sys(e, errno, "make a copy of the program in memory");
	for (off_t done = 0; done < st.st_size;) {
		ssize_t n = sendfile(copy, self, &done, (size_t)(st.st_size - done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_sys(e, n < 0 ? errno : EIO, "copy the program into memory");
	}
	if (fcntl(copy, F_ADD_SEALS, SEALS) < 0)
		return err_sys(e, errno, "seal the copy of the program");
	return take_fd(copy);
}

/* In the child, between fork and exec: only what is safe there. Ends with the errno as status. */
static void __attribute__((noreturn)) become_guard(int copy_fd, char *const *argv)
{
	int null = open("/dev/null", O_RDWR);

	if (setsid() < 0 || chdir("/") < 0 || null < 0)
		_exit(126);
	for (int fd = 0; fd < 3; fd++)
		if (dup2(null, fd) < 0)
			_exit(126);
	if (null > 2)
		(void)close(null);
	(void)fexecve(copy_fd, argv, environ);
	_exit(127);
}

/*
 * A child starts with the parent's blocked signals and ignored ones; the loop's own handlers go
 * with exec. The guard must be stoppable like any program.
 */
static pid_t fork_clean(void)
{
	sigset_t all, old;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &old);

	pid_t pid = fork();
	int errnum = errno;

	if (pid == 0) {
		static const int reset[] = { SIGINT,  SIGTERM, SIGHUP, SIGPIPE,
					     SIGCHLD, SIGQUIT, SIGTSTP };

		for (size_t i = 0; i < ARRAY_LEN(reset); i++)
			(void)signal(reset[i], SIG_DFL);
		(void)sigemptyset(&all);
		(void)sigprocmask(SIG_SETMASK, &all, NULL);
		return 0;
	}
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	errno = errnum;
	return pid;
}

pid_t guardspawn_start(int copy_fd, const char *dev_dir, struct err *e)
{
	cleanup_free char *dir = xstrdup(dev_dir);
	char name[] = "tenure", verb[] = "guard", option[] = "--dev-dir";
	char *const argv[] = { name, verb, option, dir, NULL };
	pid_t pid = fork_clean();

	if (pid < 0)
		return err_sys(e, errno, "start the guard");
	if (pid == 0)
		become_guard(copy_fd, argv);
	return pid;
}

bool guardspawn_ended(pid_t pid, char *why, size_t why_size)
{
	int status;
	pid_t r = waitpid(pid, &status, WNOHANG);

	if (r == 0)
		return false;
	if (r < 0)
		(void)str_copy(why, why_size, "unknown end");
	else if (WIFSIGNALED(status))
		(void)str_print(why, why_size, "signal %d", WTERMSIG(status));
	else
		(void)str_print(why, why_size, "exit status %d", WEXITSTATUS(status));
	return true;
}
