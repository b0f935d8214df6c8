/* SPDX-License-Identifier: MIT */
#include "compat/compete_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

#define LOOK_MS 20

static void __attribute__((noreturn))
become(const char *program, char *const *argv, int out, pid_t parent)
{
	if (setpgid(0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent ||
	    dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
		_exit(1);
	(void)execvp(program, argv);
	(void)fprintf(stderr, "cannot run %s: %s\n", program, strerror(errno));
	(void)fflush(stderr);
	_exit(127);
}

int child_start(struct child *ch, const char *program, char *const *argv)
{
	pid_t self = getpid(), pid;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	(void)fflush(NULL);
	pid = fork();
	if (pid == 0)
		become(program, argv, fds[1], self);

	int errnum = errno;

	(void)fd_close(fds[1]);
	if (pid < 0) {
		(void)fd_close(fds[0]);
		return -errnum;
	}
	(void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
	*ch = (struct child){ .pid = pid, .fd = fds[0], .part = STRBUF_INIT };
	return 0;
}

static void tell(struct child *ch, child_line_fn fn, void *user)
{
	if (ch->part.len)
		fn(user, strbuf_str(&ch->part));
	strbuf_clear(&ch->part);
	ch->part = (struct strbuf)STRBUF_INIT;
}

bool child_hear(struct child *ch, child_line_fn fn, void *user)
{
	char buf[4096];
	ssize_t n = -1;
	bool any = false;

	while (ch->fd >= 0 && (n = read(ch->fd, buf, sizeof(buf))) > 0)
		for (ssize_t i = 0; i < n; i++) {
			any = any || buf[i] == '\n';
			if (buf[i] == '\n')
				tell(ch, fn, user);
			else if (buf[i])
				strbuf_addc(&ch->part, buf[i]);
		}
	if (ch->fd >= 0 && (n == 0 || (errno != EAGAIN && errno != EINTR)))
		ch->fd = fd_close(ch->fd);
	return any;
}

bool child_ended(struct child *ch, int *ret_code)
{
	int status = 0;
	pid_t r = ch->pid ? waitpid(ch->pid, &status, WNOHANG) : -1;

	if (!ch->pid || r == 0 || (r < 0 && errno == EINTR))
		return false;
	*ret_code = r > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	return true;
}

int child_wait(struct child *ch, child_line_fn fn, void *user)
{
	int code = 1;

	while (ch->pid && !child_ended(ch, &code)) {
		struct pollfd p = { .fd = ch->fd, .events = POLLIN };

		(void)poll(&p, 1, LOOK_MS);
		(void)child_hear(ch, fn, user);
	}
	(void)child_hear(ch, fn, user);
	tell(ch, fn, user);
	ch->fd = fd_close(ch->fd);
	ch->pid = 0;
	return code;
}
