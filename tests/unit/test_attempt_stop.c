/* SPDX-License-Identifier: MIT */

/* An attempt that is stopped, in every state. */

#include "unit.h"

#include <errno.h>

#include "agent/attempt/steps.h"
#include "attempt_task.h"
#include "attempt_world.h"

static void test_stop_while_claimed(void **state)
{
	at_begin();
	at_start(1);
	at_stop(UINT32_MAX);
	assert_true(world_job());
	assert_int_equal(told.n_stopped,
			 1); /* it has its claim now, and its end comes after that */
	assert_int_equal(w.n_lease, 0);
	at_finish_stopped();
}

/* The same for what makes room, which nobody is told. */
static void test_preempted_while_claimed(void **state)
{
	at_begin();
	at_start(1);
	attempt_stop(attempt, END_PREEMPTED, UINT32_MAX, "preempted");
	world_jobs();
	assert_int_equal(told.n_stopped, 0);
	assert_int_equal(w.committed.ended.kind, END_PREEMPTED);
	assert_string_equal(w.committed_why, "preempted");
	at_end();
}

static void test_stop_while_leasing(void **state)
{
	at_begin();
	at_start_leasing();
	at_stop(UINT32_MAX);
	at_expect("freeing");
	at_unlease(-1);
	at_finish_stopped();
}

static void test_stop_while_launching(void **state)
{
	at_begin();
	w.shim_code = -EAGAIN;
	at_start_starting();
	at_stop(UINT32_MAX);
	at_expect("freeing");
	assert_false(world_timer());
	at_unlease(0);
	at_finish_stopped();
}

static void stop_at_shim(void (*reach)(void))
{
	at_begin();
	reach();
	at_stop(700);
	assert_int_equal(w.n_stop, 1);
	assert_int_equal(w.grace_ms, 700);
	at_stop(UINT32_MAX);
	assert_int_equal(w.grace_ms, 700); /* the shortest counts */
	at_stop(0);
	assert_int_equal(w.n_stop, 3);
	assert_int_equal(w.grace_ms, 0);
	world_jobs();
	world_say_end(&(struct task_end){ .outcome = TASK_CANCELLED, .cause = CAUSE_STOP });
	at_expect("freeing");
	at_unlease(0);
	at_finish_stopped();
}

static void test_stop_at_shim(void **state)
{
	stop_at_shim(at_start_starting);
	stop_at_shim(at_start_noting);
	stop_at_shim(at_start_granting);
	stop_at_shim(at_start_running);
}

/* What its owner says is the last word; else the first. */
static void test_stop_kinds(void **state)
{
	at_begin();
	at_start_running();
	attempt_stop(attempt, END_PREEMPTED, UINT32_MAX, "preempted");
	attempt_stop(attempt, END_LIFETIME, UINT32_MAX, "its lifetime");
	assert_int_equal(w.n_requeue, 2);
	assert_int_equal(w.n_stop, 0);
	at_stop(UINT32_MAX);
	assert_int_equal(w.n_stop, 1);
	world_say_end(&(struct task_end){
		.outcome = TASK_SIGNALLED, .signal = 15, .cause = CAUSE_REQUEUE });
	at_unlease(0);
	at_finish_stopped();
}

static void test_stop_finds_socket_full(void **state)
{
	at_begin();
	at_start_running();
	w.talk_code = -EAGAIN;
	at_stop(UINT32_MAX);
	assert_int_equal(w.timer_ms, 100);
	assert_true(world_timer());
	assert_int_equal(w.n_stop, 0);
	w.talk_code = 0;
	assert_true(world_timer());
	assert_int_equal(w.n_stop, 1);
	assert_false(world_timer());
	at_end();
}

static void test_stop_while_looking(void **state)
{
	at_begin();
	at_start_running();
	world_hang_up();
	at_stop(300);
	assert_int_equal(w.n_stop, 0);
	w.found = ADOPT_LIVES;
	world_jobs();
	assert_int_equal(w.n_adopt, 1);
	assert_int_equal(w.n_stop, 1);
	assert_int_equal(w.grace_ms, 300);
	at_end();
}

static void test_stop_while_orphans_end(void **state)
{
	at_begin();
	at_start_running();
	world_hang_up();
	world_jobs();
	assert_int_equal(w.orphans_grace_ms, 5000);
	at_stop(0);
	w.orphans = 1;
	assert_true(world_timer());
	assert_int_equal(w.orphans_hurry_ms, 0);
	assert_true(world_orphans());
	w.orphans = 0;
	assert_true(world_timer());
	assert_true(world_orphans());
	at_expect("freeing");
	at_unlease(0);
	at_finish_stopped();
}

static void test_stop_while_freeing(void **state)
{
	at_begin();
	at_start_running();
	world_say_end(&(struct task_end){ .outcome = TASK_UNKNOWN });
	attempt_stop(attempt, END_PREEMPTED, UINT32_MAX, "preempted"); /* too late to matter */
	at_stop(UINT32_MAX);
	at_unlease(0);
	at_finish_stopped();
}

/* The thread reads the rest: it counts if this try fails. */
static void test_stop_while_committing(void **state)
{
	at_begin();
	at_start_running();
	world_say_end(&(struct task_end){ .outcome = TASK_UNKNOWN });
	at_unlease(0);
	w.commit_code = -ENOSPC;
	assert_true(world_work());
	assert_int_equal(w.committed.ended.kind, END_NODE_LOST);
	at_stop(UINT32_MAX);
	assert_true(world_job());
	assert_int_equal(told.n_over, 0);
	assert_int_equal(w.place.commit_code, -ENOSPC);
	w.commit_code = 0;
	assert_true(world_timer());
	at_finish_stopped();
}

static void test_stop_while_committed(void **state)
{
	at_begin();
	at_start_running();
	world_say_end(&(struct task_end){ .outcome = TASK_UNKNOWN });
	at_unlease(0);
	assert_true(world_work());
	at_stop(UINT32_MAX);
	assert_true(world_job());
	assert_int_equal(told.n_over, 1);
	assert_int_equal(told.verdict.what, RETRY_AGAIN); /* who has stopped it takes that back */
	assert_false(told.was_stopped);
	at_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stop_while_claimed),
		cmocka_unit_test(test_preempted_while_claimed),
		cmocka_unit_test(test_stop_while_leasing),
		cmocka_unit_test(test_stop_while_launching),
		cmocka_unit_test(test_stop_at_shim),
		cmocka_unit_test(test_stop_kinds),
		cmocka_unit_test(test_stop_finds_socket_full),
		cmocka_unit_test(test_stop_while_looking),
		cmocka_unit_test(test_stop_while_orphans_end),
		cmocka_unit_test(test_stop_while_freeing),
		cmocka_unit_test(test_stop_while_committing),
		cmocka_unit_test(test_stop_while_committed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
