/* SPDX-License-Identifier: MIT */

/*
 * Ctrl-C is about the task, which is not a child of ours: the first one asks (or stops it, where
 * nobody can be asked), a second one leaves it to itself.
 */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/ask_agent.h"
#include "cli/commands.h"
#include "cli/ordering.h"
#include "cli/peers.h"
#include "cli/stopping.h"
#include "cli/submission.h"
#include "cli/tasklog.h"
#include "spool/record.h"

#define DETACHED    130 /* as a program that Ctrl-C has ended */
#define ANSWER_SIZE 64

static volatile sig_atomic_t interrupts;

static void on_interrupt(int signum)
{
	interrupts = interrupts + 1;
}

struct watching {
	const struct cmd_ctx *ctx;
	const struct spool *sp;
	char id[QUEUE_ID_MAX];
	int seen; /* interrupts that were looked at */
	bool asked;
};

static void say(const char *kind, const char *format, const char *id)
{
	cleanup_free char *text = xasprintf("task %s %s", id, format);

	(void)fflush(stdout);
	cmd_warn(kind, text);
}

static void stop_it(struct watching *w)
{
	struct stopping s = {
		.ctx = w->ctx, .sp = w->sp, .quiet = true, .afar_ms = ORDERING_LIMIT_MS
	};
	struct err e = ERR_INIT;

	w->asked = false;
	say("note", "is told to end; Ctrl-C again leaves it to itself", w->id);
	if (stop_word(&s, w->id, &e) < 0 || stopping_finish(&s, &e) < 0)
		cmd_warn("warning", e.text);
	if (s.changed)
		ask_agent_to_look(w->ctx);
}

static void read_answer(struct watching *w)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	char answer[ANSWER_SIZE];
	ssize_t n;

	if (poll(&p, 1, 0) != 1)
		return;
	n = read(STDIN_FILENO, answer, sizeof(answer));
	if (n == 0 || (n > 0 && (answer[0] == 'y' || answer[0] == 'Y'))) {
		stop_it(w);
	} else if (n > 0) {
		w->asked = false;
		w->seen = interrupts = 0;
		say("note", "goes on", w->id);
	}
}

static int turn(void *data)
{
	struct watching *w = data;

	if (interrupts > 1) {
		say("note", "runs on; tenure logs -f shows more of it, tenure stop ends it", w->id);
		return DETACHED;
	}
	if (interrupts > w->seen) {
		w->seen = interrupts;
		w->asked = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
		if (!w->asked)
			stop_it(w);
		else
			(void)fprintf(stderr,
				      "\nStop task %s? [y/N] (Ctrl-C again: leave it running) ",
				      w->id);
	}
	if (w->asked)
		read_answer(w);
	return 0;
}

static void look_for_agent(const struct watching *w)
{
	if (!peers_one_serves(w->ctx, w->sp))
		say("warning", "waits: no agent runs on this node; start it with: tenure on",
		    w->id);
}

/* What is not in the log: why it did not end well. */
static void say_end(const struct watching *w, const struct taskwatch *task)
{
	bool failed = strcmp(taskwatch_state(task), "failed") == 0;
	cleanup_free char *text = NULL;
	struct task_file t;

	if (strcmp(taskwatch_state(task), "done") == 0)
		return;
	if (task_file_read(w->sp, taskwatch_place(task)->path, &t, NULL) < 0) {
		say("note", failed ? "has failed" : "was stopped", w->id);
		return;
	}
	text = xasprintf("%s%s%s", failed ? "has failed" : "was stopped",
			 failed && t.history.end.reason[0] ? ": " : "",
			 failed ? t.history.end.reason : "");
	say("note", text, w->id);
	task_file_clear(&t);
}

/* Its output until it has ended, and its exit code. */
static int watch(struct watching *w, const struct queue_place *p, struct err *e)
{
	struct tasklog log = {
		.sp = w->sp, .id = p->name.id, .plain = true, .out = stdout, .turn = turn, .data = w
	};
	struct taskwatch *task = NULL;
	int r = taskwatch_open(w->sp, p, &task, e);

	if (r == 0)
		r = tasklog_follow(&log, task, e);
	if (r == 0) {
		r = taskwatch_exit_code(task);
		say_end(w, task);
	}
	(void)taskwatch_close(task);
	return r;
}

static int run_run(const struct cmd_ctx *ctx, struct err *e)
{
	struct sigaction act = { .sa_handler = on_interrupt, .sa_flags = SA_RESTART };
	struct watching w = { .ctx = ctx };
	struct queue_place p;
	struct submitted s;
	struct spool *sp = NULL;
	int r = submit_from_options(ctx, &s, e);

	if (r == 0)
		r = queue_open(ctx, 0, &sp, e);
	if (r == 0) {
		(void)sigaction(SIGINT, &act, NULL);
		w.sp = sp;
		say("note", "is in the queue", queue_format_id(s.id, 0, w.id));
		look_for_agent(&w);
		r = queue_locate_id(sp, s.id, 0, &p, e);
	}
	if (r == 0)
		r = watch(&w, &p, e);
	sp = spool_close(sp);
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
	.description =
		"Like submit, and then the task's output (both streams) and its exit code. It is the "
		"agent's task all the same: it goes on when this command is gone. Ctrl-C asks "
		"whether to stop it; a second Ctrl-C leaves it to itself.",
	.examples = run_examples,
	.opts = submit_opts,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.flags = CMD_STOP_AT_WORD,
	.run = run_run,
};
