/* SPDX-License-Identifier: MIT */

/* When nothing is left for this machine: what waits by itself counts, what somebody holds back does
 * not. */

#include "sched_bench.h"

#include "sched/queue_empty.h"

#define T(...) ((struct sched_task){ __VA_ARGS__ })

static bool empty_with(struct sched_task t, const char *pause)
{
	struct bench b;
	bool r;

	bench_open(&b, 2);
	b.d[1].model = "NVIDIA A100";
	t.id = 1;
	if (pause) {
		t.lane = sched_lane(b.q, "night");
		sched_lane_pause(b.q, t.lane, pause);
	}
	bench_add(&b, t);
	r = sched_is_empty(b.q, &b.view);
	bench_close(&b);
	return r;
}

static void test_what_waits(void **state)
{
	assert_false(empty_with(T(.gpus = 0), NULL));
	assert_false(empty_with(T(.gpus = 1), NULL));
	assert_false(empty_with(T(.gpus = SCHED_ALL_GPUS), NULL));
	assert_false(empty_with(T(.gpus = 1, .begin_wall_ns = UINT64_MAX / 2), NULL));
	assert_false(empty_with(T(.gpus = 1, .not_before_ns = UINT64_MAX / 2), NULL));
	assert_false(empty_with(T(.gpus = 1, .dep = SCHED_DEP_WAIT), NULL));
	assert_false(empty_with(T(.gpus = 1, .model = "a100"), NULL));
	assert_true(empty_with(T(.gpus = 1, .dep = SCHED_DEP_NEVER), NULL));
	assert_true(empty_with(T(.gpus = 1, .paused = true), NULL));
	assert_false(empty_with(T(.gpus = 1, .changing = true), NULL));
	assert_true(empty_with(T(.gpus = 0), "failed at once"));
	assert_true(empty_with(T(.gpus = 3), NULL));
	assert_true(empty_with(T(.gpus = 2, .model = "a100"), NULL));
	assert_true(empty_with(T(.gpus = 1, .mem_bytes = 81 * GIB), NULL));
	assert_true(empty_with(T(.gpus = SCHED_ALL_GPUS, .model = "h100"), NULL));
}

/* What would not end in time is for the next job. */
static void test_what_does_not_end_in_time(void **state)
{
	struct bench b;

	bench_open(&b, 1);
	b.view.end_ns = b.view.now_ns + 60 * NS_PER_S;
	bench_add(&b, T(.id = 1, .gpus = 1, .timeout_ms = 60001));
	assert_true(sched_is_empty(b.q, &b.view));
	bench_add(&b, T(.id = 2, .gpus = 1, .timeout_ms = 60000));
	assert_false(sched_is_empty(b.q, &b.view));
	bench_close(&b);
}

static void test_what_runs(void **state)
{
	struct bench b;

	bench_open(&b, 1);
	assert_true(sched_is_empty(b.q, &b.view));
	bench_add(&b, T(.id = 1, .gpus = 1));
	bench_add(&b, T(.id = 2, .gpus = 2));
	assert_string_equal(bench_plan(&b), "start 1 0");
	assert_false(sched_is_empty(b.q, &b.view));
	assert_int_equal(sched_end(b.q, (struct sched_ref){ 1, 0 }), 0);
	assert_true(sched_is_empty(b.q, &b.view)); /* 2 is for a larger machine */
	b.view.n_devices = 2;
	b.d[1] = b.d[0];
	assert_false(sched_is_empty(b.q, &b.view)); /* which this one has become */
	bench_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_waits),
		cmocka_unit_test(test_what_does_not_end_in_time),
		cmocka_unit_test(test_what_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
