/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "unit.h"

#include "agent/node/stuck.h"
#include "base/clock.h"
#include "base/str.h"
#include "hold/device_state.h"

#define MIN_NS	 (60 * NS_PER_S)
#define AFTER_MS 600000

/* Of a task on a card of 700 W, looked at after so many minutes. */
static struct dev_status device(uint64_t minutes, uint32_t util, uint32_t watts)
{
	struct dev_status d = { .state = DEV_LENT,
				.known = KNOWN_UTIL | KNOWN_POWER | KNOWN_POWER_LIMIT,
				.looked_ns = (100 + minutes) * MIN_NS,
				.util = util,
				.power_mw = watts * 1000,
				.power_limit_mw = 700000,
				.n_lease_procs = 1,
				.lease = { .task = 7 } };

	(void)str_copy(d.lease_instance, sizeof(d.lease_instance), "own");
	return d;
}

static bool look(struct stuck *s, uint64_t minutes, uint32_t util, uint32_t watts)
{
	struct dev_status d = device(minutes, util, watts);

	return stuck_look(s, &d, "own", AFTER_MS);
}

static void test_ten_minutes_at_100_with_few_watts_are_told_once(void **state)
{
	struct stuck s = { .since_ns = 0 };

	for (uint64_t m = 0; m < 10; m++)
		assert_false(look(&s, m, 100, 120));
	assert_true(look(&s, 10, 100, 120));
	for (uint64_t m = 11; m < 60; m++)
		assert_false(look(&s, m, 100, 120));
	/* It went on, and is stuck again. */
	assert_false(look(&s, 60, 100, 500));
	for (uint64_t m = 61; m < 71; m++)
		assert_false(look(&s, m, 100, 120));
	assert_true(look(&s, 71, 100, 120));
}

static void test_one_moment_of_work_begins_anew(void **state)
{
	struct stuck s = { .since_ns = 0 };

	for (uint64_t m = 0; m < 100; m++)
		assert_false(look(&s, m, 100, m % 9 == 8 ? 300 : 120));
}

static void test_neither_idle_nor_busy_is_stuck(void **state)
{
	struct stuck s = { .since_ns = 0 };

	for (uint64_t m = 0; m < 30; m++)
		assert_false(look(&s, m, 0, 70) || look(&s, m, 98, 120) || look(&s, m, 100, 140));
}

static void test_another_task_and_a_gap_begin_anew(void **state)
{
	struct stuck s = { .since_ns = 0 };
	struct dev_status d;

	for (uint64_t m = 0; m < 10; m++)
		assert_false(look(&s, m, 100, 120));
	d = device(10, 100, 120);
	d.lease.task = 8;
	assert_false(stuck_look(&s, &d, "own", AFTER_MS));
	assert_false(look(&s, 11, 100, 120));
	assert_false(look(&s, 30, 100, 120)); /* nothing was known in between */
}

static void test_what_is_not_ours_not_known_or_not_wanted(void **state)
{
	struct dev_status all[5];

	for (size_t i = 0; i < 5; i++)
		all[i] = device(0, 100, 120);
	all[0].state = DEV_BUSY;
	(void)str_copy(all[1].lease_instance, sizeof(all[1].lease_instance), "other");
	all[2].known = KNOWN_UTIL | KNOWN_POWER_LIMIT;
	all[3].n_lease_procs = 0;
	all[4].known &= ~(uint32_t)KNOWN_POWER_LIMIT;
	for (size_t i = 0; i < 5; i++) {
		struct stuck s = { .since_ns = 0 };

		for (uint64_t m = 0; m < 30; m++) {
			all[i].looked_ns += MIN_NS;
			assert_false(stuck_look(&s, &all[i], "own", AFTER_MS));
		}
	}

	struct stuck never = { .since_ns = 0 };

	for (uint64_t m = 0; m < 30; m++) {
		struct dev_status d = device(m, 100, 120);

		assert_false(stuck_look(&never, &d, "own", 0));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ten_minutes_at_100_with_few_watts_are_told_once),
		cmocka_unit_test(test_one_moment_of_work_begins_anew),
		cmocka_unit_test(test_neither_idle_nor_busy_is_stuck),
		cmocka_unit_test(test_another_task_and_a_gap_begin_anew),
		cmocka_unit_test(test_what_is_not_ours_not_known_or_not_wanted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
