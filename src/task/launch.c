/* SPDX-License-Identifier: MIT */
#include "task/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/nofile.h"
#include "base/str.h"
#include "task/fdpass.h"
#include "task/mother.h"
#include "task/shproto.h"

/* Room for the titles of shims, which is the memory of the mother's words. */
#define TITLE_ROOM                                                                                 \
	"                                                                                "

/* Our environment, and all symbols bound before the first fork instead of after each. */
static char **mother_env(void)
{
	static char bind_now[] = "LD_BIND_NOW=1";
	size_t n = 0;

	while (environ[n])
		n++;

	char **env = xcalloc(n + 2, sizeof(*env));

	(void)memcpy(env, environ, n * sizeof(*env));
	env[n] = bind_now;
	return env;
}

static int spawn(int exe_fd, int sock, pid_t *ret)
{
	char path[48], argv0[] = MOTHER_ARGV0, room[] = TITLE_ROOM;
	char *const argv[] = { argv0, room, NULL };
	cleanup_free char **env = mother_env();
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none;
	int r;

	(void)str_print(path, sizeof(path), "/proc/self/fd/%d", exe_fd);
	(void)sigemptyset(&none);
	(void)posix_spawn_file_actions_init(&files);
	(void)posix_spawnattr_init(&attr);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
	(void)posix_spawnattr_setsigmask(&attr, &none);
	for (int fd = 0; fd < 3; fd++)
		(void)posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
	(void)posix_spawn_file_actions_adddup2(&files, sock, MOTHER_FD);
	r = posix_spawn(ret, path, &files, &attr, argv, env);
	(void)posix_spawn_file_actions_destroy(&files);
	(void)posix_spawnattr_destroy(&attr);
	return -r;
}

int launch_mother(struct mother *m, int exe_fd, struct err *e)
{
	/* Above MOTHER_FD, which is another thing in the child. */
	cleanup_fd int exe = fcntl(exe_fd, F_DUPFD_CLOEXEC, MOTHER_FD + 1);
	int pair[2];
	pid_t pid;

	launch_mother_close(m);
	if (exe < 0)
		return err_sys(e, errno, "use the program's file");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, errno, "socketpair");

	int r = spawn(exe, pair[1], &pid);

	(void)close(pair[1]);
	if (r < 0) {
		(void)close(pair[0]);
		return err_sys(e, -r, "start the process that starts tasks");
	}
	nofile_set_of(pid, m->nofile);
	m->fd = pair[0];
	m->pid = pid;
	return 0;
}

bool launch_mother_gone(struct mother *m)
{
	if (m->pid > 0 && waitpid(m->pid, NULL, WNOHANG) != 0)
		m->pid = 0;
	return m->pid == 0;
}

void launch_mother_close(struct mother *m)
{
	m->fd = fd_close(m->fd);
	(void)launch_mother_gone(m);
}

int launch_shim(struct mother *m, const struct task_spec *spec, int log_fd, struct err *e)
{
	struct shmsg_plain msg = { .head = SHMSG_HEAD(SHMSG_START, struct shmsg_plain) };
	struct shmsg_plain log = { .head = SHMSG_HEAD(SHMSG_LOG, struct shmsg_plain) };
	int pair[2];

	if (m->fd < 0)
		return err_set(e, -EPIPE, "the process that starts tasks does not run");

	cleanup_fd int spec_fd = spec_encode(spec, e);

	if (spec_fd < 0)
		return spec_fd;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_sys(e, errno, "socketpair");

	const int fds[SHPROTO_FDS] = { pair[1], spec_fd };
	int r = fdpass_send(pair[0], &log, sizeof(log), &log_fd, 1);

	if (r == 0)
		r = fdpass_send(m->fd, &msg, sizeof(msg), fds, SHPROTO_FDS);

	(void)close(pair[1]);
	if (r < 0) {
		(void)close(pair[0]);
		return err_sys(e, -r, "ask for the task's shim");
	}
	return pair[0];
}
