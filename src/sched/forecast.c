/* SPDX-License-Identifier: MIT */

/*
 * A world is a copy of the queue and of the devices with a clock of its own. It goes from event to
 * event: the end of a run, of a back-off, a begin time. At each it plans, and what the plan starts
 * ends after as long as its kind takes in this world. The first plan that starts the task that was
 * asked for ends it.
 *
 * Runs that end who knows when go on until nothing else happens. Then they end one after another,
 * the youngest first, and what starts now waits for that one: so a run is named only to those for
 * whom its end makes a difference. Who has not started when all have ended waits for none of them.
 *
 * What waits in the order behind the task cannot delay it (plan.c), except that lanes take turns;
 * so where the queue is long only what comes before it is copied. What waits for other tasks comes
 * when all of these have ended, well or not; where none of them is in this queue, in the slow world
 * at once, and in the fast one never.
 */
#include "sched/forecast.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "sched/plan.h"
#include "sched/state.h"

#define ACTIONS	    64
#define PLANS_MAX   (2 * FORECAST_STARTS)
#define PREEMPT_MAX 1000 /* in a world */
#define NEVER	    UINT64_MAX

struct event {
	uint64_t at_ns;
	struct sched_ref ref;
};

/* When something started, counted from now; or only when that one has ended. */
struct start {
	struct sched_ref ref;
	uint64_t ms;
	struct sched_ref unknown;
};

/* A run that ends who knows when, and the one that it has waited for itself, or itself. */
struct open_run {
	struct sched_ref ref, root;
};

/* A task that others wait for, and how much of it waits or runs. */
struct awaited {
	uint64_t id, left;
};

/* Who waits for whom, for both worlds. */
struct waits {
	const struct forecast_times *known;
	size_t n;
	struct awaited *awaited;       /* by rising ids */
	struct forecast_after *by_who; /* as known->after, by rising ids of who is waited for */
};

enum outcome {
	WORLD_STARTED,
	WORLD_UNKNOWN, /* when a run has ended of which nobody knows when */
	WORLD_STOOD_STILL,
	WORLD_TOO_MUCH
};

struct world {
	bool slow;
	struct sched_queue *q;
	struct sched_view view;
	struct sched_device devices[SCHED_DEVICES_MAX];
	const struct waits *waits;
	struct awaited *awaited; /* what is left of them here */
	struct sched_ref ref;
	bool any; /* of its elements */
	bool all; /* no single one was asked for: all starts are noted */
	struct start *starts;
	/* A heap of what ends, the next one first. */
	struct event *ends;
	size_t n_ends;
	size_t n_starts, n_plans, n_preempted;
	struct open_run *open; /* by age */
	size_t n_open;
	struct sched_ref
		waited; /* what starts now starts when that has ended; id 0: at that time */
	uint64_t began_ns, began_wall_ns;
};

/* ---- how long ---- */

static int by_kind(const void *a, const void *b)
{
	const struct forecast_time *x = a, *y = b;

	return (x->kind > y->kind) - (x->kind < y->kind);
}

static const struct forecast_time *time_of(const struct world *w, const struct sched_task *t)
{
	const struct forecast_time key = { .kind = t->kind };

	const struct forecast_times *known = w->waits->known;

	return t->kind && known->n ? bsearch(&key, known->all, known->n, sizeof(key), by_kind)
				   : NULL;
}

static uint64_t later(uint64_t ns, uint64_t ms)
{
	return ms > (NEVER - ns) / NS_PER_MS ? NEVER : ns + ms * NS_PER_MS;
}

/* When a run that has begun then is over, and not before now. It may have taken longer than such
 * runs do: then only its time-out is left to go by. */
static uint64_t end_of(const struct world *w, const struct sched_task *t, uint64_t started_ns)
{
	const struct forecast_time *known = time_of(w, t);
	uint64_t now = w->view.now_ns;
	uint64_t limit = t->timeout_ms
				 ? later(later(started_ns, t->timeout_ms), w->view.policy.grace_ms)
				 : NEVER;
	uint64_t end = limit;

	if (known)
		end = later(started_ns, w->slow ? known->high_ms : known->low_ms);
	else if (!w->slow && limit != NEVER)
		end = now;
	if (known && w->slow && end <= now)
		end = limit;
	end = end > limit ? limit : end;
	return end > now ? end : now;
}

/* ---- the heap ---- */

static void swap(struct event *a, struct event *b)
{
	struct event t = *a;

	*a = *b;
	*b = t;
}

static void push_end(struct world *w, uint64_t at_ns, struct sched_ref ref)
{
	size_t i = w->n_ends;

	if (at_ns == NEVER) {
		w->open = xgrow(w->open, w->n_open, sizeof(*w->open));
		w->open[w->n_open++] = (struct open_run){ ref, w->waited.id ? w->waited : ref };
		return;
	}
	w->ends = xgrow(w->ends, w->n_ends, sizeof(*w->ends));
	w->ends[w->n_ends++] = (struct event){ at_ns, ref };
	for (; i > 0 && w->ends[(i - 1) / 2].at_ns > w->ends[i].at_ns; i = (i - 1) / 2)
		swap(&w->ends[i], &w->ends[(i - 1) / 2]);
}

static struct event pop_end(struct world *w)
{
	struct event first = w->ends[0];
	size_t i = 0, least;

	w->ends[0] = w->ends[--w->n_ends];
	for (;; i = least) {
		least = i;
		for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < w->n_ends; k++)
			if (w->ends[k].at_ns < w->ends[least].at_ns)
				least = k;
		if (least == i)
			return first;
		swap(&w->ends[i], &w->ends[least]);
	}
}

/* ---- who waits for whom ---- */

static int by_on(const void *a, const void *b)
{
	const struct forecast_after *x = a, *y = b;

	if (x->on != y->on)
		return x->on < y->on ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

static int by_awaited(const void *a, const void *b)
{
	const struct awaited *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static struct awaited *find_awaited(struct awaited *all, size_t n, uint64_t id)
{
	const struct awaited key = { .id = id };

	return n ? bsearch(&key, all, n, sizeof(key), by_awaited) : NULL;
}

static void count_left(struct waits *s, uint64_t id, uint64_t n)
{
	struct awaited *a = find_awaited(s->awaited, s->n, id);

	if (a)
		a->left += n;
}

static void clear_waits(struct waits *s)
{
	free(s->awaited);
	free(s->by_who);
}

/* Of a long queue nothing is known of it. */
static void find_waits(const struct sched_queue *q, const struct forecast_times *known,
		       struct waits *ret)
{
	size_t n = q->entries.n <= FORECAST_ENTRIES ? known->n_after : 0;

	*ret = (struct waits){ .known = known };
	if (!n)
		return;
	ret->by_who = xcalloc(n, sizeof(*ret->by_who));
	ret->awaited = xcalloc(n, sizeof(*ret->awaited));
	(void)memcpy(ret->by_who, known->after, n * sizeof(*ret->by_who));
	qsort(ret->by_who, n, sizeof(*ret->by_who), by_on);
	for (size_t i = 0; i < n; i++)
		if (!ret->n || ret->awaited[ret->n - 1].id != ret->by_who[i].on)
			ret->awaited[ret->n++].id = ret->by_who[i].on;
	for (const struct run *r = q->first_run; r; r = r->next)
		count_left(ret, r->t.id, 1);
	for (struct hnode *h = hmap_next(&q->entries, NULL); h; h = hmap_next(&q->entries, h)) {
		const struct sched_task *t = &treap_item(h, struct entry, hnode)->t;

		count_left(ret, t->id, t->n_elements);
	}
}

/* The first of what that task waits for, in known->after. */
static size_t first_after(const struct forecast_times *known, uint64_t id)
{
	size_t low = 0, high = known->n_after;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (known->after[mid].id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* How many of those that the task waits for have not ended. What is not in the queue is taken to
 * have: of those that have, an agent remembers nothing. */
static size_t count_awaited(const struct waits *s, struct awaited *awaited, uint64_t id)
{
	const struct forecast_times *known = s->known;
	size_t n = 0;

	for (size_t i = s->n ? first_after(known, id) : known->n_after;
	     i < known->n_after && known->after[i].id == id; i++) {
		const struct awaited *a = find_awaited(awaited, s->n, known->after[i].on);

		n += a && a->left;
	}
	return n;
}

/* Where nothing of that is here it cannot be told when it comes. */
static bool can_come(const struct waits *s, const struct sched_task *t)
{
	return count_awaited(s, s->awaited, t->id) > 0;
}

/* Something of a task has ended: who waits for it may come now. */
static void note_end(struct world *w, uint64_t id)
{
	const struct waits *s = w->waits;
	struct awaited *a = find_awaited(w->awaited, s->n, id);
	size_t low = 0, high = s->known->n_after;

	if (!a || !a->left || --a->left)
		return;
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->by_who[mid].on < id)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < s->known->n_after && s->by_who[low].on == id; low++)
		if (!count_awaited(s, w->awaited, s->by_who[low].id))
			(void)sched_depend(w->q, (struct sched_ref){ s->by_who[low].id, 0 },
					   SCHED_DEP_READY);
}

/* ---- the copy ---- */

/* What our tasks have is theirs while they run, and as free as can be afterwards. */
static void copy_devices(struct world *w, const struct sched_queue *q,
			 const struct sched_view *view)
{
	size_t n = view->n_devices < SCHED_DEVICES_MAX ? view->n_devices : SCHED_DEVICES_MAX;
	struct devset used = { { 0 } };

	for (const struct run *r = q->first_run; r; r = r->next)
		used = devset_or(used, r->devices);
	(void)memcpy(w->devices, view->devices, n * sizeof(*w->devices));
	w->view = *view;
	w->view.devices = w->devices;
	w->view.n_devices = n;
	for (size_t i = 0; i < n; i++) {
		struct sched_device *d = &w->devices[i];

		if (d->state != SCHED_DEV_LENT || d->lent_instance)
			continue;
		d->state = SCHED_DEV_IDLE;
		if (!devset_has(used, (unsigned int)i) && !d->foreign)
			d->free_bytes = d->total_bytes; /* it is being given back */
	}
}

/* Handles are given in turn, so they are the same. */
static void copy_lanes(struct world *w, const struct sched_queue *q)
{
	for (size_t i = 0; i < q->n_lanes; i++) {
		const struct gate *g = q->lanes[i];
		uint32_t lane = sched_lane(w->q, g->name);

		sched_lane_width(w->q, lane, g->width);
		sched_lane_pause(w->q, lane, g->pause);
		sched_lane_block(w->q, lane, g->block);
		w->q->lanes[i]->line = g->line;
		w->q->lanes[i]->turn = g->turn;
	}
	w->q->turn = q->turn;
}

/* The list begins with the youngest, and so does the copy's. */
static void copy_runs(struct world *w, const struct sched_queue *q)
{
	const struct run *r = q->first_run;

	while (r && r->next)
		r = r->next;
	for (; r; r = r->prev) {
		if (sched_adopt(w->q, &r->t, r->devices, r->started_ns, NULL) < 0)
			continue;
		(void)memcpy(w->q->first_run->used, r->used, sizeof(r->used));
		w->q->first_run->ends_ns = r->ends_ns;
		if (!r->t.idle_workload)
			push_end(w, end_of(w, &r->t, r->started_ns), ref_of(&r->t));
	}
}

static void copy_entry(struct world *w, const struct entry *e)
{
	struct sched_task t = e->t;

	bool comes = t.dep == SCHED_DEP_WAIT && can_come(w->waits, &t);

	if (t.dep == SCHED_DEP_WAIT && !comes && w->slow)
		t.dep = SCHED_DEP_READY;
	if (t.paused || t.changing || (t.dep != SCHED_DEP_READY && !comes))
		return;
	(void)sched_add(w->q, &t, NULL);
	if (e->array && e->array->block)
		sched_array_block(w->q, t.id, e->array->block);
}

/* False: too many come before it. */
static bool copy_entries(struct world *w, const struct sched_queue *q, const struct entry *last)
{
	size_t n = 0;

	if (q->entries.n <= FORECAST_ENTRIES) {
		for (struct hnode *h = hmap_next(&q->entries, NULL); h;
		     h = hmap_next(&q->entries, h))
			copy_entry(w, treap_item(h, struct entry, hnode));
		return true;
	}
	for (struct treap_node *p = treap_first(&q->places); p && n < FORECAST_ENTRIES; n++) {
		const struct entry *e = treap_item(p, struct entry, place_node);

		copy_entry(w, e);
		if (e == last)
			return true;
		p = treap_after(&q->places, p);
	}
	return false;
}

/* ---- on it goes ---- */

static bool is_asked_for(const struct world *w, struct sched_ref ref)
{
	return !w->all && ref.id == w->ref.id && (w->any || ref.element == w->ref.element);
}

/* Its memory comes back with it; on a device that it had to itself all of it does. */
static void give_back(struct world *w, const struct run *r)
{
	devset_each(slot, r->devices)
	{
		struct sched_device *d = &w->devices[slot];
		uint64_t used = r->used[slot] == UINT64_MAX ? r->t.mem_bytes : r->used[slot];

		if (slot >= w->view.n_devices)
			continue;
		d->free_bytes += used;
		if (d->free_bytes > d->total_bytes || (!r->t.shared && !d->foreign))
			d->free_bytes = d->total_bytes;
		if (d->free_bytes == d->total_bytes)
			d->hold_bytes = 0;
	}
}

static void end_run(struct world *w, struct sched_ref ref, bool again)
{
	struct run *r = queue_find_run(w->q, ref);

	if (!r)
		return;
	give_back(w, r);
	if (again && !r->t.idle_workload) {
		(void)sched_requeue(w->q, ref, 0, 0, NULL);
		return;
	}
	(void)sched_end(w->q, ref);
	note_end(w, ref.id);
}

/* Who makes room is gone at once, and waits again; what it had done counts for nothing. */
static void preempt(struct world *w, struct sched_ref ref)
{
	for (size_t i = 0; i < w->n_ends; i++)
		if (w->ends[i].ref.id == ref.id && w->ends[i].ref.element == ref.element)
			w->ends[i].ref = (struct sched_ref){ 0 };
	for (size_t i = 0; i < w->n_open; i++)
		if (w->open[i].ref.id == ref.id && w->open[i].ref.element == ref.element)
			w->open[i].ref = (struct sched_ref){ 0 };
	w->n_preempted++;
	end_run(w, ref, true);
}

static void note_start(struct world *w, struct sched_ref ref)
{
	w->starts = xgrow(w->starts, w->n_starts, sizeof(*w->starts));
	w->starts[w->n_starts] =
		(struct start){ ref, (w->view.now_ns - w->began_ns) / NS_PER_MS, w->waited };
}

/* True: the one that was asked for starts now. */
static bool carry_out(struct world *w, const struct sched_out *out)
{
	for (size_t i = 0; i < out->n; i++) {
		const struct sched_action *a = &out->actions[i];
		const struct run *r;

		if (a->kind == SCHED_PREEMPT)
			preempt(w, a->ref);
		if (a->kind != SCHED_START)
			continue;
		if (is_asked_for(w, a->ref))
			return true;
		if (w->all)
			note_start(w, a->ref);
		r = queue_find_run(w->q, a->ref);
		if (r)
			push_end(w, end_of(w, &r->t, w->view.now_ns), a->ref);
		w->n_starts++;
	}
	return false;
}

/* All that the moment brings. True: the one that was asked for starts. */
static bool plan(struct world *w, uint64_t *ret_next_ns)
{
	struct sched_action actions[ACTIONS];
	struct sched_out out = { .actions = actions, .cap = ACTIONS };
	size_t preempted;

	do {
		preempted = w->n_preempted;
		sched_plan(w->q, &w->view, &out);
		w->n_plans++;
		if (carry_out(w, &out))
			return true;
	} while ((out.more || preempted != w->n_preempted) && w->n_plans < PLANS_MAX &&
		 w->n_preempted < PREEMPT_MAX);
	*ret_next_ns = out.next_ns;
	if (out.next_wall_ns != NEVER && out.next_wall_ns > w->began_wall_ns) {
		uint64_t at = w->began_ns + (out.next_wall_ns - w->began_wall_ns);

		*ret_next_ns = at < *ret_next_ns ? at : *ret_next_ns;
	}
	return false;
}

/* Nothing else happens: the youngest run of those that end who knows when. False: there is none. */
static bool let_end(struct world *w)
{
	while (w->n_open) {
		struct open_run o = w->open[--w->n_open];

		if (!o.ref.id)
			continue;
		w->waited = o.root;
		end_run(w, o.ref, false);
		return true;
	}
	return false;
}

static enum outcome run_world(struct world *w)
{
	uint64_t next;

	while (!plan(w, &next)) {
		if (w->n_ends && w->ends[0].at_ns < next)
			next = w->ends[0].at_ns;
		if (w->n_starts >= FORECAST_STARTS || w->n_plans >= PLANS_MAX ||
		    w->n_preempted >= PREEMPT_MAX) {
			bool known = !w->waited.id;

			w->waited = (struct sched_ref){ 0 };
			return known ? WORLD_TOO_MUCH : WORLD_UNKNOWN;
		}
		if (next == NEVER && !let_end(w))
			return WORLD_STOOD_STILL;
		if (next == NEVER)
			continue;
		if (next > w->view.now_ns)
			w->view.now_ns = next;
		w->view.now_wall_ns = w->began_wall_ns + (w->view.now_ns - w->began_ns);
		while (w->n_ends && w->ends[0].at_ns <= w->view.now_ns)
			end_run(w, pop_end(w).ref, false);
	}
	return w->waited.id ? WORLD_UNKNOWN : WORLD_STARTED;
}

/* What waits is not in it yet. */
static struct world *new_world(const struct sched_queue *q, const struct sched_view *view,
			       const struct waits *waits, bool slow)
{
	struct world *w = xcalloc(1, sizeof(*w));

	*w = (struct world){ .slow = slow,
			     .q = sched_queue_new(),
			     .waits = waits,
			     .began_ns = view->now_ns,
			     .began_wall_ns = view->now_wall_ns };
	w->awaited = xcalloc(waits->n + 1, sizeof(*w->awaited));
	if (waits->n)
		(void)memcpy(w->awaited, waits->awaited, waits->n * sizeof(*w->awaited));
	copy_devices(w, q, view);
	copy_lanes(w, q);
	copy_runs(w, q);
	return w;
}

static struct world *free_world(struct world *w)
{
	w->q = sched_queue_free(w->q);
	free(w->ends);
	free(w->open);
	free(w->starts);
	free(w->awaited);
	free(w);
	return NULL;
}

/* How it went in one world: ms of WORLD_STARTED, unknown of WORLD_UNKNOWN (id 0: not a single one).
 */
struct course {
	enum outcome outcome;
	uint64_t ms;
	struct sched_ref unknown;
};

static struct course try_world(const struct sched_queue *q, const struct sched_view *view,
			       const struct waits *waits, const struct entry *e,
			       struct sched_ref ref, bool slow)
{
	struct world *w = new_world(q, view, waits, slow);
	struct course c = { .outcome = WORLD_TOO_MUCH };

	w->ref = ref;
	w->any = e->batch && !ref.element;
	if (copy_entries(w, q, e))
		c.outcome = run_world(w);
	c.ms = (w->view.now_ns - w->began_ns) / NS_PER_MS;
	c.unknown = w->waited;
	w = free_world(w);
	return c;
}

/* What keeps it is no other task, and can be lifted at any moment, or never is. */
static bool stands_aside(const struct waits *s, const struct entry *e)
{
	bool waits = e->t.dep == SCHED_DEP_WAIT && !can_come(s, &e->t);

	return e->t.paused || e->t.changing || e->t.dep == SCHED_DEP_NEVER || waits ||
	       (e->lane && (e->lane->pause || e->lane->block)) || (e->array && e->array->block);
}

/* Whatever else it waits for, it does not start before. */
static uint64_t least_ms(const struct sched_view *view, const struct sched_task *t)
{
	uint64_t wall =
		t->begin_wall_ns > view->now_wall_ns ? t->begin_wall_ns - view->now_wall_ns : 0;
	uint64_t mono = t->not_before_ns > view->now_ns ? t->not_before_ns - view->now_ns : 0;

	return (wall > mono ? wall : mono) / NS_PER_MS;
}

static struct forecast made_of(struct course fast, struct course slow, uint64_t least)
{
	const struct course *known = fast.outcome == WORLD_STARTED ? &fast : &slow;
	const struct course *unknown = slow.outcome == WORLD_UNKNOWN ? &slow : &fast;
	struct forecast f = { .what = FORECAST_NOTHING };

	if (fast.outcome == WORLD_TOO_MUCH || slow.outcome == WORLD_TOO_MUCH)
		return (struct forecast){ .what = FORECAST_MANY };
	/* What ends sooner may let a wide task through that makes this one wait longer. */
	if (fast.outcome == WORLD_STARTED && slow.outcome == WORLD_STARTED)
		return (struct forecast){ .what = FORECAST_RANGE,
					  .low_ms = fast.ms < slow.ms ? fast.ms : slow.ms,
					  .high_ms = fast.ms < slow.ms ? slow.ms : fast.ms };
	if (unknown->outcome == WORLD_UNKNOWN)
		f = (struct forecast){ .what = FORECAST_UNKNOWN, .unknown = unknown->unknown };
	if (known->outcome == WORLD_STARTED || least > 0) {
		f.what = FORECAST_LEAST;
		f.low_ms = known->outcome == WORLD_STARTED ? known->ms : least;
	}
	return f;
}

struct forecast sched_forecast(const struct sched_queue *q, const struct sched_view *view,
			       const struct forecast_times *times, struct sched_ref ref)
{
	const struct entry *e = queue_find_entry(q, ref);
	struct forecast f = { .what = FORECAST_NOTHING };
	struct waits waits;

	find_waits(q, times, &waits);
	if (e && !stands_aside(&waits, e)) {
		struct course slow = try_world(q, view, &waits, e, ref, true);
		struct course fast = slow.outcome == WORLD_TOO_MUCH
					     ? slow
					     : try_world(q, view, &waits, e, ref, false);

		f = made_of(fast, slow, least_ms(view, &e->t));
	}
	clear_waits(&waits);
	return f;
}

/* ---- of all ---- */

static int by_ref(const void *a, const void *b)
{
	const struct start *x = a, *y = b;

	if (x->ref.id != y->ref.id)
		return x->ref.id < y->ref.id ? -1 : 1;
	if (x->ref.element != y->ref.element)
		return x->ref.element < y->ref.element ? -1 : 1;
	return (x->ms > y->ms) - (x->ms < y->ms);
}

/* The first time, since what is preempted starts again. */
static struct course find_start(const struct world *w, enum outcome ended, struct sched_ref ref)
{
	size_t low = 0, high = w->n_starts;
	const struct start key = { .ref = ref };

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (by_ref(&w->starts[mid], &key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == w->n_starts || w->starts[low].ref.id != ref.id ||
	    w->starts[low].ref.element != ref.element)
		return (struct course){ .outcome = ended, .unknown = w->waited };

	const struct start *s = &w->starts[low];

	return (struct course){ s->unknown.id ? WORLD_UNKNOWN : WORLD_STARTED, s->ms, s->unknown };
}

static struct world *run_all(const struct sched_queue *q, const struct sched_view *view,
			     const struct waits *waits, bool slow, enum outcome *ret)
{
	struct world *w = new_world(q, view, waits, slow);

	w->all = true;
	(void)copy_entries(w, q, NULL);
	*ret = run_world(w);
	if (w->n_starts)
		qsort(w->starts, w->n_starts, sizeof(*w->starts), by_ref);
	return w;
}

bool sched_forecast_all(const struct sched_queue *q, const struct sched_view *view,
			const struct forecast_times *times, forecast_fn fn, void *user)
{
	enum outcome fast_ended, slow_ended;
	struct world *fast, *slow;
	struct waits waits;

	if (q->entries.n > FORECAST_ENTRIES)
		return false;
	find_waits(q, times, &waits);
	fast = run_all(q, view, &waits, false, &fast_ended);
	slow = run_all(q, view, &waits, true, &slow_ended);
	for (struct hnode *h = hmap_next(&q->entries, NULL); h; h = hmap_next(&q->entries, h)) {
		const struct entry *e = treap_item(h, struct entry, hnode);
		struct sched_ref ref = ref_of(&e->t);
		struct forecast f =
			made_of(find_start(fast, fast_ended, ref),
				find_start(slow, slow_ended, ref), least_ms(view, &e->t));

		if (!stands_aside(&waits, e) && f.what != FORECAST_NOTHING)
			fn(user, ref, &f);
	}
	fast = free_world(fast);
	slow = free_world(slow);
	clear_waits(&waits);
	return true;
}

/* ---- words ---- */

/* A figure that is no more exact than an estimate is. */
static const char *format(uint64_t ms, char buf[UNIT_TEXT_MAX])
{
	uint64_t s = (ms + MS_PER_S - 1) / MS_PER_S;

	if (s < 600 || s >= 3600)
		return unit_format_duration(s * MS_PER_S, buf);
	return str_print(buf, UNIT_TEXT_MAX, "%um", (unsigned int)((s + 59) / 60));
}

void forecast_text(const struct forecast *f, struct strbuf *out)
{
	char low[UNIT_TEXT_MAX], high[UNIT_TEXT_MAX];

	(void)format(f->low_ms, low);
	(void)format(f->high_ms, high);
	if (f->what == FORECAST_LEAST && f->low_ms >= MS_PER_S)
		strbuf_addf(out, "starts in about %s at the earliest (estimate)", low);
	else if (f->what == FORECAST_RANGE && f->low_ms < MS_PER_S)
		strbuf_addf(out, "starts within about %s (estimate)", high);
	else if (f->what == FORECAST_RANGE && strcmp(low, high) == 0)
		strbuf_addf(out, "starts in about %s (estimate)", low);
	else if (f->what == FORECAST_RANGE)
		strbuf_addf(out, "starts in about %s to %s (estimate)", low, high);
}

static void set_time(json_t *o, const char *key, const char *time_key, uint64_t ms,
		     uint64_t now_wall_ns)
{
	char when[CLOCK_TEXT_MAX];

	(void)json_object_set_new(o, key, json_real((double)ms / MS_PER_S));
	(void)json_object_set_new(o, time_key,
				  json_string(clock_format_iso(later(now_wall_ns, ms), when)));
}

json_t *forecast_json(const struct forecast *f, uint64_t now_wall_ns)
{
	static const char *const words[FORECAST_WHAT_MAX] = { [FORECAST_RANGE] = "range",
							      [FORECAST_LEAST] = "least",
							      [FORECAST_UNKNOWN] = "unknown",
							      [FORECAST_MANY] = "too-many" };
	json_t *o;

	if (f->what == FORECAST_NOTHING)
		return NULL;
	o = json_pack("{s:s}", "what", words[f->what]);
	if (f->what == FORECAST_RANGE || f->what == FORECAST_LEAST)
		set_time(o, "low_s", "from", f->low_ms, now_wall_ns);
	if (f->what == FORECAST_RANGE)
		set_time(o, "high_s", "to", f->high_ms, now_wall_ns);
	if ((f->what == FORECAST_LEAST || f->what == FORECAST_UNKNOWN) && f->unknown.id) {
		(void)json_object_set_new(o, "task", json_integer((json_int_t)f->unknown.id));
		if (f->unknown.element)
			(void)json_object_set_new(o, "element",
						  json_integer((json_int_t)f->unknown.element));
	}
	return o;
}
