/* SPDX-License-Identifier: MIT */

/* Ended ones again, and waiting ones otherwise: both are this process's own renames. */

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/ask_agent.h"
#include "cli/commands.h"
#include "cli/queue.h"
#include "spool/transit.h"

static int retry_one(const struct spool *sp, const char *word, struct err *e)
{
	char dir[SPOOL_PATH_MAX];
	struct queue_place p;
	int r = queue_locate(sp, word, &p, e);

	if (r < 0)
		return r;
	if (p.dir == SPOOL_PENDING || p.dir == SPOOL_RUNNING)
		return err_set(e, -EBUSY, "task %" PRIu64 " has not ended: it is %s", p.name.id,
			       queue_state(&p.name, p.dir));
	if (p.name.count)
		return err_set(e, -EOPNOTSUPP,
			       "task %" PRIu64 " is many (%" PRIu64
			       " elements), of which none can be run again; submit it anew",
			       p.name.id, p.name.count);
	(void)str_print(dir, sizeof(dir), "%.*s", (int)(strrchr(p.path, '/') - p.path), p.path);
	r = transit_retry(sp, &p.name, dir, e);
	if (r == TRANSIT_GONE)
		r = err_set(e, -EAGAIN, "task %" PRIu64 " changed just now; try again", p.name.id);
	if (r == 0)
		printf("%" PRIu64 " %s\n", p.name.id, p.name.name);
	return r;
}

static int run_retry(const struct cmd_ctx *ctx, struct err *e)
{
	struct spool *sp = NULL;
	int r = queue_open(ctx, 0, &sp, e);

	for (size_t i = 0; i < opts_argc(ctx->opts) && r == 0; i++)
		r = retry_one(sp, opts_arg(ctx->opts, i), e);
	sp = spool_close(sp);
	ask_agent_to_look(ctx);
	return r;
}

/* What was written as a value: a JSON one where the key takes that, else a text. */
static json_t *value_of(const char *key, const char *text, struct err *e)
{
	struct spool_spec *scratch = spec_new();
	json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);

	if (!value || spec_set_json(scratch, key, value, NULL) < 0) {
		json_decref(value);
		value = json_string(text);
	}
	if (spec_set_json(scratch, key, value, e) < 0) {
		json_decref(value);
		value = NULL;
	}
	(void)spec_free(scratch);
	return value;
}

static int add_assignment(json_t *set, const char *text, struct err *e)
{
	const char *eq = strchr(text, '=');
	cleanup_free char *key = eq ? xasprintf("%.*s", (int)(eq - text), text) : NULL;
	json_t *value;

	if (!eq || eq == text)
		return err_set(e, -EINVAL, "\"%s\" is no KEY=VALUE; an example is memory=30G",
			       text);
	for (char *p = key; *p; p++)
		*p = *p == '-' ? '_' : *p;
	value = value_of(key, eq + 1, e);
	return value ? json_object_set_new(set, key, value) : -EINVAL;
}

static int edit(const struct spool *sp, const char *word, json_t *set, struct err *e)
{
	struct queue_place p;
	int r = queue_locate(sp, word, &p, e);

	if (r == 0 && p.dir == SPOOL_PENDING)
		r = transit_edit(sp, &p.name, set, e);
	else if (r == 0)
		r = TRANSIT_GONE;
	if (r == TRANSIT_GONE)
		return err_set(e, -EBUSY,
			       "task %" PRIu64
			       " does not wait any more (it is %s), or changed just "
			       "now; only a task that waits can be edited",
			       p.name.id, queue_state(&p.name, p.dir));
	if (r == 0)
		printf("%" PRIu64 " %s\n", p.name.id, p.name.name);
	return r;
}

static int run_edit(const struct cmd_ctx *ctx, struct err *e)
{
	struct spool *sp = NULL;
	json_t *set = json_object();
	int r = 0;

	for (size_t i = 1; i < opts_argc(ctx->opts) && r == 0; i++)
		r = add_assignment(set, opts_arg(ctx->opts, i), e);
	if (r < 0) {
		json_decref(set);
		return CMD_USAGE;
	}
	r = queue_open(ctx, 0, &sp, e);
	if (r == 0)
		r = edit(sp, opts_arg(ctx->opts, 0), set, e);
	json_decref(set);
	sp = spool_close(sp);
	ask_agent_to_look(ctx);
	return r;
}

static const struct cmd_example retry_examples[] = {
	{ "tenure retry 42", "run task 42 again, which has ended" },
	{ 0 },
};

const struct cmd cmd_retry = {
	.name = "retry",
	.group = QUEUE_GROUP,
	.summary = "put ended tasks back into the queue",
	.args = "ID|NAME..",
	.min_args = 1,
	.description = "Under the same id, with attempts counted anew. Their logs are added to. "
		       "Arrays and other batches are submitted anew instead.",
	.examples = retry_examples,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.run = run_retry,
};

static const struct cmd_example edit_examples[] = {
	{ "tenure edit 42 memory=30G gpus=2", "task 42 needs more than was said" },
	{ "tenure edit 42 'after=[40,41]'", "lists are written as JSON" },
	{ 0 },
};

const struct cmd cmd_edit = {
	.name = "edit",
	.group = QUEUE_GROUP,
	.summary = "change a task that waits",
	.args = "ID|NAME KEY=VALUE..",
	.min_args = 2,
	.description =
		"The keys are those of a task's file (docs/spool.md), which are mostly the options "
		"of submit: gpus, memory, shared, lane, name, retries, timeout. tenure priority, "
		"pause and resume change those.",
	.examples = edit_examples,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.run = run_edit,
};
