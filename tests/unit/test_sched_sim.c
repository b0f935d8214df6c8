/* SPDX-License-Identifier: MIT */

/*
 * Random machines, tasks and events in virtual time, thousands of them. After every step the rules
 * are checked by a plain model that knows nothing of trees, shapes or cursors: it goes through all
 * tasks and devices one by one.
 *
 * SCHED_SIM_SEEDS and SCHED_SIM_FIRST say which; a failure prints its seed.
 */

#include <stdio.h>
#include <stdlib.h>

#include "sched_bench.h"

#include "base/hash.h"
#include "base/hmap.h"
#include "sched/fit.h"
#include "sched/waiting_line.h"

#define TASKS 60
#define STEPS 60
#define LANES 3
#ifdef __SANITIZE_ADDRESS__
#define SEEDS 500 /* what sanitizers look for is the same in each */
#else
#define SEEDS 2000
#endif
#define WIDTH2 2 /* the last lane's width; the others are serial */

enum sim_state { SIM_NONE, SIM_WAIT, SIM_RUN, SIM_ENDED };

struct sim_task {
	struct sched_task t;
	enum sim_state state;
	struct devset devices;
	bool preempting;
	uint64_t used;	/* on each of its devices */
	uint64_t asked; /* memory at its start */
};

struct sim {
	struct bench b;
	struct sim_task tasks[TASKS];
	uint64_t next_id;
	uint64_t rand;
	uint64_t seed;
	uint64_t foreign_bytes[SCHED_DEVICES_MAX];
	uint32_t lanes[LANES];
	bool lane_paused[LANES];
	uint64_t started; /* tasks in all */
	struct sched_ref reserved[SCHED_DEVICES_MAX];
};

static uint64_t any(struct sim *s, uint64_t n)
{
	s->rand = hash_u64(s->rand, 7);
	return s->rand % n;
}

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond))                                                                       \
			fail_msg("seed %llu: " #cond, (unsigned long long)s->seed);                \
	} while (0)

/* What others and our tasks have taken, as the driver would tell. */
static void see_devices(struct sim *s)
{
	for (size_t i = 0; i < s->b.view.n_devices; i++) {
		uint64_t used = s->foreign_bytes[i];

		for (size_t k = 0; k < TASKS; k++)
			if (s->tasks[k].state == SIM_RUN && devset_has(s->tasks[k].devices, i))
				used += s->tasks[k].used;
		s->b.d[i].foreign = s->foreign_bytes[i] > 0;
		s->b.d[i].free_bytes =
			used < s->b.d[i].total_bytes ? s->b.d[i].total_bytes - used : 0;
	}
}

static void open_sim(struct sim *s, uint64_t seed)
{
	memset(s, 0, sizeof(*s));
	s->seed = s->rand = seed;
	bench_open(&s->b, any(s, 9));
	for (size_t i = 0; i < s->b.view.n_devices; i++) {
		s->b.d[i].model = any(s, 3) ? "NVIDIA H200" : "NVIDIA A10";
		if (any(s, 8) == 0)
			s->b.d[i].state = any(s, 2) ? SCHED_DEV_LEFT : SCHED_DEV_UNSEEN;
		s->b.d[i].exclusive_process = any(s, 10) == 0;
		s->b.d[i].own_python = any(s, 8) == 0;
		for (size_t k = 0; k < i; k++)
			if (k / 2 == i / 2) {
				devset_add(&s->b.d[i].peers, (unsigned int)k);
				devset_add(&s->b.d[k].peers, (unsigned int)i);
			}
	}
	for (size_t i = 0; i < LANES; i++) {
		char name[8];

		snprintf(name, sizeof(name), "l%zu", i);
		s->lanes[i] = sched_lane(s->b.q, name);
	}
	sched_lane_width(s->b.q, s->lanes[LANES - 1], WIDTH2);
	s->b.view.policy.leave = (uint32_t)any(s, 2);
	s->b.view.policy.cpu_slots = (uint32_t)any(s, 3);
	s->b.view.policy.limits_devices = any(s, 3) == 0;
	s->b.view.policy.max_devices = (uint32_t)any(s, s->b.view.n_devices + 1);
}

static struct sched_task random_task(struct sim *s)
{
	struct sched_task t = {
		.id = ++s->next_id,
		.priority = (int32_t)any(s, 3),
		.order = s->next_id,
		.gpus = any(s, 6) ? (uint32_t)any(s, 4) : SCHED_ALL_GPUS,
		.mem_bytes = any(s, 2) ? any(s, 6) * 10 * GIB : 0,
		.shared = any(s, 3) == 0,
		.preemptible = any(s, 5) == 0,
		.no_own_python = any(s, 8) == 0,
		.rules = any(s, 6) ? SCHED_RULES_OWN : SCHED_RULES_COMPETE,
		.model = any(s, 4)   ? NULL
			 : any(s, 2) ? "a10"
				     : "*H200",
		.lane = any(s, 2) ? s->lanes[any(s, LANES)] : 0,
		.paused = any(s, 12) == 0,
		.dep = any(s, 12) ? SCHED_DEP_READY : SCHED_DEP_WAIT,
	};

	if (any(s, 8) == 0)
		t.begin_wall_ns = s->b.view.now_wall_ns + any(s, 20);
	return t;
}

static void add_task(struct sim *s, struct sim_task *x)
{
	*x = (struct sim_task){ .t = random_task(s), .state = SIM_WAIT };
	CHECK(sched_add(s->b.q, &x->t, NULL) == 0);
}

static void wait_again(struct sim *s, struct sim_task *x)
{
	uint64_t not_before = any(s, 2) ? s->b.view.now_ns + any(s, 20) : 0;

	CHECK(sched_requeue(s->b.q, ref(x->t.id), not_before, 0, "again") == 0);
	x->t.not_before_ns = not_before;
	x->state = SIM_WAIT;
	x->preempting = false;
}

static void change_task(struct sim *s, struct sim_task *x)
{
	struct sched_task t = random_task(s);

	s->next_id--;
	t.id = x->t.id;
	t.order = x->t.order;
	CHECK(sched_change(s->b.q, &t, NULL) == 0);
	x->t = t;
}

static void event_for_task(struct sim *s, struct sim_task *x)
{
	if (x->state == SIM_WAIT) {
		if (any(s, 6)) {
			change_task(s, x);
		} else {
			CHECK(sched_remove(s->b.q, ref(x->t.id)) == 0);
			x->state = SIM_NONE;
		}
	} else if (x->state == SIM_RUN && (x->preempting || any(s, 3) == 0)) {
		if (any(s, 3) == 0 || x->preempting) {
			wait_again(s, x);
		} else {
			CHECK(sched_end(s->b.q, ref(x->t.id)) == 0);
			x->state = SIM_ENDED;
		}
	} else if (x->state == SIM_RUN) {
		x->used = any(s, x->asked + 1);
		devset_each(slot, x->devices)
			CHECK(sched_used(s->b.q, ref(x->t.id), slot, x->used) == 0);
	} else {
		add_task(s, x);
	}
}

static void random_event(struct sim *s)
{
	switch (any(s, 8)) {
	case 0:
		if (s->b.view.n_devices)
			s->foreign_bytes[any(s, s->b.view.n_devices)] = any(s, 3) * 25 * GIB;
		break;
	case 1: {
		size_t lane = any(s, LANES);

		s->lane_paused[lane] = !s->lane_paused[lane];
		sched_lane_pause(s->b.q, s->lanes[lane], s->lane_paused[lane] ? "test" : NULL);
		break;
	}
	case 2:
		s->b.view.now_ns += any(s, 10);
		s->b.view.now_wall_ns += any(s, 10);
		break;
	default:
		event_for_task(s, &s->tasks[any(s, TASKS)]);
	}
}

/* The plain model */

static bool is_left(const struct sim *s, size_t dev)
{
	uint32_t after = 0;

	for (size_t i = dev + 1; i < s->b.view.n_devices; i++)
		after += s->b.d[i].state != SCHED_DEV_UNSEEN;
	return s->b.d[dev].state == SCHED_DEV_LEFT || after < s->b.view.policy.leave;
}

static bool is_for(const struct sim *s, const struct sched_task *t, size_t dev)
{
	const struct sched_device *d = &s->b.d[dev];

	return d->state == SCHED_DEV_IDLE && !is_left(s, dev) &&
	       fit_model(t->model ? t->model : "", d->model) && t->mem_bytes <= d->total_bytes;
}

static uint32_t limit(const struct sim *s)
{
	return s->b.view.policy.limits_devices ? s->b.view.policy.max_devices : UINT32_MAX;
}

static uint32_t used_devices(const struct sim *s)
{
	struct devset used = { { 0 } };

	for (size_t i = 0; i < TASKS; i++)
		if (s->tasks[i].state == SIM_RUN)
			used = devset_or(used, s->tasks[i].devices);
	return devset_count(used);
}

static uint32_t wanted(const struct sim *s, const struct sched_task *t)
{
	uint32_t n = 0;

	for (size_t i = 0; i < s->b.view.n_devices; i++)
		n += is_for(s, t, i);
	if (t->gpus != SCHED_ALL_GPUS)
		return t->gpus;
	return n < limit(s) ? n : limit(s);
}

/* Whether t could run there beside those of our tasks that `beside` says. */
static bool fits(const struct sim *s, const struct sched_task *t, size_t dev,
		 bool (*beside)(const struct sim_task *x), uint64_t self)
{
	const struct sched_device *d = &s->b.d[dev];
	int64_t room = (int64_t)d->total_bytes - (int64_t)s->foreign_bytes[dev];
	unsigned int n = 0;

	if (!is_for(s, t, dev) || (t->no_own_python && d->own_python))
		return false;
	if (d->foreign && (d->exclusive_process || (!t->shared && t->rules != SCHED_RULES_COMPETE)))
		return false;
	for (size_t i = 0; i < TASKS; i++) {
		const struct sim_task *x = &s->tasks[i];

		if (x->state != SIM_RUN || x->t.id == self ||
		    !devset_has(x->devices, (unsigned int)dev) || !beside(x))
			continue;
		if (!x->t.shared)
			return false;
		n++;
		room -= (int64_t)(x->used > x->asked ? x->used : x->asked);
	}
	if (n && (!t->shared || t->no_own_python || d->exclusive_process))
		return false;
	return room >= (int64_t)t->mem_bytes;
}

static bool all_of_ours(const struct sim_task *x)
{
	return true;
}

static bool not_preemptible(const struct sim_task *x)
{
	return !x->t.preemptible;
}

static bool none_of_ours(const struct sim_task *x)
{
	return false;
}

static uint32_t running_in(const struct sim *s, uint32_t lane)
{
	uint32_t n = 0;

	for (size_t i = 0; i < TASKS; i++)
		n += s->tasks[i].state == SIM_RUN && s->tasks[i].t.lane == lane;
	return n;
}

static bool in_line(const struct sim *s, const struct sim_task *x)
{
	return x->state == SIM_WAIT && !x->t.paused && x->t.dep == SCHED_DEP_READY &&
	       x->t.begin_wall_ns <= s->b.view.now_wall_ns;
}

static bool is_before(const struct sched_task *a, const struct sched_task *b)
{
	if (a->priority != b->priority)
		return a->priority < b->priority;
	return a->order < b->order;
}

static bool is_ready(const struct sim *s, const struct sim_task *x)
{
	uint32_t width = x->t.lane == s->lanes[LANES - 1] ? WIDTH2 : 1;

	if (!in_line(s, x) || x->t.not_before_ns > s->b.view.now_ns)
		return false;
	if (!x->t.lane)
		return true;
	for (size_t i = 0; i < TASKS; i++)
		if (s->tasks[i].t.lane == x->t.lane && in_line(s, &s->tasks[i]) &&
		    is_before(&s->tasks[i].t, &x->t))
			return false;
	return running_in(s, x->t.lane) < width && !s->lane_paused[x->t.lane - 1];
}

/* The same class and priority, both without a lane: then age alone decides. Otherwise only what is
 * certain whatever the lanes' turns. */
static bool surely_before(const struct sim_task *a, const struct sim_task *b)
{
	if (a->t.preemptible != b->t.preemptible)
		return b->t.preemptible;
	if (a->t.priority != b->t.priority)
		return a->t.priority < b->t.priority;
	return !a->t.lane && !b->t.lane && a->t.order < b->t.order;
}

static struct sim_task *task_of(struct sim *s, uint64_t id)
{
	for (size_t i = 0; i < TASKS; i++)
		if (s->tasks[i].state != SIM_NONE && s->tasks[i].t.id == id)
			return &s->tasks[i];
	return NULL;
}

static void check_start(struct sim *s, const struct sched_action *a)
{
	struct sim_task *x = task_of(s, a->ref.id);

	CHECK(x && x->state == SIM_WAIT);
	CHECK(is_ready(s, x));
	CHECK(devset_count(a->devices) == wanted(s, &x->t));
	CHECK(x->t.gpus == 0 || devset_count(a->devices) > 0);
	devset_each(slot, a->devices)
	{
		CHECK(slot < s->b.view.n_devices);
		CHECK(fits(s, &x->t, slot, all_of_ours, x->t.id));
		s->reserved[slot] = ref(0);
	}
	x->state = SIM_RUN;
	x->devices = a->devices;
	x->used = 0;
	x->asked = x->t.mem_bytes;
	s->started++;
}

static void check_preempt(struct sim *s, const struct sched_action *a)
{
	struct sim_task *x = task_of(s, a->ref.id);
	bool needed = false;

	CHECK(x && x->state == SIM_RUN && x->t.preemptible && !x->preempting);
	for (size_t i = 0; i < TASKS; i++)
		needed |= s->tasks[i].state == SIM_WAIT && !s->tasks[i].t.preemptible &&
			  s->tasks[i].t.gpus && is_ready(s, &s->tasks[i]) &&
			  (!x->t.lane || s->tasks[i].t.lane != x->t.lane);
	CHECK(needed);
	x->preempting = true;
}

static void check_reserve(struct sim *s, const struct sched_action *a)
{
	unsigned int slot = devset_next(a->devices, 0);

	CHECK(devset_count(a->devices) == 1);
	if (a->kind == SCHED_UNRESERVE) {
		CHECK(s->reserved[slot].id == a->ref.id);
		s->reserved[slot] = ref(0);
		return;
	}

	const struct sim_task *x = task_of(s, a->ref.id);

	CHECK(x && x->state == SIM_WAIT && is_ready(s, x) && wanted(s, &x->t) > 1);
	s->reserved[slot] = a->ref;
}

/* A reserved device is one that its task could use now, and nobody else of ours is there. */
static void check_reserved(struct sim *s)
{
	for (unsigned int i = 0; i < s->b.view.n_devices; i++) {
		const struct sim_task *x = task_of(s, s->reserved[i].id);

		if (!s->reserved[i].id)
			continue;
		CHECK(x && x->state == SIM_WAIT);
		CHECK(fits(s, &x->t, i, all_of_ours, 0));
		for (size_t k = 0; k < TASKS; k++)
			CHECK(s->tasks[k].state != SIM_RUN || !devset_has(s->tasks[k].devices, i));
	}
}

/* What is ready and waits after a plan cannot start: not on devices that nobody else waits for. */
static void check_nothing_idle(struct sim *s)
{
	uint64_t cpu = 0;

	for (size_t i = 0; i < TASKS; i++)
		cpu += s->tasks[i].state == SIM_RUN && !s->tasks[i].t.gpus;
	for (size_t i = 0; i < TASKS; i++) {
		const struct sim_task *x = &s->tasks[i];
		uint32_t n = 0, potential = 0;

		if (!is_ready(s, x))
			continue;
		if (!x->t.gpus) {
			CHECK(s->b.view.policy.cpu_slots && cpu >= s->b.view.policy.cpu_slots);
			continue;
		}
		if (s->b.view.policy.limits_devices)
			continue; /* places may be kept for others; drain() finds what is forgotten
				   */
		for (unsigned int d = 0; d < s->b.view.n_devices; d++) {
			bool kept = false;

			for (size_t k = 0; k < TASKS && !kept; k++)
				kept = k != i && is_ready(s, &s->tasks[k]) && s->tasks[k].t.gpus &&
				       !surely_before(x, &s->tasks[k]) &&
				       fits(s, &s->tasks[k].t, d, none_of_ours, 0);
			n += !kept && fits(s, &x->t, d, all_of_ours, 0);
			potential += is_for(s, &x->t, d);
		}
		CHECK(!wanted(s, &x->t) || potential < wanted(s, &x->t) || n < wanted(s, &x->t));
	}
}

static bool lane_started(struct sim *s, uint32_t lane)
{
	for (size_t i = 0; i < s->b.out.n; i++)
		if (s->b.out.actions[i].kind == SCHED_START &&
		    task_of(s, s->b.out.actions[i].ref.id)->t.lane == lane)
			return true;
	return false;
}

static bool is_used(const struct sim *s, unsigned int dev, const struct sim_task *but)
{
	for (size_t i = 0; i < TASKS; i++)
		if (s->tasks[i].state == SIM_RUN && &s->tasks[i] != but &&
		    devset_has(s->tasks[i].devices, dev))
			return true;
	return false;
}

/* Where devices are limited in number x did not get a place that w, which is the first one that
 * waits, needs for a device that is free. */
static void check_place(struct sim *s, const struct sim_task *w, const struct sim_task *x)
{
	uint32_t fresh = 0;

	for (size_t i = 0; i < TASKS; i++)
		if (&s->tasks[i] != w && s->tasks[i].t.gpus && is_ready(s, &s->tasks[i]) &&
		    !surely_before(w, &s->tasks[i]))
			return;
	for (unsigned int d = 0; d < s->b.view.n_devices; d++)
		fresh += !is_used(s, d, x) && fits(s, &w->t, d, all_of_ours, x->t.id);
	if (fresh > wanted(s, &w->t))
		fresh = wanted(s, &w->t);
	CHECK(used_devices(s) + fresh <= limit(s));
}

/* No task started on a device that a task before it waits for and could use. */
static void check_not_delayed(struct sim *s, uint64_t id)
{
	const struct sim_task *x = task_of(s, id);

	for (size_t i = 0; i < TASKS; i++) {
		const struct sim_task *w = &s->tasks[i];
		uint32_t potential = 0, calm = 0;

		if (!is_ready(s, w) || !w->t.gpus || !surely_before(w, x))
			continue;
		/* Its lane may let it through only since its last one has started. */
		if (w->t.lane && lane_started(s, w->t.lane))
			continue;
		for (unsigned int d = 0; d < s->b.view.n_devices; d++) {
			potential += is_for(s, &w->t, d);
			calm += fits(s, &w->t, d, not_preemptible, x->t.id);
		}
		/* One that gets its devices by preemption keeps only those. */
		if (potential < wanted(s, &w->t) || (!w->t.preemptible && calm >= wanted(s, &w->t)))
			continue;
		if (wanted(s, &w->t) > limit(s))
			continue;
		devset_each(slot, x->devices) CHECK(!fits(s, &w->t, slot, none_of_ours, 0));
		if (s->b.view.policy.limits_devices && x->t.gpus && !x->t.shared)
			check_place(s, w, x);
	}
}

static void plan_and_check(struct sim *s)
{
	size_t n_out;
	bool more = false, preempted = false;

	see_devices(s);
	for (int round = 0; round < 2; round++) {
		sched_plan(s->b.q, &s->b.view, &s->b.out);
		n_out = s->b.out.n;
		/* A second plan of the same moment has nothing to add, but that what was
		 * preempted for one task may be as good for another. */
		CHECK(round == 0 || more || n_out == 0 || preempted);
		more = s->b.out.more;
		round -= more;
		for (size_t i = 0; i < n_out; i++) {
			const struct sched_action *a = &s->b.out.actions[i];

			if (a->kind == SCHED_START)
				check_start(s, a);
			else if (a->kind == SCHED_PREEMPT)
				check_preempt(s, a), preempted = true;
			else
				check_reserve(s, a);
		}
		for (size_t i = 0; i < n_out; i++)
			if (s->b.out.actions[i].kind == SCHED_START)
				check_not_delayed(s, s->b.out.actions[i].ref.id);
		if (!more)
			check_reserved(s);
		CHECK(used_devices(s) <= limit(s));
	}
	check_nothing_idle(s);
}

static void check_counts(struct sim *s)
{
	struct sched_counts c = sched_count(s->b.q);
	size_t waiting = 0, running = 0;

	for (size_t i = 0; i < TASKS; i++) {
		waiting += s->tasks[i].state == SIM_WAIT;
		running += s->tasks[i].state == SIM_RUN;
	}
	CHECK(c.waiting == waiting && c.entries == waiting && c.running == running);
}

/* When everything that stands in the way is gone, everything that can run runs, and in the end. */
static void drain(struct sim *s)
{
	for (size_t i = 0; i < LANES; i++)
		sched_lane_pause(s->b.q, s->lanes[i], NULL), s->lane_paused[i] = false;
	memset(s->foreign_bytes, 0, sizeof(s->foreign_bytes));
	for (size_t i = 0; i < s->b.view.n_devices; i++)
		s->b.d[i].own_python = false;
	s->b.view.now_ns += 1000;
	s->b.view.now_wall_ns += 1000;
	for (size_t round = 0, quiet = 0; round < 4 * TASKS && quiet < 2; round++) {
		uint64_t before = s->started;

		for (size_t i = 0; i < TASKS; i++) {
			struct sim_task *x = &s->tasks[i];

			if (x->state == SIM_WAIT &&
			    (x->t.paused || x->t.dep ||
			     (x->t.gpus && (!wanted(s, &x->t) || wanted(s, &x->t) > limit(s) ||
					    wanted(s, &x->t) > s->b.view.n_devices)))) {
				CHECK(sched_remove(s->b.q, ref(x->t.id)) == 0);
				x->state = SIM_NONE;
			} else if (x->state == SIM_RUN && x->preempting) {
				wait_again(s, x);
			} else if (x->state == SIM_RUN) {
				CHECK(sched_end(s->b.q, ref(x->t.id)) == 0);
				x->state = SIM_ENDED;
			}
		}
		s->b.view.now_ns += 100;
		plan_and_check(s);
		quiet = s->started == before ? quiet + 1 : 0;
	}
	for (size_t i = 0; i < TASKS; i++) {
		struct sim_task *x = &s->tasks[i];
		uint32_t possible = 0;

		if (x->state != SIM_WAIT || !x->t.gpus)
			continue;
		for (unsigned int d = 0; d < s->b.view.n_devices; d++)
			possible += fits(s, &x->t, d, none_of_ours, 0);
		/* It, or the head of its lane, is too large for this machine. */
		CHECK(possible < wanted(s, &x->t) || (x->t.lane && !is_ready(s, x)));
	}
}

static unsigned long setting(const char *name, unsigned long otherwise)
{
	const char *text = getenv(name);

	return text ? strtoul(text, NULL, 10) : otherwise;
}

static void test_random(void **state)
{
	static struct sim sim;
	struct sim *s = &sim;
	unsigned long first = setting("SCHED_SIM_FIRST", 1);
	unsigned long seeds = setting("SCHED_SIM_SEEDS", SEEDS);
	uint64_t started = 0;

	for (unsigned long seed = first; seed < first + seeds; seed++) {
		open_sim(s, seed);
		for (int i = 0; i < STEPS; i++) {
			for (uint64_t n = any(s, 6); n > 0; n--)
				random_event(s);
			plan_and_check(s);
			check_counts(s);
		}
		drain(s);
		started += s->started;
		bench_close(&s->b);
	}
	assert_true(started > seeds);
}

/* Batches with limits, in lanes, edited and blocked while they run. */

#define BATCHES	 6
#define ELEMENTS 6

struct sim_batch {
	struct sched_task t;
	enum sim_state states[ELEMENTS];
	uint32_t lanes[ELEMENTS]; /* in which they run */
};

struct batches {
	struct sim s;
	struct sim_batch all[BATCHES];
	uint32_t widths[LANES];
	uint64_t ended;
};

static struct sched_ref element_of(const struct sim_batch *x, size_t i)
{
	return (struct sched_ref){ x->t.id, (uint32_t)i + 1 };
}

static void edit_batch(struct sim *s, struct sim_batch *x)
{
	x->t.lane = any(s, 3) ? s->lanes[any(s, LANES)] : 0;
	x->t.array_limit = (uint32_t)any(s, 4);
	x->t.gpus = (uint32_t)any(s, 3);
	x->t.mem_bytes = any(s, 2) * 40 * GIB;
	x->t.priority = (int32_t)any(s, 3);
	x->t.paused = any(s, 6) == 0;
	x->t.preemptible = any(s, 8) == 0;
	x->t.dep = any(s, 8) ? SCHED_DEP_READY : SCHED_DEP_WAIT;
	x->t.begin_wall_ns = any(s, 8) ? 0 : s->b.view.now_wall_ns + any(s, 20);
}

/* As the agent does with what it has read. */
static void put_batch(struct sim *s, struct sim_batch *x)
{
	sched_change_running(s->b.q, &x->t);
	(void)sched_remove_batch(s->b.q, x->t.id, x->t.n_elements);
	CHECK(sched_add(s->b.q, &x->t, NULL) == 0);
	for (size_t i = 0; i < x->t.n_elements; i++)
		if (x->states[i] == SIM_ENDED)
			CHECK(sched_remove_element(s->b.q, element_of(x, i)) == 0);
}

static void end_element(struct batches *m, struct sim_batch *x, size_t i, bool again)
{
	struct sim *s = &m->s;

	if (x->states[i] != SIM_RUN)
		return;
	x->states[i] = again ? SIM_WAIT : SIM_ENDED;
	m->ended += !again;
	if (again)
		CHECK(sched_requeue(s->b.q, element_of(x, i), any(s, 2) * (s->b.view.now_ns + 9),
				    any(s, 3) * 20 * GIB, NULL) == 0);
	else
		CHECK(sched_end(s->b.q, element_of(x, i)) == 0);
}

static void lane_event(struct batches *m, size_t lane)
{
	struct sim *s = &m->s;

	if (any(s, 3) == 0) {
		m->widths[lane] = 1 + (uint32_t)any(s, 3);
		sched_lane_width(s->b.q, s->lanes[lane], m->widths[lane]);
	} else {
		s->lane_paused[lane] = any(s, 3) == 0;
		(any(s, 2) ? sched_lane_pause : sched_lane_block)(
			s->b.q, s->lanes[lane], s->lane_paused[lane] ? "test" : NULL);
	}
}

static void batch_event(struct batches *m, struct sim_batch *x)
{
	struct sim *s = &m->s;
	size_t i = any(s, x->t.n_elements);

	switch (any(s, 8)) {
	case 0:
		edit_batch(s, x);
		put_batch(s, x);
		break;
	case 1:
		sched_array_block(s->b.q, x->t.id, any(s, 2) ? "test" : NULL);
		break;
	case 2:
		lane_event(m, any(s, LANES));
		break;
	case 3:
		s->b.view.now_ns += any(s, 10);
		s->b.view.now_wall_ns += any(s, 10);
		break;
	case 4:
		(void)sched_depend(s->b.q, element_of(x, i), SCHED_DEP_READY);
		break;
	default:
		end_element(m, x, i, any(s, 3) == 0);
	}
}

static void check_gate(const struct sim *s, struct gate *g)
{
	const struct entry *ready = g->ready;

	line_refresh(s->b.q, g);
	CHECK(g->ready == ready);
}

/* Where a gate has another one that may start when it is asked anew, somebody forgot to ask, and
 * that one would wait for ever. */
static void check_gates(const struct sim *s)
{
	const struct hmap *arrays = &s->b.q->arrays;

	for (size_t i = 0; i < s->b.q->n_lanes; i++)
		check_gate(s, s->b.q->lanes[i]);
	for (struct hnode *n = hmap_next(arrays, NULL); n; n = hmap_next(arrays, n))
		check_gate(s, treap_item(n, struct gate, hnode));
}

static void start_element(struct batches *m, struct sched_ref ref)
{
	const struct sim *s = &m->s;
	struct sim_batch *x = &m->all[ref.id - 1];
	uint32_t in_lane = 0, of_array = 0;

	for (size_t k = 0; k < BATCHES; k++)
		for (size_t i = 0; i < m->all[k].t.n_elements; i++)
			if (m->all[k].states[i] == SIM_RUN) {
				in_lane += m->all[k].lanes[i] == x->t.lane;
				of_array += k == ref.id - 1;
			}
	CHECK(x->states[ref.element - 1] == SIM_WAIT && !x->t.paused);
	CHECK(!x->t.array_limit || of_array < x->t.array_limit);
	CHECK(!x->t.lane || in_lane < m->widths[x->t.lane - 1]);
	x->states[ref.element - 1] = SIM_RUN;
	x->lanes[ref.element - 1] = x->t.lane;
}

static void plan_batches(struct batches *m)
{
	struct sim *s = &m->s;

	do {
		sched_plan(s->b.q, &s->b.view, &s->b.out);
		for (size_t i = 0; i < s->b.out.n; i++)
			if (s->b.out.actions[i].kind == SCHED_START)
				start_element(m, s->b.out.actions[i].ref);
	} while (s->b.out.more);
	check_gates(s);
}

static void open_batches(struct batches *m, uint64_t seed)
{
	struct sim *s = &m->s;

	memset(m, 0, sizeof(*m));
	s->seed = s->rand = seed;
	bench_open(&s->b, 4);
	for (size_t i = 0; i < LANES; i++) {
		s->lanes[i] = sched_lane(s->b.q, i ? i > 1 ? "c" : "b" : "a");
		m->widths[i] = 1;
	}
	for (size_t k = 0; k < BATCHES; k++) {
		struct sim_batch *x = &m->all[k];

		x->t = (struct sched_task){ .id = k + 1, .order = k + 1, .element = 1 };
		x->t.n_elements = 2 + (uint32_t)any(s, ELEMENTS - 1);
		for (size_t i = 0; i < ELEMENTS; i++)
			x->states[i] = SIM_WAIT;
		edit_batch(s, x);
		put_batch(s, x);
	}
}

/* When nothing stands in the way any more all of them run, and end. */
static void drain_batches(struct batches *m)
{
	struct sim *s = &m->s;
	uint64_t ended;

	for (size_t i = 0; i < LANES; i++) {
		sched_lane_pause(s->b.q, s->lanes[i], NULL);
		sched_lane_block(s->b.q, s->lanes[i], NULL);
	}
	for (size_t k = 0; k < BATCHES; k++) {
		sched_array_block(s->b.q, m->all[k].t.id, NULL);
		m->all[k].t.paused = false;
		m->all[k].t.dep = SCHED_DEP_READY;
		put_batch(s, &m->all[k]);
	}
	s->b.view.now_ns += 1000;
	s->b.view.now_wall_ns += 1000;
	do {
		ended = m->ended;
		plan_batches(m);
		for (size_t k = 0; k < BATCHES; k++)
			for (size_t i = 0; i < m->all[k].t.n_elements; i++)
				end_element(m, &m->all[k], i, false);
		check_gates(s);
	} while (m->ended > ended);
	CHECK(!sched_count(s->b.q).waiting && !sched_count(s->b.q).running);
	CHECK(!s->b.q->arrays.n && !sched_count(s->b.q).shapes);
}

static void test_random_batches(void **state)
{
	static struct batches m;
	unsigned long first = setting("SCHED_SIM_FIRST", 1);
	unsigned long seeds = setting("SCHED_SIM_SEEDS", SEEDS);

	for (unsigned long seed = first; seed < first + seeds; seed++) {
		open_batches(&m, seed);
		for (int i = 0; i < STEPS; i++) {
			for (uint64_t n = any(&m.s, 6); n > 0; n--) {
				batch_event(&m, &m.all[any(&m.s, BATCHES)]);
				check_gates(&m.s);
			}
			plan_batches(&m);
		}
		drain_batches(&m);
		bench_close(&m.s.b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_random_batches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
