/* SPDX-License-Identifier: MIT */

/* How long is rested after what takes so long. */

#include "unit.h"

#include "base/clock.h"
#include "base/cost.h"

static struct cost costs(uint64_t a, uint64_t b, uint64_t c)
{
	struct cost cost = { 0 };

	cost_add(&cost, a);
	cost_add(&cost, b);
	cost_add(&cost, c);
	return cost;
}

static void the_least_of_the_last_three(void **state)
{
	struct cost c = costs(7, 500, 9);

	assert_int_equal(cost_ns(&c), 7);
	cost_add(&c, 8);
	assert_int_equal(cost_ns(&c), 8);
	cost_add(&c, 900);
	cost_add(&c, 1000);
	assert_int_equal(cost_ns(&c), 8);
	cost_add(&c, 1100); /* not by chance any more */
	assert_int_equal(cost_ns(&c), 900);
}

static void nothing_is_known_at_first(void **state)
{
	struct cost c = { 0 };

	assert_int_equal(cost_rest_ns(&c, 50, 2, 60), 2);
	cost_add(&c, 1000);
	cost_add(&c, 40);
	assert_int_equal(cost_ns(&c), 0);
	assert_int_equal(cost_rest_ns(&c, 50, 50, 60), 50);
}

static void half_of_the_time_at_most(void **state)
{
	struct cost c = { 0 };

	cost_add(&c, 3 * NS_PER_S);
	assert_int_equal(cost_rest_ns(&c, 50, 2 * NS_PER_S, 60 * NS_PER_S), 3 * NS_PER_S);
	cost_add(&c, 1000 * NS_PER_S);
	assert_int_equal(cost_rest_ns(&c, 50, 2 * NS_PER_S, 60 * NS_PER_S), COST_LAST_NS);
}

static void a_share_of_the_time(void **state)
{
	struct cost c = costs(10, 10, 10);

	assert_int_equal(cost_rest_ns(&c, 50, 100, 1000), 500);
	assert_int_equal(cost_rest_ns(&c, 50, 600, 1000), 600);
	assert_int_equal(cost_rest_ns(&c, 50, 100, 400), 400);
	assert_int_equal(cost_rest_ns(&c, 50, 100, UINT64_MAX), 500);
}

static void what_takes_longer_than_the_longest_rest(void **state)
{
	struct cost c = costs(5 * NS_PER_S, 4 * NS_PER_S, 3 * NS_PER_S);

	assert_int_equal(cost_rest_ns(&c, 50, NS_PER_S, 2 * NS_PER_S), 3 * NS_PER_S);
}

static void turns_of_ours(void **state)
{
	struct cost_turns t = { 0 };

	assert_int_equal(cost_turn(&t, 0, 1000, 310), 0); /* nothing goes on, however long */
	assert_int_equal(cost_turn(&t, 0, 9000, 310), 0);
	assert_int_equal(cost_turn(&t, 9100, 9200, 310), 100);
	assert_int_equal(cost_turn(&t, 9100, 9450, 310), 350);
	assert_int_equal(cost_turn(&t, 9100, 99450, 310), 660); /* we stood still */
	assert_int_equal(cost_turn(&t, 9100, 99500, 310), 710);
	assert_int_equal(cost_turn(&t, 99510, 99520, 310), 10); /* the next one */
	assert_int_equal(cost_turn(&t, 99530, 200000, 310), 310);
	assert_int_equal(cost_turn(&t, 200010, 200000, 310),
			 0); /* began behind our look at the clock */
	assert_int_equal(cost_turn(&t, 0, 200100, 310), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(turns_of_ours),
		cmocka_unit_test(the_least_of_the_last_three),
		cmocka_unit_test(nothing_is_known_at_first),
		cmocka_unit_test(half_of_the_time_at_most),
		cmocka_unit_test(a_share_of_the_time),
		cmocka_unit_test(what_takes_longer_than_the_longest_rest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
