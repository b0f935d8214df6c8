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
#include "spool/ident.h"
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
	  .help = "wait so long for agents of other nodes" },
	{ 0 },
};

/* One that cannot be stopped keeps none of the others from it. */
static int stop_words(struct taskstop *s, const struct opts *opts, struct err *e)
{
	struct err last = ERR_INIT;
	int first = 0, r;

	for (size_t i = 0; i < opts_argc(opts); i++) {
		struct err one = ERR_INIT;

		r = taskstop_word(s, opts_arg(opts, i), &one);

		if (r == 0)
			continue;
		if (first)
			(void)cmd_fail(CMD_FAILED, e->text);
		*e = one;
		first = first ? first : r;
	}
	r = taskstop_finish(s, &last);
	if (r < 0 && first)
		(void)cmd_fail(CMD_FAILED, e->text);
	if (r < 0)
		*e = last;
	return first ? first : r;
}

#define STATUS_LIMIT_MS 3000

/* ---- where the queue does not answer ---- */

struct asked {
	const struct cmd_ctx *ctx;
	struct order order; /* of one task */
	json_t *tasks;	    /* that run here */
	struct err *e;
	int code;
};

static void fail(struct asked *a, int code, const char *text)
{
	if (a->code)
		(void)cmd_fail(CMD_FAILED, a->e->text);
	a->code = err_set(a->e, code, "%s", text);
}

/* What a word means among what runs here. */
struct meant {
	const char *word;
	uint64_t id, element; /* id 0: it is a name */
	bool all;
	size_t n;    /* tasks that it means */
	bool exact;  /* and these are all that it can mean */
	bool failed; /* one of them was not told */
};

static bool is_meant(const struct meant *m, uint64_t id, uint64_t element, const char *name)
{
	if (m->id)
		return id == m->id && (!m->element || element == m->element);
	return m->all || (name && strcmp(name, m->word) == 0);
}

static void stop_one(struct asked *a, struct meant *m, const json_t *task)
{
	uint64_t id = (uint64_t)json_integer_value(json_object_get(task, "id"));
	uint64_t element = (uint64_t)json_integer_value(json_object_get(task, "element"));
	const char *name = json_string_value(json_object_get(task, "name"));
	char text[SELECT_ID_MAX];
	struct err e = ERR_INIT;
	int r;

	if (!is_meant(m, id, element, name))
		return;
	m->n++;
	m->exact = m->id && element == m->element;
	a->order.tasks = &(struct order_task){ id, element };
	r = agent_ask_about(a->ctx, &a->order, NULL, &e);
	if (r == -ENOENT)
		return; /* it has ended meanwhile */
	if (r < 0) {
		m->failed = true;
		fail(a, r, e.text);
		return;
	}
	printf("%s%s%s%s\n", select_format_id(id, element, text), name ? " " : "", name ? name : "",
	       a->order.now ? " is killed" : " is stopping");
}

static void stop_meant(struct asked *a, const char *word)
{
	struct meant m = { .word = word, .all = strcmp(word, "all") == 0 };
	cleanup_free char *none = NULL;
	json_t *task;
	size_t i;

	if (ident_parse_id(word, &m.id, &m.element) < 0)
		m.id = 0;
	json_array_foreach(a->tasks, i, task) stop_one(a, &m, task);
	if (m.failed || (m.n && m.exact))
		return;
	none = xasprintf(m.n ? "what waits of %s could not be looked for; tell it again when the "
			       "queue answers"
			     : "nothing of %s runs on this node, and more cannot be looked for "
			       "until the queue answers",
			 word);
	fail(a, -ETIMEDOUT, none);
}

/*
 * The queue does not answer. Of what the words on the command line mean (ID, ID.ELEMENT, NAME, all)
 * that which runs on this node is told to end. A note says so
 * first. 0, or negative with e where that may not be all of it.
 */
static int stop_without_queue(const struct cmd_ctx *ctx, bool now, bool sweep_gpus, struct err *e)
{
	cleanup_free char *dir = instance_dir(ctx);
	struct asked a = { .ctx = ctx,
			   .order = { .command = ORDER_STOP,
				      .n = 1,
				      .now = now,
				      .sweep = sweep_gpus ? SPEC_CLEAN_GPU : SPEC_CLEAN_NONE },
			   .e = e };
	json_t *doc = NULL;

	instance_tell_silent(dir, "The agent here stops what runs on this node; if the node "
				  "fails before that is so, it runs again");
	if (agent_ask(ctx, CTL_STATUS, STATUS_LIMIT_MS, &doc, NULL, e) != CMD_OK)
		return e->code ? e->code : -ECONNREFUSED;
	a.tasks = json_object_get(json_object_get(doc, "queue"), "tasks");
	for (size_t i = 0; i < opts_argc(ctx->opts); i++)
		stop_meant(&a, opts_arg(ctx->opts, i));
	json_decref(doc);
	return a.code;
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
		return stop_without_queue(ctx, s.now, s.sweep_gpus, e);
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
	.args = "ID|NAME|LANE|all..",
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
