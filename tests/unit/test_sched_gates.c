/* SPDX-License-Identifier: MIT */

/*
 * Lanes and limited arrays: random batches that run, are tried again, edited into other lanes,
 * paused and blocked, in virtual time, on a machine where nothing but these gates is in anybody's
 * way. After each plan a plain model goes through all elements: what started was allowed to, and of
 * what still waits there is none that could.
 *
 * SCHED_SIM_SEEDS and SCHED_SIM_FIRST say which; a failure prints its seed.
 */

#include <stdlib.h>

#include "sched_bench.h"

#include "base/hash.h"
#include "base/hmap.h"

#define ARRAYS	 5
#define ELEMENTS 6
#define LANES	 3
#define STEPS	 60
#define SEEDS	 5000

enum state { WAITS, RUNS, OVER };

struct element {
	enum state state;
	uint32_t lane, edition; /* of what runs: as it was started */
	uint64_t not_before_ns; /* of what waits */
};

struct array {
	struct sched_task t; /* as it was asked for last */
	uint32_t edition;
	bool blocked;
	struct element elements[ELEMENTS + 1]; /* from 1 */
};

struct world {
	struct bench b;
	uint64_t rand, seed, started;
	struct array arrays[ARRAYS];
	bool paused[LANES + 1], blocked[LANES + 1];
};

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond))                                                                       \
			fail_msg("seed %llu: " #cond, (unsigned long long)w->seed);                \
	} while (0)

static uint64_t any(struct world *w, uint64_t n)
{
	w->rand = hash_u64(w->rand, 7);
	return w->rand % n;
}

/* The last lane is a wide one. */
static uint32_t width(uint32_t lane)
{
	return lane == LANES ? 2 : 1;
}

/* ---- the plain model ---- */

static uint32_t running_in_lane(const struct world *w, uint32_t lane)
{
	uint32_t n = 0;

	for (size_t i = 0; i < ARRAYS; i++)
		for (uint32_t k = 1; k <= ELEMENTS; k++)
			n += w->arrays[i].elements[k].state == RUNS &&
			     w->arrays[i].elements[k].lane == lane;
	return n;
}

static uint32_t running_of(const struct array *a)
{
	uint32_t n = 0;

	for (uint32_t k = 1; k <= ELEMENTS; k++)
		n += a->elements[k].state == RUNS;
	return n;
}

/* Of a lane it keeps the others waiting, also during its own back-off. */
static bool in_line(const struct array *a, uint32_t k)
{
	return a->elements[k].state == WAITS && !a->t.paused && a->t.dep == SCHED_DEP_READY;
}

static bool is_before(const struct array *a, uint32_t ka, const struct array *b, uint32_t kb)
{
	if (a->t.priority != b->t.priority)
		return a->t.priority < b->t.priority;
	return a->t.order != b->t.order ? a->t.order < b->t.order : ka < kb;
}

static bool may_start(const struct world *w, const struct array *a, uint32_t k)
{
	if (!in_line(a, k) || a->elements[k].not_before_ns > w->b.view.now_ns ||
	    (a->t.array_limit && (a->blocked || running_of(a) >= a->t.array_limit)))
		return false;
	if (!a->t.lane)
		return true;
	for (size_t i = 0; i < ARRAYS; i++)
		for (uint32_t j = 1; j <= ELEMENTS; j++)
			if (w->arrays[i].t.lane == a->t.lane && in_line(&w->arrays[i], j) &&
			    is_before(&w->arrays[i], j, a, k))
				return false;
	return running_in_lane(w, a->t.lane) < width(a->t.lane) && !w->paused[a->t.lane] &&
	       !w->blocked[a->t.lane];
}

static void plan(struct world *w)
{
	do {
		sched_plan(w->b.q, &w->b.view, &w->b.out);
		for (size_t i = 0; i < w->b.out.n; i++) {
			const struct sched_action *act = &w->b.out.actions[i];
			struct array *a = &w->arrays[act->ref.id - 1];

			CHECK(act->kind == SCHED_START);
			CHECK(may_start(w, a, act->ref.element));
			a->elements[act->ref.element].state = RUNS;
			a->elements[act->ref.element].lane = a->t.lane;
			a->elements[act->ref.element].edition = a->edition;
			w->started++;
		}
	} while (w->b.out.more);
	for (size_t i = 0; i < ARRAYS; i++)
		for (uint32_t k = 1; k <= ELEMENTS; k++)
			if (may_start(w, &w->arrays[i], k))
				fail_msg("seed %llu: %zu.%u could start, and does not",
					 (unsigned long long)w->seed, i + 1, k);
}

/* ---- what an agent does ---- */

/* The batch as it lies in the spool: a look puts all that waits in anew, with its back-offs. */
static void put_anew(struct world *w, struct array *a)
{
	sched_change_running(w->b.q, &a->t);
	(void)sched_remove_batch(w->b.q, a->t.id, a->t.n_elements);
	CHECK(sched_add(w->b.q, &a->t, NULL) == 0);
	for (uint32_t k = 1; k <= ELEMENTS; k++) {
		struct element *x = &a->elements[k];
		struct sched_task t = a->t;

		if (x->state != WAITS || x->not_before_ns)
			(void)sched_remove_element(w->b.q, (struct sched_ref){ a->t.id, k });
		t.element = k;
		t.n_elements = 1;
		t.not_before_ns = x->not_before_ns;
		if (x->state == WAITS && x->not_before_ns)
			CHECK(sched_add(w->b.q, &t, NULL) == 0);
	}
}

static void edit(struct world *w, struct array *a)
{
	a->edition++;
	a->t.lane = (uint32_t)any(w, LANES + 1);
	a->t.priority = (int32_t)any(w, 3);
	a->t.array_limit = (uint32_t)any(w, 4);
	a->t.paused = any(w, 6) == 0;
	a->t.dep = any(w, 6) ? SCHED_DEP_READY : SCHED_DEP_WAIT;
	put_anew(w, a);
}

static bool has_any(const struct array *a, enum state state)
{
	for (uint32_t k = 1; k <= ELEMENTS; k++)
		if (a->elements[k].state == state)
			return true;
	return false;
}

static void end_one(struct world *w, struct array *a, uint32_t k)
{
	struct element *x = &a->elements[k];
	struct sched_ref ref = { a->t.id, k };

	if (x->state != RUNS)
		return;
	if (any(w, 2)) {
		CHECK(sched_end(w->b.q, ref) == 0);
		x->state = OVER;
		return;
	}
	x->not_before_ns = any(w, 2) ? w->b.view.now_ns + any(w, 20) : 0;
	x->state = WAITS;
	CHECK(sched_requeue(w->b.q, ref, x->not_before_ns, 0, "again") == 0);
	/* It was started before an edit: its batch is looked at again. */
	if (x->edition != a->edition || any(w, 2))
		put_anew(w, a);
}

static void random_event(struct world *w)
{
	struct array *a = &w->arrays[any(w, ARRAYS)];
	uint32_t lane = 1 + (uint32_t)any(w, LANES);

	switch (any(w, 9)) {
	case 0:
		w->paused[lane] = !w->paused[lane];
		sched_lane_pause(w->b.q, lane, w->paused[lane] ? "test" : NULL);
		break;
	case 1:
		w->blocked[lane] = !w->blocked[lane];
		sched_lane_block(w->b.q, lane, w->blocked[lane] ? "test" : NULL);
		break;
	case 2:
		if (!a->t.array_limit || (!has_any(a, WAITS) && !has_any(a, RUNS)))
			break;
		a->blocked = !a->blocked;
		sched_array_block(w->b.q, a->t.id, a->blocked ? "test" : NULL);
		break;
	case 3:
		w->b.view.now_ns += any(w, 10);
		break;
	case 4:
		edit(w, a);
		break;
	case 5: /* an element that another node has begun, or gives back */
	{
		struct element *x = &a->elements[1 + any(w, ELEMENTS)];

		if (x->state == RUNS)
			break;
		x->state = x->state == WAITS ? OVER : WAITS;
		x->not_before_ns = 0;
		put_anew(w, a);
	} break;
	default:
		end_one(w, a, 1 + (uint32_t)any(w, ELEMENTS));
	}
}

static void open_world(struct world *w, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->seed = w->rand = seed;
	bench_open(&w->b, 0);
	for (uint32_t lane = 1; lane <= LANES; lane++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "l%u", lane);
		CHECK(sched_lane(w->b.q, name) == lane);
		sched_lane_width(w->b.q, lane, width(lane));
	}
	for (size_t i = 0; i < ARRAYS; i++) {
		w->arrays[i].t = (struct sched_task){
			.id = i + 1, .element = 1, .n_elements = ELEMENTS, .order = i + 1
		};
		edit(w, &w->arrays[i]);
	}
}

static void test_gates(void **state)
{
	static struct world world;
	struct world *w = &world;
	const char *first = getenv("SCHED_SIM_FIRST"), *seeds = getenv("SCHED_SIM_SEEDS");
	uint64_t from = first ? strtoull(first, NULL, 10) : 1, started = 0;
	uint64_t n = seeds ? strtoull(seeds, NULL, 10) : SEEDS;

	for (uint64_t seed = from; seed < from + n; seed++) {
		open_world(w, seed);
		for (int i = 0; i < STEPS; i++) {
			for (uint64_t k = any(w, 5); k > 0; k--)
				random_event(w);
			plan(w);
		}
		started += w->started;
		bench_close(&w->b);
	}
	assert_true(started > 3 * n);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_gates) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
