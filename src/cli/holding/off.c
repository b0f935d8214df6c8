/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/endpoint.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/sock.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/agent_client.h"
#include "cli/commands.h"
#include "cli/instance.h"
#include "cli/task/outcome.h"
#include "cli/task/taskrun.h"
#include "cli/term.h"
#include "hold/endpoint_names.h"
#include "hold/proto.h"
#include "spool/instance.h"

#define OFF_LIMIT_MS	 10000 /* the agent itself gives up after one second */
#define END_LIMIT_MS	 3000  /* it writes its last lines */
#define END_STEP_MS	 10
#define CONNECT_LIMIT_MS 1000
#define BUSY_LOOKS	 12 /* half a second */
#define TOLD_MAX	 5  /* of tasks that run on */
#define UNFILED_LOOK_MS	 2000

static const struct opt off_opts[] = {
	{ .name = "stop-tasks",
	  .spec = { VALUE_FLAG },
	  .help = "end the tasks that run, as tenure stop does, and then" },
	{ .name = "drain",
	  .spec = { VALUE_FLAG },
	  .help = "start no more tasks, and end when those that run have" },
	{ 0 },
};

/*
 * The agent answers while it still writes its last lines. Its end is that of the process, or, where
 * its PID means nothing here (another PID namespace), that of the socket. False: it goes on ending,
 * which the next tenure on waits for.
 */
static bool wait_end(int pid, int sock)
{
	uint64_t until_ns = clock_mono_ns() + END_LIMIT_MS * NS_PER_MS;
	const struct timespec step = { .tv_nsec = (long)(END_STEP_MS * NS_PER_MS) };
	struct proc_id id;
	bool known = pid > 0 && proc_identify(pid, &id) == 0;
	cleanup_fd int pidfd = known ? proc_open(pid) : -1;
	struct pollfd p = { .fd = pidfd >= 0 ? pidfd : sock, .events = POLLIN };
	int r;

	while ((r = poll(&p, 1, END_LIMIT_MS)) < 0 && errno == EINTR)
		;
	/* Where there are no pidfds: the socket ends some moments before its process. */
	while (known && pidfd < 0 && proc_alive(&id) && clock_mono_ns() < until_ns)
		(void)nanosleep(&step, NULL);
	return r > 0 && (!known || pidfd >= 0 || !proc_alive(&id));
}

/* Whoever waits wants to know for what. */
static void tell_wait(const struct cmd_ctx *ctx)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT;
	json_t *doc = isatty(STDERR_FILENO) ? agent_status(ctx, OFF_LIMIT_MS, NULL) : NULL, *o;
	const json_t *tasks = agent_tasks(doc);
	size_t i, n = json_array_size(tasks);

	strbuf_addf(&text, "waiting for %zu task%s:", n, n == 1 ? "" : "s");
	json_array_foreach(tasks, i, o)
	{
		struct agent_task task = agent_task_of(o);

		strbuf_addf(&text, "%s %" PRIu64 " (%s)", i ? "," : "", task.id,
			    task.name ? task.name : "?");
	}
	strbuf_adds(&text, ". Ctrl-C ends the waiting alone: no more tasks are started, and the "
			   "agent ends when these have.");
	if (n)
		term_print_wrapped(stderr, strbuf_str(&text), 0);
	json_decref(doc);
}

/* Somebody else who looks meanwhile. */
struct watcher {
	const struct cmd_ctx *ctx;
	pthread_t thread;
	int over_fd; /* an eventfd, readable when there is nothing to look at any more */
};

/* "1 (No space left on device)" of what has ended and cannot be written down; none: "". */
static void say_unfiled(const struct cmd_ctx *ctx, struct strbuf *b)
{
	json_t *doc = agent_status(ctx, OFF_LIMIT_MS, NULL);
	const json_t *o;
	size_t i;

	json_array_foreach(agent_tasks(doc), i, o)
	{
		struct agent_task task = agent_task_of(o);

		if (task.unfiled)
			strbuf_addf(b, "%s%" PRIu64 " (%s)", b->len ? "; " : "", task.id,
				    task.unfiled);
	}
	json_decref(doc);
}

/* A full disk is a reason to wait for long that nobody would guess. */
static void *watch_for_unfiled(void *data)
{
	const struct watcher *w = data;
	cleanup_strbuf struct strbuf which = STRBUF_INIT;
	struct pollfd over = { .fd = w->over_fd, .events = POLLIN };

	do {
		if (poll(&over, 1, UNFILED_LOOK_MS) > 0)
			return NULL;
		say_unfiled(w->ctx, &which);
	} while (!which.len);

	cmd_warn("warning",
		 "this waits for what has ended and cannot be written down, which is tried "
		 "again and again: task %s. Ctrl-C ends the waiting alone.",
		 strbuf_str(&which));
	return NULL;
}

/* Nothing more is started, and what runs ends: by itself, or because it is told to. */
static int drain(const struct cmd_ctx *ctx, json_t **ret, int *ret_fd, struct err *e)
{
	struct ctl_request req = { .verb = CTL_DRAIN, .now = opts_flag(ctx->opts, "stop-tasks") };
	struct watcher w = { .ctx = ctx, .over_fd = eventfd(0, EFD_CLOEXEC) };
	bool watched;
	int r;

	if (!req.now)
		tell_wait(ctx);
	watched = w.over_fd >= 0 && pthread_create(&w.thread, NULL, watch_for_unfiled, &w) == 0;
	r = agent_ask(ctx, &req, AGENT_FOREVER, ret, ret_fd, e);
	if (watched) {
		(void)eventfd_write(w.over_fd, 1);
		(void)pthread_join(w.thread, NULL);
	}
	(void)fd_close(w.over_fd);
	return r;
}

/* How long it took is the business of tasks where these were waited for. */
static void print_end(const struct cmd_ctx *ctx, int pid, bool ended, double ms, bool drained,
		      json_int_t running)
{
	cleanup_free char *options = agent_options(ctx->settings, NULL);
	const char *how = ended ? "has ended" : "still writes its last lines";
	cleanup_free char *text =
		drained ? xasprintf("No task runs any more and everything is free; the agent (PID "
				    "%d) %s.",
				    pid, how)
			: xasprintf("Everything is free after %.0f ms; the agent (PID %d) %s.", ms,
				    pid, how);
	cleanup_free char *more =
		xasprintf("%lld task%s on by %s; the next tenure on%s takes %s over (tenure off%s "
			  "--stop-tasks would have ended %s).",
			  (long long)running, running == 1 ? " runs" : "s run",
			  running == 1 ? "itself" : "themselves", options,
			  running == 1 ? "it" : "them", options, running == 1 ? "it" : "them");

	term_print_wrapped(stdout, text, 0);
	if (running)
		term_print_wrapped(stdout, more, 0);
}

/* ---- what an agent has left that was killed ---- */

/* A packet of the guard's; or negative. */
static ssize_t next_packet(int fd, uint64_t until_ns, void *buf, size_t size)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t now;
	int r = 0;

	while (r <= 0 && (now = clock_mono_ns()) < until_ns)
		r = poll(&p, 1, (int)((until_ns - now) / NS_PER_MS) + 1);
	if (r <= 0)
		return -ETIMEDOUT;

	ssize_t n = sock_recv(fd, buf, size);

	return n == 0 ? -EPIPE : n < 0 ? n : proto_check(buf, (size_t)n);
}

/* Until all is free; *ret: of how many devices. */
static int wait_dropped(int fd, unsigned int *ret)
{
	uint64_t until = clock_mono_ns() + OFF_LIMIT_MS * NS_PER_MS;
	union {
		struct msg_head head;
		struct msg_event event;
		struct msg_text text;
		char room[PROTO_MSG_MAX];
	} m;
	ssize_t r;

	while ((r = next_packet(fd, until, &m, sizeof(m))) == 0) {
		if (m.head.type == MSG_REFUSED)
			return m.text.code < 0 ? m.text.code : -EPROTO;
		if (m.head.type == MSG_EVENT && m.event.event.kind == EVENT_RELEASE)
			++*ret;
		if (m.head.type == MSG_DROPPED)
			return 0;
	}
	return (int)r;
}

/* The guard keeps the holds of an agent that died for the next one: that is us, and lets go. */
static int drop_orphan(const struct cmd_ctx *ctx, unsigned int *ret)
{
	struct msg_hello hello = { .head = PROTO_HEAD(MSG_HELLO, struct msg_hello) };
	struct msg_plain drop = { .head = PROTO_HEAD(MSG_DROP, struct msg_plain) };
	char name[SOCKET_NAME_MAX];
	int r;
	cleanup_fd int fd = endpoint_connect(
		guard_socket_name(name, sizeof(name), settings_str(ctx->settings, SET_DEV_DIR),
				  ctx->job),
		CONNECT_LIMIT_MS, NULL);

	if (fd < 0)
		return fd == -ECONNREFUSED ? 0 : fd;
	(void)str_copy(hello.instance, sizeof(hello.instance),
		       settings_str(ctx->settings, SET_INSTANCE));
	r = sock_send(fd, &hello, sizeof(hello));
	if (r >= 0)
		r = sock_send(fd, &drop, sizeof(drop));
	/* One that refuses closes at once; what it said can be read all the same. */
	if (r >= 0 || r == -EPIPE || r == -ECONNRESET)
		r = wait_dropped(fd, ret);
	/* What a guard holds ends with it: one that has nothing left ends with its agent. */
	return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

static bool drains(const struct cmd_ctx *ctx)
{
	return opts_flag(ctx->opts, "stop-tasks") || opts_flag(ctx->opts, "drain");
}

static int runs_unseen(const struct cmd_ctx *ctx, const char *why, struct err *e)
{
	return err_set(e, -EBUSY,
		       "everything is free and no agent runs, but it is not known whether tasks of "
		       "instance %s run here: %s",
		       settings_str(ctx->settings, SET_INSTANCE), why);
}

/* Ids of tasks, "42, 43.1 and 3 more". */
struct told {
	struct strbuf text;
	size_t n;
};

/* Without an agent. */
struct left {
	struct told run; /* their shims answer */
	struct told
		unknown; /* neither a shim nor the record of an end: what they started may run */
};

/* An attempt counts that was begun on this node since it was booted, and has not ended. */
static void look_at(const struct spool *sp, const struct scan_task *t, struct left *ret)
{
	struct taskrun_look look;
	struct taskrun run;
	struct told *told;
	char id[SELECT_ID_MAX];

	if (t->dir != SPOOL_RUNNING)
		return;
	taskrun_read_claim(sp, &t->name, t->name.name, &run);
	if (!run.running || run.left || strcmp(run.who.boot, spool_boot(sp)) != 0)
		return;
	told = taskrun_look(sp, &run, &look) ? &ret->run : &ret->unknown;
	strbuf_add_some(&told->text, told->n++, TOLD_MAX, "%s",
			select_format_id(t->name.id, t->name.element, id));
	taskrun_look_clear(&look);
}

static int find_left(const struct spool *sp, struct left *ret, struct err *e)
{
	struct task_set all;
	int r = select_all(sp, &all, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < all.n; i++)
		look_at(sp, &all.tasks[i], ret);
	free(all.tasks);
	strbuf_add_more(&ret->run.text, ret->run.n, TOLD_MAX);
	strbuf_add_more(&ret->unknown.text, ret->unknown.n, TOLD_MAX);
	return 0;
}

static int say_left(const struct cmd_ctx *ctx, struct left *l, struct err *e)
{
	cleanup_free char *options = agent_options(ctx->settings, NULL);
	cleanup_strbuf struct strbuf said = STRBUF_INIT;

	if (l->run.n)
		strbuf_addf(&said, "task%s %s run%s on here without an agent",
			    l->run.n == 1 ? "" : "s", strbuf_str(&l->run.text),
			    l->run.n == 1 ? "s" : "");
	if (l->unknown.n)
		strbuf_addf(&said,
			    "%stask%s %s %s not committed, so that it is not known whether %s",
			    l->run.n ? ", and " : "", l->unknown.n == 1 ? "" : "s",
			    strbuf_str(&l->unknown.text), l->unknown.n == 1 ? "was" : "were",
			    l->unknown.n == 1 ? "it runs" : "they run");
	return said.len
		       ? err_set(e, -EBUSY,
				 "%s: tenure on%s starts an agent that takes over what runs and commits what "
				 "has ended; then ask again",
				 strbuf_str(&said), options)
		       : 0;
}

/* Tasks were to end as well, and nobody is there who could end them. */
static int check_tasks(const struct cmd_ctx *ctx, struct err *e)
{
	struct left left = { { STRBUF_INIT, 0 }, { STRBUF_INIT, 0 } };
	struct err why = ERR_INIT;
	struct spool *sp = NULL;
	int r;

	if (!instance_answers(ctx))
		return runs_unseen(ctx, "the queue's directory does not answer", e);
	r = instance_open(ctx, SPOOL_LOOK, &sp, &why);
	if (r == -ENOENT) /* nothing was ever submitted */
		return 0;
	if (r == 0)
		r = find_left(sp, &left, &why);
	r = r < 0 ? runs_unseen(ctx, why.text, e) : say_left(ctx, &left, e);
	sp = spool_close(sp);
	strbuf_clear(&left.run.text);
	strbuf_clear(&left.unknown.text);
	return r;
}

/* Whoever sees that GPUs are held all the same has another instance. */
static void print_nothing(const struct cmd_ctx *ctx)
{
	cleanup_free char *others = agent_others(ctx);
	cleanup_free char *text =
		xasprintf("Nothing to do: no agent of instance %s runs on this node%s%s.",
			  settings_str(ctx->settings, SET_INSTANCE), others ? "; " : "",
			  others ? others : "");

	term_print_wrapped(stdout, text, 0);
}

/* No error unless tasks were to end: whoever wants everything let go of has that. */
static int off_without_agent(const struct cmd_ctx *ctx, struct err *e)
{
	const char *instance = settings_str(ctx->settings, SET_INSTANCE);
	uint64_t began = clock_mono_ns();
	unsigned int n = 0;
	int r = drop_orphan(ctx, &n);

	/* It has yet to hear of the end of an agent that was just killed. */
	for (int i = 0; r == -EBUSY && i < BUSY_LOOKS; i++) {
		change_pause(i);
		r = drop_orphan(ctx, &n);
	}

	double ms = n ? (double)(clock_mono_ns() - began) / (double)NS_PER_MS : 0;

	*e = (struct err)ERR_INIT;
	if (r == -EBUSY)
		return err_set(e, r, "an agent of instance %s has just started; ask again",
			       instance);
	if (r < 0)
		return err_set(e, r,
			       "no agent of instance %s runs on this node, and its guard did not "
			       "confirm that all is free; it lets go by itself in at most 10 s",
			       instance);
	r = drains(ctx) ? check_tasks(ctx, e) : 0;
	if (r < 0)
		return r;
	if (opts_flag(ctx->opts, "json"))
		cmd_print_json_line(json_pack("{s:n, s:b, s:f, s:n}", "pid", "released", 1,
					      "took_ms", ms, "tasks_running"));
	else if (n)
		printf("The agent of instance %s was gone; what it held of %u GPU%s is free after "
		       "%.0f ms.\n",
		       instance, n, n == 1 ? "" : "s", ms);
	else
		print_nothing(ctx);
	return CMD_OK;
}

static int run_off(const struct cmd_ctx *ctx, struct err *e)
{
	json_t *doc = NULL;
	cleanup_fd int fd = -1;
	int code = drains(ctx) ? drain(ctx, &doc, &fd, e)
			       : agent_ask(ctx, AGENT_VERB(CTL_OFF), OFF_LIMIT_MS, &doc, &fd, e);

	if ((code == CMD_NOTHING_RUNS && e->code == -ECONNREFUSED) ||
	    (code == CMD_FAILED && e->code == -EPIPE)) /* it ended while it was asked */
		return off_without_agent(ctx, e);
	if (code != CMD_OK)
		return code;

	int pid = (int)json_integer_value(json_object_get(doc, "pid"));
	double ms = json_get_num(doc, "took_ms");
	const char *unseen = json_get_str(doc, "unseen");

	bool ended = wait_end(pid, fd);

	if (!json_get_flag(doc, "released")) {
		(void)err_set(
			e, -ETIMEDOUT,
			"the agent (PID %d) %s, and the guard did not confirm that all is free; it "
			"lets go by itself in at most 10 s",
			pid, ended ? "has ended" : "is ending");
		code = CMD_FAILED;
	} else if (drains(ctx) && unseen) {
		code = runs_unseen(ctx, unseen, e);
	} else if (opts_flag(ctx->opts, "json")) {
		cmd_print_json_line(json_incref(doc));
	} else {
		json_int_t running = json_integer_value(json_object_get(doc, "tasks_running"));

		print_end(ctx, pid, ended, ms, drains(ctx) && !running, running);
	}
	json_decref(doc);
	return code;
}

static const struct cmd_example off_examples[] = {
	{ "tenure off", "let go of everything and end the agent" },
	{ "tenure off --stop-tasks", "end the tasks that run here, too" },
	{ "tenure off --drain", "when the tasks that run have ended" },
	{ "tenure off --instance night", "the same for another instance" },
	{ 0 },
};

const struct cmd cmd_off = {
	.name = "off",
	.group = "Holding GPUs",
	.summary = "let go of everything and end the agent of this node",
	.description =
		"Comes back when all memory is free and the agent has ended. Also ends a "
		"`tenure hold` in another terminal, and what an agent has left that was killed. Tasks that run go on, and the next `tenure on` "
		"takes them over. Where no agent runs there is nothing to do, which is said and is no "
		"error, but where tasks were to end that run on without one, or may.\n"
		"\n"
		"With --drain or --stop-tasks GPUs that no task uses are let go of at once, nothing "
		"more is started, and the agent ends when the last task has; it does so also when "
		"this command is ended before. Then `tenure off` ends it without waiting any longer.",
	.examples = off_examples,
	.opts = off_opts,
	.setting_groups = SETTING_GROUP_AGENT,
	.flags = CMD_ENDS | CMD_JSON,
	.run = run_off,
};
