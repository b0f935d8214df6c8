/* SPDX-License-Identifier: MIT */

/*
 * One pass over the shapes, in the order of their first ready entries (waiting_line.c). Where that
 * entry fits it is started, and the shape is looked at again with its next one; where it does not,
 * the whole shape waits. For the one that waits:
 *
 *   1. If it may push preemptible tasks aside, or idle workloads, which every task may, and that is
 * enough, these are preempted and exactly the devices that it will get are kept for it. The next
 * entry of the shape is looked at.
 *   2. Otherwise every device on which it would fit if our own tasks were gone is kept for it: any
 *      of them may be the one that becomes free first. What is free of these is reserved, which
 *      means held, for a task that collects several.
 *   3. If it can never run on this machine as it is, or would not end before all here is stopped,
 *      nothing is kept for it.
 *
 * Where the number of devices is limited, the places that it needs are kept as well: a later task
 * has none of them, on whatever device.
 *
 * A device that is kept is not open to later tasks. So a later task passes a waiting one only where
 * it cannot delay it: on devices that the waiting one could not use even if all our tasks were gone
 * (another model, too little memory, somebody else is there), or without a device. When running
 * tasks end is known only as "at the latest", never as "not before", so a time-out alone proves
 * nothing about delay. With policy.backfill_timeout a later task may use a kept device nevertheless
 * if its time-out ends it before the waiting one can start at the latest.
 *
 * Within one pass room only shrinks and kept devices only grow in number, and what becomes ready by
 * a start, a lane's next task, comes later in the order than what was started. So one pass with a
 * cursor finds everything. (A lane's next one comes earlier only when the first was preemptible and
 * it is not; then the pass ends, and the caller is told to plan again.)
 */
#include "sched/plan.h"

#include "base/clock.h"
#include "sched/choose.h"
#include "sched/device_board.h"
#include "sched/state.h"
#include "sched/waiting_line.h"

struct planning {
	struct sched_queue *q;
	struct board *b;
	const struct sched_view *view;
	struct sched_out *out;
	bool closed[SHAPES_MAX]; /* nothing more of these can start */
	bool begun[SHAPES_MAX];
	struct sched_key cursor[SHAPES_MAX]; /* where begun: everything up to here was looked at */
	struct entry *arranged[SCHED_DEVICES_MAX]; /* hidden until the end of the plan */
	size_t n_arranged;
};

/* What a shape could have: one bit for a device where it fits in that respect. */
struct options {
	unsigned int want;
	struct devset fixed; /* nothing that lasts is in the way */
	struct devset now;   /* it fits, and nobody else waits for it */
	struct devset calm;  /* the same, without preemptible tasks there */
	struct devset empty; /* it would fit without any task of ours there */
};

static bool emit(struct planning *p, enum sched_action_kind kind, struct sched_ref ref,
		 struct devset devices)
{
	if (p->out->n >= p->out->cap) {
		p->out->more = true;
		return false;
	}
	p->out->actions[p->out->n++] =
		(struct sched_action){ .kind = kind, .ref = ref, .devices = devices };
	return true;
}

/*
 * Whether the entry may push the run aside, or somebody has done so. Not from its own lane: the
 * lane would start it again first, and so on.
 */
static bool may_preempt(const struct run *r, const struct entry *e)
{
	return r->preempting || r->t.idle_workload ||
	       (r->t.preemptible && !e->t.preemptible && (!e->lane || r->lane != e->lane));
}

static struct fit_dev calm_for(const struct planning *p, const struct entry *e, unsigned int slot)
{
	struct fit_dev d = p->b->d[slot].now;

	if (!e->t.preemptible && (!e->lane || !e->lane->running))
		return p->b->d[slot].calm;
	for (const struct run *r = p->q->first_run; r; r = r->next)
		if (devset_has(r->devices, slot) && may_preempt(r, e))
			board_without(&d, r, slot);
	return d;
}

static unsigned int max_places(const struct planning *p)
{
	const struct sched_policy *policy = &p->view->policy;

	return policy->limits_devices ? policy->max_devices : SCHED_DEVICES_MAX;
}

/* So many devices more may have a task of ours. */
static unsigned int places_left(const struct planning *p)
{
	unsigned int taken = devset_count(board_used(p->b)) + p->b->kept_places;

	if (!p->view->policy.limits_devices)
		return SCHED_DEVICES_MAX;
	return max_places(p) > taken ? max_places(p) - taken : 0;
}

static struct options options_of(const struct planning *p, const struct entry *e)
{
	struct shape *s = e->shape;
	struct devset models = board_models(p->b, s, p->view);
	struct options o = { .want = s->gpus };

	for (unsigned int i = 0; i < p->b->n; i++) {
		const struct board_dev *d = &p->b->d[i];
		struct fit_dev calm = calm_for(p, e, i);
		bool model_ok = devset_has(models, i);
		bool open = board_is_open(p->b, i, s, p->view->policy.grace_ms);
		enum sched_cause empty = fit_check(s, &d->empty, model_ok);

		if (!fit_is_fixed(empty))
			devset_add(&o.fixed, i);
		if (empty == CAUSE_NONE)
			devset_add(&o.empty, i);
		if (open && fit_check(s, &d->now, model_ok) == CAUSE_NONE)
			devset_add(&o.now, i);
		if (open && fit_check(s, &calm, model_ok) == CAUSE_NONE)
			devset_add(&o.calm, i);
	}
	if (s->gpus == SCHED_ALL_GPUS)
		o.want = devset_count(o.fixed);
	if (s->gpus == SCHED_ALL_GPUS && max_places(p) < o.want)
		o.want = max_places(p);
	return o;
}

/* What a lane has ready now may lie before the cursor. */
static bool is_passed(const struct planning *p, const struct gate *lane)
{
	if (!lane || !lane->ready)
		return false;

	int kind = lane->ready->shape->gpus ? SHAPES_GPU : SHAPES_CPU;

	return p->begun[kind] && sched_key_cmp(&lane->ready->key, &p->cursor[kind]) < 0;
}

static bool start(struct planning *p, struct entry *e, struct devset devices)
{
	const struct gate *lane = e->lane;

	if (!emit(p, SCHED_START, ref_of(&e->t), devices))
		return false;

	const struct run *r =
		queue_start(p->q, e, devices, p->view->now_ns, p->view->policy.grace_ms);

	devset_each(slot, devices)
	{
		board_take(p->b, slot, r);
		p->q->reserved[slot] = (struct sched_ref){ 0 };
	}
	if (is_passed(p, lane))
		p->out->more = true;
	return true;
}

/* Keeping devices for those that wait */

static void keep(struct planning *p, const struct entry *e, struct devset devices,
		 struct devset free_now, uint64_t until_ns)
{
	devset_each(slot, devices)
	{
		struct board_dev *d = &p->b->d[slot];

		/* Whoever it was kept for first has it first; that bound holds for all behind. */
		if (!d->keeper.id) {
			d->keeper = ref_of(&e->t);
			d->open_until_ns = until_ns;
		}
		if (devset_has(free_now, slot) && !d->now.runs)
			d->collected = true;
	}
}

/* When the device is the shape's at the latest, as far as is known. */
static uint64_t latest_free(const struct planning *p, const struct options *o, unsigned int slot)
{
	const struct board_dev *d = &p->b->d[slot];

	if (devset_has(o->now, slot))
		return p->view->now_ns;
	if (!devset_has(o->empty, slot) || d->open_until_ns != UINT64_MAX || !d->now.runs)
		return UINT64_MAX;
	return d->busy_until_ns;
}

/* The want-th smallest of them; 0, "keep it from everybody", where that is not known. */
static uint64_t latest_start(const struct planning *p, const struct options *o)
{
	uint64_t t[SCHED_DEVICES_MAX];
	unsigned int n = 0;

	devset_each(slot, o->fixed)
	{
		uint64_t at = latest_free(p, o, slot);
		unsigned int i = n++;

		for (; i > 0 && t[i - 1] > at; i--)
			t[i] = t[i - 1];
		t[i] = at;
	}
	return n < o->want || t[o->want - 1] == UINT64_MAX ? 0 : t[o->want - 1];
}

/* Of what fits now as much as there are places for; beside a task of ours there is one already. */
static struct devset affordable(const struct planning *p, const struct entry *e,
				const struct options *o)
{
	struct devset used = board_used(p->b);
	struct devset fresh = devset_without(o->now, used);
	unsigned int left = places_left(p);

	if (devset_count(fresh) > left)
		fresh = choose_devices(p->b, e->shape, fresh, left);
	return devset_or(devset_and(o->now, used), fresh);
}

/* Those for the devices that are free; the others bring theirs when what is there ends. */
static void keep_places(struct planning *p, const struct options *o)
{
	unsigned int fresh = devset_count(devset_without(o->now, board_used(p->b)));

	p->b->kept_places += fresh < o->want ? fresh : o->want;
}

static void collect(struct planning *p, const struct entry *e, const struct options *o)
{
	uint64_t until = p->view->policy.backfill_timeout ? latest_start(p, o) : 0;

	keep(p, e, o->empty, affordable(p, e, o), until);
	keep_places(p, o);
}

/* Preempting */

/* The device as it will be when what was told to go is gone. */
static struct fit_dev without_leaving(const struct planning *p, unsigned int slot)
{
	struct fit_dev d = p->b->d[slot].now;

	for (const struct run *r = p->q->first_run; r; r = r->next)
		if (r->preempting && devset_has(r->devices, slot))
			board_without(&d, r, slot);
	return d;
}

static struct run *youngest_victim(const struct planning *p, const struct entry *e,
				   unsigned int slot)
{
	struct run *r = p->q->first_run;

	while (r && !(may_preempt(r, e) && !r->preempting && devset_has(r->devices, slot)))
		r = r->next;
	return r;
}

/* Preempt the youngest until the entry fits. False when the actions are full. */
static bool clear_device(struct planning *p, const struct entry *e, unsigned int slot)
{
	struct fit_dev d = without_leaving(p, slot);
	struct run *r;

	while (fit_check(e->shape, &d, true) != CAUSE_NONE && (r = youngest_victim(p, e, slot))) {
		if (!emit(p, SCHED_PREEMPT, ref_of(&r->t), (struct devset){ { 0 } }))
			return false;
		r->preempting = true;
		board_without(&d, r, slot);
	}
	return true;
}

/* However many idle workloads go, it costs less than one task. */
#define TASK_COST (SCHED_DEVICES_MAX * 2)

static unsigned int victims(const struct planning *p, const struct entry *e, unsigned int slot)
{
	unsigned int n = 0;

	for (const struct run *r = p->q->first_run; r; r = r->next)
		if (may_preempt(r, e) && !r->preempting && devset_has(r->devices, slot))
			n += r->t.idle_workload ? 1 : TASK_COST;
	return n;
}

/* Where the fewest have to go; what is free already, or on its way, costs nothing. */
static struct devset cheapest(const struct planning *p, const struct entry *e,
			      struct devset candidates, unsigned int n)
{
	struct devset taken = { { 0 } };

	for (; n > 0; n--) {
		unsigned int best = SCHED_DEVICES_MAX, cost = UINT32_MAX;

		devset_each(slot, candidates)
		{
			unsigned int c = victims(p, e, slot);

			if (c < cost) {
				best = slot;
				cost = c;
			}
		}
		devset_add(&taken, best);
		devset_del(&candidates, best);
	}
	return taken;
}

/* True when the entry will have its devices once those that were preempted are gone. */
static bool arrange(struct planning *p, struct entry *e, const struct options *o)
{
	struct devset others = devset_without(o->calm, o->now);
	struct devset free = affordable(p, e, o);
	unsigned int n = devset_count(free);

	if (n >= o->want || devset_count(others) < o->want - n)
		return false;
	others = cheapest(p, e, others, o->want - n);
	devset_each(slot, others) if (!clear_device(p, e, slot)) return true;
	keep(p, e, devset_or(free, others), free, 0);
	p->b->kept_places += devset_count(devset_without(free, board_used(p->b)));
	return true;
}

static void hide(struct planning *p, struct entry *e)
{
	p->arranged[p->n_arranged++] = e;
	line_hide(p->q, e);
}

/* The pass */

static void consider_cpu(struct planning *p, struct entry *e)
{
	uint32_t slots = p->view->policy.cpu_slots;

	if (slots && p->q->cpu_running >= slots)
		p->closed[SHAPES_CPU] = true;
	else
		(void)start(p, e, (struct devset){ { 0 } });
}

/* Its devices, as many as it wants. Empty: it has to wait. */
static struct devset choose(const struct planning *p, const struct entry *e,
			    const struct options *o)
{
	struct devset candidates = places_left(p) < o->want ? affordable(p, e, o) : o->now;

	if (devset_count(candidates) < o->want)
		return (struct devset){ { 0 } };
	return choose_devices(p->b, e->shape, candidates, o->want);
}

static void consider_gpu(struct planning *p, struct entry *e)
{
	struct options o = options_of(p, e);
	struct devset devices;

	if (!o.want || devset_count(o.fixed) < o.want || max_places(p) < o.want)
		return;
	devices = choose(p, e, &o);
	if (devset_count(devices)) {
		(void)start(p, e, devices);
		return;
	}
	if (p->n_arranged < SCHED_DEVICES_MAX && arrange(p, e, &o))
		hide(p, e);
	else
		collect(p, e, &o);
}

/* Every device is shut, kept, or has a task that wants to be alone and stays. */
static bool is_exhausted(const struct board *b)
{
	for (unsigned int i = 0; i < b->n; i++) {
		const struct board_dev *d = &b->d[i];

		if (!d->now.shut && d->open_until_ns && !d->calm.alone)
			return false;
	}
	return true;
}

static struct entry *first_after(const struct planning *p, int kind)
{
	struct shape probe = { .key = p->cursor[kind] };
	struct treap_node *n = p->begun[kind] ? treap_after(&p->q->shapes[kind], &probe.node)
					      : treap_first(&p->q->shapes[kind]);

	if (!n || p->closed[kind])
		return NULL;
	return treap_item(treap_first(&treap_item(n, struct shape, node)->ready), struct entry,
			  ready_node);
}

/* The next in the order, of both kinds. */
static struct entry *next_entry(struct planning *p)
{
	struct entry *gpu = first_after(p, SHAPES_GPU);
	struct entry *cpu = first_after(p, SHAPES_CPU);
	struct entry *e = gpu;

	if (cpu && (!gpu || sched_key_cmp(&cpu->key, &gpu->key) < 0))
		e = cpu;
	if (e) {
		int kind = e->shape->gpus ? SHAPES_GPU : SHAPES_CPU;

		p->cursor[kind] = e->key;
		p->begun[kind] = true;
	}
	return e;
}

static void pass(struct planning *p)
{
	struct entry *e;

	while (!p->out->more && (e = next_entry(p))) {
		if (e->shape->elsewhere || !fit_time(e->shape, p->view))
			continue;
		if (!e->shape->gpus) {
			consider_cpu(p, e);
			continue;
		}
		consider_gpu(p, e);
		p->closed[SHAPES_GPU] = is_exhausted(p->b);
	}
}

/* What is held for whom now, told as the difference to what was. */
static void tell_reservations(struct planning *p)
{
	struct sched_ref *was = p->q->reserved;

	for (unsigned int i = 0; i < SCHED_DEVICES_MAX && !p->out->more; i++) {
		bool keep_it = i < p->b->n && p->b->d[i].collected;
		struct sched_ref is = keep_it ? p->b->d[i].keeper : (struct sched_ref){ 0 };
		struct devset one = { { 0 } };

		if (is.id == was[i].id && is.element == was[i].element)
			continue;
		devset_add(&one, i);
		if (emit(p, is.id ? SCHED_RESERVE : SCHED_UNRESERVE, is.id ? is : was[i], one))
			was[i] = is;
	}
}

static void tell_next_times(const struct sched_queue *q, struct sched_out *out)
{
	struct treap_node *begin = treap_first(&q->begins);
	struct treap_node *retry = treap_first(&q->retries);

	out->next_wall_ns =
		begin ? treap_item(begin, struct entry, time_node)->t.begin_wall_ns : UINT64_MAX;
	out->next_ns =
		retry ? treap_item(retry, struct entry, time_node)->t.not_before_ns : UINT64_MAX;
}

void sched_plan(struct sched_queue *q, const struct sched_view *view, struct sched_out *out)
{
	struct planning p = { .q = q, .b = &q->board, .view = view, .out = out };

	out->n = 0;
	out->more = false;
	line_wake(q, view->now_ns, view->now_wall_ns);
	board_build(p.b, q, view);
	pass(&p);
	for (size_t i = 0; i < p.n_arranged; i++)
		line_show(q, p.arranged[i]);
	if (!out->more)
		tell_reservations(&p);
	tell_next_times(q, out);
}
