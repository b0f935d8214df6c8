/* SPDX-License-Identifier: MIT */

/* The planner's rules, one by one, in virtual time. */

#include "sched/queue_empty.h"
#include "sched_bench.h"

#define T(...) ((struct sched_task){ __VA_ARGS__ })

static struct bench b;

static void expect(const char *actions)
{
	assert_string_equal(bench_plan(&b), actions);
}

static void test_order(void **state)
{
	bench_open(&b, 1);
	bench_add(&b, T(.id = 1, .gpus = 1));
	bench_add(&b, T(.id = 2, .gpus = 1, .priority = -5));
	bench_add(&b, T(.id = 3, .gpus = 1));
	bench_add(&b, T(.id = 4, .gpus = 1, .preemptible = true, .priority = -9));
	expect("start 2 0");
	expect("");
	for (uint64_t done = 2, next = 1; next <= 4; next += next == 1 ? 2 : 1) {
		char text[32];

		assert_int_equal(sched_end(b.q, ref(done)), 0);
		snprintf(text, sizeof(text), "start %llu 0", (unsigned long long)next);
		expect(text);
		done = next;
	}
	bench_close(&b);
}

static void test_ten_on_ten_at_once(void **state)
{
	bench_open(&b, 10);
	for (uint64_t i = 1; i <= 12; i++)
		bench_add(&b, T(.id = i, .gpus = 1));
	(void)bench_plan(&b);
	assert_int_equal(b.out.n, 10);
	assert_int_equal(sched_count(b.q).waiting, 2);
	bench_close(&b);
}

static void test_batch_is_one_entry(void **state)
{
	bench_open(&b, 3);
	bench_add(&b, T(.id = 1, .element = 1, .n_elements = 100000, .gpus = 1));
	assert_int_equal(sched_count(b.q).entries, 1);
	expect("start 1.1 0; start 1.2 1; start 1.3 2");
	assert_int_equal(sched_count(b.q).waiting, 99997);
	assert_int_equal(sched_remove_element(b.q, (struct sched_ref){ 1, 4 }), 0);
	assert_int_equal(sched_remove_element(b.q, (struct sched_ref){ 1, 6 }), 0);
	assert_int_equal(sched_remove_element(b.q, (struct sched_ref){ 1, 6 }), -ENOENT);
	assert_int_equal(sched_requeue(b.q, (struct sched_ref){ 1, 2 }, 0, 0, NULL), 0);
	expect("start 1.2 1");
	assert_int_equal(sched_end(b.q, (struct sched_ref){ 1, 1 }), 0);
	assert_int_equal(sched_end(b.q, (struct sched_ref){ 1, 3 }), 0);
	expect("start 1.5 0; start 1.7 2");
	assert_int_equal(sched_remove(b.q, ref(1)), 0);
	assert_int_equal(sched_count(b.q).waiting, 0);
	bench_close(&b);
}

/* After a restart elements are adopted before the batch is read; and what is changed, or goes, is
 * all that waits of it, also what was tried before. */
static void test_batch_in_pieces(void **state)
{
	bench_open(&b, 3);
	for (uint32_t i = 0; i < 2; i++) {
		struct sched_task running = T(.id = 1, .element = 1 + 2 * i, .gpus = 1);
		struct devset devices = { 0 };

		devset_add(&devices, i);
		assert_int_equal(sched_adopt(b.q, &running, devices, 0, NULL), 0);
	}
	bench_add(&b, T(.id = 1, .element = 1, .n_elements = 6, .gpus = 1));
	assert_int_equal(sched_count(b.q).waiting, 4);
	assert_int_equal(sched_add(b.q, &T(.id = 1, .element = 1, .n_elements = 6), NULL), -EEXIST);
	expect("start 1.2 2");
	assert_int_equal(sched_requeue(b.q, (struct sched_ref){ 1, 1 }, 0, 0, NULL), 0);

	struct sched_task t = T(.id = 1, .element = 1, .n_elements = 6, .gpus = 1, .paused = true);

	assert_int_equal(sched_change(b.q, &t, NULL), 0);
	expect("");
	t.paused = false;
	assert_int_equal(sched_change(b.q, &t, NULL), 0);
	expect("start 1.1 0");
	assert_int_equal(sched_requeue(b.q, (struct sched_ref){ 1, 3 }, 0, 0, NULL), 0);
	assert_int_equal(sched_remove_batch(b.q, 1, 6), 0);
	assert_int_equal(sched_count(b.q).waiting, 0);
	expect("");
	assert_int_equal(sched_remove_batch(b.q, 1, 6), -ENOENT);
	bench_close(&b);
}

static void test_array_limit(void **state)
{
	bench_open(&b, 4);
	bench_add(&b, T(.id = 1, .element = 1, .n_elements = 9, .gpus = 1, .array_limit = 2));
	bench_add(&b, T(.id = 2, .gpus = 1));
	expect("start 1.1 0; start 1.2 1; start 2 2");
	/* An element in its back-off is not in the way of the others. */
	assert_int_equal(sched_requeue(b.q, (struct sched_ref){ 1, 1 }, 5 * NS_PER_S, 0, NULL), 0);
	expect("start 1.3 0");
	assert_int_equal(b.out.next_ns, 5 * NS_PER_S);
	b.view.now_ns = 5 * NS_PER_S;
	expect("");
	assert_int_equal(sched_end(b.q, (struct sched_ref){ 1, 2 }), 0);
	expect("start 1.1 1");
	bench_close(&b);
}

static void test_array_limit_in_a_lane(void **state)
{
	bench_open(&b, 4);

	uint32_t lane = sched_lane(b.q, "train");

	bench_add(&b, T(.id = 1, .element = 1, .n_elements = 3, .gpus = 1, .array_limit = 1,
			.lane = lane));
	bench_add(&b, T(.id = 2, .gpus = 1, .lane = lane));
	expect("start 1.1 0");
	assert_int_equal(sched_end(b.q, (struct sched_ref){ 1, 1 }), 0);
	expect("start 1.2 0");
	assert_int_equal(sched_end(b.q, (struct sched_ref){ 1, 2 }), 0);
	expect("start 1.3 0");
	assert_int_equal(sched_end(b.q, (struct sched_ref){ 1, 3 }), 0);
	expect("start 2 0");
	bench_close(&b);
}

/* A batch is put in anew when it is edited: what runs of it keeps the lane in which it began. */
static void test_array_that_changes_lanes_while_it_runs(void **state)
{
	const char *const ways[][2] = { { NULL, "week" }, { "day", "week" }, { "week", NULL } };

	for (size_t i = 0; i < 3; i++) {
		bench_open(&b, 4);

		uint32_t from = ways[i][0] ? sched_lane(b.q, ways[i][0]) : 0;
		uint32_t to = ways[i][1] ? sched_lane(b.q, ways[i][1]) : 0;
		struct sched_task t = T(.id = 1, .order = 1, .element = 1, .n_elements = 3,
					.gpus = 1, .array_limit = 1, .lane = from);

		bench_add(&b, t);
		expect("start 1.1 0");
		t.lane = to;
		assert_int_equal(sched_remove_batch(b.q, 1, 3), 0);
		bench_add(&b, t);
		expect("");
		assert_int_equal(sched_end(b.q, (struct sched_ref){ 1, 1 }), 0);
		expect("start 1.2 0");
		bench_close(&b);
	}
}

/* What another node has must not be planned again and again here: the block outlasts all changes
 * of what waits. */
static void test_array_that_is_blocked(void **state)
{
	struct sched_task t = T(.id = 1, .order = 1, .element = 1, .gpus = 1, .array_limit = 2);

	bench_open(&b, 4);
	bench_add(&b, t);
	expect("start 1.1 0");
	sched_array_block(b.q, 1, "elsewhere");
	assert_int_equal(sched_requeue(b.q, (struct sched_ref){ 1, 1 }, 0, 0, NULL), 0);
	expect("");
	/* As its batch is put in anew. */
	assert_int_equal(sched_remove_batch(b.q, 1, 1), 0);
	t.n_elements = 3;
	bench_add(&b, t);
	assert_int_equal(sched_remove_element(b.q, (struct sched_ref){ 1, 1 }), 0);
	expect("");
	sched_array_block(b.q, 1, "by another one");
	expect("");
	sched_array_block(b.q, 1, NULL);
	expect("start 1.2 0; start 1.3 1");
	/* Nobody blocks what nothing is known of. */
	assert_int_equal(sched_end(b.q, (struct sched_ref){ 1, 2 }), 0);
	assert_int_equal(sched_end(b.q, (struct sched_ref){ 1, 3 }), 0);
	sched_array_block(b.q, 1, "elsewhere");
	bench_add(&b, t);
	expect("start 1.1 0; start 1.2 1");
	bench_close(&b);
}

/* What runs of a batch runs as it was; its next attempt is as the batch is by then. */
static void test_batch_that_is_edited_while_it_runs(void **state)
{
	struct sched_task t = T(.id = 1, .order = 1, .element = 1, .n_elements = 2, .gpus = 1,
				.mem_bytes = 20 * GIB, .model = "*H200");
	struct sched_task seen;

	bench_open(&b, 4);
	b.d[0].model = b.d[1].model = "NVIDIA A10";
	bench_add(&b, t);
	expect("start 1.1 2; start 1.2 3");
	t.gpus = 2;
	t.mem_bytes = 10 * GIB;
	t.model = "*A10";
	t.lane = sched_lane(b.q, "new");
	t.array_limit = 1;
	sched_change_running(b.q, &t);
	assert_int_equal(sched_get(b.q, (struct sched_ref){ 1, 1 }, &seen), 0);
	assert_int_equal(seen.gpus, 1);
	assert_int_equal(sched_requeue(b.q, (struct sched_ref){ 1, 1 }, 0, 0, NULL), 0);
	assert_int_equal(sched_get(b.q, (struct sched_ref){ 1, 1 }, &seen), 0);
	assert_int_equal(seen.gpus, 2);
	assert_int_equal(seen.mem_bytes, 10 * GIB);
	assert_int_equal(seen.lane, t.lane);
	assert_string_equal(seen.model, "*A10");
	expect(""); /* the other one is of the array as well */
	assert_int_equal(sched_requeue(b.q, (struct sched_ref){ 1, 2 }, 0, 15 * GIB, NULL), 0);
	expect("start 1.1 0 1");
	/* Another edit: an attempt that began before it does not bring back the old limit. */
	t.n_elements = 3;
	t.array_limit = 2;
	t.gpus = 0;
	t.lane = 0;
	sched_change_running(b.q, &t);
	assert_int_equal(sched_remove_batch(b.q, 1, 3), 0);
	bench_add(&b, t);
	assert_int_equal(sched_requeue(b.q, (struct sched_ref){ 1, 1 }, 0, 0, NULL), 0);
	expect("start 1.1; start 1.2");
	/* What it waits for is known of what runs, too. */
	assert_int_equal(sched_depend(b.q, (struct sched_ref){ 1, 1 }, SCHED_DEP_WAIT), 0);
	assert_int_equal(sched_requeue(b.q, (struct sched_ref){ 1, 1 }, 0, 0, NULL), 0);
	expect("start 1.3");
	bench_close(&b);
}

static void test_lane_is_serial(void **state)
{
	bench_open(&b, 4);

	uint32_t lane = sched_lane(b.q, "train");

	assert_int_equal(sched_lane(b.q, "train"), lane);
	for (uint64_t i = 1; i <= 4; i++)
		bench_add(&b, T(.id = i, .gpus = 1, .lane = lane));
	expect("start 1 0");
	sched_lane_width(b.q, lane, 2);
	expect("start 2 1");
	/* The lane waits for a head in its back-off; a paused task is passed. */
	assert_int_equal(sched_requeue(b.q, ref(1), 9 * NS_PER_S, 0, NULL), 0);
	expect("");
	b.view.now_ns = 9 * NS_PER_S;
	sched_lane_pause(b.q, lane, "by hand");
	expect("");
	sched_lane_pause(b.q, lane, NULL);
	expect("start 1 0");
	assert_int_equal(sched_end(b.q, ref(1)), 0);
	assert_int_equal(
		sched_change(b.q, &T(.id = 3, .order = 3, .lane = lane, .paused = true), NULL), 0);
	expect("start 4 0");
	bench_close(&b);
}

/* Lanes take turns; what has no lane keeps its age. */
static void test_lanes_rotate(void **state)
{
	static const char *const expected[] = { "start 1 0", "start 11 0", "start 21 0",
						"start 2 0", "start 12 0", "start 22 0",
						"start 3 0", "start 13 0", "start 23 0",
						"start 40 0" };
	uint64_t last = 0;

	bench_open(&b, 1);
	for (uint64_t i = 1; i <= 3; i++)
		for (uint64_t lane = 0; lane < 3; lane++)
			bench_add(&b,
				  T(.id = lane * 10 + i, .gpus = 1,
				    .lane = sched_lane(b.q, lane ? lane > 1 ? "c" : "b" : "a")));
	bench_add(&b, T(.id = 40, .gpus = 1));
	for (size_t i = 0; i < 10; i++) {
		if (last)
			assert_int_equal(sched_end(b.q, ref(last)), 0);
		expect(expected[i]);
		last = b.out.actions[0].ref.id;
	}
	bench_close(&b);
}

static void test_aside(void **state)
{
	struct sched_task waits = T(.id = 2, .order = 2, .gpus = 1, .dep = SCHED_DEP_WAIT);

	bench_open(&b, 4);
	bench_add(&b, T(.id = 1, .gpus = 1, .begin_wall_ns = 100));
	bench_add(&b, waits);
	bench_add(&b, T(.id = 3, .gpus = 1, .dep = SCHED_DEP_NEVER));
	expect("");
	assert_int_equal(b.out.next_wall_ns, 100);
	waits.dep = SCHED_DEP_READY;
	assert_int_equal(sched_change(b.q, &waits, NULL), 0);
	expect("start 2 0");
	/* The monotonic clock has no say in it, and a step back does not undo it. */
	b.view.now_ns = UINT64_MAX / 2;
	expect("");
	b.view.now_wall_ns = 100;
	expect("start 1 1");
	assert_int_equal(sched_requeue(b.q, ref(1), 0, 0, NULL), 0);
	b.view.now_wall_ns = 0;
	expect("start 1 1");
	bench_close(&b);
}

static void test_devices_that_are_not_used(void **state)
{
	bench_open(&b, 7);
	b.d[6].state = SCHED_DEV_HELD;
	b.d[6].tested = true;
	b.d[0].state = SCHED_DEV_LEFT;
	b.d[1].state = SCHED_DEV_UNSEEN;
	b.d[2].state = SCHED_DEV_EXCLUDED;
	b.d[3].foreign = true;
	b.d[4].state = SCHED_DEV_LENT;
	b.view.policy.leave = 2;
	bench_add(&b, T(.id = 1, .gpus = 1));
	bench_add(&b, T(.id = 2, .gpus = 1, .rules = SCHED_RULES_COMPETE, .mem_bytes = GIB));
	expect("start 2 3");
	b.view.policy.leave = 0;
	expect("start 1 5");
	bench_close(&b);
}

static void test_limited_number_of_devices(void **state)
{
	bench_open(&b, 8);
	b.view.policy.limits_devices = true;
	b.view.policy.max_devices = 3;
	bench_add(&b, T(.id = 1, .gpus = 2));
	bench_add(&b, T(.id = 2, .gpus = 4)); /* never, so it keeps nothing from the others */
	bench_add(&b, T(.id = 3, .gpus = 2));
	bench_add(&b, T(.id = 4, .gpus = 1));
	/* 3 waits for a place, not for a device: the one that is left is kept for it, and held. */
	expect("start 1 0 1; reserve 3 2");
	assert_int_equal(sched_end(b.q, ref(1)), 0);
	expect("start 3 0 1; start 4 2");
	assert_int_equal(sched_end(b.q, ref(4)), 0);
	/* Beside one of ours there is a place already. */
	bench_add(&b, T(.id = 5, .gpus = 1, .shared = true, .mem_bytes = 30 * GIB));
	bench_add(&b, T(.id = 6, .gpus = 1, .shared = true, .mem_bytes = 60 * GIB));
	bench_add(&b, T(.id = 7, .gpus = 1, .shared = true, .mem_bytes = 20 * GIB));
	expect("start 5 2");
	assert_int_equal(sched_end(b.q, ref(3)), 0);
	expect("start 6 0; start 7 0");
	/* All that it may have. */
	bench_add(&b, T(.id = 8, .gpus = SCHED_ALL_GPUS));
	for (uint64_t i = 5; i <= 7; i++)
		assert_int_equal(sched_end(b.q, ref(i)), 0);
	expect("start 8 0 1 2");
	bench_close(&b);
}

/* What nobody can measure is for one task alone, whatever amount that says. */
static void test_memory_that_is_not_known(void **state)
{
	bench_open(&b, 2);
	b.d[0].mem_known = b.d[1].mem_known = false;
	bench_add(&b, T(.id = 1, .gpus = 1, .mem_bytes = 30 * GIB));
	expect("");
	b.d[0].unmeasured = b.d[1].unmeasured = true;
	bench_add(&b, T(.id = 2, .gpus = 1, .mem_bytes = 1 * GIB, .shared = true));
	bench_add(&b, T(.id = 3, .gpus = 1, .shared = true));
	expect("start 1 0; start 3 1");
	assert_int_equal(sched_end(b.q, ref(1)), 0);
	assert_int_equal(sched_end(b.q, ref(3)), 0);
	expect("");
	bench_close(&b);
}

/* A preemptible task's place is as good as its device. */
static void test_limit_and_preemption(void **state)
{
	bench_open(&b, 4);
	b.view.policy.limits_devices = true;
	b.view.policy.max_devices = 2;
	bench_add(&b, T(.id = 1, .gpus = 1, .preemptible = true));
	bench_add(&b, T(.id = 2, .gpus = 1, .preemptible = true));
	expect("start 1 0; start 2 1");
	bench_add(&b, T(.id = 3, .gpus = 1));
	expect("preempt 1");
	assert_int_equal(sched_requeue(b.q, ref(1), 0, 0, NULL), 0);
	expect("start 3 0");
	bench_close(&b);
}

static void test_shared_memory(void **state)
{
	bench_open(&b, 2);
	for (uint64_t i = 1; i <= 5; i++)
		bench_add(&b, T(.id = i, .gpus = 1, .shared = true, .mem_bytes = 30 * GIB));
	/* Promised counts at once; the first device is filled before the next is opened. */
	expect("start 1 0; start 2 0; start 3 1; start 4 1");
	assert_int_equal(sched_end(b.q, ref(1)), 0);
	/* What 2 has allocated is seen as not free, and not counted twice. */
	b.d[0].free_bytes = 52 * GIB;
	assert_int_equal(sched_used(b.q, ref(2), 0, 28 * GIB), 0);
	expect("start 5 0");
	bench_add(&b, T(.id = 6, .gpus = 1, .shared = true, .mem_bytes = 25 * GIB));
	expect("");
	b.d[1].exclusive_process = true;
	assert_int_equal(sched_end(b.q, ref(3)), 0);
	expect("");
	bench_close(&b);
}

static void test_held_memory_counts_as_free(void **state)
{
	bench_open(&b, 1);
	b.d[0].state = SCHED_DEV_HELD;
	b.d[0].free_bytes = 2 * GIB;
	b.d[0].hold_bytes = 70 * GIB;
	bench_add(&b, T(.id = 1, .gpus = 1, .mem_bytes = 75 * GIB));
	expect("");
	bench_add(&b, T(.id = 2, .priority = -1, .gpus = 1, .mem_bytes = 72 * GIB));
	expect("start 2 0");
	bench_close(&b);
}

static void test_compete_rules(void **state)
{
	bench_open(&b, 2);
	b.d[0].foreign = true;
	b.d[0].free_bytes = 30 * GIB;
	b.d[1].own_python = true;
	for (uint64_t i = 1; i <= 2; i++)
		bench_add(&b, T(.id = i, .gpus = 1, .mem_bytes = 10 * GIB, .shared = true,
				.rules = SCHED_RULES_COMPETE, .no_own_python = true));
	/* Bob does not matter, my own Python does, and so does the first of the two. */
	expect("start 1 0");
	bench_close(&b);
}

static void test_collecting(void **state)
{
	bench_open(&b, 4);
	bench_add(&b, T(.id = 1, .gpus = 1));
	expect("start 1 0");
	bench_add(&b, T(.id = 2, .gpus = 4));
	bench_add(&b, T(.id = 3, .gpus = 1));
	bench_add(&b, T(.id = 4));
	/* Nothing passes on a device that the large one needs; what needs none passes. */
	expect("start 4; reserve 2 1; reserve 2 2; reserve 2 3");
	expect("");
	/* A more urgent one takes a reserved device, which ends the reservation. */
	bench_add(&b, T(.id = 5, .gpus = 1, .priority = -1));
	expect("start 5 1");
	assert_int_equal(sched_remove(b.q, ref(2)), 0);
	expect("start 3 2; unreserve 2 3");
	bench_close(&b);
}

static void test_backfill_elsewhere(void **state)
{
	bench_open(&b, 3);
	b.d[2].model = "NVIDIA A10";
	bench_add(&b, T(.id = 1, .gpus = 1, .model = "h200"));
	expect("start 1 0");
	bench_add(&b, T(.id = 2, .gpus = 2, .model = "H200, *B200*"));
	bench_add(&b, T(.id = 3, .gpus = 1));
	bench_add(&b, T(.id = 4, .gpus = 8, .model = "H200"));
	/* 3 may have the A10; 4 is too large for this machine and keeps nothing from anybody. */
	expect("start 3 2; reserve 2 1");
	bench_close(&b);
}

static void test_backfill_by_timeout(void **state)
{
	bench_open(&b, 2);
	bench_add(&b, T(.id = 1, .gpus = 1, .timeout_ms = 60000));
	expect("start 1 0");
	bench_add(&b, T(.id = 2, .gpus = 2));
	bench_add(&b, T(.id = 3, .gpus = 1, .timeout_ms = 60001));
	bench_add(&b, T(.id = 4, .gpus = 1, .timeout_ms = 60000));
	/* 1 may end before its time-out, so strictly nothing may pass. */
	expect("reserve 2 1");
	b.view.policy.backfill_timeout = true;
	expect("start 4 1");
	bench_close(&b);
}

static void test_preempt(void **state)
{
	bench_open(&b, 3);
	for (uint64_t i = 1; i <= 3; i++)
		bench_add(&b, T(.id = i, .gpus = 1, .preemptible = true));
	expect("start 1 0; start 2 1; start 3 2");
	bench_add(&b, T(.id = 4, .gpus = 1));
	bench_add(&b, T(.id = 5, .gpus = 1));
	expect("preempt 1; preempt 2");
	expect("");
	assert_int_equal(sched_requeue(b.q, ref(2), 0, 0, "preempted"), 0);
	expect("start 4 1");
	/* One that was preempted does not come back before the one that it made room for. */
	assert_int_equal(sched_requeue(b.q, ref(1), 0, 0, "preempted"), 0);
	expect("start 5 0");
	/* A preemptible one pushes nobody aside; nor does one that would not have enough. */
	bench_add(&b, T(.id = 6, .gpus = 1, .preemptible = true));
	bench_add(&b, T(.id = 7, .gpus = 2));
	expect("");
	assert_int_equal(sched_end(b.q, ref(4)), 0);
	expect("preempt 3; reserve 7 1");
	bench_close(&b);
}

/* The lane would start the one that made room first again. */
static void test_no_preemption_in_the_own_lane(void **state)
{
	bench_open(&b, 1);

	uint32_t lane = sched_lane(b.q, "x");

	sched_lane_width(b.q, lane, 2);
	bench_add(&b, T(.id = 1, .gpus = 1, .lane = lane, .preemptible = true));
	bench_add(&b, T(.id = 2, .gpus = 1, .lane = lane));
	expect("start 1 0");
	expect("");
	bench_add(&b, T(.id = 3, .gpus = 1));
	expect("");
	assert_int_equal(sched_remove(b.q, ref(2)), 0);
	expect("preempt 1");
	bench_close(&b);
}

static void link_pair(unsigned int x, unsigned int y)
{
	devset_add(&b.d[x].peers, y);
	devset_add(&b.d[y].peers, x);
}

static void test_groups(void **state)
{
	bench_open(&b, 8);
	for (unsigned int i = 0; i < 4; i++)
		for (unsigned int j = 0; j < i; j++)
			link_pair(i, j);
	link_pair(4, 5);
	link_pair(6, 7);
	bench_add(&b, T(.id = 1, .gpus = 1));
	expect("start 1 4");
	bench_add(&b, T(.id = 2, .gpus = 1));
	expect("start 2 5");
	bench_add(&b, T(.id = 3, .gpus = 2));
	expect("start 3 6 7");
	bench_add(&b, T(.id = 4, .gpus = 4));
	expect("start 4 0 1 2 3");
	bench_close(&b);
}

static void test_all_gpus(void **state)
{
	bench_open(&b, 4);
	b.d[3].state = SCHED_DEV_LEFT;
	bench_add(&b, T(.id = 1, .gpus = SCHED_ALL_GPUS));
	expect("start 1 0 1 2");
	bench_close(&b);
	bench_open(&b, 1);
	bench_add(&b, T(.id = 1, .gpus = SCHED_ALL_GPUS, .model = "a100"));
	expect("");
	bench_close(&b);
}

static void test_cpu_slots(void **state)
{
	bench_open(&b, 0);
	b.view.policy.cpu_slots = 2;
	for (uint64_t i = 1; i <= 4; i++)
		bench_add(&b, T(.id = i));
	expect("start 1; start 2");
	assert_int_equal(sched_end(b.q, ref(1)), 0);
	expect("start 3");
	bench_close(&b);
}

/* What runs is stopped in an hour, by the end of a job. */
static void test_what_does_not_end_in_time_is_not_started(void **state)
{
	bench_open(&b, 2);
	b.view.end_ns = b.view.now_ns + 3600 * NS_PER_S;
	bench_add(&b, T(.id = 1, .gpus = 2, .timeout_ms = 3600001)); /* and keeps nothing */
	bench_add(&b, T(.id = 2, .gpus = 1, .timeout_ms = 3600000));
	bench_add(&b, T(.id = 3, .gpus = 1)); /* it may take as long as it likes */
	bench_add(&b, T(.id = 4, .timeout_ms = 3600001));
	bench_add(&b, T(.id = 5, .timeout_ms = 60000));
	expect("start 2 0; start 3 1; start 5");
	assert_int_equal(sched_end(b.q, ref(2)), 0);
	assert_int_equal(sched_end(b.q, ref(3)), 0);
	assert_int_equal(sched_end(b.q, ref(5)), 0);
	/* Later less fits, and at the end nothing that has a time-out. */
	bench_add(&b, T(.id = 6, .gpus = 1, .timeout_ms = 60000));
	b.view.now_ns = b.view.end_ns - 59 * NS_PER_S;
	expect("");
	b.view.now_ns = b.view.end_ns + NS_PER_S;
	expect("");
	/* The next job. */
	b.view.end_ns = b.view.now_ns + 86400 * NS_PER_S;
	expect("start 1 0 1; start 4");
	bench_close(&b);
}

/* It is for nodes of another pool: it keeps nothing here, and passes nobody. */
static void test_what_is_for_others(void **state)
{
	bench_open(&b, 2);
	bench_add(&b, T(.id = 1, .gpus = 2, .elsewhere = true));
	bench_add(&b, T(.id = 2, .gpus = 2));
	bench_add(&b, T(.id = 3, .elsewhere = true));
	expect("start 2 0 1");
	assert_int_equal(sched_end(b.q, ref(2)), 0);
	expect("");
	assert_true(sched_is_empty(b.q, &b.view));
	bench_close(&b);
}

/* The order within a lane is strict: what is behind one that is too long waits as well. */
static void test_the_head_of_a_lane_that_does_not_end_in_time(void **state)
{
	uint32_t lane;

	bench_open(&b, 1);
	lane = sched_lane(b.q, "night");
	b.view.end_ns = b.view.now_ns + 60 * NS_PER_S;
	bench_add(&b, T(.id = 1, .gpus = 1, .lane = lane, .timeout_ms = 61000));
	bench_add(&b, T(.id = 2, .gpus = 1, .lane = lane));
	bench_add(&b, T(.id = 3, .gpus = 1));
	expect("start 3 0");
	bench_close(&b);
}

static void test_small_output(void **state)
{
	bench_open(&b, 4);
	b.out.cap = 1;
	for (uint64_t i = 1; i <= 2; i++)
		bench_add(&b, T(.id = i, .gpus = 1));
	bench_add(&b, T(.id = 3, .gpus = 4));
	expect("start 1 0");
	assert_true(b.out.more);
	expect("start 2 1");
	expect("reserve 3 2");
	expect("reserve 3 3");
	expect("");
	assert_false(b.out.more);
	bench_close(&b);
}

static void test_refused(void **state)
{
	struct err e = ERR_INIT;

	bench_open(&b, 1);
	bench_add(&b, T(.id = 1, .gpus = 1));
	assert_int_equal(sched_add(b.q, &T(.id = 1), &e), -EEXIST);
	assert_int_equal(sched_add(b.q, &T(.gpus = 1), &e), -EINVAL);
	assert_int_equal(sched_add(b.q, &T(.id = 2, .gpus = 129), &e), -EINVAL);
	assert_int_equal(sched_add(b.q, &T(.id = 2, .lane = 1), &e), -EINVAL);
	assert_int_equal(sched_add(b.q, &T(.id = 2, .n_elements = 2), &e), -EINVAL);
	assert_int_equal(sched_change(b.q, &T(.id = 2), &e), -ENOENT);
	assert_int_equal(sched_end(b.q, ref(1)), -ENOENT);
	assert_int_equal(sched_remove(b.q, ref(9)), -ENOENT);
	expect("start 1 0");
	assert_int_equal(sched_adopt(b.q, &T(.id = 1), (struct devset){ { 0 } }, 0, &e), -EEXIST);
	bench_close(&b);
}

static void test_adopted(void **state)
{
	struct devset one = { { 0 } };

	bench_open(&b, 2);
	devset_add(&one, 1);

	uint32_t lane = sched_lane(b.q, "x");

	b.d[1].state = SCHED_DEV_LENT;
	assert_int_equal(sched_adopt(b.q, &T(.id = 1, .gpus = 1, .lane = lane), one, 0, NULL), 0);
	bench_add(&b, T(.id = 2, .gpus = 1, .lane = lane));
	bench_add(&b, T(.id = 3, .gpus = 2));
	expect("reserve 3 0");
	assert_int_equal(sched_end(b.q, ref(1)), 0);
	b.d[1].state = SCHED_DEV_IDLE;
	expect("start 2 0; reserve 3 1");
	bench_close(&b);
}

/* What another node has started is planned here as well until its claim is taken over. */
static void test_adopted_while_it_waits(void **state)
{
	const struct devset none = { { 0 } };
	const struct sched_ref element = { 1, 2 };
	struct sched_task t;

	bench_open(&b, 0);

	uint32_t lane = sched_lane(b.q, "x");

	bench_add(&b, T(.id = 1, .element = 1, .n_elements = 3, .array_limit = 2, .priority = 5));
	bench_add(&b, T(.id = 2, .lane = lane));
	bench_add(&b, T(.id = 3, .lane = lane));
	assert_int_equal(
		sched_adopt(b.q, &T(.id = 1, .element = 2, .array_limit = 2), none, 0, NULL), 0);
	assert_int_equal(sched_adopt(b.q, &T(.id = 2, .lane = lane), none, 0, NULL), 0);
	assert_int_equal(sched_adopt(b.q, &T(.id = 2, .lane = lane), none, 0, NULL), -EEXIST);
	assert_int_equal(sched_count(b.q).waiting, 3);
	assert_int_equal(sched_count(b.q).running, 2);
	expect("start 1.1"); /* the lane, and the array's limit, count what was adopted */
	assert_int_equal(sched_end(b.q, (struct sched_ref){ 1, 1 }), 0);
	assert_int_equal(sched_requeue(b.q, element, b.view.now_ns + 1000, 0, "a try"), 0);
	expect("start 1.3"); /* its back-off has not ended */
	assert_int_equal(sched_get(b.q, element, &t), 0);
	assert_int_equal(t.priority, 5);
	b.view.now_ns += 1000;
	expect("start 1.2");
	assert_int_equal(sched_requeue(b.q, ref(2), b.view.now_ns + 1000, 0, NULL), 0);
	expect("");
	b.view.now_ns += 1000;
	expect("start 2");
	bench_close(&b);
}

/* Every task preempts what only fills a device, also one that is preemptible itself. */
static void test_fillers(void **state)
{
	struct err e = ERR_INIT;
	struct devset on[2] = { { { 0 } }, { { 0 } } };
	const uint64_t workload = 9000;

	bench_open(&b, 3);
	for (unsigned int i = 0; i < 2; i++) {
		devset_add(&on[i], i);
		b.d[i].state = SCHED_DEV_LENT;
		b.d[i].free_bytes = GIB;
		assert_int_equal(sched_adopt(b.q,
					     &T(.id = workload, .element = i + 1, .gpus = 1,
						.preemptible = true, .idle_workload = true),
					     on[i], 0, &e),
				 0);
		assert_int_equal(
			sched_used(b.q, (struct sched_ref){ workload, i + 1 }, i, 79 * GIB), 0);
	}
	assert_int_equal(sched_count(b.q).running, 0);
	bench_add(&b, T(.id = 1, .gpus = 1, .preemptible = true));
	assert_string_equal(bench_plan(&b), "start 1 2"); /* one that is free first */
	bench_add(&b, T(.id = 2, .gpus = 1, .preemptible = true, .mem_bytes = 40 * GIB));
	assert_string_equal(bench_plan(&b), "preempt 9000.1");
	assert_string_equal(bench_plan(&b), "");
	/* An idle workload costs less than a task. */
	bench_add(&b, T(.id = 3, .gpus = 1));
	assert_string_equal(bench_plan(&b), "preempt 9000.2");
	assert_int_equal(sched_end(b.q, (struct sched_ref){ workload, 1 }), 0);
	assert_int_equal(sched_end(b.q, (struct sched_ref){ workload, 2 }), 0);
	b.d[0] = b.d[1] = b.d[2];
	(void)bench_plan(&b);
	assert_int_equal(sched_count(b.q).running, 3);
	bench_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_ten_on_ten_at_once),
		cmocka_unit_test(test_batch_is_one_entry),
		cmocka_unit_test(test_batch_in_pieces),
		cmocka_unit_test(test_array_limit),
		cmocka_unit_test(test_array_limit_in_a_lane),
		cmocka_unit_test(test_array_that_changes_lanes_while_it_runs),
		cmocka_unit_test(test_array_that_is_blocked),
		cmocka_unit_test(test_batch_that_is_edited_while_it_runs),
		cmocka_unit_test(test_lane_is_serial),
		cmocka_unit_test(test_lanes_rotate),
		cmocka_unit_test(test_aside),
		cmocka_unit_test(test_devices_that_are_not_used),
		cmocka_unit_test(test_limited_number_of_devices),
		cmocka_unit_test(test_limit_and_preemption),
		cmocka_unit_test(test_shared_memory),
		cmocka_unit_test(test_memory_that_is_not_known),
		cmocka_unit_test(test_held_memory_counts_as_free),
		cmocka_unit_test(test_compete_rules),
		cmocka_unit_test(test_collecting),
		cmocka_unit_test(test_backfill_elsewhere),
		cmocka_unit_test(test_backfill_by_timeout),
		cmocka_unit_test(test_preempt),
		cmocka_unit_test(test_no_preemption_in_the_own_lane),
		cmocka_unit_test(test_fillers),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_all_gpus),
		cmocka_unit_test(test_cpu_slots),
		cmocka_unit_test(test_what_does_not_end_in_time_is_not_started),
		cmocka_unit_test(test_the_head_of_a_lane_that_does_not_end_in_time),
		cmocka_unit_test(test_small_output),
		cmocka_unit_test(test_what_is_for_others),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_adopted),
		cmocka_unit_test(test_adopted_while_it_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
