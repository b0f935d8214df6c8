/* SPDX-License-Identifier: MIT */

/* How much of a processor requests may use. */

#include "unit.h"

#include "base/clock.h"
#include "serve/budget.h"

static void it_lasts_and_comes_back(void **state)
{
	struct budget b;

	budget_begin(&b, 5);
	assert_true(budget_left(&b, 5));
	budget_take(&b, BUDGET_MS * NS_PER_MS);
	assert_false(budget_left(&b, 5));
	budget_take(&b, 100 * NS_PER_MS); /* one that was under way */
	assert_false(budget_left(&b, 5 + 200 * NS_PER_MS));
	assert_true(budget_left(&b, 5 + 202 * NS_PER_MS));
}

static void it_is_not_saved_up(void **state)
{
	struct budget b;

	budget_begin(&b, 0);
	assert_true(budget_left(&b, 3600 * NS_PER_S));
	budget_take(&b, BUDGET_MS * NS_PER_MS);
	assert_false(budget_left(&b, 3600 * NS_PER_S));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_lasts_and_comes_back),
		cmocka_unit_test(it_is_not_saved_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
