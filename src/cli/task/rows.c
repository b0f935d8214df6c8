/* SPDX-License-Identifier: MIT */
#include "cli/task/rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "cli/task/view.h"
#include "spool/lane.h"

struct rows_index {
	const struct spool *sp;
	struct scan *scan;
};

/* One reading. */
struct reading {
	const struct spool *sp;
	const json_t *agents;
	struct task_set all;
	size_t n_batches;
	const struct scan_task **batches; /* by their ids */
	struct text_list lanes;		  /* that are paused */
	struct gangs_read gangs;
};

struct rows_index *rows_index_new(const struct spool *sp)
{
	struct rows_index *x = xcalloc(1, sizeof(*x));

	x->sp = sp;
	x->scan = scan_new(sp, 0);
	return x;
}

struct rows_index *rows_index_free(struct rows_index *x)
{
	if (x)
		(void)scan_free(x->scan);
	free(x);
	return NULL;
}

/* ---- what is read ---- */

static int by_order(const void *a, const void *b)
{
	const struct scan_task *x = a, *y = b;

	return name_compare(&x->name, &y->name);
}

static int by_id(const void *a, const void *b)
{
	const struct scan_task *x = *(const struct scan_task *const *)a,
			       *y = *(const struct scan_task *const *)b;

	return x->name.id < y->name.id ? -1 : x->name.id > y->name.id;
}

static int add_lane(void *data, const char *lane)
{
	text_list_add(&((struct reading *)data)->lanes, lane);
	return 0;
}

static void take_names(struct rows_index *x, struct reading *k)
{
	size_t n = scan_count(x->scan, SPOOL_PENDING) + scan_count(x->scan, SPOOL_RUNNING);
	const struct scan_task *t;
	size_t iter = 0;

	k->all.tasks = xcalloc(n + 1, sizeof(*k->all.tasks));
	k->batches = xcalloc(n + 1, sizeof(*k->batches));
	while ((t = scan_next(x->scan, &iter)) && k->all.n < n)
		k->all.tasks[k->all.n++] = *t;
	qsort(k->all.tasks, k->all.n, sizeof(*k->all.tasks), by_order);
	for (size_t i = 0; i < k->all.n; i++)
		if (k->all.tasks[i].name.count)
			k->batches[k->n_batches++] = &k->all.tasks[i];
	if (k->n_batches)
		qsort(k->batches, k->n_batches, sizeof(*k->batches), by_id);
}

static int read_queue(struct rows_index *x, struct reading *k, struct err *e)
{
	int r = scan_update(x->scan, NULL, NULL, e);

	if (r < 0)
		return r;
	take_names(x, k);
	if (k->n_batches) /* without them nothing is known of ranks, and no more is told */
		(void)gang_read_all(x->sp, &k->gangs, NULL);
	return lanes_paused(x->sp, add_lane, k, e);
}

static void reading_clear(struct reading *k)
{
	free(k->all.tasks);
	free(k->batches);
	text_list_clear(&k->lanes);
	gang_clear(&k->gangs);
}

/* ---- rows of it ---- */

/* An element's own file has nothing but its number for a name. */
static void name_element(const struct reading *k, struct task_name *n)
{
	const struct scan_task key = { .name = { .id = n->id } }, *wanted = &key;
	const struct scan_task **found =
		bsearch(&wanted, k->batches, k->n_batches, sizeof(*k->batches), by_id);
	struct task_place p = { .element = 0 };
	struct task_name of = { .count = 0 };

	if (found)
		of = (*found)->name;
	else if (select_by_id(k->sp, n->id, 0, &p, NULL) == 0) /* was stopped; they end yet */
		of = p.name;
	of.id = n->id;
	of.element = n->element;
	of.epoch = n->epoch;
	of.count = of.begin_s = of.ended_s = 0;
	of.flags &= ~(NAME_DEPENDS | NAME_PAUSED);
	*n = of;
}

static bool is_lane_paused(const struct reading *k, const char *lane)
{
	for (size_t i = 0; lane[0] && i < k->lanes.n; i++)
		if (strcmp(lane, k->lanes.texts[i]) == 0)
			return true;
	return false;
}

static const enum taskview_member list_members[] = {
	VIEW_ID,      VIEW_STATE,      VIEW_NAME,     VIEW_LANE,    VIEW_PRIORITY,
	VIEW_GPUS,    VIEW_N_ELEMENTS, VIEW_ELEMENT,  VIEW_COUNTS,  VIEW_LANE_PAUSED,
	VIEW_AGENT,   VIEW_STARTED,    VIEW_RAN,      VIEW_UNFILED, VIEW_LEFT_EXIT,
	VIEW_DEVICES, VIEW_SCALING,    VIEW_MUSTERED, VIEW_LOG,	    VIEW_NOT_BEFORE,
	VIEW_ENDED,   VIEW_EXIT,
};

/* Of what does not run nothing but its name is looked at. */
static const enum taskview_member name_members[] = {
	VIEW_ID,	 VIEW_STATE,	  VIEW_NAME,	VIEW_LANE,   VIEW_PRIORITY,
	VIEW_GPUS,	 VIEW_N_ELEMENTS, VIEW_ELEMENT, VIEW_COUNTS, VIEW_LANE_PAUSED,
	VIEW_NOT_BEFORE, VIEW_ENDED,	  VIEW_EXIT,
};

/* What its claim says, and the agent here. */
static void take_run(const struct reading *k, struct row *row)
{
	struct task_view v = {
		.sp = k->sp, .place = { .dir = row->dir }, .name = row->name, .state = row->state
	};

	taskview_load_claim(&v, k->agents);
	if (v.name.element)
		taskrun_take_gangs(&v.run, &k->gangs);
	row->name = v.name;
	row->started_ns = v.run.started_ns;
	row->run = taskview_json(&v, list_members, ARRAY_LEN(list_members));
	taskview_clear(&v);
}

static void make_row(const struct reading *k, const struct scan_task *t, struct row *row)
{
	bool waits = t->dir == SPOOL_PENDING;

	*row = (struct row){ .name = t->name,
			     .dir = t->dir,
			     .state = taskstate_of(&t->name, t->dir) };
	row->lane_paused = waits && is_lane_paused(k, t->name.lane);
	if (row->lane_paused)
		row->state = TASKSTATE_PAUSED;
	else if (t->name.count)
		taskstate_of_gang(t->name.id, &k->gangs, &row->state);
	if (t->name.element)
		name_element(k, &row->name);
	if (t->dir == SPOOL_RUNNING)
		take_run(k, row);
	row->counted = t->name.count && waits &&
		       taskstate_counts(k->sp, &t->name, &k->all, &row->counts, NULL) == 0;
}

int rows_read(struct rows_index *x, const json_t *agents, struct rows *ret, struct err *e)
{
	struct reading k = { .sp = x->sp, .agents = agents };
	int r = read_queue(x, &k, e);

	*ret = (struct rows){ .n = 0 };
	if (r == 0) {
		ret->all = xcalloc(k.all.n + 1, sizeof(*ret->all));
		for (; ret->n < k.all.n; ret->n++)
			make_row(&k, &k.all.tasks[ret->n], &ret->all[ret->n]);
	}
	reading_clear(&k);
	return r;
}

void rows_clear(struct rows *r)
{
	for (size_t i = 0; i < r->n; i++) {
		json_decref(r->all[i].run);
		json_decref(r->all[i].reason);
		json_decref(r->all[i].forecast);
	}
	free(r->all);
	*r = (struct rows){ .n = 0 };
}

/* ---- what the agent says of what waits ---- */

struct said {
	uint64_t id;
	json_t *what; /* borrowed */
};

struct said_all {
	size_t n;
	struct said *all;
	json_t *rest; /* of those of which nothing is said; NULL */
};

static int by_said(const void *a, const void *b)
{
	const struct said *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static void add_said(struct said_all *s, uint64_t id, json_t *what)
{
	s->all = xgrow(s->all, s->n, sizeof(*s->all));
	s->all[s->n++] = (struct said){ id, what };
}

/* Of a batch, parts of which may wait for something else, one counts. */
static uint64_t id_of(const json_t *task)
{
	const json_t *id = json_is_array(task) ? json_array_get(task, 0) : task;

	return (uint64_t)json_integer_value(id);
}

static void take_reasons(struct said_all *s, const json_t *answer)
{
	json_t *group, *task;
	size_t i, k;

	json_array_foreach(json_object_get(answer, "groups"), i, group)
	{
		json_t *tasks = json_object_get(group, "tasks");

		if (!tasks)
			s->rest = group;
		json_array_foreach(tasks, k, task) add_said(s, id_of(task), group);
	}
}

static void take_forecasts(struct said_all *s, const json_t *answer)
{
	json_t *task;
	size_t i;

	json_array_foreach(json_object_get(answer, "tasks"), i, task)
		add_said(s, json_get_u64(task, "id"), task);
}

static void sort_said(struct said_all *s)
{
	if (s->n)
		qsort(s->all, s->n, sizeof(*s->all), by_said);
}

static json_t *find_said(const struct said_all *s, uint64_t id)
{
	const struct said key = { .id = id };
	const struct said *found =
		s->n ? bsearch(&key, s->all, s->n, sizeof(*s->all), by_said) : NULL;

	return found ? found->what : s->rest;
}

void rows_take_answers(struct rows *r, const json_t *reasons, const json_t *forecasts)
{
	struct said_all why = { .n = 0 }, when = { .n = 0 };

	take_reasons(&why, reasons);
	take_forecasts(&when, forecasts);
	sort_said(&why);
	sort_said(&when);
	for (size_t i = 0; i < r->n; i++) {
		struct row *row = &r->all[i];

		if (row->dir != SPOOL_PENDING)
			continue;
		json_decref(row->reason);
		json_decref(row->forecast);
		row->reason = json_incref(find_said(&why, row->name.id));
		row->forecast = json_incref(find_said(&when, row->name.id));
	}
	free(why.all);
	free(when.all);
}

/* ---- what has ended ---- */

struct ended {
	size_t max, n, cap;
	struct row *all;
};

static int by_end(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->name.ended_s != y->name.ended_s)
		return x->name.ended_s > y->name.ended_s ? -1 : 1;
	return x->name.id > y->name.id ? -1 : x->name.id < y->name.id;
}

/* Twice what is wanted at most is kept at a time. */
static void keep_last(struct ended *t)
{
	qsort(t->all, t->n, sizeof(*t->all), by_end);
	t->n = t->n < t->max ? t->n : t->max;
}

static int add_ended(void *data, const struct task_name *n, const char *dir)
{
	struct ended *t = data;

	if (t->n == t->cap) {
		t->cap = t->cap ? t->cap * 2 : 64;
		t->cap = t->cap < 2 * t->max ? t->cap : 2 * t->max;
		t->all = xrealloc(t->all, t->cap, sizeof(*t->all));
	}
	t->all[t->n] = (struct row){ .name = *n, .dir = spool_dir_of(dir) };
	t->all[t->n].state = taskstate_of(n, t->all[t->n].dir);
	if (++t->n == 2 * t->max)
		keep_last(t);
	return 0;
}

int rows_read_ended(const struct spool *sp, size_t max, struct rows *ret, struct err *e)
{
	struct ended t = { .max = max };
	int r = scan_ended(sp, add_ended, &t, e);

	if (t.n)
		keep_last(&t);
	*ret = (struct rows){ .n = t.n, .all = t.all };
	if (r < 0)
		rows_clear(ret);
	return r;
}

/* ---- as JSON ---- */

static json_t *run_json(const struct row *row, uint64_t now_ns)
{
	json_t *o = json_copy(row->run);
	bool over = json_object_get(o, "left_exit") || json_object_get(o, "unfiled");

	if (row->started_ns && !over && now_ns > row->started_ns)
		(void)json_object_set_new(
			o, "ran_s",
			json_real((double)((now_ns - row->started_ns) / NS_PER_MS) / 1e3));
	return o;
}

static void add_said_of(const struct row *row, json_t *o)
{
	const char *code = json_get_str(row->reason, "code"),
		   *text = json_get_str(row->reason, "text");
	json_t *forecast = json_object_get(row->forecast, "forecast");

	if (code && text)
		(void)json_object_set_new(o, "reason",
					  json_pack("{ss ss}", "code", code, "text", text));
	if (forecast)
		(void)json_object_set(o, "forecast", forecast);
}

json_t *row_json(const struct row *row, uint64_t now_ns)
{
	const struct task_view v = { .place = { .dir = row->dir },
				     .name = row->name,
				     .state = row->state,
				     .lane_paused = row->lane_paused,
				     .counted = row->counted,
				     .counts = row->counts };
	json_t *o = row->run ? run_json(row, now_ns)
			     : taskview_json(&v, name_members, ARRAY_LEN(name_members));

	add_said_of(row, o);
	return o;
}
