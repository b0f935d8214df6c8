/* SPDX-License-Identifier: MIT */
#include "cli/task/rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/task/queue_facts.h"

struct rows_index {
	const struct spool *sp;
	struct scan *scan;
};

/* One reading. */
struct reading {
	const struct spool *sp;
	const struct rows_said *said;
	struct task_set all;
	struct queue_facts facts;
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

static void take_names(struct rows_index *x, struct reading *k)
{
	size_t n = scan_count(x->scan, SPOOL_PENDING) + scan_count(x->scan, SPOOL_RUNNING);
	const struct scan_task *t;
	size_t iter = 0;

	k->all.tasks = xcalloc(n + 1, sizeof(*k->all.tasks));
	while ((t = scan_next(x->scan, &iter)) && k->all.n < n)
		k->all.tasks[k->all.n++] = *t;
	qsort(k->all.tasks, k->all.n, sizeof(*k->all.tasks), by_order);
}

static int read_queue(struct rows_index *x, struct reading *k, struct err *e)
{
	const struct task_set *sets[] = { &k->all };
	int r = scan_update(x->scan, NULL, NULL, e);

	if (r < 0)
		return r;
	take_names(x, k);
	queue_facts_take_reasons(&k->facts, k->said->reasons);
	queue_facts_take_forecasts(&k->facts, k->said->forecasts);
	k->facts.unserved = k->said->unserved;
	return queue_facts_read(&k->facts, x->sp, sets, ARRAY_LEN(sets), e);
}

/* ---- rows of it ---- */

static struct task_view view_of(const struct row *row)
{
	return (struct task_view){ .place = { .dir = row->dir },
				   .name = row->name,
				   .state = row->state,
				   .lane_paused = row->lane_paused,
				   .counted = row->counted,
				   .counts = row->counts };
}

/* What its claim says, and the agent here. */
static void take_run(struct reading *k, struct row *row)
{
	struct task_view v = view_of(row);

	v.sp = k->sp;
	taskview_load_claim(&v, k->said->agents);
	if (v.name.element)
		taskrun_take_gangs(&v.run, queue_facts_gangs(&k->facts));
	row->name = v.name;
	row->started_ns = v.run.started_ns;
	row->run = taskview_list_json(&v);
	taskview_clear(&v);
}

/* Why it waits, and when it starts. */
static void take_words(const struct reading *k, struct row *row)
{
	const struct task_view v = view_of(row);

	row->reason = queue_facts_reason(&k->facts, &v);
	row->forecast = json_incref(queue_facts_forecast(&k->facts, &v));
}

static void make_row(struct reading *k, const struct scan_task *t, struct row *row)
{
	*row = (struct row){ .name = t->name, .dir = t->dir };
	row->state = queue_facts_state(&k->facts, t, &row->lane_paused);
	if (t->name.element)
		queue_facts_name(&k->facts, &row->name);
	if (t->dir == SPOOL_RUNNING)
		take_run(k, row);
	row->counted = t->name.count && t->dir == SPOOL_PENDING &&
		       taskstate_counts(k->sp, &t->name, &k->all, &row->counts, NULL) == 0;
	take_words(k, row);
}

int rows_read(struct rows_index *x, const struct rows_said *said, struct rows *ret, struct err *e)
{
	struct reading k = { .sp = x->sp, .said = said };
	int r = read_queue(x, &k, e);

	*ret = (struct rows){ .n = 0 };
	if (r == 0) {
		ret->all = xcalloc(k.all.n + 1, sizeof(*ret->all));
		for (; ret->n < k.all.n; ret->n++)
			make_row(&k, &k.all.tasks[ret->n], &ret->all[ret->n]);
	}
	queue_facts_clear(&k.facts);
	free(k.all.tasks);
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

json_t *row_json(const struct row *row, uint64_t now_ns)
{
	const struct task_view v = view_of(row);
	json_t *o = row->run ? run_json(row, now_ns) : taskview_list_json(&v);

	queue_facts_add(o, row->reason, row->forecast);
	return o;
}
