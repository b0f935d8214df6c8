/* SPDX-License-Identifier: MIT */

/* What claims say of the owners of lanes and arrays, and what the plan makes of it. */

#include "unit.h"

#include "agent/tasksin.h"
#include "base/str.h"
#include "sched/why.h"

static struct tasks open_tasks(void)
{
	return (struct tasks){ .plan = sched_queue_new() };
}

static void close_tasks(struct tasks *q)
{
	lanes_clear(q);
	q->plan = sched_queue_free(q->plan);
}

static void expect_why(const struct tasks *q, uint64_t id, uint32_t element, const char *why)
{
	const struct sched_view view = { .n_devices = 0 };
	char buf[SCHED_WHY_MAX];

	assert_true(sched_why(q->plan, (struct sched_ref){ id, element }, &view, buf) >= 0);
	assert_string_equal(buf, why);
}

static void met_elsewhere(struct tasks *q, const char *key)
{
	struct lanes_met m = { .owner = "other" };

	(void)str_copy(m.blocked, sizeof(m.blocked), key);
	lanes_met(q, &m);
}

static void met_ours(struct tasks *q, const char *key)
{
	struct lanes_met m = { .id = 0 };

	(void)str_copy(m.keys[0], sizeof(m.keys[0]), key);
	lanes_met(q, &m);
}

/* One plan starts two tasks of a wide lane. The claim of the first one meets another owner, which
 * lets go before the claim of the second one. */
static void test_lane_that_becomes_ours(void **state)
{
	struct tasks q = open_tasks();
	const struct sched_task t = { .id = 1, .order = 1, .lane = sched_lane(q.plan, "wide") };

	assert_int_equal(sched_add(q.plan, &t, NULL), 0);
	met_elsewhere(&q, "wide");
	expect_why(&q, 1, 0,
		   "waits for its lane wide: the agent other starts them, one node at a time; 1st "
		   "in order");
	met_ours(&q, "wide");
	expect_why(&q, 1, 0, "can start, and will with the next plan; 1st in order");
	close_tasks(&q);
}

static void test_array_that_becomes_ours(void **state)
{
	struct tasks q = open_tasks();
	const struct sched_task t = {
		.id = 7, .order = 7, .element = 1, .n_elements = 4, .array_limit = 2
	};

	assert_int_equal(sched_add(q.plan, &t, NULL), 0);
	met_elsewhere(&q, "%7");
	expect_why(&q, 7, 2,
		   "waits for its array: the agent other starts them, one node at a time; 1st in "
		   "order");
	met_ours(&q, "%7");
	expect_why(&q, 7, 2, "can start, and will with the next plan; 1st in order");
	close_tasks(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lane_that_becomes_ours),
		cmocka_unit_test(test_array_that_becomes_ours),
	};

	return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
