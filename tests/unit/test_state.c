/* SPDX-License-Identifier: MIT */

/* The state table: every state with every event, and what must hold for all of them. */

#include <stdbool.h>

#include "unit.h"

#include "hold/state.h"

static bool has_holder(enum dev_state s)
{
	return s == DEV_HOLDING || s == DEV_HELD || s == DEV_YIELDING;
}

static void test_foreign_leads_to_release(void **state)
{
	static const enum dev_event let_go[] = { EV_FOREIGN, EV_BLIND, EV_UNWANTED, EV_LEAVE };
	static const enum dev_state holds[] = { DEV_HOLDING, DEV_HELD };

	for (size_t s = 0; s < 2; s++) {
		for (size_t i = 0; i < sizeof(let_go) / sizeof(let_go[0]); i++) {
			struct dev_step step = dev_state_step(holds[s], let_go[i]);

			assert_int_equal(step.next, DEV_YIELDING);
			assert_int_equal(step.action, ACT_RELEASE);
		}
	}
	/* Also when it says that it holds after it was told to let go. */
	assert_int_equal(dev_state_step(DEV_YIELDING, EV_HELD).action, ACT_RELEASE);
	assert_int_equal(dev_state_step(DEV_YIELDING, EV_HELD).next, DEV_YIELDING);
}

static void test_only_ready_starts(void **state)
{
	for (int s = 0; s < DEV_STATE_MAX; s++) {
		for (int ev = 0; ev < DEV_EVENT_MAX; ev++) {
			struct dev_step step =
				dev_state_step((enum dev_state)s, (enum dev_event)ev);
			bool starts = s == DEV_IDLE && ev == EV_READY;

			assert_int_equal(step.action == ACT_START, starts);
			if (!has_holder((enum dev_state)s) && has_holder(step.next))
				assert_true(starts);
		}
	}
}

/* A holder's end is the only way out of the states that have one, but for memory that is free. */
static void test_holder_is_never_forgotten(void **state)
{
	for (int s = 0; s < DEV_STATE_MAX; s++) {
		for (int ev = 0; ev < DEV_EVENT_MAX; ev++) {
			struct dev_step step =
				dev_state_step((enum dev_state)s, (enum dev_event)ev);

			assert_true(step.next < DEV_STATE_MAX && step.action < ACT_MAX);
			if (has_holder((enum dev_state)s) && !has_holder(step.next))
				assert_true(ev == EV_GONE || (ev == EV_FREED && s == DEV_YIELDING &&
							      step.action == ACT_SETTLE));
			if (ev == EV_STUCK)
				assert_int_equal(step.action == ACT_KILL,
						 has_holder((enum dev_state)s));
			if (step.action == ACT_RELEASE || step.action == ACT_KILL)
				assert_int_equal(step.next, DEV_YIELDING);
		}
	}
}

static void test_left_is_never_touched(void **state)
{
	for (int ev = 0; ev < DEV_EVENT_MAX; ev++) {
		struct dev_step step = dev_state_step(DEV_LEFT, (enum dev_event)ev);

		assert_int_equal(step.action, ACT_NONE);
		assert_int_equal(step.next, ev == EV_TAKE ? DEV_BUSY : DEV_LEFT);
	}
}

/* Nothing is held without a look that found it idle. */
static void test_idle_only_by_a_clear_look(void **state)
{
	for (int s = 0; s < DEV_STATE_MAX; s++) {
		for (int ev = 0; ev < DEV_EVENT_MAX; ev++) {
			struct dev_step step =
				dev_state_step((enum dev_state)s, (enum dev_event)ev);

			if (s != DEV_IDLE && step.next == DEV_IDLE)
				assert_true(s == DEV_BUSY && ev == EV_CLEAR);
			if (s == DEV_IDLE && (ev == EV_FOREIGN || ev == EV_BLIND))
				assert_int_equal(step.next, DEV_BUSY);
		}
	}
}

static void test_out_of_range(void **state)
{
	struct dev_step step = dev_state_step((enum dev_state)77, EV_FOREIGN);

	assert_int_equal(step.action, ACT_NONE);
	assert_int_equal(dev_state_step(DEV_HELD, (enum dev_event)77).next, DEV_HELD);
	assert_string_equal(dev_state_name(DEV_YIELDING), "yielding");
	assert_string_equal(dev_state_name(DEV_STATE_MAX), "?");
	assert_string_equal(dev_event_name(EV_STUCK), "stuck");
	assert_string_equal(dev_event_name(DEV_EVENT_MAX), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_foreign_leads_to_release),
		cmocka_unit_test(test_only_ready_starts),
		cmocka_unit_test(test_holder_is_never_forgotten),
		cmocka_unit_test(test_left_is_never_touched),
		cmocka_unit_test(test_idle_only_by_a_clear_look),
		cmocka_unit_test(test_out_of_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
