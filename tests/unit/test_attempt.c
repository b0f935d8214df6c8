/* SPDX-License-Identifier: MIT */

/* An attempt of a task: its table, the way through it, what is launched and noted, and the end. */

#include "unit.h"

#include <errno.h>

#include "agent/attempt/claim.h"
#include "agent/attempt/lease.h"
#include "agent/attempt/steps.h"
#include "agent/attempt/task.h"
#include "attempt_task.h"
#include "attempt_world.h"
#include "base/clock.h"

/* ---- the table ---- */

static bool leaves(enum attempt_state from)
{
	for (unsigned int ev = 0; ev < ON_MAX; ev++)
		if (attempt_steps[from][ev].action && attempt_steps[from][ev].next != from)
			return true;
	return false;
}

/* What has ended never begins again, and is recorded by one way only. */
static void check_step(enum attempt_state from, enum attempt_event ev, enum attempt_state next)
{
	bool commits = from == AT_ENDED || from == AT_FREEING || from >= AT_COMMITTING;

	assert_true(from < AT_ENDED || next >= AT_ENDED);
	assert_true(next != AT_COMMITTING || commits);
	assert_true(next != AT_OVER || ev == ON_UNCLAIMED || ev == ON_COMMITTED);
	assert_true(next != AT_RUNNING || from >= AT_PREPARING);
	assert_true(from != AT_OVER);
}

static void test_table(void **state)
{
	for (enum attempt_state from = 0; from < AT_STATE_MAX; from++) {
		const struct attempt_step *steps = attempt_steps[from];
		bool connected = from >= AT_PREPARING && from <= AT_STOPPING;

		for (enum attempt_event ev = 0; ev < ON_MAX; ev++)
			if (steps[ev].action)
				check_step(from, ev, steps[ev].next);
		assert_int_equal(leaves(from), from != AT_OVER);
		/* A connection that breaks is no end, and after the end it is nothing. */
		assert_int_equal(connected, steps[ON_HUNG_UP].next == AT_LOOKING);
		assert_int_equal(connected, steps[ON_DENIED].next == AT_LOOKING);
		assert_true(!connected || steps[ON_ENDED].next == AT_ENDED);
	}
}

/* ---- the way through ---- */

static void test_without_devices(void **state)
{
	at_begin();
	at_start(0);
	at_expect("claiming");
	world_jobs();
	at_expect("starting");
	assert_int_equal(w.n_lease, 0);
	assert_int_equal(w.spec_flags & LAUNCH_GO, LAUNCH_GO);
	assert_true(w.go_until_ns > clock_boot_ns() + 9 * NS_PER_S);
	assert_true(w.go_until_ns <= clock_boot_ns() + 10 * NS_PER_S);
	world_say_status(SHMSG_STARTED, SHIM_RUNNING, 4);
	assert_int_equal(w.n_later, 1); /* the note can wait for another job */
	at_expect("running");
	assert_int_equal(told.n_started, 1);
	world_say_status(SHMSG_STATUS, SHIM_RUNNING, 4);
	assert_int_equal(told.n_started, 1);
	world_jobs();
	assert_int_equal(w.n_notes, 1);
	at_exit(0);
	at_expect("filing");
	assert_int_equal(told.n_succeeded, 1); /* before that is written */
	assert_int_equal(w.n_commits, 0);
	world_jobs();
	assert_int_equal(told.n_over, 1);
	assert_int_equal(told.verdict.what, RETRY_DONE);
	assert_int_equal(w.n_go + w.n_grant + w.n_unlease, 0);
	at_end();
}

static void test_with_devices(void **state)
{
	at_begin();
	at_start(2);
	world_jobs();
	at_expect("leasing");
	assert_int_equal(w.n_lease, 2);
	assert_int_equal(w.lease.pid, 0);
	assert_int_equal(w.lease.id.attempt, 4);
	at_promise(0, 0);
	assert_int_equal(w.n_launched, 0);
	at_promise(1, 0);
	assert_int_equal(w.n_launched, 1);
	assert_int_equal(w.spec_flags & LAUNCH_GO, 0);
	assert_string_equal(w.visible, "0,1");
	world_say_status(SHMSG_PREPARED, SHIM_PREPARED, 4);
	at_expect("starting");
	assert_int_equal(w.n_grant, 0); /* the note comes first */
	world_jobs();
	at_expect("granting");
	assert_int_equal(w.n_grant, 1);
	assert_int_equal(w.granted_to.pid, 4);
	assert_int_equal(w.n_go, 0);
	at_grant(0);
	assert_int_equal(w.n_go, 1);
	world_say_status(SHMSG_STARTED, SHIM_RUNNING, 4);
	at_expect("running");
	at_exit(3);
	at_expect("freeing");
	assert_int_equal(w.n_unlease, 1);
	at_unlease(0);
	at_expect("freeing");
	at_unlease(1);
	at_expect("filing");
	world_jobs();
	assert_int_equal(told.n_over, 1);
	assert_int_equal(told.n_succeeded, 0);
	assert_int_equal(w.committed.ended.kind, END_EXIT);
	assert_int_equal(w.committed.gpus, 2);
	at_end();
}

static void test_no_claim(void **state)
{
	static const struct {
		int code;
		enum retry_what what;
		uint64_t wait_ms;
	} cases[] = {
		{ CLAIM_LOST, RETRY_CANCELLED, 0 },
		{ CLAIM_REFUSED, RETRY_CANCELLED, 0 },
		{ CLAIM_ELSEWHERE, RETRY_AGAIN, 1000 },
		{ -EIO, RETRY_AGAIN, 10000 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		at_begin();
		w.claim_code = cases[i].code;
		at_start(1);
		attempt_stop(attempt, END_STOPPED, UINT32_MAX, "stopped");
		world_jobs();
		assert_int_equal(told.n_over, 1);
		assert_int_equal(told.claim_code, cases[i].code);
		assert_int_equal(told.verdict.what, cases[i].what);
		if (cases[i].wait_ms)
			assert_true(told.verdict.at_ns >
				    clock_mono_ns() + (cases[i].wait_ms - 500) * NS_PER_MS);
		assert_true(told.was_stopped);
		assert_int_equal(told.n_stopped, 0); /* nothing of it is ours */
		assert_int_equal(w.n_commits + w.n_lease + w.n_launched, 0);
		at_end();
	}
}

/* ---- launch and note ---- */

static void test_launch_fails(void **state)
{
	at_begin();
	w.shim_code = -EAGAIN; /* the fork server is busy */
	at_start(0);
	world_jobs();
	assert_int_equal(w.timer_ms, 5);
	assert_int_equal(w.n_said, 0);
	w.shim_code = -EPIPE; /* it has gone, and another one cannot be had */
	w.fork_code = -ENOMEM;
	assert_true(world_timer());
	assert_int_equal(w.timer_ms, 5);
	assert_true(world_timer());
	assert_int_equal(w.timer_ms, 1000);
	assert_int_equal(w.n_said, 1);
	for (uint64_t ms = 2000; ms < 60000; ms *= 2) {
		assert_true(world_timer());
		assert_int_equal(w.timer_ms, ms);
	}
	assert_true(world_timer());
	assert_int_equal(w.timer_ms, 60000);
	assert_int_equal(w.n_said, 1); /* once */
	at_expect("starting");
	w.fork_code = w.shim_code = 0;
	assert_true(world_timer());
	assert_int_equal(w.n_launched, 1);
	assert_false(world_timer());
	at_end();
}

static void test_cannot_be_launched(void **state)
{
	at_begin();
	w.shim_code = -E2BIG;
	at_start(1);
	world_jobs();
	at_promise(0, 0);
	at_expect("freeing");
	at_unlease(0);
	world_jobs();
	assert_int_equal(w.committed.end->outcome, TASK_NOT_STARTED);
	assert_int_equal(w.committed.end->exit_code, 126);
	assert_int_equal(w.committed.ended.kind, END_EXIT);
	at_end();
}

/* So long after the claim that another may have it: not before that was written. */
static void test_begins_late(void **state)
{
	at_begin();
	at_start(0);
	world_jobs();
	w.boot_ns = 11 * NS_PER_S;
	w.note_code = -EIO;
	world_say_status(SHMSG_PREPARED, SHIM_PREPARED, 4);
	assert_int_equal(w.n_later, 0); /* somebody waits for it */
	world_jobs();
	assert_int_equal(w.n_go, 0);
	assert_int_equal(w.n_said, 1);
	assert_int_equal(w.timer_ms, 1000);
	assert_true(world_timer());
	world_jobs();
	assert_int_equal(w.n_go, 0);
	assert_int_equal(w.timer_ms, 2000);
	assert_int_equal(w.n_said, 1);
	w.note_code = 0;
	assert_true(world_timer());
	world_jobs();
	assert_int_equal(w.n_notes, 3);
	assert_int_equal(w.n_go, 1);
	at_end();
}

static void test_note_fails_in_time(void **state)
{
	at_begin();
	w.note_code = -EIO;
	at_start_granting();
	assert_int_equal(w.n_said, 0);
	at_end();
}

/* We were away for so long that others took it. */
static void test_claim_is_gone(void **state)
{
	at_begin();
	at_start_noting();
	w.note_code = w.confirm_code = -ENOENT;
	world_jobs();
	assert_int_equal(w.n_requeue, 1);
	assert_int_equal(w.grace_ms, 0);
	assert_int_equal(w.n_grant, 0);
	at_cancel();
	at_unlease(0);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_NODE_LOST);
	at_end();
}

/* A note that has not gone over yet does not outlive the attempt. */
static void test_note_is_taken_back(void **state)
{
	at_begin();
	at_start(0);
	world_jobs();
	world_say_status(SHMSG_STARTED, SHIM_RUNNING, 4);
	at_exit(0);
	assert_int_equal(w.n_jobs, 1);
	world_jobs();
	assert_int_equal(w.n_notes, 0);
	assert_int_equal(w.n_commits, 1);
	at_end();
}

static void test_note_that_went_over(void **state)
{
	at_begin();
	at_start(0);
	world_jobs();
	world_say_status(SHMSG_STARTED, SHIM_RUNNING, 4);
	assert_true(world_work());
	at_exit(0);
	assert_int_equal(w.n_jobs, 2);
	world_jobs();
	assert_int_equal(told.n_over, 1);
	at_end();
}

/* ---- the end ---- */

/* What it had to say is known: a look would take the timer of the commit. */
static void test_hangs_up_after_the_end(void **state)
{
	struct task_end how = world_exited(0);

	how.record_errno = ENOSPC;
	at_begin();
	at_start_running();
	world_say_end(&how);
	assert_true(world_connected()); /* until it is written */
	at_unlease(0);
	w.commit_code = -ENOSPC;
	assert_true(world_job());
	assert_int_equal(w.n_ack, 0);
	assert_int_equal(w.timer_ms, 1000);
	world_hang_up();
	assert_int_equal(w.n_jobs, 0);
	w.commit_code = 0;
	assert_true(world_timer());
	world_jobs();
	assert_int_equal(told.n_over, 1);
	at_end();
}

static void test_acknowledged_when_written(void **state)
{
	struct task_end how = world_exited(0);

	how.record_errno = ENOSPC;
	at_begin();
	at_start_running();
	world_say_end(&how);
	at_unlease(0);
	assert_int_equal(w.n_ack, 0);
	world_jobs();
	assert_int_equal(w.n_ack, 1);
	at_end();
}

static void test_commit_fails(void **state)
{
	json_t *report;

	at_begin();
	at_start_committing();
	assert_int_equal(told.n_succeeded, 1);
	w.commit_code = -ENOSPC;
	assert_true(world_job());
	assert_false(w.committed.told);
	assert_int_equal(w.n_said, 1);
	assert_int_equal(w.timer_ms, 1000);
	at_expect("filing");
	report = attempt_report(attempt);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(report, "unfiled"), "why")),
		"the disk is full");
	json_decref(report);
	assert_true(world_timer());
	assert_true(world_job());
	assert_true(w.committed.told); /* it was tried before */
	assert_int_equal(told.n_succeeded, 1);
	assert_int_equal(w.n_said, 1); /* once */
	assert_int_equal(w.timer_ms, 2000);
	w.commit_code = 0;
	assert_true(world_timer());
	world_jobs();
	assert_int_equal(told.n_over, 1);
	assert_int_equal(w.place.commit_code, 0);
	at_end();
}

static void test_late_words_mean_nothing(void **state)
{
	at_begin();
	at_start_committing();
	at_take(0);
	at_promise(0, 0);
	at_grant(0);
	at_unlease(0);
	attempt_on_guard(attempt);
	assert_int_equal(w.n_jobs, 1);
	assert_int_equal(w.n_requeue + w.n_stop, 0);
	world_jobs();
	assert_int_equal(told.n_over, 1);
	assert_int_equal(w.committed.ended.kind, END_EXIT);
	at_end();
}

static void swept(void)
{
	w.on_swept(w.swept_user);
}

static void test_sweeps(void **state)
{
	at_begin();
	w.sweeps = true;
	at_start_running();
	at_exit(0);
	at_expect("running"); /* what else ends with it still does */
	assert_int_equal(w.n_unlease, 0);
	at_stop(UINT32_MAX);
	swept();
	at_expect("freeing");
	at_unlease(0);
	world_jobs();
	assert_int_equal(told.n_over, 1);
	assert_true(told.was_stopped);
	at_end();
}

/* Who came before it, or preempted it, has won; and beside what never ran nobody has to go. */
static void test_sweeps_not(void **state)
{
	at_begin();
	w.sweeps = true;
	at_start_running();
	attempt_stop(attempt, END_PREEMPTED, UINT32_MAX, "preempted");
	at_exit(0);
	at_expect("freeing");
	at_unlease(0);
	world_jobs();
	at_end();
	at_begin();
	w.sweeps = true;
	at_start_leasing();
	at_stop(UINT32_MAX);
	at_expect("freeing");
	at_unlease(0);
	world_jobs();
	at_end();
}

/* Stopped by its owner while its devices are given back, it is swept after all, and once. */
static void test_sweeps_what_is_stopped_later(void **state)
{
	at_begin();
	w.sweeps = true;
	at_start_running();
	attempt_stop(attempt, END_PREEMPTED, UINT32_MAX, "preempted");
	at_exit(0);
	at_expect("freeing");
	at_stop(UINT32_MAX);
	at_unlease(0);
	world_jobs();
	assert_int_equal(told.n_over, 0);
	assert_non_null(w.on_swept);
	swept();
	world_jobs();
	assert_int_equal(told.n_over, 1);
	assert_true(told.was_stopped);
	at_end();
}

/* ---- a rank of a gang ---- */

static void say_go(void)
{
	struct text_list env = { .n = 0 };

	text_list_add(&env, "MASTER_ADDR=10.0.0.1");
	attempt_event(attempt, ON_GO, &env);
	text_list_clear(&env);
}

static void start_mustered(unsigned int gpus)
{
	at_begin();
	w.nodes = 2;
	at_start(gpus);
	world_jobs();
	if (gpus)
		at_promise(0, 0);
	assert_int_equal(w.spec_flags & LAUNCH_GO, 0);
	world_say_status(SHMSG_PREPARED, SHIM_PREPARED, 4);
	world_jobs();
	if (gpus)
		at_grant(0);
	at_expect("mustered");
	assert_int_equal(told.n_mustered, 1);
	assert_int_equal(w.n_go, 0);
}

/* It has all that it needs, and starts with the word that the others have, too. */
static void test_rank_waits_for_the_others(void **state)
{
	for (unsigned int gpus = 0; gpus < 2; gpus++) {
		start_mustered(gpus);
		world_say_status(SHMSG_STATUS, SHIM_PREPARED, 4); /* somebody looks */
		at_expect("mustered");
		say_go();
		assert_int_equal(w.n_go, 1);
		assert_string_equal(w.go_env, "MASTER_ADDR=10.0.0.1");
		world_say_status(SHMSG_STARTED, SHIM_RUNNING, 4);
		at_expect("running");
		say_go(); /* once more means nothing */
		assert_int_equal(w.n_go, 1);
		at_end();
	}
}

/* Withdrawn: it never ran, and waits again. */
static void test_rank_is_withdrawn(void **state)
{
	start_mustered(1);
	attempt_stop(attempt, END_GANG, UINT32_MAX, "rank 1 is late");
	assert_int_equal(w.n_requeue, 1);
	say_go(); /* it comes too late */
	assert_int_equal(w.n_go, 0);
	at_cancel();
	at_unlease(0);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_GANG);
	assert_true(w.committed.ended.never_ran);
	assert_int_equal(told.verdict.what, RETRY_AGAIN);
	at_end();
}

/* What the guard before had granted may be somebody else's: all of it once more, and no GO before.
 */
static void test_rank_and_a_new_guard(void **state)
{
	start_mustered(1);
	attempt_on_guard(attempt);
	at_expect("granting");
	say_go();
	assert_int_equal(w.n_go, 0);
	at_promise(0, 0);
	at_grant(0);
	at_expect("mustered");
	assert_int_equal(told.n_mustered, 2);
	say_go();
	assert_int_equal(w.n_go, 1);
	at_end();
}

/* Somebody came before it. */
static void test_rank_is_taken(void **state)
{
	start_mustered(1);
	at_take(0);
	assert_int_equal(w.n_requeue, 1);
	at_cancel();
	at_unlease(0);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_TAKEN);
	at_end();
}

static void test_forgotten(void **state)
{
	at_begin();
	at_start_running();
	attempt = attempt_forget(attempt);
	assert_int_equal(w.n_stop + w.n_requeue + w.n_unlease, 0);
	at_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_without_devices),
		cmocka_unit_test(test_with_devices),
		cmocka_unit_test(test_no_claim),
		cmocka_unit_test(test_launch_fails),
		cmocka_unit_test(test_cannot_be_launched),
		cmocka_unit_test(test_begins_late),
		cmocka_unit_test(test_note_fails_in_time),
		cmocka_unit_test(test_claim_is_gone),
		cmocka_unit_test(test_note_is_taken_back),
		cmocka_unit_test(test_note_that_went_over),
		cmocka_unit_test(test_hangs_up_after_the_end),
		cmocka_unit_test(test_acknowledged_when_written),
		cmocka_unit_test(test_commit_fails),
		cmocka_unit_test(test_late_words_mean_nothing),
		cmocka_unit_test(test_sweeps),
		cmocka_unit_test(test_sweeps_not),
		cmocka_unit_test(test_sweeps_what_is_stopped_later),
		cmocka_unit_test(test_rank_waits_for_the_others),
		cmocka_unit_test(test_rank_is_withdrawn),
		cmocka_unit_test(test_rank_and_a_new_guard),
		cmocka_unit_test(test_rank_is_taken),
		cmocka_unit_test(test_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
