/* SPDX-License-Identifier: MIT */
#include "cli/task/queue_facts.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "sched/reason.h"
#include "spool/lane.h"

/* -------- what the agent says -------- */

struct said {
	uint64_t id, element;
	json_t *what; /* of the answer */
};

struct queue_said {
	json_t *answer;
	size_t n;
	struct said *all; /* by their ids */
	json_t *rest;	  /* of all that are not among them; or NULL */
	json_t *words;	  /* of reasons: those of each group, once */
};

/* Of very many tasks that wait most do for the same reason: it is made once. */
struct known_reason {
	json_t *made;
	uint64_t wall_ns;
	char lane[SPEC_NAME_MAX + 1];
};

static int compare_said(const void *a, const void *b)
{
	const struct said *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->element < y->element ? -1 : x->element > y->element;
}

static void add_said(struct queue_said *s, uint64_t id, uint64_t element, json_t *what)
{
	s->all = xgrow(s->all, s->n, sizeof(*s->all));
	s->all[s->n++] = (struct said){ id, element, what };
}

static struct queue_said *said_new(json_t *answer)
{
	struct queue_said *s = xcalloc(1, sizeof(*s));

	s->answer = json_incref(answer);
	return s;
}

static void sort(struct queue_said *s)
{
	if (s->n)
		qsort(s->all, s->n, sizeof(*s->all), compare_said);
}

static void said_free(struct queue_said *s)
{
	if (!s)
		return;
	json_decref(s->answer);
	json_decref(s->words);
	free(s->all);
	free(s);
}

/* Of a batch, of which parts may wait for themselves, the first counts. */
static json_t *find_said(const struct queue_said *s, uint64_t id)
{
	size_t low = 0, high = s ? s->n : 0;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->all[mid].id < id)
			low = mid + 1;
		else
			high = mid;
	}
	if (s && low < s->n && s->all[low].id == id)
		return s->all[low].what;
	return s ? s->rest : NULL;
}

static json_t *words_of(const char *code, const char *text)
{
	return json_pack("{ss ss}", "code", code, "text", text);
}

/* A group without words, as of an agent of another version, says nothing of its tasks. */
static void take_group(struct queue_said *s, const json_t *group)
{
	json_t *tasks = json_object_get(group, "tasks"), *t, *words;
	const char *code = json_get_str(group, "code"), *text = json_get_str(group, "text");
	size_t i;

	words = code && text ? words_of(code, text) : json_null();
	(void)json_array_append_new(s->words, words);
	if (!tasks)
		s->rest = words;
	json_array_foreach(tasks, i, t)
	{
		const json_t *id = json_is_array(t) ? json_array_get(t, 0) : t;

		add_said(s, (uint64_t)json_integer_value(id),
			 (uint64_t)json_integer_value(json_array_get(t, 1)), words);
	}
}

void queue_facts_take_reasons(struct queue_facts *f, json_t *answer)
{
	json_t *group;
	size_t i;

	f->reasons = said_new(answer);
	f->reasons->words = json_array();
	json_array_foreach(json_object_get(answer, "groups"), i, group)
	{
		take_group(f->reasons, group);
	}
	sort(f->reasons);
}

void queue_facts_take_forecasts(struct queue_facts *f, json_t *answer)
{
	json_t *t;
	size_t i;

	f->forecasts = said_new(answer);
	json_array_foreach(json_object_get(answer, "tasks"), i, t)
	{
		add_said(f->forecasts, json_get_u64(t, "id"), json_get_u64(t, "element"), t);
	}
	sort(f->forecasts);
}

/* -------- what the spool says -------- */

static int compare_batches(const void *a, const void *b)
{
	const struct scan_task *x = *(const struct scan_task *const *)a,
			       *y = *(const struct scan_task *const *)b;

	return x->name.id < y->name.id ? -1 : x->name.id > y->name.id;
}

static void find_batches(struct queue_facts *f, const struct task_set *const *sets, size_t n_sets)
{
	size_t n = 0;

	for (size_t k = 0; k < n_sets; k++)
		n += sets[k]->n;
	f->batches = xcalloc(n + 1, sizeof(*f->batches));
	for (size_t k = 0; k < n_sets; k++)
		for (size_t i = 0; i < sets[k]->n; i++)
			if (sets[k]->tasks[i].name.count)
				f->batches[f->n_batches++] = &sets[k]->tasks[i];
	if (f->n_batches)
		qsort(f->batches, f->n_batches, sizeof(*f->batches), compare_batches);
}

static int add_lane(void *data, const char *lane)
{
	text_list_add(&((struct queue_facts *)data)->lanes, lane);
	return 0;
}

int queue_facts_read(struct queue_facts *f, const struct spool *sp,
		     const struct task_set *const *sets, size_t n_sets, struct err *e)
{
	f->sp = sp;
	f->known = xcalloc(REASON_MAX, sizeof(*f->known));
	find_batches(f, sets, n_sets);
	return lanes_paused(sp, add_lane, f, e);
}

void queue_facts_clear(struct queue_facts *f)
{
	free(f->batches);
	text_list_clear(&f->lanes);
	gang_clear(&f->gangs);
	said_free(f->reasons);
	said_free(f->forecasts);
	for (size_t i = 0; f->known && i < REASON_MAX; i++)
		json_decref(f->known[i].made);
	free(f->known);
	*f = (struct queue_facts){ .n_batches = 0 };
}

const struct gangs_read *queue_facts_gangs(struct queue_facts *f)
{
	if (!f->gangs_read)
		(void)gang_read_all(f->sp, &f->gangs, NULL);
	f->gangs_read = true;
	return &f->gangs;
}

/*
 * A batch that was stopped is filed at once, and its elements end yet. One that has ended otherwise
 * is filed behind all of them: a claim that is there then is its last one's, which goes behind
 * that, or of an agent that had not read of the end, and finds it out when it has made the claim.
 */
static bool is_over(enum spool_dir batch)
{
	return batch == SPOOL_DONE || batch == SPOOL_FAILED;
}

bool queue_facts_name(const struct queue_facts *f, struct task_name *n)
{
	const struct scan_task key = { .name = { .id = n->id } }, *wanted = &key;
	const struct scan_task **found =
		bsearch(&wanted, f->batches, f->n_batches, sizeof(*f->batches), compare_batches);
	struct task_place p = { .dir = SPOOL_PENDING };
	struct task_name of = { .count = 0 };

	if (found)
		p = (struct task_place){ .name = (*found)->name, .dir = (*found)->dir };
	if (found || select_by_id(f->sp, n->id, 0, &p, NULL) == 0)
		of = p.name;
	of.id = n->id;
	of.element = n->element;
	of.epoch = n->epoch;
	of.count = of.begin_s = of.ended_s = 0;
	of.flags &= ~(NAME_DEPENDS | NAME_PAUSED);
	*n = of;
	return !is_over(p.dir);
}

static bool is_lane_paused(const struct queue_facts *f, const char *lane)
{
	for (size_t i = 0; lane[0] && i < f->lanes.n; i++)
		if (strcmp(f->lanes.texts[i], lane) == 0)
			return true;
	return false;
}

enum taskstate queue_facts_state(struct queue_facts *f, const struct scan_task *t, bool *ret_paused)
{
	enum taskstate state = taskstate_of(&t->name, t->dir);

	*ret_paused = t->dir == SPOOL_PENDING && is_lane_paused(f, t->name.lane);
	if (*ret_paused)
		return TASKSTATE_PAUSED;
	if (t->name.count)
		taskstate_of_gang(t->name.id, queue_facts_gangs(f), &state);
	return state;
}

/* -------- why, and when -------- */

/* What its name says would keep it from starting. False: nothing. */
static bool find_known(const struct queue_facts *f, const struct task_view *v, struct reason *ret)
{
	const struct task_name *n = &v->name;

	*ret = (struct reason){ .task.id = n->id,
				.lane = n->lane,
				.wall_ns = n->begin_s * NS_PER_S };
	if (n->flags & NAME_PAUSED)
		ret->code = REASON_PAUSED;
	else if (n->flags & NAME_DEPENDS)
		ret->code = REASON_DEPENDS;
	else if (n->begin_s && ret->wall_ns > clock_wall_ns())
		ret->code = REASON_BEGIN;
	else if (v->lane_paused)
		ret->code = REASON_LANE_PAUSED;
	else if (f->unserved)
		ret->code = REASON_NO_AGENT;
	else
		return false;
	return true;
}

/* Of a batch the agent may not know that others have the rest. */
static bool is_all_taken(const struct task_view *v)
{
	return v->counted && !v->counts.waiting;
}

/* What find_known() leaves of a reason is all that its words can have. */
static json_t *known_words(const struct queue_facts *f, const struct reason *r)
{
	cleanup_strbuf struct strbuf brief = STRBUF_INIT;
	const char *lane = r->code == REASON_LANE_PAUSED ? r->lane : "";
	struct known_reason *k = &f->known[r->code];

	if (k->made && k->wall_ns == r->wall_ns && strcmp(k->lane, lane) == 0)
		return json_incref(k->made);
	reason_brief(r, &brief);
	json_decref(k->made);
	k->made = words_of(reason_code_name(r->code), strbuf_str(&brief));
	k->wall_ns = r->wall_ns;
	(void)str_copy(k->lane, sizeof(k->lane), lane);
	return json_incref(k->made);
}

json_t *queue_facts_reason(const struct queue_facts *f, const struct task_view *v)
{
	bool waits = v->place.dir == SPOOL_PENDING && v->state != TASKSTATE_RUNNING;
	struct reason known;
	json_t *said;

	if (!waits || is_all_taken(v))
		return NULL;
	said = find_said(f->reasons, v->name.id);
	if (json_is_object(said))
		return json_incref(said);
	return find_known(f, v, &known) ? known_words(f, &known) : NULL;
}

json_t *queue_facts_forecast(const struct queue_facts *f, const struct task_view *v)
{
	return v->place.dir == SPOOL_PENDING && !is_all_taken(v)
		       ? find_said(f->forecasts, v->name.id)
		       : NULL;
}

void queue_facts_add(json_t *row, json_t *reason, const json_t *forecast)
{
	json_t *when = json_object_get(forecast, "forecast");

	if (when)
		(void)json_object_set(row, "forecast", when);
	if (reason)
		(void)json_object_set(row, "reason", reason);
}
