/* SPDX-License-Identifier: MIT */

/*
 * Everything here comes from names of files. Only of batches that are not over the journals are
 * read, for the counts of their elements, and of what runs the claims.
 */

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "cli/agent_client.h"
#include "cli/commands.h"
#include "cli/instance.h"
#include "cli/table.h"
#include "cli/task/taskrun.h"
#include "cli/task/taskstate.h"
#include "cli/task/view.h"
#include "spool/instance.h"
#include "spool/lane.h"

#define WHEN_LIMIT_MS 3000

static const struct opt list_opts[] = {
	{ .name = "all", .short_name = 'a', .spec = { VALUE_FLAG }, .help = "also what has ended" },
	{ .name = "state",
	  .short_name = 's',
	  .spec = { VALUE_WORDS },
	  .arg = "STATE,..",
	  .help = "only these: pending, paused, running, done, failed, cancelled" },
	{ .name = "lane",
	  .short_name = 'l',
	  .spec = { VALUE_STRING },
	  .arg = "NAME",
	  .help = "only this lane" },
	{ .name = "name",
	  .short_name = 'n',
	  .spec = { VALUE_STRING },
	  .arg = "NAME",
	  .help = "only names that begin so" },
	{ .name = "when",
	  .short_name = 'w',
	  .spec = { VALUE_FLAG },
	  .help = "also when what waits starts, as the agent of this node estimates it" },
	{ 0 },
};

struct list {
	const struct cmd_ctx *ctx;
	struct table *table; /* NULL: JSON */
	size_t shown;
	const struct spool *sp;
	struct task_set active, ended;
	json_t *tasks; /* that run on this node, as their agent says; NULL: not asked for yet */
	size_t n_batches;
	const struct scan_task **batches; /* by their ids, from both */
	struct text_list lanes;		  /* that are paused */
	struct gangs_read gangs;
	bool gangs_read;
	json_t *when; /* of tasks that wait: what the agent here says, by id; NULL: not asked */
};

static bool wanted_state(const struct cmd_ctx *ctx, enum taskstate state)
{
	const struct value *v = opts_value(ctx->opts, "state");

	for (size_t i = 0; v && i < v->words.n; i++)
		if (strcmp(v->words.texts[i], taskstate_name(state)) == 0)
			return true;
	return !v;
}

static bool wanted(const struct cmd_ctx *ctx, const struct task_name *n)
{
	const char *lane = opts_text(ctx->opts, "lane"), *name = opts_text(ctx->opts, "name");

	return (!lane || strcmp(lane, n->lane) == 0) && (!name || str_has_prefix(n->name, name));
}

static void add_counts(const struct task_view *r, struct strbuf *b)
{
	const struct {
		uint64_t n;
		const char *word;
	} parts[] = {
		{ r->counts.done, "done" },	      { r->counts.failed, "failed" },
		{ r->counts.cancelled, "cancelled" }, { r->counts.running, "running" },
		{ r->counts.waiting, "left" },
	};
	const char *between = ": ";

	strbuf_addf(b, "%" PRIu64 " element%s", r->name.count, r->name.count == 1 ? "" : "s");
	for (size_t i = 0; r->counted && i < ARRAY_LEN(parts); i++) {
		if (!parts[i].n)
			continue;
		strbuf_addf(b, "%s%" PRIu64 " %s", between, parts[i].n, parts[i].word);
		between = ", ";
	}
}

/* " (1 to 3; the last change: busy)" */
static void add_scaling(const json_t *scaling, struct strbuf *b)
{
	const char *reason = json_get_str(json_object_get(scaling, "last"), "reason");

	if (!scaling)
		return;
	strbuf_addf(b, " (%lld to %lld%s%s)",
		    (long long)json_integer_value(json_object_get(scaling, "min")),
		    (long long)json_integer_value(json_object_get(scaling, "max")),
		    reason ? "; the last change: " : "", reason ? reason : "");
}

/* "on node7, GPU 0 and 3, for 5m 03s" */
static void add_run(const struct task_view *r, struct strbuf *b)
{
	uint64_t now_ns = clock_wall_ns(), ran_ns = now_ns - r->run.started_ns;
	char ran[UNIT_TEXT_MAX];
	size_t i;
	json_t *gpu;

	json_array_foreach(r->gpus, i, gpu)
	{
		strbuf_addf(b, "%s%lld",
			    i	     ? ","
			    : b->len ? ", GPU "
				     : "GPU ",
			    (long long)json_integer_value(gpu));
	}
	add_scaling(r->scaling, b);
	if (r->run.left) {
		cleanup_free char *left = taskrun_format_left(r->sp, &r->run);

		strbuf_addf(b, "%s%s", b->len ? ", " : "", left);
	} else if (r->run.started_ns && r->run.started_ns <= now_ns)
		strbuf_addf(b, "%s%sfor %s", b->len ? ", " : "",
			    r->run.mustered ? "waits for the other ranks " : "",
			    unit_format_duration(ran_ns / NS_PER_S * 1000, ran));
}

static void format_note(const struct task_view *r, struct strbuf *b)
{
	const struct task_name *n = &r->name;
	char when[CLOCK_TEXT_MAX];

	if (n->count)
		add_counts(r, b);
	if (n->agent[0])
		strbuf_addf(b, "%son %s", b->len ? ", " : "", n->agent);
	if (r->state == TASKSTATE_RUNNING)
		add_run(r, b);
	if (n->epoch)
		strbuf_addf(b, "%srequeued %" PRIu64 "x", b->len ? ", " : "", n->epoch);
	if (n->begin_s)
		strbuf_addf(b, "%snot before %s", b->len ? ", " : "",
			    clock_format_local(n->begin_s * NS_PER_S, when));
	if (r->lane_paused)
		strbuf_addf(b, "%sits lane is paused", b->len ? ", " : "");
	if (r->place.dir == SPOOL_PENDING && n->flags & NAME_DEPENDS)
		strbuf_addf(b, "%safter others", b->len ? ", " : "");
	if (n->ended_s)
		strbuf_addf(b, "%s%s", b->len ? ", " : "",
			    clock_format_local(n->ended_s * NS_PER_S, when));
	if (n->ended_s && n->exit && !n->count) /* whose elements ended each in their own way */
		strbuf_addf(b, ", %s %u", n->exit >= NAME_SIGNALLED ? "signal" : "exit",
			    n->exit & (NAME_SIGNALLED - 1));
}

/* What the agent estimates of it, or NULL. */
static const json_t *find_when(const struct list *l, const struct task_view *r)
{
	char id[SELECT_ID_MAX];

	return r->place.dir == SPOOL_PENDING
		       ? json_object_get(l->when, select_format_id(r->name.id, 0, id))
		       : NULL;
}

static void add_when(const struct list *l, const struct task_view *r, struct strbuf *b)
{
	const char *text = json_get_str(find_when(l, r), "text");

	/* Of a batch the agent may not know that others have the rest. */
	if (r->counted && !r->counts.waiting)
		return;
	if (text && text[0])
		strbuf_addf(b, "%s%s", b->len ? ", " : "", text);
}

static void show_row(struct list *l, const struct task_view *r)
{
	const struct task_name *n = &r->name;
	cleanup_strbuf struct strbuf note = STRBUF_INIT;
	char id[SELECT_ID_MAX], priority[24], gpus[24];
	enum term_style style = r->state == TASKSTATE_RUNNING  ? TERM_GREEN
				: r->state == TASKSTATE_FAILED ? TERM_RED
							       : TABLE_PLAIN;

	(void)select_format_id(n->id, n->element, id);
	(void)str_print(priority, sizeof(priority), "%" PRIu64, n->priority);
	(void)str_print(gpus, sizeof(gpus), "%" PRIu64, n->gpus);
	format_note(r, &note);
	add_when(l, r, &note);
	table_add(l->table, style, id, taskstate_name(r->state), priority,
		  n->gpus == SPEC_ALL ? "all" : gpus, n->lane[0] ? n->lane : "-",
		  n->name[0] ? n->name : "-", note.len ? strbuf_str(&note) : "");
}

static void show_json(const struct list *l, const struct task_view *v)
{
	static const enum taskview_member members[] = {
		VIEW_ID,      VIEW_STATE,      VIEW_NAME,     VIEW_LANE,    VIEW_PRIORITY,
		VIEW_GPUS,    VIEW_N_ELEMENTS, VIEW_ELEMENT,  VIEW_COUNTS,  VIEW_LANE_PAUSED,
		VIEW_AGENT,   VIEW_STARTED,    VIEW_RAN,      VIEW_UNFILED, VIEW_LEFT_EXIT,
		VIEW_DEVICES, VIEW_SCALING,    VIEW_MUSTERED, VIEW_LOG,	    VIEW_NOT_BEFORE,
		VIEW_ENDED,   VIEW_EXIT,
	};
	json_t *o = taskview_json(v, members, ARRAY_LEN(members));
	json_t *when = json_object_get(find_when(l, v), "forecast");

	if (when && !(v->counted && !v->counts.waiting))
		(void)json_object_set(o, "forecast", when);

	cleanup_free char *line = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(16));

	if (line)
		puts(line);
	json_decref(o);
}

static int compare_batches(const void *a, const void *b)
{
	const struct scan_task *x = *(const struct scan_task *const *)a,
			       *y = *(const struct scan_task *const *)b;

	return x->name.id < y->name.id ? -1 : x->name.id > y->name.id;
}

static void find_batches(struct list *l)
{
	const struct task_set *both[] = { &l->active, &l->ended };

	l->batches = xcalloc(l->active.n + l->ended.n + 1, sizeof(const struct scan_task *));
	for (size_t k = 0; k < ARRAY_LEN(both); k++)
		for (size_t i = 0; i < both[k]->n; i++)
			if (both[k]->tasks[i].name.count)
				l->batches[l->n_batches++] = &both[k]->tasks[i];
	if (l->n_batches)
		qsort(l->batches, l->n_batches, sizeof(const struct scan_task *), compare_batches);
}

/* An element's own file has nothing but its number for a name. */
static void name_element(const struct list *l, struct task_name *n)
{
	const struct scan_task key = { .name = { .id = n->id } }, *wanted_batch = &key;
	const struct scan_task **found = bsearch(&wanted_batch, l->batches, l->n_batches,
						 sizeof(const struct scan_task *), compare_batches);
	struct task_place p = { .element = 0 };
	struct task_name of = { .count = 0 };

	if (found)
		of = (*found)->name;
	else if (select_by_id(l->sp, n->id, 0, &p, NULL) == 0) /* was stopped; they end yet */
		of = p.name;
	of.id = n->id;
	of.element = n->element;
	of.epoch = n->epoch;
	of.count = of.begin_s = of.ended_s = 0;
	of.flags &= ~(NAME_DEPENDS | NAME_PAUSED);
	*n = of;
}

static bool is_lane_paused(const struct list *l, const char *lane)
{
	for (size_t i = 0; lane[0] && i < l->lanes.n; i++)
		if (strcmp(l->lanes.texts[i], lane) == 0)
			return true;
	return false;
}

static int add_lane(void *data, const char *lane)
{
	text_list_add(&((struct list *)data)->lanes, lane);
	return 0;
}

/* They are read once, where there is a batch. */
static const struct gangs_read *gangs_of(struct list *l)
{
	if (!l->gangs_read)
		(void)gang_read_all(l->sp, &l->gangs, NULL);
	l->gangs_read = true;
	return &l->gangs;
}

static void show(struct list *l, const struct scan_task *t)
{
	struct task_view r = { .sp = l->sp,
			       .place = { .dir = t->dir },
			       .name = t->name,
			       .state = taskstate_of(&t->name, t->dir) };
	bool waits = t->dir == SPOOL_PENDING;

	r.lane_paused = waits && is_lane_paused(l, t->name.lane);
	if (r.lane_paused)
		r.state = TASKSTATE_PAUSED;
	else if (t->name.count)
		taskstate_of_gang(t->name.id, gangs_of(l), &r.state);
	if (!wanted_state(l->ctx, r.state))
		return;
	if (t->name.element)
		name_element(l, &r.name);
	if (!wanted(l->ctx, &r.name))
		return;
	if (t->dir == SPOOL_RUNNING) {
		l->tasks = l->tasks ? l->tasks : taskview_agents(l->ctx);
		taskview_load_claim(&r, l->tasks);
		if (r.name.element)
			taskrun_take_gangs(&r.run, gangs_of(l));
	}
	r.counted = t->name.count && waits &&
		    taskstate_counts(l->sp, &t->name, &l->active, &r.counts, NULL) == 0;
	l->shown++;
	if (l->table)
		show_row(l, &r);
	else
		show_json(l, &r);
	taskview_clear(&r);
}

static int add_ended(void *data, const struct task_name *n, const char *dir)
{
	struct list *l = data;
	struct task_set *m = &l->ended;

	m->tasks = xgrow(m->tasks, m->n, sizeof(*m->tasks));
	m->tasks[m->n++] = (struct scan_task){ .name = *n, .dir = spool_dir_of(dir) };
	return 0;
}

static int by_end(const void *a, const void *b)
{
	const struct scan_task *x = a, *y = b;

	if (x->name.ended_s != y->name.ended_s)
		return x->name.ended_s < y->name.ended_s ? -1 : 1;
	return x->name.id < y->name.id ? -1 : x->name.id > y->name.id;
}

/* What has ended since the queue was read, and so is in both, has ended. Elements of a batch that
 * was stopped may run on for a while. */
static void drop_ended(const struct list *l, struct task_set *active)
{
	cleanup_free uint64_t *ids = xcalloc(l->ended.n + 1, sizeof(*ids));
	size_t kept = 0;

	for (size_t i = 0; i < l->ended.n; i++)
		ids[i] = l->ended.tasks[i].name.id;
	qsort(ids, l->ended.n, sizeof(*ids), compare_u64);
	for (size_t i = 0; i < active->n; i++)
		if (active->tasks[i].name.element ||
		    !bsearch(&active->tasks[i].name.id, ids, l->ended.n, sizeof(*ids), compare_u64))
			active->tasks[kept++] = active->tasks[i];
	active->n = kept;
}

/* Read after the queue, so that nothing is missed on its way from one to the other. */
static int read_ended(const struct spool *sp, struct list *l, struct err *e)
{
	static const enum spool_dir dirs[] = { SPOOL_FAILED, SPOOL_CANCELLED, SPOOL_DONE };
	bool all = opts_flag(l->ctx->opts, "all"), chosen = opts_given(l->ctx->opts, "state");
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(dirs) && r == 0; i++) {
		if (chosen ? wanted_state(l->ctx, taskstate_of(NULL, dirs[i])) : all)
			r = scan_dirs(sp, &dirs[i], 1, add_ended, l, e);
	}
	if (l->ended.n)
		qsort(l->ended.tasks, l->ended.n, sizeof(*l->ended.tasks), by_end);
	return r;
}

static int read_all(struct list *l, struct err *e)
{
	int r = select_all(l->sp, &l->active, e);

	if (r == 0)
		r = read_ended(l->sp, l, e);
	if (r == 0 && l->ended.n)
		drop_ended(l, &l->active);
	if (r == 0)
		find_batches(l);
	if (r == 0)
		r = lanes_paused(l->sp, add_lane, l, e);
	return r;
}

static int check_states(const struct cmd_ctx *ctx, struct err *e)
{
	const struct value *v = opts_value(ctx->opts, "state");

	for (size_t i = 0; v && i < v->words.n; i++) {
		unsigned int j = 0;

		while (j < TASKSTATE_MAX && strcmp(taskstate_name(j), v->words.texts[i]) != 0)
			j++;
		if (j == TASKSTATE_MAX)
			return err_set(e, -EINVAL,
				       "--state: \"%s\" is none of pending, paused, running, done, "
				       "failed, cancelled",
				       v->words.texts[i]);
	}
	return 0;
}

static void say_none(const struct cmd_ctx *ctx, const struct spool *sp)
{
	bool all = opts_flag(ctx->opts, "all") || opts_given(ctx->opts, "state");

	if (opts_given(ctx->opts, "state") || opts_given(ctx->opts, "lane") ||
	    opts_given(ctx->opts, "name"))
		printf("No task in instance \"%s\" is as asked for%s.\n", spool_instance(sp),
		       all ? "" : ", of those that wait or run (-a: also what has ended)");
	else
		printf("Nothing in instance \"%s\"%s.\n", spool_instance(sp),
		       all ? "" : " waits or runs (-a: also what has ended)");
}

/* Of a batch, of which parts may wait for themselves, the first counts. */
static void ask_when(struct list *l)
{
	json_t *doc = NULL, *t, *known;
	char id[SELECT_ID_MAX];
	size_t i;

	l->when = json_object();
	if (agent_ask(l->ctx, AGENT_VERB(CTL_FORECAST), WHEN_LIMIT_MS, &doc, NULL, NULL) != CMD_OK)
		return;
	json_array_foreach(json_object_get(doc, "tasks"), i, t)
	{
		(void)select_format_id(json_get_u64(t, "id"), 0, id);
		known = json_object_get(l->when, id);
		if (!known || json_get_u64(t, "element") < json_get_u64(known, "element"))
			(void)json_object_set(l->when, id, t);
	}
	json_decref(doc);
}

static int run_list(const struct cmd_ctx *ctx, struct err *e)
{
	static const struct table_column columns[] = {
		{ "ID", true },	      { "STATE" },	    { "PRIO", true }, { "GPUS", true },
		{ "LANE", .cut = 6 }, { "NAME", .cut = 8 }, { "" },	      { 0 }
	};
	struct list l = { .ctx = ctx };
	struct spool *sp = NULL;
	int r;

	if (check_states(ctx, e) < 0)
		return CMD_USAGE;
	r = instance_open_if_there(ctx, SPOOL_LOOK, &sp, e);
	if (r < 0 || !sp)
		return r;
	l.table = opts_flag(ctx->opts, "json") ? NULL : table_new(columns);
	l.sp = sp;
	r = read_all(&l, e);
	if (r == 0 && opts_flag(ctx->opts, "when"))
		ask_when(&l);
	for (size_t i = 0; i < l.ended.n && r == 0; i++)
		show(&l, &l.ended.tasks[i]);
	for (size_t i = 0; i < l.active.n && r == 0; i++)
		show(&l, &l.active.tasks[i]);
	free(l.ended.tasks);
	free(l.active.tasks);
	free(l.batches);
	json_decref(l.tasks);
	json_decref(l.when);
	gang_clear(&l.gangs);
	text_list_clear(&l.lanes);
	if (r == 0 && l.table && l.shown)
		table_print(l.table, stdout);
	else if (r == 0 && l.table)
		say_none(ctx, sp);
	(void)table_free(l.table);
	sp = spool_close(sp);
	return r;
}

static const struct cmd_example list_examples[] = {
	{ "tenure list", "what waits and what runs" },
	{ "tenure list -s failed", "what has failed" },
	{ "tenure list --when", "also when what waits starts, about" },
	{ "tenure list -a --json | jq 'select(.lane == \"week\")'", "for scripts" },
	{ 0 },
};

const struct cmd cmd_list = {
	.name = "list",
	.group = QUEUE_GROUP,
	.summary = "the tasks of the queue",
	.description =
		"In the order in which they start. Of an array or another batch there is a row "
		"for each element that runs, and one for all of them. A queue with nothing in it, or "
		"into which nothing was submitted yet, is no error. Works without an "
		"agent; which GPUs a task has is shown where an agent runs here.",
	.examples = list_examples,
	.opts = list_opts,
	.flags = CMD_JSON_LINES,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.run = run_list,
};
