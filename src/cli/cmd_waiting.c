/* SPDX-License-Identifier: MIT */

/* What is done to tasks that wait: each is this process's own rename, so that no agent is needed.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/ask_agent.h"
#include "cli/commands.h"
#include "cli/queue.h"
#include "spool/transit.h"

struct change {
	const struct spool *sp;
	uint64_t priority;
	bool paused;
	unsigned int changed, running;
};

typedef int (*change_fn)(const struct change *c, struct task_name *n, struct err *e);

static int do_priority(const struct change *c, struct task_name *n, struct err *e)
{
	return transit_priority(c->sp, n, c->priority, e);
}

static int do_pause(const struct change *c, struct task_name *n, struct err *e)
{
	return transit_pause(c->sp, n, c->paused, e);
}

static int change_one(struct change *c, change_fn fn, struct scan_task *t, struct err *e)
{
	int r = t->dir == SPOOL_PENDING ? fn(c, &t->name, e) : TRANSIT_GONE;

	if (r == 0) {
		c->changed++;
		printf("%" PRIu64 " %s\n", t->name.id, t->name.name);
	}
	c->running += r == TRANSIT_GONE;
	return r < 0 ? r : 0;
}

static int change_word(struct change *c, change_fn fn, const char *word, struct err *e)
{
	struct queue_match m;
	uint64_t id, element;
	int r;

	if (name_parse_id(word, &id, &element) == 0 && element)
		return err_set(e, -EINVAL,
			       "%s is an element; its priority and pauses are those of task "
			       "%" PRIu64 " as a whole",
			       word, id);
	r = queue_find(c->sp, word, QUEUE_LANES, &m, e);
	if (r < 0)
		return r;
	/* Elements that run go on whatever becomes of those that wait. */
	for (size_t i = 0; i < m.n && r == 0; i++)
		if (!m.tasks[i].name.element)
			r = change_one(c, fn, &m.tasks[i], e);
	free(m.tasks);
	return r;
}

static int change_all(const struct cmd_ctx *ctx, struct change *c, size_t first, change_fn fn,
		      struct err *e)
{
	struct spool *sp = NULL;
	int r = queue_open(ctx, 0, &sp, e);

	c->sp = sp;
	for (size_t i = first; i < opts_argc(ctx->opts) && r == 0; i++)
		r = change_word(c, fn, opts_arg(ctx->opts, i), e);
	sp = spool_close(sp);
	if (c->changed)
		ask_agent_to_look(ctx);
	if (r == 0 && c->running)
		r = err_set(e, -EBUSY,
			    "%u of them run%s or changed just now; only tasks that wait can be "
			    "changed",
			    c->running, c->running == 1 ? "s" : "");
	return r;
}

static int run_priority(const struct cmd_ctx *ctx, struct err *e)
{
	struct change c = { .changed = 0 };
	const char *text = opts_arg(ctx->opts, 0);

	if (str_to_u64(text, &c.priority) < 0 || c.priority > SPEC_PRIORITY_MAX) {
		(void)err_set(e, -EINVAL, "\"%s\" is no priority; it is a number from 0 to %d",
			      text, SPEC_PRIORITY_MAX);
		return CMD_USAGE;
	}
	return change_all(ctx, &c, 1, do_priority, e);
}

static int set_paused(const struct cmd_ctx *ctx, bool paused, struct err *e)
{
	struct change c = { .paused = paused };

	return change_all(ctx, &c, 0, do_pause, e);
}

static int run_pause(const struct cmd_ctx *ctx, struct err *e)
{
	return set_paused(ctx, true, e);
}

static int run_resume(const struct cmd_ctx *ctx, struct err *e)
{
	return set_paused(ctx, false, e);
}

#define WORDS "ID|NAME|LANE|all.."
#define COMMAND(name_, args_, min_args_, summary_)                                                 \
	.name = (name_), .group = QUEUE_GROUP, .summary = (summary_), .args = (args_),             \
	.min_args = (min_args_), .setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT

static const struct cmd_example priority_examples[] = {
	{ "tenure priority 1 42", "task 42 is next" },
	{ 0 },
};

const struct cmd cmd_priority = {
	COMMAND("priority", "N " WORDS, 2, "give tasks that wait another priority (lower first)"),
	.examples = priority_examples,
	.run = run_priority,
};

static const struct cmd_example pause_examples[] = {
	{ "tenure pause week", "nothing of the lane \"week\" is started" },
	{ 0 },
};

const struct cmd cmd_pause = {
	COMMAND("pause", WORDS, 1, "do not start tasks that wait"),
	.examples = pause_examples,
	.run = run_pause,
};

static const struct cmd_example resume_examples[] = {
	{ "tenure resume week", "undo tenure pause week" },
	{ 0 },
};

const struct cmd cmd_resume = {
	COMMAND("resume", WORDS, 1, "let paused tasks start"),
	.examples = resume_examples,
	.run = run_resume,
};
