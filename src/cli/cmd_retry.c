/* SPDX-License-Identifier: MIT */

/* Ended ones again, and waiting ones otherwise: both are this process's own renames. */

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/aftercheck.h"
#include "cli/ask_agent.h"
#include "cli/commands.h"
#include "cli/queue.h"
#include "cli/roomcheck.h"
#include "spool/revive.h"
#include "spool/transit.h"

static const struct opt retry_opts[] = {
	{ .name = "all",
	  .short_name = 'a',
	  .spec = { VALUE_FLAG },
	  .help = "of a batch also the elements that are done" },
	{ 0 },
};

/* "failed", "done/2026-11-21", "pending" */
static void dir_of(const struct queue_place *p, char dir[SPOOL_PATH_MAX])
{
	(void)str_print(dir, SPOOL_PATH_MAX, "%.*s", (int)(strrchr(p->path, '/') - p->path),
			p->path);
}

static int changed_now(uint64_t id, struct err *e)
{
	return err_set(e, -EAGAIN, "task %" PRIu64 " changed just now; try again", id);
}

static int retry_task(const struct spool *sp, struct queue_place *p, struct err *e)
{
	char dir[SPOOL_PATH_MAX];
	int r;

	if (p->dir == SPOOL_PENDING || p->dir == SPOOL_RUNNING)
		return err_set(e, -EBUSY,
			       "task %" PRIu64 " (%s) has not ended: it is %s; tenure stop %" PRIu64
			       " ends it",
			       p->name.id, p->name.name, queue_state(&p->name, p->dir), p->name.id);
	dir_of(p, dir);
	r = transit_retry(sp, &p->name, dir, e);
	if (r == 0)
		printf("%" PRIu64 " %s waits to run again\n", p->name.id, p->name.name);
	return r == TRANSIT_GONE ? changed_now(p->name.id, e) : r;
}

struct choice {
	uint64_t element; /* 0: all that did not end well, ... */
	bool all;	  /* ... or simply all */
};

static bool is_chosen(void *data, uint64_t element, enum batch_state state)
{
	const struct choice *c = data;

	return c->element ? element == c->element : c->all || state != BATCH_DONE;
}

static int check_batch(const struct spool *sp, const struct queue_place *p, struct err *e)
{
	struct queue_match active = { .n = 0 };
	struct batch_counts n = { .running = 0 };
	int r = p->element ? queue_element_state(sp, p, p->element, e) : BATCH_DONE;

	if (r >= 0 && r < BATCH_DONE && p->dir == SPOOL_PENDING)
		return err_set(e, -EBUSY, "%" PRIu64 ".%" PRIu64 " has not ended yet", p->name.id,
			       p->element);
	if (r >= 0 && p->dir != SPOOL_PENDING)
		r = queue_all(sp, &active, e);
	if (r >= 0)
		r = queue_counts(sp, &p->name, &active, &n, e);
	free(active.tasks);
	if (r >= 0 && p->dir != SPOOL_PENDING && n.running)
		r = err_set(e, -EBUSY,
			    "%" PRIu64 " element%s of task %" PRIu64 " still end%s; try again",
			    n.running, n.running == 1 ? "" : "s", p->name.id,
			    n.running == 1 ? "s" : "");
	if (r >= 0 && !p->element && n.failed + n.cancelled == 0)
		return 1;
	return r < 0 ? r : 0;
}

static int retry_batch(const struct spool *sp, struct queue_place *p, bool all, struct err *e)
{
	struct choice choice = { .element = p->element, .all = all };
	cleanup_free char *host = xasprintf("retry-%.30s", sp->host);
	char who[SPEC_NAME_MAX + 1], dir[SPOOL_PATH_MAX], id[QUEUE_ID_MAX];
	uint64_t n = 0;
	int r = check_batch(sp, p, e);

	if (r < 0)
		return r;
	if (r > 0 && !all)
		return err_set(e, -EINVAL,
			       "no element of task %" PRIu64 " has failed or was stopped; tenure "
			       "retry --all %" PRIu64 " runs all that have ended again",
			       p->name.id, p->name.id);
	spec_make_name(host, who);
	dir_of(p, dir);
	r = revive_batch(sp, &p->name, dir, who, is_chosen, &choice, &n, e);
	if (r == TRANSIT_GONE)
		return changed_now(p->name.id, e);
	if (r < 0)
		return r;
	(void)queue_format_id(p->name.id, p->element, id);
	if (p->element)
		printf("%s %s waits to run again\n", id, p->name.name);
	else
		printf("%s %s: %" PRIu64 " element%s to run again\n", id, p->name.name, n,
		       n == 1 ? " waits" : "s wait");
	return 0;
}

static int retry_one(const struct spool *sp, const char *word, bool all, struct err *e)
{
	struct queue_place p;
	int r = queue_locate(sp, word, &p, e);

	if (r < 0)
		return r;
	return p.name.count ? retry_batch(sp, &p, all, e) : retry_task(sp, &p, e);
}

static int run_retry(const struct cmd_ctx *ctx, struct err *e)
{
	struct spool *sp = NULL;
	int r = queue_open(ctx, 0, &sp, e);

	for (size_t i = 0; i < opts_argc(ctx->opts) && r == 0; i++)
		r = retry_one(sp, opts_arg(ctx->opts, i), opts_flag(ctx->opts, "all"), e);
	sp = spool_close(sp);
	ask_agent_to_look(ctx);
	return r;
}

static json_t *begin_of(const char *text, struct err *e)
{
	char time[CLOCK_TEXT_MAX];
	uint64_t ns;

	if (strcmp(text, "now") == 0)
		return json_integer(0);
	return unit_parse_time(text, clock_wall_ns(), &ns, e) < 0
		       ? NULL
		       : json_string(clock_format_iso(ns, time));
}

/* A list may be written as JSON; everything else as an option of submit. */
static json_t *value_of(const char *key, const char *text, struct err *e)
{
	json_t *value = text[0] == '[' ? json_loads(text, 0, NULL) : NULL;
	struct spool_spec *scratch;
	int r;

	if (strcmp(key, "begin") == 0)
		return begin_of(text, e);
	scratch = spec_new();
	r = value ? spec_set_json(scratch, key, value, e) : 0;

	if (!value) {
		value = spec_value(key, text, e);
	} else if (r < 0) {
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

/* What the name of the file says, and not the task in it. */
static const char *const of_names[] = { "priority", "paused", "begin" };

static int rename_it(const struct spool *sp, struct task_name *n, const json_t *set, struct err *e)
{
	struct spool_spec *spec = spec_new();
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(of_names) && r == 0; i++)
		if (json_object_get(set, of_names[i]))
			r = spec_set_json(spec, of_names[i], json_object_get(set, of_names[i]), e);
	if (r == 0 && json_object_get(set, "priority"))
		r = transit_priority(sp, n, (uint64_t)spec->priority, e);
	if (r == 0 && json_object_get(set, "paused"))
		r = transit_pause(sp, n, spec->paused, e);
	if (r == 0 && json_object_get(set, "begin"))
		r = transit_begin(sp, n, spec->begin / NS_PER_S, e);
	(void)spec_free(spec);
	return r;
}

static int edit_waiting(const struct spool *sp, struct task_name *n, json_t *set, struct err *e)
{
	json_t *rest = json_copy(set);
	int r;

	for (size_t i = 0; i < ARRAY_LEN(of_names); i++)
		(void)json_object_del(rest, of_names[i]);
	r = json_object_size(rest) ? transit_edit(sp, n, rest, e) : 0;
	json_decref(rest);
	return r == 0 ? rename_it(sp, n, set, e) : r;
}

static const char *const of_others[] = { "gpus", "after", "after_any" };

/* As what is submitted. */
static int check_edit(const struct cmd_ctx *ctx, const struct spool *sp, uint64_t id,
		      const json_t *set, struct err *e)
{
	struct spool_spec *spec = spec_new();
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(of_others) && r == 0; i++)
		if (json_object_get(set, of_others[i]))
			r = spec_set_json(spec, of_others[i], json_object_get(set, of_others[i]),
					  e);
	if (r == 0 && json_object_get(set, "gpus"))
		r = room_check(ctx, sp, spec, e);
	if (r == 0)
		r = after_check(sp, id, spec, e);
	(void)spec_free(spec);
	return r < 0 ? err_wrap(e, "not changed") : 0;
}

static int cannot_edit(const struct queue_place *p, struct err *e)
{
	char text[QUEUE_TEXT_MAX];

	if (p->dir == SPOOL_RUNNING)
		return err_set(e, -EBUSY,
			       "task %" PRIu64 " (%s) runs; only a task that waits can be edited",
			       p->name.id, p->name.name);
	return err_set(e, -EBUSY,
		       "task %" PRIu64 " (%s) %s; only a task that waits can be edited (tenure "
		       "retry %" PRIu64 " puts it back)",
		       p->name.id, p->name.name, queue_format_end(p, text), p->name.id);
}

static int edit(const struct cmd_ctx *ctx, const struct spool *sp, const char *word, json_t *set,
		struct err *e)
{
	struct queue_place p;
	int r = queue_locate(sp, word, &p, e);

	if (r == 0 && p.element)
		return err_set(e, -EINVAL,
			       "%s is an element; only task %" PRIu64 " as a whole can be edited",
			       word, p.name.id);
	if (r == 0 && p.dir != SPOOL_PENDING)
		return cannot_edit(&p, e);
	if (r == 0)
		r = check_edit(ctx, sp, p.name.id, set, e);
	if (r == 0)
		r = edit_waiting(sp, &p.name, set, e);
	if (r == TRANSIT_GONE)
		return changed_now(p.name.id, e);
	if (r == 0)
		printf("%" PRIu64 " %s is changed\n", p.name.id, p.name.name);
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
		r = edit(ctx, sp, opts_arg(ctx->opts, 0), set, e);
	json_decref(set);
	sp = spool_close(sp);
	ask_agent_to_look(ctx);
	return r;
}

static const struct cmd_example retry_examples[] = {
	{ "tenure retry 42", "run task 42 again, which has ended" },
	{ "tenure retry 43", "of an array, the elements that failed or were stopped" },
	{ "tenure retry 43.7", "one element of it, however it ended" },
	{ 0 },
};

const struct cmd cmd_retry = {
	.name = "retry",
	.group = QUEUE_GROUP,
	.summary = "put ended tasks back into the queue",
	.args = "ID|NAME..",
	.min_args = 1,
	.description =
		"Under the same id, with attempts counted anew. Their logs are added to. Of an "
		"array or another batch the elements that failed or were stopped run again, "
		"while others of it may still wait or run.",
	.examples = retry_examples,
	.opts = retry_opts,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.run = run_retry,
};

static const struct cmd_example edit_examples[] = {
	{ "tenure edit 42 memory=30G gpus=2", "task 42 needs more than was said" },
	{ "tenure edit 42 after=40,41 begin=18:30", "when others are done, and not before" },
	{ 0 },
};

const struct cmd cmd_edit = {
	.name = "edit",
	.group = QUEUE_GROUP,
	.summary = "change a task that waits",
	.args = "ID|NAME KEY=VALUE..",
	.min_args = 2,
	.description =
		"The keys are those of a task's file (docs/spool.md), which are the options of submit "
		"and what to run: gpus, memory, lane, name, priority, retries, timeout. Of an array "
		"or another batch they are for the elements that have not started. Lists of texts "
		"are written as JSON: 'args=[\"--epochs\", \"3\"]'.",
	.examples = edit_examples,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.run = run_edit,
};
