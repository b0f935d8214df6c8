/* SPDX-License-Identifier: MIT */

/* An attempt and the guard: leases that are refused, granted, taken and freed, and guards that are
 * new. */

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "agent/attempt/lease.h"
#include "agent/attempt/steps.h"
#include "attempt_task.h"
#include "attempt_world.h"
#include "base/clock.h"

static void test_lease_refused(void **state)
{
	at_begin();
	at_start(2);
	world_jobs();
	at_promise(0, 0);
	at_promise(1, -EBUSY);
	at_expect("freeing"); /* what it has is given back */
	assert_int_equal(w.n_launched, 0);
	assert_int_equal(w.n_unlease, 1);
	at_unlease(0);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_TAKEN);
	assert_string_equal(w.committed_why, "in use");
	assert_int_equal(told.verdict.what, RETRY_AGAIN);
	at_end();
}

/* Each device that is promised after all is given back by a word of its own. */
static void test_promise_while_freeing(void **state)
{
	at_begin();
	at_start(2);
	world_jobs();
	at_promise(0, -EBUSY);
	at_promise(1, 0);
	at_expect("freeing");
	at_unlease(1);
	world_jobs();
	assert_int_equal(told.n_over, 1);
	at_end();
}

static void test_new_guard_while_leasing(void **state)
{
	at_begin();
	at_start(2);
	world_jobs();
	at_promise(0, 0);
	attempt_on_guard(attempt);
	assert_int_equal(w.n_lease, 4);
	at_promise(1, 0);
	assert_int_equal(w.n_launched, 0);
	at_promise(0, 0);
	assert_int_equal(w.n_launched, 1);
	at_end();
}

/* What the old one had promised may be somebody else's by now. */
static void test_new_guard_while_granting(void **state)
{
	at_begin();
	at_start(2);
	world_jobs();
	at_promise(0, 0);
	at_promise(1, 0);
	world_say_status(SHMSG_PREPARED, SHIM_PREPARED, 4);
	world_jobs();
	assert_int_equal(w.n_grant, 1);
	attempt_on_guard(attempt);
	assert_int_equal(w.n_lease, 4);
	assert_int_equal(w.lease.pid, 0);
	at_promise(0, 0);
	assert_int_equal(w.n_grant, 1);
	at_promise(1, 0);
	assert_int_equal(w.n_grant, 2);
	assert_int_equal(w.n_go, 0);
	at_grant(0);
	assert_int_equal(w.n_go, 1);
	at_end();
}

/* It counts the devices otherwise. */
static void test_new_guard_moves(void **state)
{
	at_begin();
	at_start_granting();
	attempt_on_guard(attempt);
	at_promise(1, 0);
	assert_int_equal(told.n_moved, 1);
	assert_true(devset_has(attempt->devices, 1) && !devset_has(attempt->devices, 0));
	at_grant(0);
	world_say_status(SHMSG_STARTED, SHIM_RUNNING, 4);
	attempt_on_guard(attempt);
	assert_int_equal(w.lease.pid, 4);
	at_promise(0, 0);
	assert_int_equal(told.n_moved, 2);
	at_exit(0);
	at_unlease(0);
	world_jobs();
	assert_int_equal(told.n_over, 1);
	at_end();
}

static void test_lease_refused_while_granting(void **state)
{
	at_begin();
	at_start_granting();
	attempt_on_guard(attempt);
	at_promise(0, -EBUSY);
	assert_int_equal(w.n_requeue, 1);
	assert_int_equal(w.n_grant, 1);
	assert_int_equal(w.n_go, 0);
	at_cancel();
	at_unlease(-1);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_TAKEN);
	assert_string_equal(w.committed_why, "in use");
	at_end();
}

static void test_grant_refused(void **state)
{
	at_begin();
	at_start_granting();
	at_grant(-ESRCH);
	assert_int_equal(w.n_requeue, 1);
	assert_int_equal(w.n_go, 0);
	at_cancel();
	at_unlease(0);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_TAKEN);
	assert_string_equal(w.committed_why, "it has no lease");
	at_end();
}

/* It runs there, whatever the guard knows of it: asked again until it can take the lease. */
static void test_new_guard_cannot_take_lease(void **state)
{
	at_begin();
	at_start_running();
	assert_false(attempt_wants_lease(attempt));
	attempt_on_guard(attempt);
	at_promise(-1, -ENODEV);
	assert_true(attempt_wants_lease(attempt));
	assert_int_equal(w.n_stop + w.n_requeue, 0);
	attempt_lease_again(attempt);
	assert_int_equal(w.n_lease, 3);
	assert_false(attempt_wants_lease(attempt));
	at_promise(0, 0);
	attempt_lease_again(attempt);
	assert_int_equal(w.n_lease, 3);
	at_end();
}

static void test_new_guard_while_freeing(void **state)
{
	at_begin();
	at_start_freeing();
	attempt_on_guard(attempt);
	assert_int_equal(w.n_unlease, 2);
	at_unlease(-1);
	world_jobs();
	assert_int_equal(told.n_over, 1);
	at_end();
}

static void test_taken_before_it_runs(void **state)
{
	at_begin();
	at_start_granting();
	at_take(0);
	assert_int_equal(w.n_requeue, 1);
	at_cancel();
	at_unlease(0);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_TAKEN);
	assert_string_equal(w.committed_why, "taken by PID 9");
	at_end();
}

static void test_preempted_by_a_neighbour(void **state)
{
	at_begin();
	w.preemptible = true;
	at_start_running();
	at_take(0);
	assert_int_equal(w.n_requeue, 1);
	world_say_end(&(struct task_end){
		.outcome = TASK_SIGNALLED, .signal = 15, .cause = CAUSE_REQUEUE });
	at_unlease(0);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_PREEMPTED);
	assert_non_null(strstr(w.committed_why, "GPU 0 was taken by PID 9"));
	at_end();
}

/* Freed by the guard before we know of the end. */
static void test_freed_before_the_end(void **state)
{
	at_begin();
	at_start_running();
	at_unlease(0);
	at_expect("running");
	at_exit(0);
	at_expect("filing");
	assert_int_equal(w.n_unlease, 0);
	world_jobs();
	at_end();
}

static void test_unleased_of_an_earlier_attempt(void **state)
{
	at_begin();
	at_start(0);
	world_jobs();
	at_unlease(0);
	world_say_status(SHMSG_STARTED, SHIM_RUNNING, 4);
	at_unlease(-1);
	at_expect("running");
	world_jobs();
	at_end();
}

static void test_use(void **state)
{
	const struct msg_lease_use m = { .util_permille = 500,
					 .util_ns = NS_PER_S,
					 .peak_bytes = 77 };

	at_begin();
	at_start_running();
	attempt_on_use(attempt, &m);
	assert_int_equal(w.n_gpu, 1);
	at_exit(0);
	at_unlease(0);
	world_jobs();
	assert_int_equal(w.committed.end->gpu_peak_bytes, 77);
	assert_int_equal(w.committed.end->gpu_util_permille, 500);
	at_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lease_refused),
		cmocka_unit_test(test_promise_while_freeing),
		cmocka_unit_test(test_new_guard_while_leasing),
		cmocka_unit_test(test_new_guard_while_granting),
		cmocka_unit_test(test_new_guard_moves),
		cmocka_unit_test(test_lease_refused_while_granting),
		cmocka_unit_test(test_grant_refused),
		cmocka_unit_test(test_new_guard_cannot_take_lease),
		cmocka_unit_test(test_new_guard_while_freeing),
		cmocka_unit_test(test_taken_before_it_runs),
		cmocka_unit_test(test_preempted_by_a_neighbour),
		cmocka_unit_test(test_freed_before_the_end),
		cmocka_unit_test(test_unleased_of_an_earlier_attempt),
		cmocka_unit_test(test_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
