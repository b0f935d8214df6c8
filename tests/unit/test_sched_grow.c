/* SPDX-License-Identifier: MIT */

/* Which device a running task gets in addition, and when it gets none. */

#include "sched_bench.h"

#include "base/mem.h"
#include "base/str.h"
#include "sched/grow.h"

#define T(...) ((struct sched_task){ __VA_ARGS__ })

static struct bench b;

static void expect_plan(const char *actions)
{
	assert_string_equal(bench_plan(&b), actions);
}

/* "2", "2 after the workload", "none", "task 3 waits", "limit". */
static const char *room(uint64_t id)
{
	static char text[64];
	struct sched_growth g;

	sched_room(b.q, ref(id), &b.view, &g);
	switch (g.room) {
	case SCALE_ROOM_FREE:
		return str_print(text, sizeof(text), "%u%s", g.slot,
				 g.workload ? " after the workload" : "");
	case SCALE_ROOM_WANTED:
		return str_print(text, sizeof(text), "task %llu waits",
				 (unsigned long long)g.wanted_by.id);
	case SCALE_ROOM_LIMIT:
		return "limit";
	default:
		return "none";
	}
}

static void adopt(struct sched_task t, unsigned int slot)
{
	struct devset devices = { { 0 } };

	devset_add(&devices, slot);
	assert_int_equal(sched_adopt(b.q, &t, devices, 0, NULL), 0);
}

static void one_after_the_other(void **state)
{
	bench_open(&b, 3);
	bench_add(&b, T(.id = 1, .gpus = 1));
	expect_plan("start 1 0");
	assert_string_equal(room(1), "1");
	assert_int_equal(sched_grow(b.q, ref(1), 1), 0);
	assert_string_equal(room(1), "2"); /* in the same turn, too */
	assert_int_equal(sched_grow(b.q, ref(1), 2), 0);
	assert_string_equal(room(1), "none");
	/* What it has is not there for others, and is there again when it gives it back. */
	bench_add(&b, T(.id = 2, .gpus = 1));
	expect_plan("");
	assert_int_equal(sched_shrink(b.q, ref(1), 1), 0);
	expect_plan("start 2 1");
	/* It waits again for as many as it has asked for. */
	assert_int_equal(sched_end(b.q, ref(2)), 0);
	assert_int_equal(sched_requeue(b.q, ref(1), 0, 0, NULL), 0);
	expect_plan("start 1 0");
	bench_close(&b);
}

static void who_does_not_run(void **state)
{
	bench_open(&b, 2);
	bench_add(&b, T(.id = 1, .gpus = 3));
	expect_plan("");
	assert_string_equal(room(1), "none");
	assert_string_equal(room(9), "none");
	assert_int_equal(sched_grow(b.q, ref(1), 1), -ENOENT);
	assert_int_equal(sched_shrink(b.q, ref(9), 1), -ENOENT);
	bench_add(&b, T(.id = 2, .gpus = 1, .preemptible = true));
	expect_plan("start 2 0");
	assert_string_equal(room(2), "1");
	assert_int_equal(sched_grow(b.q, ref(2), SCHED_DEVICES_MAX), -ENOENT);
	/* One that is told to go gets nothing more. */
	bench_add(&b, T(.id = 3, .gpus = 2));
	expect_plan("preempt 2; reserve 3 1");
	assert_string_equal(room(2), "none");
	bench_close(&b);
}

/* Tasks that wait go before growth, if they could have the device. */
static void who_waits_comes_first(void **state)
{
	bench_open(&b, 4);
	b.d[3].model = "NVIDIA A10";
	bench_add(&b, T(.id = 1, .gpus = 1, .model = "h200"));
	bench_add(&b, T(.id = 2, .gpus = 1, .model = "h200"));
	expect_plan("start 1 0; start 2 1");
	assert_string_equal(room(1), "2");
	bench_add(&b, T(.id = 3, .gpus = 3, .model = "h200"));
	expect_plan("reserve 3 2");
	assert_string_equal(room(1), "task 3 waits");
	/* Not if it could not. */
	assert_int_equal(sched_remove(b.q, ref(3)), 0);
	bench_add(&b, T(.id = 4, .gpus = 2, .model = "a10"));
	bench_add(&b, T(.id = 5, .gpus = 5));
	bench_add(&b, T(.id = 6, .gpus = 2, .paused = true));
	bench_add(&b, T(.id = 7, .gpus = 2, .begin_wall_ns = NS_PER_S));
	expect_plan("unreserve 3 2");
	assert_string_equal(room(1), "2");
	bench_close(&b);
}

static void who_waits_keeps_its_places(void **state)
{
	bench_open(&b, 4);
	b.view.policy.limits_devices = true;
	b.view.policy.max_devices = 3;
	b.d[2].model = b.d[3].model = "NVIDIA A10";
	bench_add(&b, T(.id = 1, .gpus = 1, .model = "a10"));
	expect_plan("start 1 2");
	assert_string_equal(room(1), "3");
	/* Two of the three are for it, once it has them. */
	bench_add(&b, T(.id = 2, .gpus = 1, .model = "h200"));
	expect_plan("start 2 0");
	bench_add(&b, T(.id = 3, .gpus = 2, .model = "h200"));
	expect_plan("reserve 3 1");
	assert_string_equal(room(1), "limit");
	bench_close(&b);
}

static void what_is_not_free(void **state)
{
	static const struct {
		const char *what;
		struct sched_device d; /* the second device; model NULL: as the first */
		uint32_t leave;
		const char *room;
	} cases[] = {
		{ "idle", { .state = SCHED_DEV_IDLE }, 0, "1" },
		{ "held", { .state = SCHED_DEV_HELD, .hold_bytes = 70 * GIB }, 0, "1" },
		{ "busy", { .state = SCHED_DEV_BUSY, .foreign = true }, 0, "none" },
		{ "another instance's", { .state = SCHED_DEV_LENT }, 0, "none" },
		{ "not selected", { .state = SCHED_DEV_EXCLUDED }, 0, "none" },
		{ "unseen", { .state = SCHED_DEV_UNSEEN }, 0, "none" },
		{ "faulty", { .state = SCHED_DEV_FAULTY }, 0, "none" },
		{ "left for others", { .state = SCHED_DEV_IDLE }, 1, "none" },
		{ "another model", { .state = SCHED_DEV_IDLE, .model = "NVIDIA A10" }, 0, "none" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct sched_device d = cases[i].d;

		bench_open(&b, 2);
		d.index = 1;
		d.model = d.model ? d.model : b.d[0].model;
		d.mem_known = true;
		d.total_bytes = 80 * GIB;
		d.free_bytes = 80 * GIB - d.hold_bytes;
		b.d[1] = d;
		b.view.policy.leave = cases[i].leave;
		adopt(T(.id = 1, .gpus = 1, .model = "h200", .mem_bytes = 60 * GIB), 0);
		expect_plan("");
		if (strcmp(room(1), cases[i].room) != 0)
			fail_msg("%s: %s", cases[i].what, room(1));
		bench_close(&b);
	}
	bench_open(&b, 2);
	b.d[1].free_bytes = 40 * GIB;
	adopt(T(.id = 1, .gpus = 1, .mem_bytes = 60 * GIB), 0);
	expect_plan("");
	assert_string_equal(room(1), "none");
	bench_close(&b);
}

/* A workload is only a way to hold the device. */
static void the_workload_goes(void **state)
{
	bench_open(&b, 3);
	adopt(T(.id = 1, .gpus = 1), 0);
	adopt(T(.id = UINT64_MAX, .element = 2, .gpus = 1, .preemptible = true,
		.idle_workload = true),
	      1);
	expect_plan("");
	assert_string_equal(room(1), "2"); /* a free one rather */
	b.d[2].state = SCHED_DEV_BUSY;
	expect_plan("");
	assert_string_equal(room(1), "1 after the workload");
	/* It counts already where their number is limited. */
	b.view.policy.limits_devices = true;
	b.view.policy.max_devices = 2;
	expect_plan("");
	assert_string_equal(room(1), "1 after the workload");
	b.d[2].state = SCHED_DEV_IDLE;
	expect_plan("");
	assert_string_equal(room(1), "1 after the workload");
	bench_close(&b);
}

static void beside_what_it_has(void **state)
{
	bench_open(&b, 4);
	devset_add(&b.d[0].peers, 3);
	devset_add(&b.d[3].peers, 0);
	devset_add(&b.d[1].peers, 2);
	devset_add(&b.d[2].peers, 1);
	adopt(T(.id = 1, .gpus = 1), 0);
	expect_plan("");
	assert_string_equal(room(1), "3");
	assert_int_equal(sched_grow(b.q, ref(1), 3), 0);
	assert_string_equal(room(1), "1");
	bench_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_after_the_other),
		cmocka_unit_test(who_does_not_run),
		cmocka_unit_test(who_waits_comes_first),
		cmocka_unit_test(who_waits_keeps_its_places),
		cmocka_unit_test(what_is_not_free),
		cmocka_unit_test(the_workload_goes),
		cmocka_unit_test(beside_what_it_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
