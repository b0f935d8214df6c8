/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "agent/attempt/device_use.h"
#include "base/clock.h"

static void add(struct use *u, int32_t slot, uint64_t peak, uint64_t s, uint32_t permille)
{
	use_add(u, &(struct msg_lease_use){ .slot = slot,
					    .peak_bytes = peak,
					    .util_ns = s * NS_PER_S,
					    .util_permille = permille });
}

static void expect(const struct use *u, uint64_t peak, uint32_t permille)
{
	uint64_t bytes;
	uint32_t util;

	use_sum(u, &bytes, &util);
	assert_int_equal(bytes, peak);
	assert_int_equal(util, permille);
}

static void test_devices(void **state)
{
	struct use u = { .n = 0 };

	expect(&u, 0, 0);
	assert_int_equal(use_most(&u), 0);
	add(&u, 3, 100, 2, 500);
	add(&u, 0, 10, 2, 100);
	expect(&u, 110, 300);
	assert_int_equal(use_most(&u), 100);
	/* The guard counts from the beginning of the task, and its peak never sinks. */
	add(&u, 3, 100, 6, 500);
	expect(&u, 110, 400);
	use_clear(&u);
	expect(&u, 0, 0);
}

static void test_new_guard(void **state)
{
	struct use u = { .n = 0 };

	add(&u, 0, 100, 4, 1000);
	add(&u, 0, 20, 0, 0);
	expect(&u, 100, 1000);
	add(&u, 0, 20, 4, 0);
	expect(&u, 100, 500);
	add(&u, 0, 30, 12, 0);
	expect(&u, 100, 250);
	use_clear(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_new_guard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
