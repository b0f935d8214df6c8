/* SPDX-License-Identifier: MIT */
#include "task/fork_server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "hold/proto.h"
#include "task/fdpass.h"
#include "task/shim.h"
#include "task/shproto.h"
#include "task/tree.h"

#define ORPHANS_GRACE_MS GUARD_AWAIT_MS
#define ORPHANS_STEP_MS	 50

/*
 * Signals: every one starts as in a fresh login, whatever the agent ignored. SIGCHLD is ignored
 * here for as long as there is an agent, so that ended shims need no wait. The blocked ones are
 * those that a shim reads from its signalfd; it is made here once, and reads the signals of whoever
 * reads it.
 */
static int set_up_signals(sigset_t *blocked)
{
	for (int sig = 1; sig < NSIG; sig++)
		(void)signal(sig, SIG_DFL);
	(void)signal(SIGCHLD, SIG_IGN);
	/* By which an engine warns all processes of a job. A shim has nothing to do about it, and
	 * gives its program what it is to have. */
	(void)signal(SIGUSR1, SIG_IGN);
	(void)signal(SIGUSR2, SIG_IGN);
	(void)sigemptyset(blocked);
	(void)sigaddset(blocked, SIGCHLD);
	(void)sigaddset(blocked, SIGTERM);
	(void)sigaddset(blocked, SIGINT);
	(void)sigaddset(blocked, SIGHUP);
	if (sigprocmask(SIG_SETMASK, blocked, NULL) < 0)
		return -errno;

	int fd = signalfd(-1, blocked, SFD_CLOEXEC | SFD_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

/* The memory of the command line, in which a shim writes what it is for. */
static size_t title_room(int argc, char **argv)
{
	char *end = argv[0] + strlen(argv[0]);

	for (int i = 1; i < argc && argv[i] == end + 1; i++)
		end += strlen(argv[i]) + 1;
	return (size_t)(end - argv[0]);
}

static void refuse(int conn_fd, int errnum)
{
	struct shmsg_ended m = { .head = SHMSG_HEAD(SHMSG_ENDED, struct shmsg_ended),
				 .end.outcome = TASK_REFUSED };

	(void)str_print(m.end.text, sizeof(m.end.text), "cannot start a shim: %s",
			strerror(errnum));
	(void)sock_send(conn_fd, &m, sizeof(m));
}

/* SIGCHLD, or the time; whatever else is blocked means nothing to us. */
static void wait_for_child(int sig_fd, int timeout_ms)
{
	struct signalfd_siginfo si;
	struct pollfd fd = { .fd = sig_fd, .events = POLLIN };

	if (poll(&fd, 1, timeout_ms) > 0)
		(void)!read(sig_fd, &si, sizeof(si));
}

/* One pass over what came to us because its shim was killed. How many are left. */
static uint32_t end_orphans(struct ender *en, int sig)
{
	struct tree t = { 0 };

	if (tree_glance(&t) == 0) {
		tree_keep_orphans(&t, getpid());
		ender_pass(en, &t, sig);
	}
	tree_clear(&t);
	return en->ours;
}

/*
 * The agent has gone, and with it who ends the orphans of shims that are killed. So we do it, for
 * as long as there are shims of ours.
 */
static int stay(const struct shim_start *start)
{
	struct ender en = { 0 };
	uint64_t kill_at_ns = UINT64_MAX;

	(void)close(FORK_SERVER_FD);
	(void)signal(SIGCHLD, SIG_DFL);
	for (;;) {
		pid_t pid = 0;

		for (int n = 0; n < REAP_AT_ONCE && (pid = waitpid(-1, NULL, WNOHANG)) > 0; n++)
			continue;
		if (pid < 0 && errno == ECHILD)
			return 0;

		bool late = clock_mono_ns() >= kill_at_ns;
		uint32_t left = end_orphans(&en, late ? SIGKILL : SIGTERM);

		if (!left)
			kill_at_ns = UINT64_MAX;
		else if (kill_at_ns == UINT64_MAX)
			kill_at_ns = clock_mono_ns() + ORPHANS_GRACE_MS * NS_PER_MS;
		wait_for_child(start->sig_fd, pid > 0 ? 0 : left ? ORPHANS_STEP_MS : -1);
	}
}

static int serve(struct shim_start *start)
{
	union shmsg m;
	int fds[SHPROTO_FDS];

	for (;;) {
		ssize_t n = fdpass_recv(FORK_SERVER_FD, &m, sizeof(m), fds, SHPROTO_FDS);

		if (n == 0)
			return stay(start);
		if (n < 0 && n != -EPROTO)
			return 1;
		if (n < 0)
			continue;

		bool ours = shmsg_take(&m, (size_t)n) == 0 && m.head.type == SHMSG_START;
		pid_t pid = ours ? fork() : -1;

		if (pid == 0) {
			(void)close(FORK_SERVER_FD);
			start->conn_fd = fds[0];
			start->spec_fd = fds[1];
			_exit(shim_run(start));
		}
		if (pid < 0)
			refuse(fds[0], ours ? errno : EPROTO);
		for (size_t i = 0; i < SHPROTO_FDS; i++)
			(void)close(fds[i]);
	}
}

/* What the first use of each of these would cost every shim again. */
static void warm_up(void)
{
	char when[CLOCK_TEXT_MAX];
	cleanup_free char *heap = xmalloc(64UL * 1024);

	(void)clock_format_local(clock_wall_ns(), when);
	heap[0] = when[0];
}

int fork_server_main(int argc, char **argv)
{
	sigset_t blocked;
	struct shim_start start = { .title = argv[0], .title_room = title_room(argc, argv) };

	(void)prctl(PR_SET_NAME, FORK_SERVER_COMM);
	if (fcntl(FORK_SERVER_FD, F_SETFD, FD_CLOEXEC) < 0)
		return 1;
	(void)umask(077);
	start.sig_fd = set_up_signals(&blocked);
	if (start.sig_fd < 0 || chdir("/") < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return 1;
	if (boot_id_read(start.boot_id, sizeof(start.boot_id)) < 0)
		start.boot_id[0] = '\0';
	warm_up();
	return serve(&start);
}
