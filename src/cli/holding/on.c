/* SPDX-License-Identifier: MIT */

/*
 * `on`: the agent in the background. The caller gets its answer through a pipe: one struct news,
 * sent when the guard has taken the policy or when it is clear that nothing comes of it. A pipe
 * that ends without one means that the agent died.
 */

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/ctl_client.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "cli/agent_setup.h"
#include "cli/commands.h"
#include "cli/holding/reload.h"
#include "cli/serving.h"
#include "cli/term.h"
#include "hold/endpoint_names.h"

#define WARNINGS_MAX   1024
#define START_LIMIT_MS 40000 /* longer than any limit inside the agent */

struct news {
	int32_t code; /* enum cmd_exit */
	int32_t pid;
	int32_t logs; /* they are written */
	char text[ERR_TEXT_MAX];
	char warnings[WARNINGS_MAX]; /* one per line */
};

/* -------- the agent's side -------- */

static void send_news(int fd, int code, const char *text, const char *warnings, bool logs)
{
	struct news n = { .code = code, .pid = (int32_t)getpid(), .logs = logs };

	(void)str_copy(n.text, sizeof(n.text), text);
	(void)str_copy(n.warnings, sizeof(n.warnings), warnings);
	(void)fs_write_all(fd, &n,
			   sizeof(n)); /* smaller than PIPE_BUF: whole, or nobody is there */
}

struct waiter {
	int fd;
};

static void on_ready(void *user, const char *sentence, const char *warnings, bool logs)
{
	struct waiter *w = user;

	send_news(w->fd, CMD_OK, sentence, warnings, logs);
	w->fd = fd_close(w->fd);
}

/* What our own code never prints there, a crash does; it should be found. */
static int open_output(const struct agent_setup *r)
{
	cleanup_free char *dir = xasprintf("%s/%s/logs", r->state_dir, r->config.instance);
	cleanup_free char *path = xasprintf("%s/agent.out", dir);
	int fd = -1;

	if (fs_mkdirs(dir, 0700, NULL) == 0)
		fd = fs_open_no_link(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC,
				     0600);
	return fd >= 0 ? fd : open("/dev/null", O_WRONLY | O_CLOEXEC);
}

/* Whoever still waits for it is told why there is none. */
static void __attribute__((noreturn)) end_agent(void *user, enum agent_end end, const struct err *e)
{
	const struct waiter *w = user;
	int code = agent_setup_exit_code(end);

	if (w->fd >= 0)
		send_news(w->fd, code,
			  code == CMD_OK ? "it was shut down while it started" : e->text, "", true);
	_exit(code);
}

static void __attribute__((noreturn)) be_agent(struct agent_setup *r, int news_fd)
{
	struct waiter w = { .fd = news_fd };
	struct err e = ERR_INIT;
	int null, out;

	proc_fds_close(news_fd);
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	out = open_output(r);
	if (chdir("/") < 0 || null < 0 || out < 0 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
		_exit(CMD_FAILED);
	(void)fd_close(null);
	(void)fd_close(out);
	r->config.ignore_hangup = true;
	r->config.ready = on_ready;
	r->config.stuck = end_agent;
	r->config.user = &w;

	end_agent(&w, agent_run(&r->config, &e), &e);
}

/* In the first child: a session of its own, and a parent that is gone. */
static void __attribute__((noreturn)) leave_terminal(struct agent_setup *r, int news_fd)
{
	if (setsid() < 0)
		_exit(CMD_FAILED);

	pid_t pid = fork();

	if (pid == 0)
		be_agent(r, news_fd);
	_exit(pid < 0 ? CMD_FAILED : CMD_OK);
}

/* -------- the caller's side -------- */

static int wait_news(int fd, const char *options, struct news *ret, struct err *e)
{
	uint64_t end = clock_mono_ns() + START_LIMIT_MS * NS_PER_MS;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (;;) {
		uint64_t now = clock_mono_ns();
		int r = now < end ? poll(&p, 1, (int)((end - now) / NS_PER_MS) + 1) : 0;

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return err_set(
				e, -ETIMEDOUT,
				"the agent did not come up; it goes on trying. tenure status%s "
				"shows what it does, tenure off%s ends it",
				options, options);

		ssize_t n = read(fd, ret, sizeof(*ret));

		if (n < 0 && errno == EINTR)
			continue;
		if (n != sizeof(*ret))
			return err_set(e, -EPIPE,
				       "the agent ended while it started; its log may tell why");
		ret->text[sizeof(ret->text) - 1] = '\0';
		ret->warnings[sizeof(ret->warnings) - 1] = '\0';
		return 0;
	}
}

static int start_background(struct agent_setup *r, struct news *ret, struct err *e)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	(void)fflush(NULL);

	cleanup_fd int read_end = ends[0];
	pid_t pid = fork();

	if (pid < 0) {
		(void)fd_close(ends[1]);
		return err_sys(e, errno, "start the agent");
	}
	if (pid == 0) {
		(void)fd_close(read_end);
		leave_terminal(r, ends[1]);
	}
	(void)fd_close(ends[1]);

	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return wait_news(read_end, r->options, ret, e);
}

/* Its own log, and those of its tasks, which may be elsewhere. */
static char *describe_logs(const struct agent_setup *r, bool written)
{
	const char *instance = r->config.instance;
	cleanup_free char *state = fs_show_path(r->state_dir);
	cleanup_free char *root = fs_show_path(r->root);
	bool together = !strcmp(r->state_dir, r->root);
	cleanup_free char *tasks = xasprintf("%s/%s/logs", root, instance);

	if (together)
		return written ? xasprintf("logs in %s", tasks) : xstrdup("without a log");
	return written ? xasprintf("its log in %s/%s/logs, those of its tasks in %s", state,
				   instance, tasks)
		       : xasprintf("without a log of its own, those of its tasks in %s", tasks);
}

static void print_news(const struct cmd_ctx *ctx, const struct agent_setup *r, const struct news *n)
{
	cmd_warn("warning", "%s", n->warnings);
	if (opts_flag(ctx->opts, "json")) {
		json_t *o = json_pack("{s:i, s:s, s:s, s:s*}", "pid", (int)n->pid, "instance",
				      r->config.instance, "text", n->text, "warnings",
				      n->warnings[0] ? n->warnings : NULL);

		cmd_print_json_line(o);
		return;
	}

	cleanup_free char *logs = describe_logs(r, n->logs);
	cleanup_free char *where =
		xasprintf("The agent runs in the background: PID %d, instance %s, %s.\n"
			  "tenure status%s shows what it does, tenure off%s ends it.",
			  (int)n->pid, r->config.instance, logs, r->options, r->options);

	term_print_wrapped(stdout, n->text, 0);
	term_print_wrapped(stdout, where, 0);
	serving_tell(ctx);
}

static int run_on(const struct cmd_ctx *ctx, struct err *e)
{
	struct agent_setup r = { 0 };
	struct news n = { 0 };
	bool done;
	int code = reload_with_options(ctx, &done, e);

	if (done)
		return code;
	code = agent_setup_prepare(ctx, &r, e);
	if (code == CMD_OK)
		code = start_background(&r, &n, e);
	if (code == CMD_OK && n.code != CMD_OK)
		(void)err_set(e, -EIO, "%s", n.text);
	if (code == CMD_OK)
		code = n.code;
	if (code == CMD_OK)
		print_news(ctx, &r, &n);
	agent_setup_clear(&r);
	return code;
}

static const struct cmd_example on_examples[] = {
	{ "tenure on", "hold what is idle, in the background" },
	{ "tenure on --gpus 0,1 --memory all-2G", "two GPUs, all of their memory but 2 GiB" },
	{ "tenure on --together --idle-for 10m", "all at once when all were idle for 10 minutes" },
	{ "tenure on --lifetime 24h --lifetime-end stop",
	  "for a day; what still runs then waits for the next one" },
	{ "tenure on --workload 'python burn.py'",
	  "run that on idle GPUs instead of holding them" },
	{ "tenure on --memory 40G", "where it runs already: it holds 40 GiB from now on" },
	{ "tenure on --listen 127.0.0.1:8470", "with a page for your browser: tenure web" },
	{ "tenure on --no-hold", "the agent alone; nothing is held" },
	{ 0 },
};

const struct cmd cmd_on = {
	.name = "on",
	.group = "Holding GPUs",
	.summary = "start the agent of this node in the background: it holds idle GPUs",
	.description =
		"Starts the agent and comes back when it is at work, or with the reason why it "
		"is not. It stays when you log out, where the system lets it (tenure doctor "
		"looks at that).\n\n"
		"Where an agent runs already, options change it: it goes by these, and no more by "
		"those of before, and what it holds stays held (tenure reload tells more). Without any "
		"that is an error, as nothing is asked for.",
	.examples = on_examples,
	.opts = agent_setup_opts_serves,
	.setting_groups = AGENT_SETTING_GROUPS,
	.flags = CMD_HOLDS | CMD_JSON_LINES | CMD_SERVES,
	.run = run_on,
};
