/* SPDX-License-Identifier: MIT */

/*
 * What the task prints goes to standard output as it comes; what is said of it, and why it waits,
 * to standard error. Of an array or another batch the output of each element is shown, where they
 * are few, else how far they have come.
 *
 * Ctrl-C is about the task, which is not a child of ours: the first one asks (or stops it, where
 * nobody can be asked), a second one leaves it to itself.
 */

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/agent_client.h"
#include "cli/commands.h"
#include "cli/node_agents.h"
#include "cli/pools.h"
#include "cli/task/logreader.h"
#include "cli/task/submit_options.h"
#include "cli/task/taskstate.h"
#include "cli/task/taskstop.h"
#include "cli/task/why.h"
#include "spool/instance.h"
#include "spool/record.h"

#define DETACHED    130 /* as a program that Ctrl-C has ended */
#define ANSWER_SIZE 64

#define LOOK_FIRST_NS  (1500 * NS_PER_MS) /* what starts at once needs no word about it */
#define LOOK_EVERY_NS  (10 * NS_PER_S)
#define SHOWN_ELEMENTS 64

static volatile sig_atomic_t interrupts;

static void on_interrupt(int signum)
{
	interrupts = interrupts + 1;
}

struct watching {
	const struct cmd_ctx *ctx;
	const struct spool *sp;
	struct task_place place;
	struct taskwatch *task;
	FILE *out; /* of the task */
	char id[SELECT_ID_MAX];
	uint64_t look_at_ns; /* when to look next why it waits, or how far it has come */
	char *told;	     /* the last that was said of that */
	bool no_agent;
	uint64_t tick_at_ns; /* its pools, where no agent is */
	int seen;	     /* interrupts that were looked at */
	bool asked;
	bool stopped; /* it was told to end */
};

static void say(const char *kind, const char *format, const char *id)
{
	(void)fflush(stdout);
	cmd_warn(kind, "task %s %s", id, format);
}

/* Behind an open question, or what the terminal has shown of a Ctrl-C. */
static void begin_line(void)
{
	if (isatty(STDERR_FILENO))
		(void)fputc('\n', stderr);
}

static void stop_it(struct watching *w)
{
	struct taskstop s = {
		.ctx = w->ctx, .sp = w->sp, .quiet = true, .remote_ms = AGENTS_LIMIT_MS
	};
	struct err e = ERR_INIT;

	w->asked = false;
	w->stopped = true;
	say("note", "is stopping; Ctrl-C again detaches", w->id);
	if (taskstop_word(&s, w->id, &e) < 0 || taskstop_finish(&s, &e) < 0)
		cmd_warn("warning", "%s", e.text);
	if (s.changed)
		agent_look(w->ctx);
}

static void read_answer(struct watching *w)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	char answer[ANSWER_SIZE];
	ssize_t n;

	if (poll(&p, 1, 0) != 1)
		return;
	n = read(STDIN_FILENO, answer, sizeof(answer));
	if (n == 0)
		begin_line();
	if (n == 0 || (n > 0 && (answer[0] == 'y' || answer[0] == 'Y'))) {
		stop_it(w);
	} else if (n > 0) {
		w->asked = false;
		w->seen = interrupts = 0;
		say("note", "is not stopped", w->id);
	}
}

static void tick_pools(struct watching *w)
{
	pools_tick_after_submit(w->ctx, w->sp);
	w->tick_at_ns = clock_mono_ns() + ENGINE_POLL_MS * NS_PER_MS;
}

static void look_for_agent(struct watching *w)
{
	bool none = !node_agents_one_serves(w->ctx, w->sp);
	bool pooled = none && pools_most_gpus(w->sp);
	cleanup_free char *options = agent_options(w->ctx->settings, NULL);
	cleanup_free char *text =
		xasprintf("waits: no agent runs on this node; start it with: tenure on%s", options);

	/* Nobody else may see to its pools. */
	if (pooled && clock_mono_ns() >= w->tick_at_ns)
		tick_pools(w);
	if (none && !w->no_agent && !pooled)
		say("warning", text, w->id);
	w->no_agent = none;
}

/* Takes text over. */
static void tell(struct watching *w, char *text, bool news)
{
	if (news)
		say("note", text, w->id);
	free(w->told);
	w->told = text;
}

static void tell_why(struct watching *w)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	char *text;

	if (w->no_agent || why_of(w->ctx, w->sp, taskwatch_place(w->task), &b, NULL) < 0)
		return;
	text = strbuf_take(&b);
	tell(w, text, !str_same_but_figures(w->told, text));
}

static bool has_begun(const struct watching *w, struct batch_counts *ret)
{
	return taskstate_has_begun(w->sp, &taskwatch_place(w->task)->name, ret);
}

/* The figures are what counts here. */
static void tell_counts(struct watching *w, const struct batch_counts *c)
{
	char *text = xasprintf("has %" PRIu64 " elements: %" PRIu64 " done, %" PRIu64
			       " failed, %" PRIu64 " running, %" PRIu64 " left",
			       w->place.name.count, c->done, c->failed, c->running, c->waiting);

	tell(w, text, !w->told || strcmp(w->told, text) != 0);
}

/* What waits is told for what, and what is too much to show how far it has come. */
static void look(struct watching *w)
{
	uint64_t now = clock_mono_ns();
	struct batch_counts counts;

	if (now < w->look_at_ns)
		return;
	w->look_at_ns = now + LOOK_EVERY_NS;
	if (w->no_agent)
		look_for_agent(w);
	if (w->place.name.count && has_begun(w, &counts)) {
		if (w->place.name.count > SHOWN_ELEMENTS)
			tell_counts(w, &counts);
	} else if (taskwatch_state(w->task) != TASKSTATE_RUNNING) {
		tell_why(w);
	}
}

static bool has_ended(const struct watching *w)
{
	const enum taskstate state = taskwatch_state(w->task);

	return state == TASKSTATE_DONE || state == TASKSTATE_FAILED || state == TASKSTATE_CANCELLED;
}

static int turn(void *data)
{
	struct watching *w = data;

	if (has_ended(w)) { /* and what it has printed is shown to its end */
		if (interrupts <= w->seen)
			return 0;
		begin_line();
		say("note", "has ended; tenure logs shows all of it", w->id);
		return DETACHED;
	}
	if (!w->asked) /* nothing is told into an open question */
		look(w);
	if (interrupts > 1) {
		struct batch_counts counts;
		bool runs = taskwatch_state(w->task) == TASKSTATE_RUNNING ||
			    (w->place.name.count && has_begun(w, &counts));

		begin_line();
		say("note",
		    runs && w->stopped ? "is stopping and has its grace time (--grace); "
					 "tenure logs -f shows how it does, tenure stop --now ends "
					 "it at once"
		    : runs ? "runs on; tenure logs -f shows more of it, tenure stop ends it"
			   : "stays in the queue, and has not started; tenure why tells what it "
			     "waits for, tenure stop takes it out",
		    w->id);
		return DETACHED;
	}
	if (interrupts > w->seen) {
		w->seen = interrupts;
		w->asked = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
		if (!w->asked)
			stop_it(w);
		else
			(void)fprintf(stderr,
				      "\nStop task %s? [y/N] (Ctrl-C again: leave it to itself) ",
				      w->id);
	}
	if (w->asked)
		read_answer(w);
	return 0;
}

static char *describe_failure(const struct watching *w)
{
	const struct task_place *p = taskwatch_place(w->task);
	struct element_ends failed = { .n = 0 };
	struct task_file t;
	char *text;

	if (p->name.count && taskstate_failed(w->sp, &p->name, &failed, NULL) == 0 && failed.n) {
		cleanup_free char *which = taskstate_format_failed(p->name.id, &failed);

		text = xasprintf("has failed: %zu of its %" PRIu64 " elements ha%s: %s (tenure "
				 "logs %s.%" PRIu64 " shows what it printed)",
				 failed.n, p->name.count, failed.n == 1 ? "s" : "ve", which, w->id,
				 failed.ends[0].element);
		free(failed.ends);
		return text;
	}
	if (task_file_read(w->sp, p->path, &t, NULL) < 0)
		return xstrdup("has failed");
	text = xasprintf("has failed%s%s", t.history.end.reason[0] ? ": " : "",
			 t.history.end.reason);
	task_file_clear(&t);
	return text;
}

/* What is not in the log: why it did not end well. */
static void say_end(const struct watching *w)
{
	enum taskstate state = taskwatch_state(w->task);
	cleanup_free char *text =
		state == TASKSTATE_FAILED ? describe_failure(w) : xstrdup("was stopped");

	if (state != TASKSTATE_DONE)
		say("note", text, w->id);
}

static void print_end(const struct watching *w)
{
	const struct task_place *p = taskwatch_place(w->task);

	cmd_print_json_line(json_pack(
		"{s:I, s:s, s:s, s:i, s:I}", "id", (json_int_t)p->name.id, "name", p->name.name,
		"state", taskstate_name(taskwatch_state(w->task)), "exit_code",
		taskwatch_exit_code(w->task), "elements", (json_int_t)p->name.count));
}

/* ---- its output ---- */

static struct logreader log_of(struct watching *w, uint64_t element)
{
	return (struct logreader){ .sp = w->sp,
				   .id = w->place.name.id,
				   .element = element,
				   .plain = true,
				   .optional = true, /* an element that was stopped before */
				   .out = w->out,
				   .turn = turn,
				   .data = w };
}

/* Of each element, until all have ended. */
static int follow_elements(struct watching *w, struct err *e)
{
	size_t n = w->place.name.count;
	cleanup_free struct logreader *logs = xcalloc(n, sizeof(*logs));
	cleanup_free struct taskwatch **all = xcalloc(n, sizeof(struct taskwatch *));
	cleanup_free char(*labels)[SELECT_ID_MAX] = xcalloc(n, sizeof(*labels));
	const char *shown = NULL;
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		struct task_place one = w->place;

		one.element = i + 1;
		logs[i] = log_of(w, one.element);
		logs[i].label = select_format_id(one.name.id, one.element, labels[i]);
		logs[i].shown = &shown;
		r = taskwatch_open(w->sp, &one, &all[i], e);
	}
	if (r == 0)
		r = logreader_follow_all(logs, all, n, e);
	for (size_t i = 0; i < n; i++)
		(void)taskwatch_close(all[i]);
	return r;
}

static int wait_for_end(struct watching *w, struct err *e)
{
	int r;

	while ((r = taskwatch_look(w->task, e)) == 0) {
		taskwatch_pause(w->task);
		r = turn(w);
		if (r)
			return r;
	}
	return r < 0 ? r : 0;
}

static int follow(struct watching *w, struct err *e)
{
	struct logreader log = log_of(w, 0);
	uint64_t n = w->place.name.count;
	int r = 0;

	if (!n)
		return logreader_follow(&log, w->task, e);
	if (n <= SHOWN_ELEMENTS)
		r = follow_elements(w, e);
	else
		say("note",
		    "has too many elements to show what all of them print: tenure logs "
		    "shows it",
		    w->id);
	return r == 0 ? wait_for_end(w, e) : r;
}

/* Its output until it has ended, and its exit code. */
static int watch(struct watching *w, struct err *e)
{
	int r = taskwatch_open(w->sp, &w->place, &w->task, e);

	w->look_at_ns = clock_mono_ns() + LOOK_FIRST_NS;
	if (r == 0)
		r = follow(w, e);
	if (w->asked && r <= 0)
		begin_line();
	if (r == 0) {
		r = taskwatch_exit_code(w->task);
		say_end(w);
		if (opts_flag(w->ctx->opts, "json"))
			print_end(w);
	}
	w->task = taskwatch_close(w->task);
	free(w->told);
	return r;
}

static int run_run(const struct cmd_ctx *ctx, struct err *e)
{
	struct sigaction act = { .sa_handler = on_interrupt, .sa_flags = SA_RESTART };
	struct watching w = { .ctx = ctx, .out = opts_flag(ctx->opts, "json") ? stderr : stdout };
	struct submitted s;
	int r = submit_from_options(ctx, &s, e);

	if (r == 0) {
		(void)select_format_id(s.id, 0, w.id);
		(void)sigaction(SIGINT, &act, NULL);
		w.sp = s.sp;
		say("note", "is in the queue", w.id);
		tick_pools(&w);
		look_for_agent(&w);
		r = select_by_id(s.sp, s.id, 0, &w.place, e);
	}
	if (r == 0)
		r = watch(&w, e);
	if (r < 0 && w.id[0]) /* or a script that tries again runs it twice */
		r = err_wrap(e, "task %s is in the queue all the same", w.id);
	submitted_clear(&s);
	return r;
}

static const struct cmd_example run_examples[] = {
	{ "tenure run -- python train.py", "on one GPU, when there is one; exits as it does" },
	{ "tenure run -g 2 -m 20G train.sh && echo well", "a script, on two GPUs" },
	{ 0 },
};

const struct cmd cmd_run_task = {
	.name = "run",
	.group = QUEUE_GROUP,
	.summary = "put a task into the queue and show what it prints until it ends",
	.args = SUBMIT_ARGS,
	.words = { WORDS_FILES, WORDS_FILES, WORDS_COMMAND },
	.description =
		"Like submit, and then the task's output (both streams) and its exit code. It is the "
		"agent's task all the same: it goes on when this command is gone. While it waits, "
		"standard error says for what. Ctrl-C asks whether to stop it; a second Ctrl-C leaves "
		"it to itself.\n\n"
		"Of an array or another batch of up to 64 elements the output of each is shown, behind "
		"a line with its id. With --json the output goes to standard error, and standard "
		"output gets one line of JSON at the end.",
	.examples = run_examples,
	.add_opts = submit_add_opts,
	.variables = submit_variables,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.flags = CMD_STOP_AT_WORD,
	.run = run_run,
};
