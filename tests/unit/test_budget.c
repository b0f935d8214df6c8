/* SPDX-License-Identifier: MIT */

/* How much of a processor requests may use. */

#include "unit.h"

#include "base/clock.h"
#include "serve/budget.h"

#define S_NS   NS_PER_S
#define ALL_NS (BUDGET_MS * NS_PER_MS)

static struct budget_payer from(enum access_right right, unsigned int peer)
{
	struct budget_payer p = { .right = right };

	p.peer[14] = (unsigned char)(peer >> 8);
	p.peer[15] = (unsigned char)peer;
	return p;
}

static void it_lasts_and_comes_back(void **state)
{
	static const struct {
		enum access_right right;
		uint64_t part;
	} all[] = { { ACCESS_WRITE, 2 }, { ACCESS_READ, 4 }, { ACCESS_NONE, 8 } };
	struct budget b;

	budget_begin(&b);
	for (size_t i = 0; i < 3; i++) {
		const struct budget_payer p = from(all[i].right, 1);

		assert_true(budget_left(&b, &p, 5));
		budget_take(&b, &p, ALL_NS);
		assert_false(budget_left(&b, &p, 5));
		budget_take(&b, &p, 100 * NS_PER_MS); /* one that was under way */
		assert_false(budget_left(&b, &p, 5 + all[i].part * 100 * NS_PER_MS));
		assert_true(budget_left(&b, &p, 5 + all[i].part * 101 * NS_PER_MS));
	}
}

static void it_is_not_saved_up(void **state)
{
	const struct budget_payer p = from(ACCESS_WRITE, 0);
	struct budget b;

	budget_begin(&b);
	assert_true(budget_left(&b, &p, 1));
	assert_true(budget_left(&b, &p, 3600 * S_NS));
	budget_take(&b, &p, ALL_NS);
	assert_false(budget_left(&b, &p, 3600 * S_NS));
}

/* However much one uses, nobody else has less than his part. */
static void nobody_pays_for_another(void **state)
{
	const struct budget_payer greedy = from(ACCESS_READ, 1), other = from(ACCESS_READ, 2);
	const struct budget_payer owner = from(ACCESS_WRITE, 1), stranger = from(ACCESS_NONE, 1);
	struct budget b;
	uint64_t now = 1;

	budget_begin(&b);
	assert_true(budget_left(&b, &greedy, now));
	budget_take(&b, &greedy, 3600 * S_NS);
	assert_false(budget_left(&b, &greedy, now));
	assert_true(budget_left(&b, &other, now));
	assert_true(budget_left(&b, &owner, now));
	assert_true(budget_left(&b, &stranger, now));
	/* Two of them share a quarter, as long as both ask. */
	budget_take(&b, &other, ALL_NS);
	for (; now < 4 * S_NS; now += 100 * NS_PER_MS)
		(void)budget_left(&b, &greedy, now);
	assert_true(budget_left(&b, &other, now));
	budget_take(&b, &other, 450 * NS_PER_MS);
	assert_true(budget_left(&b, &other, now));
	budget_take(&b, &other, 100 * NS_PER_MS);
	assert_false(budget_left(&b, &other, now));
	assert_false(budget_left(&b, &greedy, now));
}

/* Who comes from ever other addresses is worth no more than those that are told apart. */
static void addresses_are_no_way_around(void **state)
{
	struct budget b;
	unsigned int let_in = 0;

	budget_begin(&b);
	for (unsigned int i = 0; i < 1000; i++) {
		const struct budget_payer p = from(ACCESS_NONE, i);

		if (!budget_left(&b, &p, 1 + i))
			continue;
		let_in++;
		budget_take(&b, &p, ALL_NS);
	}
	assert_int_equal(let_in, BUDGET_PAYERS);
}

static void few_of_one_wait(void **state)
{
	const struct budget_payer greedy = from(ACCESS_READ, 1), other = from(ACCESS_READ, 2);
	struct budget b;

	budget_begin(&b);
	assert_true(budget_left(&b, &greedy, 1));
	assert_true(budget_left(&b, &other, 1));
	for (int i = 0; i < BUDGET_WAITING; i++)
		assert_true(budget_wait(&b, &greedy));
	assert_false(budget_wait(&b, &greedy));
	assert_true(budget_wait(&b, &other));
	budget_served(&b, &greedy);
	assert_true(budget_wait(&b, &greedy));
	/* One that waits keeps its account, as long as there is another to be taken. */
	for (unsigned int i = 10; i < 100; i++) {
		const struct budget_payer p = from(ACCESS_READ, i);

		assert_true(budget_left(&b, &p, 2 + i));
	}
	assert_false(budget_wait(&b, &greedy));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_lasts_and_comes_back),
		cmocka_unit_test(it_is_not_saved_up),
		cmocka_unit_test(nobody_pays_for_another),
		cmocka_unit_test(addresses_are_no_way_around),
		cmocka_unit_test(few_of_one_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
