/* SPDX-License-Identifier: MIT */

/* The state table: every state with every event, and what must hold for all of them. */

#include <stdbool.h>

#include "unit.h"

#include "hold/device_state.h"

static bool has_holder(enum dev_state s)
{
	return s == DEV_HOLDING || s == DEV_HELD || s == DEV_YIELDING || s == DEV_LENDING;
}

static bool lets_go(enum dev_state s)
{
	return s == DEV_YIELDING || s == DEV_LENDING;
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

/* A task of ours is served by the same action as a newcomer, and ends up with the device. */
static void test_ours_is_handed_over(void **state)
{
	static const enum dev_state holds[] = { DEV_HOLDING, DEV_HELD };

	for (size_t s = 0; s < 2; s++) {
		assert_int_equal(dev_state_step(holds[s], EV_OURS).next, DEV_LENDING);
		assert_int_equal(dev_state_step(holds[s], EV_OURS).action, ACT_RELEASE);
	}
	assert_int_equal(dev_state_step(DEV_LENDING, EV_HELD).action, ACT_RELEASE);
	assert_int_equal(dev_state_step(DEV_LENDING, EV_FREED).next, DEV_LENT);
	assert_int_equal(dev_state_step(DEV_LENDING, EV_FREED).action, ACT_KEEP);
	assert_int_equal(dev_state_step(DEV_LENDING, EV_GONE).next, DEV_LENT);
}

/* Whatever is seen beside a task, it stays lent until the ledger has it back. */
static void test_lent_until_returned(void **state)
{
	for (int ev = 0; ev < DEV_EVENT_MAX; ev++) {
		struct dev_step step = dev_state_step(DEV_LENT, (enum dev_event)ev);

		assert_int_equal(step.action, ACT_NONE);
		assert_int_equal(step.next, ev == EV_RETURNED ? DEV_IDLE
					    : ev == EV_AWAY   ? DEV_BUSY
							      : DEV_LENT);
	}
	for (int s = 0; s < DEV_STATE_MAX; s++) {
		bool free = s == DEV_BUSY || s == DEV_IDLE || s == DEV_LEFT || s == DEV_LENT;

		assert_int_equal(dev_state_step((enum dev_state)s, EV_LEND).next,
				 free ? DEV_LENT : (enum dev_state)s);
	}
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
				assert_true(ev == EV_GONE ||
					    (ev == EV_FREED && s == DEV_YIELDING &&
					     step.action == ACT_SETTLE) ||
					    (ev == EV_FREED && s == DEV_LENDING &&
					     step.action == ACT_KEEP));
			if (ev == EV_STUCK)
				assert_int_equal(step.action == ACT_KILL,
						 has_holder((enum dev_state)s));
			if (step.action == ACT_RELEASE || step.action == ACT_KILL)
				assert_true(lets_go(step.next));
		}
	}
}

static void test_left_is_never_touched(void **state)
{
	for (int ev = 0; ev < DEV_EVENT_MAX; ev++) {
		struct dev_step step = dev_state_step(DEV_LEFT, (enum dev_event)ev);

		assert_int_equal(step.action, ACT_NONE);
		assert_int_equal(step.next, ev == EV_TAKE   ? DEV_BUSY
					    : ev == EV_LEND ? DEV_LENT
							    : DEV_LEFT);
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
				assert_true((s == DEV_BUSY && ev == EV_CLEAR) ||
					    (s == DEV_LENT && ev == EV_RETURNED));
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
		cmocka_unit_test(test_ours_is_handed_over),
		cmocka_unit_test(test_lent_until_returned),
		cmocka_unit_test(test_only_ready_starts),
		cmocka_unit_test(test_holder_is_never_forgotten),
		cmocka_unit_test(test_left_is_never_touched),
		cmocka_unit_test(test_idle_only_by_a_clear_look),
		cmocka_unit_test(test_out_of_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
