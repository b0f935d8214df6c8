/* SPDX-License-Identifier: MIT */

/* The agent's life as a table: what each event makes of each phase. */

#include "unit.h"

#include "agent/lifecycle.h"
#include "base/mem.h"

/* Written down once more, by columns of one letter: what is done in which phase, and the phase that
 * follows where it is another one. */
static const struct {
	enum life_phase phase;
	const struct life_step steps[LIFE_EVENT_MAX];
} rows[] = {
#define STAYS(p)                                                                                   \
	{                                                                                          \
		p, LIFE_NOTHING                                                                    \
	}
	{ LIFE_STARTING,
	  { [LIFE_READY] = { LIFE_SERVING, LIFE_BECOME_READY },
	    [LIFE_REFUSED] = { LIFE_FLUSHING, LIFE_GIVE_UP },
	    [LIFE_FATAL] = { LIFE_FLUSHING, LIFE_GIVE_UP },
	    [LIFE_DRAIN] = { LIFE_STARTING_DRAIN, LIFE_BEGIN_DRAIN },
	    [LIFE_NOTHING_RUNS] = STAYS(LIFE_STARTING),
	    [LIFE_SHUTDOWN] = { LIFE_CLEARING, LIFE_SHUT_DOWN },
	    [LIFE_CLEARED] = STAYS(LIFE_STARTING),
	    [LIFE_DROPPED] = STAYS(LIFE_STARTING),
	    [LIFE_LATE] = { LIFE_FLUSHING, LIFE_GIVE_UP } } },
	{ LIFE_STARTING_DRAIN,
	  { [LIFE_READY] = { LIFE_DRAINING, LIFE_BECOME_READY },
	    [LIFE_REFUSED] = { LIFE_FLUSHING, LIFE_GIVE_UP },
	    [LIFE_FATAL] = { LIFE_FLUSHING, LIFE_GIVE_UP },
	    [LIFE_DRAIN] = { LIFE_STARTING_DRAIN, LIFE_BEGIN_DRAIN },
	    [LIFE_NOTHING_RUNS] = { LIFE_CLEARING, LIFE_SHUT_DOWN },
	    [LIFE_SHUTDOWN] = { LIFE_CLEARING, LIFE_SHUT_DOWN },
	    [LIFE_CLEARED] = STAYS(LIFE_STARTING_DRAIN),
	    [LIFE_DROPPED] = STAYS(LIFE_STARTING_DRAIN),
	    [LIFE_LATE] = { LIFE_FLUSHING, LIFE_GIVE_UP } } },
	{ LIFE_SERVING,
	  { [LIFE_READY] = STAYS(LIFE_SERVING),
	    [LIFE_REFUSED] = { LIFE_SERVING, LIFE_RESEND_LATER },
	    [LIFE_FATAL] = { LIFE_SERVING, LIFE_TELL },
	    [LIFE_DRAIN] = { LIFE_DRAINING, LIFE_BEGIN_DRAIN },
	    [LIFE_NOTHING_RUNS] = STAYS(LIFE_SERVING),
	    [LIFE_SHUTDOWN] = { LIFE_CLEARING, LIFE_SHUT_DOWN },
	    [LIFE_CLEARED] = STAYS(LIFE_SERVING),
	    [LIFE_DROPPED] = STAYS(LIFE_SERVING),
	    [LIFE_LATE] = { LIFE_SERVING, LIFE_RESEND } } },
	{ LIFE_DRAINING,
	  { [LIFE_READY] = STAYS(LIFE_DRAINING),
	    [LIFE_REFUSED] = { LIFE_DRAINING, LIFE_RESEND_LATER },
	    [LIFE_FATAL] = { LIFE_DRAINING, LIFE_TELL },
	    [LIFE_DRAIN] = { LIFE_DRAINING, LIFE_BEGIN_DRAIN },
	    [LIFE_NOTHING_RUNS] = { LIFE_CLEARING, LIFE_SHUT_DOWN },
	    [LIFE_SHUTDOWN] = { LIFE_CLEARING, LIFE_SHUT_DOWN },
	    [LIFE_CLEARED] = STAYS(LIFE_DRAINING),
	    [LIFE_DROPPED] = STAYS(LIFE_DRAINING),
	    [LIFE_LATE] = { LIFE_DRAINING, LIFE_RESEND } } },
	{ LIFE_CLEARING,
	  { [LIFE_READY] = STAYS(LIFE_CLEARING),
	    [LIFE_REFUSED] = STAYS(LIFE_CLEARING),
	    [LIFE_FATAL] = { LIFE_CLEARING, LIFE_TELL },
	    [LIFE_DRAIN] = { LIFE_CLEARING, LIFE_STOP_TASKS },
	    [LIFE_NOTHING_RUNS] = STAYS(LIFE_CLEARING),
	    [LIFE_SHUTDOWN] = STAYS(LIFE_CLEARING),
	    [LIFE_CLEARED] = { LIFE_RELEASING, LIFE_DROP },
	    [LIFE_DROPPED] = STAYS(LIFE_CLEARING), /* of a Ctrl-Z before: it is asked again */
	    [LIFE_LATE] = { LIFE_RELEASING, LIFE_DROP } } },
	{ LIFE_RELEASING,
	  { [LIFE_READY] = STAYS(LIFE_RELEASING),
	    [LIFE_REFUSED] = STAYS(LIFE_RELEASING),
	    [LIFE_FATAL] = { LIFE_RELEASING, LIFE_TELL },
	    [LIFE_DRAIN] = { LIFE_RELEASING, LIFE_STOP_TASKS },
	    [LIFE_NOTHING_RUNS] = STAYS(LIFE_RELEASING),
	    [LIFE_SHUTDOWN] = STAYS(LIFE_RELEASING),
	    [LIFE_CLEARED] = STAYS(LIFE_RELEASING),
	    [LIFE_DROPPED] = { LIFE_FLUSHING, LIFE_FINISH },
	    [LIFE_LATE] = { LIFE_FLUSHING, LIFE_GIVE_UP } } },
	{ LIFE_FLUSHING,
	  { [LIFE_READY] = STAYS(LIFE_FLUSHING),
	    [LIFE_REFUSED] = STAYS(LIFE_FLUSHING),
	    [LIFE_FATAL] = STAYS(LIFE_FLUSHING),
	    [LIFE_DRAIN] = { LIFE_FLUSHING, LIFE_STOP_TASKS },
	    [LIFE_NOTHING_RUNS] = STAYS(LIFE_FLUSHING),
	    [LIFE_SHUTDOWN] = STAYS(LIFE_FLUSHING),
	    [LIFE_CLEARED] = STAYS(LIFE_FLUSHING),
	    [LIFE_DROPPED] = STAYS(LIFE_FLUSHING),
	    [LIFE_LATE] = { LIFE_FLUSHING, LIFE_FLUSH_STEP } } },
};
_Static_assert(ARRAY_LEN(rows) == LIFE_PHASE_MAX, "every phase");

static void test_every_cell(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (enum life_event ev = 0; ev < LIFE_EVENT_MAX; ev++) {
			struct life_step is = life_step(rows[i].phase, ev);

			if (is.next != rows[i].steps[ev].next ||
			    is.action != rows[i].steps[ev].action)
				fail_msg("phase %d, event %d: to %d by %d", rows[i].phase, ev,
					 is.next, is.action);
		}
}

/* However little is answered, whoever waits for the end gets it: each phase after the order has a
 * limit, and none leads back. */
static void test_shutdown_ends_by_itself(void **state)
{
	for (enum life_phase from = 0; from < LIFE_FLUSHING; from++) {
		enum life_phase p = life_step(from, LIFE_SHUTDOWN).next;

		for (int i = 0; i < 2; i++)
			p = life_step(p, LIFE_LATE).next;
		assert_int_equal(p, LIFE_FLUSHING);
	}
}

static void test_nothing_leads_back(void **state)
{
	for (enum life_phase p = 0; p < LIFE_PHASE_MAX; p++)
		for (enum life_event ev = 0; ev < LIFE_EVENT_MAX; ev++)
			assert_true(life_step(p, ev).next >= p);
}

/* Before it serves, what fails is an error for who waits; then it is told and tried again. */
static void test_failures(void **state)
{
	static const enum life_event bad[] = { LIFE_REFUSED, LIFE_FATAL };

	for (enum life_phase p = 0; p < LIFE_FLUSHING; p++)
		for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
			struct life_step s = life_step(p, bad[i]);

			if (p <= LIFE_STARTING_DRAIN)
				assert_int_equal(s.action, LIFE_GIVE_UP);
			else
				assert_int_equal(s.next, p);
		}
}

/* Only who drains ends because nothing runs; who drains while it starts serves nothing later. */
static void test_drain(void **state)
{
	for (enum life_phase p = 0; p < LIFE_CLEARING; p++) {
		bool drains = p == LIFE_STARTING_DRAIN || p == LIFE_DRAINING;

		assert_int_equal(life_step(p, LIFE_NOTHING_RUNS).next == LIFE_CLEARING, drains);
		assert_int_equal(life_step(life_step(p, LIFE_DRAIN).next, LIFE_NOTHING_RUNS).next,
				 LIFE_CLEARING);
	}
	assert_int_equal(life_step(LIFE_STARTING_DRAIN, LIFE_READY).next, LIFE_DRAINING);
}

/* The tasks can be stopped as long as anybody hears it. */
static void test_stop_while_it_ends(void **state)
{
	for (enum life_phase p = 0; p < LIFE_PHASE_MAX; p++)
		assert_int_equal(life_step(p, LIFE_DRAIN).action,
				 p < LIFE_CLEARING ? LIFE_BEGIN_DRAIN : LIFE_STOP_TASKS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_cell),
		cmocka_unit_test(test_shutdown_ends_by_itself),
		cmocka_unit_test(test_nothing_leads_back),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_drain),
		cmocka_unit_test(test_stop_while_it_ends),
	};

	return cmocka_run_group_tests_name("lifecycle", tests, NULL, NULL);
}
