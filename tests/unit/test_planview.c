/* SPDX-License-Identifier: MIT */

/* A task as the planner is told of it, from its file's name and from what is in the file. */

#include "unit.h"

#include <string.h>

#include "agent/queue/planview.h"
#include "base/clock.h"
#include "base/mem.h"

static void test_from_the_name_alone(void **state)
{
	const struct task_name n = { .id = 7,
				     .priority = 3,
				     .edits = 2,
				     .begin_s = 5,
				     .flags = NAME_PREEMPTIBLE | NAME_PAUSED | NAME_SHARED };
	struct sched_task t;

	sched_task_from_spec(&n, NULL, &t);
	assert_int_equal(t.id, 7);
	assert_int_equal(t.order, 7);
	assert_int_equal(t.element + t.n_elements + t.gpus, 0);
	assert_int_equal(t.priority, 3);
	assert_int_equal(t.edits, 2);
	assert_int_equal(t.begin_wall_ns, 5 * NS_PER_S);
	assert_true(t.preemptible && t.paused && !t.changing && !t.shared);
	assert_int_equal(t.rules, SCHED_RULES_OWN);
	assert_null(t.model);
}

static void test_devices_in_the_name(void **state)
{
	struct task_name n = { .id = 7, .gpus = 2 };
	struct sched_task t;

	sched_task_from_spec(&n, NULL, &t);
	assert_int_equal(t.gpus, 2);
	n.gpus = SPEC_ALL;
	sched_task_from_spec(&n, NULL, &t);
	assert_int_equal(t.gpus, SCHED_ALL_GPUS);
}

/* A batch is one entry of its elements; an element's name may be its batch's, with the element. */
static void test_elements(void **state)
{
	struct task_name n = { .id = 7, .count = 5, .priority = 3 };
	struct task_spec *s = spec_new();
	struct sched_task t;

	s->priority = 9;
	s->array.limit = 2;
	sched_task_from_spec(&n, s, &t);
	assert_int_equal(t.element, 1);
	assert_int_equal(t.n_elements, 5);
	assert_int_equal(t.array_limit, 2);
	assert_int_equal(t.priority, 3);
	n.element = 4;
	sched_task_from_spec(&n, s, &t);
	assert_int_equal(t.element, 4);
	assert_int_equal(t.n_elements, 0);
	assert_int_equal(t.priority, 9); /* its name has none */
	sched_task_from_spec(&n, NULL, &t);
	assert_int_equal(t.element, 4);
	assert_int_equal(t.n_elements, 0);
	spec_free(s);
}

static void test_from_the_spec(void **state)
{
	const struct task_name n = { .id = 7, .gpus = 1 };
	struct task_spec *s = spec_new();
	struct sched_task t;

	s->gpus = SPEC_ALL;
	s->memory = 77;
	s->model = xstrdup("h200");
	s->shared = s->preemptible = true;
	s->rules = SPEC_RULES_COMPETE;
	s->timeout = 1000;
	sched_task_from_spec(&n, s, &t);
	assert_int_equal(t.gpus, SCHED_ALL_GPUS);
	assert_int_equal(t.mem_bytes, 77);
	assert_ptr_equal(t.model, s->model);
	assert_true(t.shared && t.preemptible && t.no_own_python);
	assert_int_equal(t.rules, SCHED_RULES_COMPETE);
	assert_int_equal(t.timeout_ms, 1000);
	spec_free(s);
}

/* By what is asked how long it takes (sched/forecast.h). */
static void test_kind(void **state)
{
	const struct task_name n = { .id = 7, .gpus = 2, .name = "train.sh" };
	struct task_spec *s = spec_new();
	struct sched_task by_name, by_spec;

	s->name = xstrdup("train.sh");
	s->gpus = 2;
	sched_task_from_spec(&n, NULL, &by_name);
	sched_task_from_spec(&n, s, &by_spec);
	assert_int_equal(by_name.kind, planview_kind("train.sh", 2));
	assert_int_equal(by_spec.kind, by_name.kind);
	assert_int_not_equal(planview_kind("train.sh", 1), by_name.kind);
	assert_int_not_equal(planview_kind("train", 2), by_name.kind);
	assert_int_equal(planview_kind("", 2), 0);
	/* How long an allocation is kept says nothing of the next one. */
	s->allocation = true;
	sched_task_from_spec(&n, s, &by_spec);
	assert_int_equal(by_spec.kind, 0);
	spec_free(s);
}

/* What runs of its name have needed is filled in by who knows it; without that it is as if nothing
 * were said, and whoever shares a device has to say something. */
static void test_auto_memory(void **state)
{
	const struct task_name n = { .id = 7, .gpus = 1 };
	struct task_spec *s = spec_new(), *known = spec_new();
	struct sched_task t;

	s->memory = known->memory = SPEC_AUTO;
	s->shared = known->shared = true;
	sched_task_from_spec(&n, s, &t);
	assert_true(t.mem_bytes == 0 && !t.shared);
	spec_learn(s, 0);
	assert_true(s->memory == 0 && !s->shared && s->learned);
	spec_learn(known, 77);
	assert_true(known->memory == 77 && known->shared && known->learned);
	spec_learn(known, 99); /* which has its number already */
	sched_task_from_spec(&n, known, &t);
	assert_true(t.mem_bytes == 77 && t.shared);
	spec_free(s);
	spec_free(known);
}

static void test_lane_and_ref(void **state)
{
	const struct task_name n = { .id = 7, .element = 3 };
	struct sched_queue *q = sched_queue_new();

	assert_int_equal(planview_lane(q, NULL) + planview_lane(q, ""), 0);
	assert_int_equal(planview_lane(q, "train"), sched_lane(q, "train"));
	assert_int_equal(planview_ref(&n).id, 7);
	assert_int_equal(planview_ref(&n).element, 3);
	(void)sched_queue_free(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_from_the_name_alone),
		cmocka_unit_test(test_devices_in_the_name),
		cmocka_unit_test(test_elements),
		cmocka_unit_test(test_from_the_spec),
		cmocka_unit_test(test_kind),
		cmocka_unit_test(test_auto_memory),
		cmocka_unit_test(test_lane_and_ref),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
