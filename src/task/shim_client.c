/* SPDX-License-Identifier: MIT */
#include "task/shim_client.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/nofile.h"
#include "base/sock.h"
#include "base/spawn.h"
#include "base/str.h"
#include "task/claim_names.h"
#include "task/fdpass.h"
#include "task/shproto.h"

/* Room for the titles of shims, which is the memory of the fork server's words. */
#define TITLE_ROOM                                                                                 \
	"                                                                                "

/* Our environment, and all symbols bound before the first fork instead of after each. of:
 * "NAME=..." of whom it is, in place of what is there. */
static char **fork_server_env(char *of)
{
	static char bind_now[] = "LD_BIND_NOW=1";
	size_t n = 0, kept = 0;

	while (environ[n])
		n++;

	char **env = xcalloc(n + 3, sizeof(*env));

	for (size_t i = 0; i < n; i++)
		if (!str_has_prefix(environ[i], FORK_SERVER_OF_ENV "="))
			env[kept++] = environ[i];
	env[kept++] = bind_now;
	env[kept] = of;
	return env;
}

static pid_t spawn_fork_server(int exe_fd, int sock, const char *key)
{
	char argv0[] = FORK_SERVER_ARGV0, room[] = TITLE_ROOM, tokens[TASK_TOKEN_MAX];
	char *const argv[] = { argv0, room, NULL };
	cleanup_free char *of =
		key ? xasprintf(FORK_SERVER_OF_ENV "=%s", names_tokens_of(key, tokens)) : NULL;
	cleanup_free char **env = fork_server_env(of);
	struct spawn s = SPAWN_INIT;

	s.program = exe_fd;
	s.argv = argv;
	s.env = env;
	s.fds[FORK_SERVER_FD] = sock;
	s.session = true;
	return spawn_start(&s);
}

int fork_server_start(struct fork_server *m, int exe_fd, struct err *e)
{
	int pair[2];

	fork_server_close(m);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, errno, "socketpair");

	pid_t pid = spawn_fork_server(exe_fd, pair[1], m->key);

	(void)close(pair[1]);
	if (pid < 0) {
		(void)close(pair[0]);
		return err_sys(e, -pid, "start the process that starts tasks");
	}
	nofile_set_of(pid, m->nofile);
	m->fd = pair[0];
	m->pid = pid;
	return 0;
}

bool fork_server_gone(struct fork_server *m)
{
	if (m->pid > 0 && waitpid(m->pid, NULL, WNOHANG) != 0)
		m->pid = 0;
	return m->pid == 0;
}

void fork_server_close(struct fork_server *m)
{
	m->fd = fd_close(m->fd);
	(void)fork_server_gone(m);
}

int shim_client_start(struct fork_server *m, const struct launch_spec *spec, int log_fd,
		      struct err *e)
{
	struct shmsg_plain msg = { .head = SHMSG_HEAD(SHMSG_START, struct shmsg_plain) };
	struct shmsg_plain log = { .head = SHMSG_HEAD(SHMSG_LOG, struct shmsg_plain) };
	int pair[2];

	if (m->fd < 0)
		return err_set(e, -EPIPE, "the process that starts tasks does not run");

	cleanup_fd int spec_fd = launch_spec_encode(spec, e);

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

/* --- what is said to a shim --- */

int shim_client_go(int conn, const char *devices, const char *const *env, size_t n_env)
{
	struct shmsg_go m = { .head = SHMSG_HEAD(SHMSG_GO, struct shmsg_go) };

	(void)str_copy(m.devices, sizeof(m.devices), devices ? devices : "");
	for (size_t i = 0; i < n_env; i++) {
		size_t n = strlen(env[i]) + 1;

		if (n > sizeof(m.env) - m.env_bytes)
			return -E2BIG;
		(void)memcpy(m.env + m.env_bytes, env[i], n);
		m.env_bytes += (uint32_t)n;
	}
	return sock_send(conn, &m, sizeof(m));
}

static int send_plain(int conn, uint16_t type)
{
	struct shmsg_plain m = { .head = SHMSG_HEAD(type, struct shmsg_plain) };

	return sock_send(conn, &m, sizeof(m));
}

int shim_client_cancel(int conn)
{
	return send_plain(conn, SHMSG_CANCEL);
}

int shim_client_ask(int conn)
{
	return send_plain(conn, SHMSG_ASK);
}

int shim_client_gpu(int conn, uint64_t peak_bytes, uint32_t util_permille)
{
	struct shmsg_gpu m = { .head = SHMSG_HEAD(SHMSG_GPU, struct shmsg_gpu),
			       .peak_bytes = peak_bytes,
			       .util_permille = util_permille };

	return sock_send(conn, &m, sizeof(m));
}

int shim_client_adopt(int conn)
{
	int r = shim_client_ask(conn);

	/* Whatever is said but ASK shows an agent; this changes nothing, also for an older shim. */
	return r < 0 ? r : shim_client_gpu(conn, 0, 0);
}

int shim_client_ack(int conn)
{
	return send_plain(conn, SHMSG_ACK);
}

int shim_client_requeue(int conn, uint32_t grace_ms)
{
	struct shmsg_stop m = { .head = SHMSG_HEAD(SHMSG_STOP, struct shmsg_stop),
				.scope = STOP_TREE,
				.grace_ms = grace_ms,
				.requeue = 1 };

	return sock_send(conn, &m, sizeof(m));
}

int shim_client_stop(int conn, int signal, enum stop_scope scope, uint32_t grace_ms)
{
	struct shmsg_stop m = { .head = SHMSG_HEAD(SHMSG_STOP, struct shmsg_stop),
				.signal = signal,
				.scope = scope,
				.grace_ms = grace_ms };

	return sock_send(conn, &m, sizeof(m));
}
