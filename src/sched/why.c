/* SPDX-License-Identifier: MIT */

/*
 * The reasons are a table of functions, the most lasting one first; the first that has something to
 * say ends the search.
 */
#include "sched/why.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "sched/device_board.h"
#include "sched/state.h"
#include "sched/waiting_line.h"

struct why {
	struct sched_queue *q;
	const struct sched_view *view;
	const struct entry *e;
	struct reason *r;
	struct reason_device *devices;
	bool noted; /* the note is part of it already */
	int where;  /* SCHED_WHY_NOT_HERE, SCHED_WHY_ELSEWHERE or 0 */
};

static bool is(struct why *w, enum reason_code code)
{
	w->r->code = code;
	return true;
}

static bool is_never(struct why *w)
{
	if (w->e->t.dep != SCHED_DEP_NEVER)
		return false;
	w->r->text = w->e->note;
	w->noted = true;
	return is(w, REASON_NEVER);
}

static bool is_paused(struct why *w)
{
	return w->e->t.paused && is(w, REASON_PAUSED);
}

static bool is_changing(struct why *w)
{
	return w->e->t.changing && is(w, REASON_CHANGING);
}

static bool depends(struct why *w)
{
	if (w->e->t.dep != SCHED_DEP_WAIT)
		return false;
	w->r->text = w->e->note;
	w->noted = true;
	return is(w, REASON_DEPENDS);
}

static bool is_early(struct why *w)
{
	if (!w->e->early || w->e->t.begin_wall_ns <= w->view->now_wall_ns)
		return false;
	w->r->wall_ns = w->e->t.begin_wall_ns;
	return is(w, REASON_BEGIN);
}

static bool is_uncalled(struct why *w)
{
	return w->e->t.gang && !w->e->t.called && is(w, REASON_GANG);
}

static bool lane_is_paused(struct why *w)
{
	if (!w->e->lane || !w->e->lane->pause)
		return false;
	w->r->lane = w->e->lane->name;
	w->r->text = w->e->lane->pause;
	return is(w, REASON_LANE_PAUSED);
}

static bool is_elsewhere(struct why *w)
{
	const struct gate *lane = w->e->lane, *array = w->e->array;
	const struct gate *g = lane && lane->block ? lane : array && array->block ? array : NULL;

	if (!g)
		return false;
	w->where = SCHED_WHY_ELSEWHERE;
	w->r->lane = g == lane ? lane->name : NULL;
	w->r->text = g->block;
	return is(w, g == lane ? REASON_LANE_ELSEWHERE : REASON_ARRAY_ELSEWHERE);
}

static bool waits_after_a_try(struct why *w)
{
	uint64_t at = w->e->t.not_before_ns;

	if (!w->e->late || at <= w->view->now_ns)
		return false;
	w->r->ms = (at - w->view->now_ns + NS_PER_MS - 1) / NS_PER_MS;
	return is(w, REASON_BACKOFF);
}

static const struct run *run_in(const struct why *w, const struct gate *lane)
{
	const struct run *r = w->q->first_run;

	while (r && r->lane != lane)
		r = r->next;
	return r;
}

static const struct entry *first_of(const struct gate *g)
{
	const struct treap_node *first = g ? treap_first(&g->waiting) : NULL;

	return first ? treap_item(first, struct entry, gate_node) : NULL;
}

static bool waits_in_lane(struct why *w)
{
	const struct gate *g = w->e->lane;

	if (!g || g->ready == w->e)
		return false;

	const struct run *r = run_in(w, g);
	const struct entry *head = first_of(g);
	bool full = r && g->running >= g->width;

	if (!full && (!head || head == w->e))
		return false;
	w->r->lane = g->name;
	w->r->running = g->running;
	w->r->other = full ? ref_of(&r->t) : ref_of(&head->t);
	return is(w, !full	    ? REASON_LANE_BEHIND
		     : g->width > 1 ? REASON_LANE_FULL
				    : REASON_LANE_TASK);
}

static bool array_is_full(struct why *w)
{
	const struct gate *g = w->e->array;

	if (!g || g->running < g->width)
		return false;
	w->r->running = g->running;
	return is(w, REASON_ARRAY_FULL);
}

static bool is_for_others(struct why *w)
{
	if (!w->e->shape->elsewhere)
		return false;
	w->where = SCHED_WHY_NOT_HERE;
	return is(w, REASON_POOL);
}

static bool is_too_late(struct why *w)
{
	if (fit_time(w->e->shape, w->view))
		return false;
	w->where = SCHED_WHY_NOT_HERE;
	w->r->ms = w->e->shape->timeout_ms;
	w->r->wall_ns = w->view->now_wall_ns;
	if (w->view->end_ns > w->view->now_ns)
		w->r->wall_ns += w->view->end_ns - w->view->now_ns;
	return is(w, REASON_TOO_LATE);
}

static bool slots_are_taken(struct why *w)
{
	uint32_t slots = w->view->policy.cpu_slots;

	if (w->e->t.gpus || !slots || w->q->cpu_running < slots)
		return false;
	w->r->running = (uint32_t)w->q->cpu_running;
	return is(w, REASON_CPU_SLOTS);
}

/* Devices */

static enum sched_cause cause_on(const struct why *w, unsigned int slot)
{
	const struct board *b = &w->q->board;
	struct shape *s = w->e->shape;
	bool model_ok = devset_has(board_models(b, s, w->view), slot);
	enum sched_cause cause = fit_check(s, &b->d[slot].now, model_ok);
	struct sched_ref k = b->d[slot].keeper;
	bool mine = k.id == w->e->t.id && k.element == w->e->t.element;

	if (cause == CAUSE_NONE && !mine && !board_is_open(b, slot, s, w->view->policy.grace_ms))
		return CAUSE_KEPT;
	return cause;
}

/* Free, and collected for this one, which waits for others. */
static bool is_held_for(const struct why *w, unsigned int slot)
{
	const struct board_dev *d = &w->q->board.d[slot];

	return d->collected && d->keeper.id == w->e->t.id && d->keeper.element == w->e->t.element;
}

/* Who of ours is there. */
static void find_run(const struct why *w, struct reason_device *ret)
{
	for (const struct run *r = w->q->first_run; r; r = r->next) {
		if (!devset_has(r->devices, ret->slot))
			continue;
		ret->known = true;
		if (!r->t.idle_workload)
			ret->other = ref_of(&r->t);
		return;
	}
}

static struct reason_device look_at(const struct why *w, unsigned int slot)
{
	const struct sched_device *d = &w->view->devices[slot];
	struct reason_device ret = { .slot = slot, .index = d->index, .cause = cause_on(w, slot) };
	int64_t room = w->q->board.d[slot].now.room_bytes;

	switch (ret.cause) {
	case CAUSE_NONE:
		ret.held_for_it = is_held_for(w, slot);
		break;
	case CAUSE_FAULTY:
		ret.xid = d->xid;
		break;
	case CAUSE_QUARANTINED:
		ret.text = d->quarantine;
		break;
	case CAUSE_LEFT:
		ret.text = d->left_to;
		ret.until_wall_ns = d->left_until_wall_ns;
		break;
	case CAUSE_MODEL:
		ret.model = d->model;
		break;
	case CAUSE_SMALL:
		ret.bytes = d->total_bytes;
		break;
	case CAUSE_LENT:
		ret.instance = d->lent_instance;
		ret.other = d->lent_task;
		ret.waits = d->lent_waits;
		break;
	case CAUSE_OURS:
		find_run(w, &ret);
		break;
	case CAUSE_MEMORY:
		ret.bytes = room > 0 ? (uint64_t)room : 0;
		break;
	case CAUSE_KEPT:
		ret.other = w->q->board.d[slot].keeper;
		break;
	default:
		break;
	}
	ret.one_process = d->exclusive_process && !fit_is_fixed(ret.cause);
	return ret;
}

/* Which fit now. */
static struct devset look_at_devices(const struct why *w)
{
	const struct sched_policy *p = &w->view->policy;
	struct devset fits = { { 0 } };
	struct reason *r = w->r;

	for (unsigned int i = 0; i < w->q->board.n && i < w->view->n_devices; i++) {
		struct reason_device *d = &w->devices[r->n_devices++];

		*d = look_at(w, i);
		r->usable += !fit_is_fixed(d->cause);
		if (d->cause == CAUSE_NONE)
			devset_add(&fits, i);
	}
	r->total = w->q->board.n;
	r->free = devset_count(fits);
	r->want = w->e->t.gpus == SCHED_ALL_GPUS ? r->usable : w->e->t.gpus;
	if (w->e->t.gpus == SCHED_ALL_GPUS && p->limits_devices && p->max_devices < r->want)
		r->want = p->max_devices;
	return fits;
}

/* There would be devices, but it may not have so many. */
static bool is_limited(struct why *w, struct devset fits)
{
	const struct sched_policy *p = &w->view->policy;
	struct reason *r = w->r;
	struct devset used = board_used(&w->q->board);
	unsigned int beside = devset_count(devset_and(used, fits));
	unsigned int more = r->want > beside ? r->want - beside : 0;

	if (!p->limits_devices || !r->want)
		return false;
	r->limit = p->max_devices;
	r->running = devset_count(used);
	if (r->want > p->max_devices) {
		w->where = SCHED_WHY_NOT_HERE;
		return is(w, REASON_MAX_DEVICES);
	}
	return r->free >= r->want && r->running + more > p->max_devices && is(w, REASON_MAX_NOW);
}

static bool waits_for_devices(struct why *w)
{
	struct reason *r = w->r;
	struct devset fits;

	if (!w->e->t.gpus)
		return false;
	fits = look_at_devices(w);
	if (r->total && r->want > r->total) { /* however they are used, there are not so many */
		w->where = SCHED_WHY_NOT_HERE;
		return is(w, REASON_FEW_GPUS);
	}
	if (is_limited(w, fits))
		return true;
	if (r->want && r->usable >= r->want && r->free >= r->want)
		return false;
	if (r->want && r->usable >= r->want)
		return is(w, REASON_GPUS);
	r->want = r->want ? r->want : 1;
	w->where = SCHED_WHY_NOT_HERE;
	return is(w, REASON_NO_FIT);
}

/* Of what is in line for a gate only the first one is looked at by a plan. */
static bool is_behind(struct why *w)
{
	struct gate *g = w->e->lane ? w->e->lane : w->e->array;
	const struct entry *head = first_of(g);

	if (!head || g->ready == w->e || !treap_linked(&w->e->gate_node))
		return false;
	if (head == w->e) { /* the gate was not asked anew when it should have been */
		line_refresh(w->q, g);
		return false;
	}
	w->r->other = ref_of(&head->t);
	return is(w, REASON_ARRAY_BEHIND);
}

static bool is_next(struct why *w)
{
	return is(w, REASON_NEXT_PLAN);
}

static bool (*const reasons[])(struct why *w) = {
	is_never,	is_changing,   is_paused,	  depends,	   is_early,
	lane_is_paused, is_elsewhere,  waits_after_a_try, is_uncalled,	   waits_in_lane,
	array_is_full,	is_for_others, is_too_late,	  slots_are_taken, waits_for_devices,
	is_behind,	is_next,
};

static void tell_run(const struct run *run, const struct sched_view *view, struct reason *r)
{
	r->code = REASON_RUNS;
	r->ms = view->now_ns > run->started_ns ? (view->now_ns - run->started_ns) / NS_PER_MS : 0;
	r->preempting = run->preempting;
}

int sched_why(struct sched_queue *q, struct sched_ref ref, const struct sched_view *view,
	      struct reason_device devices[SCHED_DEVICES_MAX], struct reason *ret)
{
	struct why w = {
		.q = q, .view = view, .e = queue_find_entry(q, ref), .r = ret, .devices = devices
	};
	const struct run *run = w.e ? NULL : queue_find_run(q, ref);
	size_t i = 0;

	*ret = (struct reason){ .task = ref, .devices = devices };
	if (!w.e && !run)
		return -ENOENT;
	if (run) {
		tell_run(run, view, ret);
		return 0;
	}
	while (!reasons[i](&w))
		i++;
	if (!w.noted && !reason_repeats(ret->text, w.e->note))
		ret->note = w.e->note;
	ret->place = line_position(q, w.e);
	return w.where;
}

void sched_why_all(struct sched_queue *q, const struct sched_view *view, sched_why_fn fn,
		   void *user)
{
	struct reason_device devices[SCHED_DEVICES_MAX];
	struct reason reason;

	for (struct hnode *h = hmap_next(&q->entries, NULL); h; h = hmap_next(&q->entries, h)) {
		struct sched_ref ref = ref_of(&treap_item(h, struct entry, hnode)->t);

		if (sched_why(q, ref, view, devices, &reason) >= 0)
			fn(user, &reason);
	}
}
