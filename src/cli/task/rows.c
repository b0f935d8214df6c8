/* SPDX-License-Identifier: MIT */
#include "cli/task/rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/hmap.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
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
	struct task_view view; /* of the row that is made: large, and most of it is of what runs */
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

/* What a row has; the rest of the view stays empty. */
static void set_view(struct task_view *v, const struct row *row)
{
	v->place.dir = row->dir;
	v->name = row->name;
	v->state = row->state;
	v->lane_paused = row->lane_paused;
	v->counted = row->counted;
	v->counts = row->counts;
	(void)str_copy(v->because, sizeof(v->because), row->because ? row->because : "");
}

static bool still_runs(const struct row *row)
{
	return row->started_ns && !json_object_get(row->run, "left_exit") &&
	       !json_object_get(row->run, "unfiled");
}

/* For how long it has run is counted from then. */
static void take_began(struct row *row, const struct taskrun *run)
{
	uint64_t now_ns = clock_mono_ns(), wall_ns = clock_wall_ns();

	row->agent_says = run->began_ns && run->began_ns <= now_ns;
	if (row->agent_says)
		row->began_ns = (int64_t)run->began_ns;
	else if (wall_ns > row->started_ns)
		row->began_ns = (int64_t)now_ns - (int64_t)(wall_ns - row->started_ns);
	else /* by the clock of another node, or one that was set back */
		row->began_ns = (int64_t)now_ns;
}

/* What its claim says, and the agent here; but for how long it has run so far, which is another
 * word each time: row_add_json() says it. */
static void take_run(struct reading *k, struct row *row)
{
	struct task_view v = { .sp = k->sp };

	set_view(&v, row);
	taskview_load_claim(&v, k->said->agents);
	if (v.name.element)
		taskrun_take_gangs(&v.run, queue_facts_gangs(&k->facts));
	row->name = v.name;
	row->started_ns = taskrun_since_ns(&v.run);
	take_began(row, &v.run);
	row->run = taskview_list_json(&v);
	if (still_runs(row))
		(void)json_object_del(row->run, "ran_s");
	taskview_clear(&v);
}

/* Why it waits, and when it starts. */
static void take_words(struct reading *k, struct row *row)
{
	set_view(&k->view, row);
	row->reason = queue_facts_reason(&k->facts, &k->view);
	row->forecast = json_incref(queue_facts_forecast(&k->facts, &k->view));
}

/* False: it is none. */
static bool make_row(struct reading *k, const struct scan_task *t, struct row *row)
{
	*row = (struct row){ .name = t->name, .dir = t->dir };
	row->state = queue_facts_state(&k->facts, t, &row->lane_paused);
	if (t->name.element && !queue_facts_name(&k->facts, &row->name))
		return false;
	if (t->dir == SPOOL_RUNNING)
		take_run(k, row);
	row->counted = t->name.count && t->dir == SPOOL_PENDING &&
		       taskstate_counts(k->sp, &t->name, &k->all, &row->counts, NULL) == 0;
	if (row->counted)
		taskstate_take_counts(&row->state, &row->counts);
	take_words(k, row);
	return true;
}

int rows_read(struct rows_index *x, const struct rows_said *said, struct rows *ret, struct err *e)
{
	struct reading k = { .sp = x->sp, .said = said };
	int r = read_queue(x, &k, e);

	*ret = (struct rows){ .n = 0 };
	if (r == 0) {
		ret->all = xcalloc(k.all.n + 1, sizeof(*ret->all));
		for (size_t i = 0; i < k.all.n; i++)
			ret->n += make_row(&k, &k.all.tasks[i], &ret->all[ret->n]);
	}
	queue_facts_clear(&k.facts);
	free(k.all.tasks);
	return r;
}

static void clear_row(struct row *row)
{
	json_decref(row->run);
	json_decref(row->reason);
	json_decref(row->forecast);
	free(row->because);
}

void rows_clear(struct rows *r)
{
	for (size_t i = 0; i < r->n; i++)
		clear_row(&r->all[i]);
	free(r->all);
	free(r->json);
	*r = (struct rows){ .n = 0 };
}

/* ---- rows by their tasks ---- */

struct known {
	struct hnode node;
	const struct row *row;
};

static uint64_t hash_of(const struct row *row)
{
	return hash_u64(row->name.id, row->name.element);
}

static const struct row *find_known(const struct hmap *m, const struct row *row)
{
	for (struct hnode *n = hmap_find(m, hash_of(row)); n; n = hmap_same(n)) {
		const struct row *found = ((struct known *)n)->row;

		if (found->name.id == row->name.id && found->name.element == row->name.element)
			return found;
	}
	return NULL;
}

/* The caller frees them when m is cleared. */
static struct known *know(const struct rows *r, struct hmap *m)
{
	struct known *all = xcalloc(r->n + 1, sizeof(*all));

	for (size_t i = 0; i < r->n; i++) {
		all[i].row = &r->all[i];
		hmap_insert(m, &all[i].node, hash_of(all[i].row));
	}
	return all;
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

void rows_read_because(const struct spool *sp, struct rows *ended, const struct rows *before)
{
	const struct rows none = { .n = 0 };
	struct hmap known = { .n = 0 };
	struct known *all = know(before ? before : &none, &known);
	size_t left = ROWS_BECAUSE;

	for (size_t i = 0; i < ended->n && left; i++) {
		struct row *row = &ended->all[i];
		const struct row *was = find_known(&known, row);
		char why[RECORD_REASON_MAX];

		if (row->state != TASKSTATE_FAILED || row->name.count)
			continue;
		left--;
		if (was && was->because && name_same(&was->name, &row->name))
			row->because = xstrdup(was->because);
		else
			row->because = xstrdup(taskstate_why_failed(sp, &row->name, why));
	}
	hmap_clear(&known);
	free(all);
}

void rows_drop_ended(struct rows *r, const struct rows *ended)
{
	struct hmap known = { .n = 0 };
	struct known *all = know(ended, &known);
	size_t kept = 0;

	for (size_t i = 0; i < r->n; i++) {
		/* What has ended has no element. */
		if (r->all[i].left || find_known(&known, &r->all[i]))
			clear_row(&r->all[i]);
		else
			r->all[kept++] = r->all[i];
	}
	r->n = kept;
	hmap_clear(&known);
	free(all);
}

static struct row row_that_left(const struct row *was)
{
	struct row row = *was;

	row.left = true;
	row.json_len = 0;
	(void)json_incref(row.run);
	(void)json_incref(row.reason);
	(void)json_incref(row.forecast);
	row.because = was->because ? xstrdup(was->because) : NULL;
	return row;
}

/* Each to its place among the others. */
void rows_keep_left(struct rows *r, const struct rows *before)
{
	struct hmap known = { .n = 0 };
	struct known *all = know(r, &known);
	struct rows both = { .all = xcalloc(r->n + (before ? before->n : 0) + 1,
					    sizeof(*both.all)) };
	size_t at = 0;

	for (size_t i = 0; before && i < before->n; i++) {
		const struct row *was = &before->all[i];

		if (was->name.element || find_known(&known, was))
			continue;
		while (at < r->n && name_compare(&r->all[at].name, &was->name) < 0)
			both.all[both.n++] = r->all[at++];
		both.all[both.n++] = row_that_left(was);
	}
	while (at < r->n)
		both.all[both.n++] = r->all[at++];
	hmap_clear(&known);
	free(all);
	free(r->all);
	*r = both;
}

/* ---- as JSON ---- */

static char *make_json(const struct row *row)
{
	struct task_view v = { .name.id = 0 };
	json_t *o;
	char *text;

	set_view(&v, row);
	o = row->run ? json_copy(row->run) : taskview_list_json(&v);
	queue_facts_add(o, row->reason, row->forecast);
	text = json_dumps(o, JSON_COMPACT | TIME_DIGITS);
	json_decref(o);
	return text ? text : xstrdup("{}"); /* never: names are UTF-8 */
}

void row_add_json(const struct rows *r, const struct row *row, uint64_t now_ns, struct strbuf *b)
{
	cleanup_free char *made = row->json_len ? NULL : make_json(row);
	const char *text = made ? made : r->json + row->json_at;
	size_t len = made ? strlen(made) : row->json_len;
	uint64_t ran_ms;

	strbuf_add(b, text, len);
	if (!row->run || !still_runs(row))
		return;
	ran_ms = (int64_t)now_ns > row->began_ns
			 ? (uint64_t)((int64_t)now_ns - row->began_ns) / NS_PER_MS
			 : 0;
	b->len--; /* the brace */
	strbuf_addf(b, ",\"ran_s\":%" PRIu64 ".%03" PRIu64 "}", ran_ms / 1000, ran_ms % 1000);
}

static bool same_json(const json_t *a, const json_t *b)
{
	return a == b || (a && b && json_equal(a, b));
}

static bool same_text(const json_t *a, const json_t *b, const char *key)
{
	const char *x = json_get_str(a, key), *y = json_get_str(b, key);

	return x == y || (x && y && strcmp(x, y) == 0);
}

/* In a reason there may be a list of all to whom it applies. */
static bool same_words(const struct row *a, const struct row *b)
{
	return (a->reason == b->reason || (same_text(a->reason, b->reason, "code") &&
					   same_text(a->reason, b->reason, "text"))) &&
	       same_json(json_object_get(a->forecast, "forecast"),
			 json_object_get(b->forecast, "forecast"));
}

static bool same_counts(const struct batch_counts *a, const struct batch_counts *b)
{
	return a->waiting == b->waiting && a->running == b->running && a->done == b->done &&
	       a->failed == b->failed && a->cancelled == b->cancelled;
}

static bool is_same(const struct row *a, const struct row *b)
{
	return name_same(&a->name, &b->name) && a->dir == b->dir && a->state == b->state &&
	       a->lane_paused == b->lane_paused && a->counted == b->counted &&
	       same_counts(&a->counts, &b->counts) && same_json(a->run, b->run) &&
	       same_words(a, b) &&
	       strcmp(a->because ? a->because : "", b->because ? b->because : "") == 0;
}

void rows_keep_began(struct rows *r, const struct rows *before)
{
	const struct rows none = { .n = 0 };
	struct hmap known = { .n = 0 };
	struct known *all = know(before ? before : &none, &known);

	for (size_t i = 0; i < r->n; i++) {
		struct row *row = &r->all[i];
		const struct row *was =
			row->started_ns && !row->agent_says ? find_known(&known, row) : NULL;

		if (was && was->started_ns && was->name.epoch == row->name.epoch &&
		    same_text(was->run, row->run, "started"))
			row->began_ns = was->began_ns;
	}
	hmap_clear(&known);
	free(all);
}

void rows_keep_json(struct rows *r, const struct rows *before)
{
	const struct rows none = { .n = 0 };
	struct hmap known = { .n = 0 };
	struct known *all = know(before && before->json ? before : &none, &known);
	struct strbuf b = STRBUF_INIT;

	for (size_t i = 0; i < r->n && b.len < ROWS_JSON_MAX; i++) {
		struct row *row = &r->all[i];
		const struct row *was = find_known(&known, row);
		size_t at = b.len;

		if (was && was->json_len && is_same(was, row)) {
			strbuf_add(&b, before->json + was->json_at, was->json_len);
		} else {
			cleanup_free char *text = make_json(row);

			strbuf_adds(&b, text);
		}
		row->json_at = (uint32_t)at;
		row->json_len = (uint32_t)(b.len - at);
	}
	hmap_clear(&known);
	free(all);
	r->json = strbuf_take(&b);
}
