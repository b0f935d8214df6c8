/* SPDX-License-Identifier: MIT */

/*
 * One poll() over two descriptors: the child's output and the signals. The child is in a process
 * group of its own, so that a Ctrl-C reaches it once, through us. Its end is the end of its output:
 * processes that it starts do not inherit that.
 */
#include "compat/hold_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "agent/ctl_client.h"
#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/settings.h"
#include "base/strbuf.h"
#include "compat/program.h"
#include "engine/engine.h"
#include "hold/endpoint_names.h"

#define STATUS_LIMIT_MS 1000
#define STOP_LIMIT_MS	9000 /* the agent itself gives up after eight (agent/lifecycle.c) */
#define RESTART_MS	1000 /* the guard keeps an orphan's devices for ten */

struct hold_child {
	char *program;
	char *instance;
	char socket[SOCKET_NAME_MAX];
	/* While it runs: */
	const struct hold_child_ops *ops;
	void *user;
	pid_t pid; /* 0: none */
	int out, signals;
	uint64_t tick_ns, kill_ns, start_ns; /* 0: not set */
	bool stopping;
	struct strbuf line;
};

/* -------- which program, which agent -------- */

/* The directory of the device nodes is part of the socket's name, and it is a setting. */
static int find_socket(struct hold_child *h, struct err *e)
{
	const struct setting_origin here = { .layer = SETTING_FROM_COMMAND_LINE };
	cleanup_free char *job = engine_job_key((const char *const *)environ);
	struct settings *s = settings_new();
	int r = settings_set(s, SET_INSTANCE, h->instance, &here, e);

	settings_need(s, SETTING_GROUP_AGENT);
	if (r == 0)
		r = settings_load(s, NULL, e);
	if (r == 0)
		(void)agent_socket_name(h->socket, sizeof(h->socket), h->instance,
					settings_str(s, SET_DEV_DIR), job);
	(void)settings_free(s);
	return r;
}

struct hold_child *hold_child_new(const char *instance, struct err *e)
{
	struct hold_child *h = xcalloc(1, sizeof(*h));

	h->program = program_find("tenure");
	h->instance = xstrdup(instance);
	h->out = h->signals = -1;
	return find_socket(h, e) == 0 ? h : hold_child_free(h);
}

struct hold_child *hold_child_free(struct hold_child *h)
{
	if (!h)
		return NULL;
	(void)fd_close(h->out);
	(void)fd_close(h->signals);
	strbuf_clear(&h->line);
	free(h->program);
	free(h->instance);
	free(h);
	return NULL;
}

json_t *hold_child_status(const struct hold_child *h)
{
	json_t *doc = NULL;

	return ctl_ask(h->socket, CTL_STATUS, STATUS_LIMIT_MS, &doc, NULL, NULL) == 0 ? doc : NULL;
}

void hold_child_tick_in(struct hold_child *h, uint64_t ms)
{
	h->tick_ns = clock_mono_ns() + ms * NS_PER_MS;
}

/* -------- start and end -------- */

/* Between fork and exec. */
static void __attribute__((noreturn))
be_tenure(const struct hold_child *h, char *const *argv, int out, pid_t parent)
{
	sigset_t none;
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	if (setpgid(0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
		_exit(1);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(out, STDERR_FILENO) < 0)
		_exit(1);
	(void)execvp(h->program, argv);
	(void)dprintf(STDOUT_FILENO, "cannot run %s: %s\n", h->program, strerror(errno));
	_exit(127);
}

static char **make_argv(const struct hold_child *h, char *const *options)
{
	static const char *const first[] = { "tenure", "hold", "--json", "--instance" };
	size_t n = 0, at = 0;

	while (options[n])
		n++;

	char **argv = xcalloc(ARRAY_LEN(first) + n + 2, sizeof(*argv));

	for (size_t i = 0; i < ARRAY_LEN(first); i++)
		argv[at++] = (char *)(uintptr_t)first[i];
	argv[at++] = h->instance;
	for (size_t i = 0; i < n; i++)
		argv[at++] = options[i];
	return argv;
}

static int start(struct hold_child *h, char *const *options, struct err *e)
{
	cleanup_free char **argv = make_argv(h, options);
	pid_t self = getpid();
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	(void)fflush(NULL);
	h->pid = fork();
	if (h->pid == 0)
		be_tenure(h, argv, ends[1], self);
	(void)fd_close(ends[1]);
	if (h->pid < 0) {
		h->pid = 0;
		(void)fd_close(ends[0]);
		return err_sys(e, errno, "start tenure");
	}
	h->out = ends[0];
	h->start_ns = 0;
	return 0;
}

/* Its output has ended. The wait status. */
static int reap(struct hold_child *h)
{
	int status = 0;

	while (waitpid(h->pid, &status, 0) < 0 && errno == EINTR)
		;
	h->pid = 0;
	h->out = fd_close(h->out);
	h->kill_ns = 0;
	return status;
}

/* -------- what comes in -------- */

static void tell_line(struct hold_child *h, const char *line)
{
	json_t *event = line[0] == '{' ? json_loads(line, 0, NULL) : NULL;
	const char *kind = json_get_str(event, "event");
	const char *text = json_get_str(event, "text");

	if (kind && h->ops->event)
		h->ops->event(h->user, kind, text ? text : "", event);
	else if (!kind && h->ops->line)
		h->ops->line(h->user, line);
	json_decref(event);
}

/* False: the output has ended. */
static bool take_output(struct hold_child *h)
{
	char buf[4096];
	ssize_t n = read(h->out, buf, sizeof(buf));

	if (n < 0 && errno == EINTR)
		return true;
	for (ssize_t i = 0; i < n; i++) {
		if (buf[i] != '\n') {
			strbuf_addc(&h->line, buf[i]);
			continue;
		}
		tell_line(h, strbuf_str(&h->line));
		strbuf_reset(&h->line);
	}
	return n > 0;
}

static void take_signal(struct hold_child *h)
{
	struct signalfd_siginfo info;

	if (read(h->signals, &info, sizeof(info)) != sizeof(info) || h->stopping)
		return;
	h->stopping = true;
	h->tick_ns = 0;
	if (h->ops->stop)
		h->ops->stop(h->user);
	if (h->pid)
		(void)kill(h->pid, SIGTERM);
	h->kill_ns = clock_mono_ns() + STOP_LIMIT_MS * NS_PER_MS;
}

static void take_time(struct hold_child *h)
{
	uint64_t now = clock_mono_ns();

	if (h->kill_ns && now >= h->kill_ns) {
		h->kill_ns = 0;
		if (h->pid)
			(void)kill(h->pid, SIGKILL);
	}
	if (h->tick_ns && now >= h->tick_ns) {
		h->tick_ns = 0;
		if (h->ops->tick)
			h->ops->tick(h->user);
	}
}

static int wait_ms(const struct hold_child *h)
{
	const uint64_t times[] = { h->tick_ns, h->kill_ns, h->start_ns };
	uint64_t now = clock_mono_ns(), first = now + 60 * NS_PER_S;

	for (size_t i = 0; i < ARRAY_LEN(times); i++)
		if (times[i] && times[i] < first)
			first = times[i];
	return first > now ? (int)((first - now) / NS_PER_MS) + 1 : 0;
}

/* -------- the loop -------- */

static int take_signals_over(struct hold_child *h, struct err *e)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	if (h->ops->ignore_hangup)
		(void)signal(SIGHUP, SIG_IGN);
	/* What nohup or a shell's `&` has ignored stays so. */
	if (!proc_ignores(SIGHUP))
		(void)sigaddset(&set, SIGHUP);
	if (!proc_ignores(SIGINT))
		(void)sigaddset(&set, SIGINT);
	(void)signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return err_sys(e, errno, "sigprocmask");
	h->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return h->signals < 0 ? err_sys(e, errno, "signalfd") : 0;
}

/* The child has ended. True: so do we, with *ret. */
static bool ended(struct hold_child *h, int *ret)
{
	int status = reap(h);

	*ret = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	if (WIFSIGNALED(status) && !h->stopping) {
		h->start_ns = clock_mono_ns() + RESTART_MS * NS_PER_MS;
		if (h->ops->line)
			h->ops->line(h->user, "tenure was killed; it is started again");
		return false;
	}
	return true;
}

int hold_child_run(struct hold_child *h, char *const *options, const struct hold_child_ops *ops,
		   void *user, struct err *e)
{
	h->ops = ops;
	h->user = user;

	int code = 0, r = take_signals_over(h, e);

	if (r == 0)
		r = start(h, options, e);
	while (r == 0) {
		struct pollfd p[] = { { .fd = h->signals, .events = POLLIN },
				      { .fd = h->out, .events = POLLIN } };

		if (poll(p, ARRAY_LEN(p), wait_ms(h)) < 0 && errno != EINTR)
			return err_sys(e, errno, "poll");
		if (p[0].revents)
			take_signal(h);
		take_time(h);
		if (p[1].revents && !take_output(h) && ended(h, &code))
			return code;
		if (!h->pid && h->stopping) /* it was killed, and the guard has not let go yet */
			return code;
		if (h->start_ns && clock_mono_ns() >= h->start_ns)
			r = start(h, options, e);
	}
	return r;
}
