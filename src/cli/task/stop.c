/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/agent_client.h"
#include "cli/commands.h"
#include "cli/instance.h"
#include "cli/task/select.h"
#include "cli/task/sweeper.h"
#include "cli/task/taskstop.h"
#include "spool/instance.h"
#include "task/sweep.h"

static const struct opt stop_opts[] = {
	{ .name = "now",
	  .spec = { VALUE_FLAG },
	  .help = "kill what runs at once, without its grace time" },
	{ .name = "timeout",
	  .spec = { VALUE_DURATION, .min = 1 },
	  .arg = "DURATION",
	  .def = AGENTS_LIMIT_TEXT,
	  .help = "wait so long for agents of other nodes, and for the one here while it begins" },
	{ 0 },
};

static int stop_word(void *data, const char *word, struct err *e)
{
	return taskstop_word(data, word, e);
}

static int stop_words(struct taskstop *s, const struct opts *opts, struct err *e)
{
	struct err last = ERR_INIT;
	int first = change_words(s->sp, opts, 0, stop_word, s, e), r;

	r = taskstop_finish(s, &last);
	if (r < 0 && first)
		(void)cmd_fail(CMD_FAILED, e->text);
	if (r < 0)
		*e = last;
	return first ? first : r;
}

#define STATUS_LIMIT_MS 3000

/* The queue does not answer: a note says so, and what runs on this node is told to end. */
static int stop_without_queue(struct taskstop *s, struct err *e)
{
	cleanup_free char *dir = instance_dir(s->ctx);
	json_t *doc;
	int r;

	instance_tell_silent(dir, "The agent here stops what runs on this node; if the node "
				  "fails before that is so, it runs again");
	doc = agent_status(s->ctx, STATUS_LIMIT_MS, e);
	if (!doc)
		return e->code ? e->code : -ECONNREFUSED;
	s->here = agent_tasks(doc);
	r = stop_words(s, s->ctx->opts, e);
	json_decref(doc);
	return r;
}

/* In the queue, where that answers. */
static int stop_all(const struct cmd_ctx *ctx, unsigned int sweep, struct err *e)
{
	struct taskstop s = {
		.ctx = ctx,
		.now = opts_flag(ctx->opts, "now"),
		.remote_ms = opts_value(ctx->opts, "timeout")->num,
		.sweep_gpus = sweep & SWEEP_BIT(SWEEP_GPU),
	};
	struct spool *sp = NULL;
	int r;

	if (!instance_answers(ctx))
		return stop_without_queue(&s, e);
	r = instance_open_for(ctx, 0, 0, &sp, e);
	s.sp = sp;
	if (r == 0 && sp)
		r = stop_words(&s, ctx->opts, e);
	sp = spool_close(sp);
	if (s.changed)
		agent_look(ctx);
	return r;
}

static int run_stop(const struct cmd_ctx *ctx, struct err *e)
{
	unsigned int sweep = sweep_of_setting((unsigned int)settings_num(ctx->settings, SET_SWEEP));
	int r = stop_all(ctx, sweep, e);

	/* What was told to end is under tenure, and so spared. */
	if (r == 0 && sweep & SWEEP_BIT(SWEEP_PYTHON))
		r = sweeper_run(
			ctx, &(struct sweep_order){ .what = SWEEP_BIT(SWEEP_PYTHON), .end = true },
			e);
	return r;
}

static const struct cmd_example stop_examples[] = {
	{ "tenure stop 42", "end task 42, whether it waits or runs" },
	{ "tenure stop 42.7", "one element of it" },
	{ "tenure stop week", "everything in the lane \"week\"" },
	{ "tenure stop all --now", "everything, without grace" },
	{ "tenure stop all --sweep python", "and every other Python process of yours here" },
	{ 0 },
};

const struct cmd cmd_stop = {
	.name = "stop",
	.group = QUEUE_GROUP,
	.summary = "end tasks, waiting or running",
	.args = "ID|NAME|LANE|all|last..",
	.words = { WORDS_TASKS_LANES, WORDS_TASKS_LANES },
	.min_args = 1,
	.description =
		"What waits goes to cancelled/ at once, with or without an agent. What runs is told "
		"to end by its agent: its signal (TERM), its grace time (30s), then KILL, and the "
		"whole process tree with it. tenure wait waits until it has ended. Agents of other nodes "
		"are told through the queue's directory, where they look every two seconds; of one "
		"that does not answer it is said when it sent its last heartbeat. Where the "
		"directory itself does not answer for three seconds, what runs on this node is told "
		"to end all the same, and it is said what could not be looked for.\n\n" SELECT_HELP
		"\n\n"
		"--sweep python also ends every other Python process of yours on this node, which "
		"tenure sweep python shows; --sweep gpu has the agent end what of yours stays on "
		"the task's GPUs, but what its own sweep_spare says.",
	.examples = stop_examples,
	.opts = stop_opts,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT | SETTING_GROUP_SWEEP |
			  SETTING_GROUP_SPARE,
	.flags = CMD_ENDS,
	.run = run_stop,
};
