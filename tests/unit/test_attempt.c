/* SPDX-License-Identifier: MIT */

/* An attempt of a task, from its claim to what is written of its end: by scripts, and by random
 * orders of events. */

#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/attempt/claim.h"
#include "agent/attempt/lease.h"
#include "agent/attempt/steps.h"
#include "agent/attempt/task.h"
#include "attempt_world.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

static struct attempt *run; /* NULL: it is over */
static struct retry_streak streak;
static struct retry_verdict verdict; /* with which it was over */
static unsigned int n_over, n_succeeded, n_started, n_stopped, n_moved;
static bool was_stopped;
static int claim_code;

static void on_over(void *user, struct attempt *r, const struct retry_verdict *v)
{
	assert_ptr_equal(r, run);
	n_over++;
	verdict = *v;
	was_stopped = r->end_kind == END_STOPPED;
	claim_code = r->claim_code;
	run = NULL;
}

static void on_succeeded(void *user, struct attempt *r)
{
	n_succeeded++;
}

static void on_started(void *user, struct attempt *r)
{
	n_started++;
}

static void on_stopped(void *user, struct attempt *r)
{
	n_stopped++;
}

static void on_lanes(void *user, const struct lanes_met *met)
{
}

static void on_moved(void *user, struct attempt *r)
{
	n_moved++;
}

static struct retry_streak *on_streak(void *user, const struct attempt *r)
{
	return &streak;
}

static const struct attempt_owner owner = {
	.over = on_over,
	.succeeded = on_succeeded,
	.started = on_started,
	.stopped = on_stopped,
	.lanes = on_lanes,
	.moved = on_moved,
	.streak = on_streak,
};

static void begin(void)
{
	world_begin();
	w.place.owner = &owner;
	run = NULL;
	n_over = n_succeeded = n_started = n_stopped = n_moved = 0;
	streak = (struct retry_streak){ 0 };
}

static void end(void)
{
	if (run)
		run = attempt_forget(run);
	world_end();
}

static void start(unsigned int gpus)
{
	struct devset devices = { { 0 } };

	for (unsigned int i = 0; i < gpus; i++)
		devset_add(&devices, i);
	run = attempt_start(&w.place, (struct sched_ref){ 7, 0 }, 0, devices);
}

static void expect_state(const char *name)
{
	json_t *report = attempt_report(run);

	assert_string_equal(json_string_value(json_object_get(report, "state")), name);
	json_decref(report);
}

static void promise_as(int slot, int code)
{
	struct msg_lease_reply m = { .slot = slot, .code = code, .text = "in use" };

	attempt_on_promise(run, &m);
}

static void grant_as(int code)
{
	struct msg_lease_reply m = { .slot = -1, .code = code, .text = "it has no lease" };

	attempt_on_granted(run, &m);
}

static void unlease(int slot)
{
	struct msg_unleased m = { .slot = slot };

	attempt_on_unleased(run, &m);
}

static void take(int slot)
{
	struct msg_lease_taken m = { .slot = slot, .text = "taken by PID 9" };

	attempt_on_taken(run, &m);
}

/* With one device up to that state. */
static void start_leasing(void)
{
	start(1);
	world_jobs();
	expect_state("leasing");
}

static void start_starting(void)
{
	start_leasing();
	promise_as(0, 0);
	expect_state("starting");
}

static void start_noting(void)
{
	start_starting();
	world_say_status(SHMSG_PREPARED, SHIM_PREPARED, 4);
	assert_int_equal(w.n_jobs, 1);
}

static void start_granting(void)
{
	start_noting();
	world_jobs();
	expect_state("granting");
}

static void start_running(void)
{
	start_granting();
	grant_as(0);
	world_say_status(SHMSG_STARTED, SHIM_RUNNING, 4);
	expect_state("running");
}

static void exit_with(int code)
{
	struct task_end how = world_exited(code);

	world_say_end(&how);
}

static void cancelled(void)
{
	struct task_end how = { .outcome = TASK_CANCELLED,
				.cause = CAUSE_REQUEUE,
				.ended_wall_ns = 1 };

	world_say_end(&how);
}

static void start_freeing(void)
{
	start_running();
	exit_with(0);
	expect_state("freeing");
}

static void start_committing(void)
{
	start_freeing();
	unlease(0);
	expect_state("filing");
}

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
	begin();
	start(0);
	expect_state("claiming");
	world_jobs();
	expect_state("starting");
	assert_int_equal(w.n_lease, 0);
	assert_int_equal(w.spec_flags & LAUNCH_GO, LAUNCH_GO);
	assert_true(w.go_until_ns > clock_boot_ns() + 9 * NS_PER_S);
	assert_true(w.go_until_ns <= clock_boot_ns() + 10 * NS_PER_S);
	world_say_status(SHMSG_STARTED, SHIM_RUNNING, 4);
	assert_int_equal(w.n_later, 1); /* the note can wait for another job */
	expect_state("running");
	assert_int_equal(n_started, 1);
	world_say_status(SHMSG_STATUS, SHIM_RUNNING, 4);
	assert_int_equal(n_started, 1);
	world_jobs();
	assert_int_equal(w.n_notes, 1);
	exit_with(0);
	expect_state("filing");
	assert_int_equal(n_succeeded, 1); /* before that is written */
	assert_int_equal(w.n_commits, 0);
	world_jobs();
	assert_int_equal(n_over, 1);
	assert_int_equal(verdict.what, RETRY_DONE);
	assert_int_equal(w.n_go + w.n_grant + w.n_unlease, 0);
	end();
}

static void test_with_devices(void **state)
{
	begin();
	start(2);
	world_jobs();
	expect_state("leasing");
	assert_int_equal(w.n_lease, 2);
	assert_int_equal(w.lease.pid, 0);
	assert_int_equal(w.lease.id.attempt, 4);
	promise_as(0, 0);
	assert_int_equal(w.n_launched, 0);
	promise_as(1, 0);
	assert_int_equal(w.n_launched, 1);
	assert_int_equal(w.spec_flags & LAUNCH_GO, 0);
	assert_string_equal(w.visible, "0,1");
	world_say_status(SHMSG_PREPARED, SHIM_PREPARED, 4);
	expect_state("starting");
	assert_int_equal(w.n_grant, 0); /* the note comes first */
	world_jobs();
	expect_state("granting");
	assert_int_equal(w.n_grant, 1);
	assert_int_equal(w.granted_to.pid, 4);
	assert_int_equal(w.n_go, 0);
	grant_as(0);
	assert_int_equal(w.n_go, 1);
	world_say_status(SHMSG_STARTED, SHIM_RUNNING, 4);
	expect_state("running");
	exit_with(3);
	expect_state("freeing");
	assert_int_equal(w.n_unlease, 1);
	unlease(0);
	expect_state("freeing");
	unlease(1);
	expect_state("filing");
	world_jobs();
	assert_int_equal(n_over, 1);
	assert_int_equal(n_succeeded, 0);
	assert_int_equal(w.committed.ended.kind, END_EXIT);
	assert_int_equal(w.committed.gpus, 2);
	end();
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
		begin();
		w.claim_code = cases[i].code;
		start(1);
		attempt_stop(run, END_STOPPED, UINT32_MAX, "stopped");
		world_jobs();
		assert_int_equal(n_over, 1);
		assert_int_equal(claim_code, cases[i].code);
		assert_int_equal(verdict.what, cases[i].what);
		if (cases[i].wait_ms)
			assert_true(verdict.at_ns >
				    clock_mono_ns() + (cases[i].wait_ms - 500) * NS_PER_MS);
		assert_true(was_stopped);
		assert_int_equal(n_stopped, 0); /* nothing of it is ours */
		assert_int_equal(w.n_commits + w.n_lease + w.n_launched, 0);
		end();
	}
}

/* ---- the guard ---- */

static void test_lease_refused(void **state)
{
	begin();
	start(2);
	world_jobs();
	promise_as(0, 0);
	promise_as(1, -EBUSY);
	expect_state("freeing"); /* what it has is given back */
	assert_int_equal(w.n_launched, 0);
	assert_int_equal(w.n_unlease, 1);
	unlease(0);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_TAKEN);
	assert_string_equal(w.committed_why, "in use");
	assert_int_equal(verdict.what, RETRY_AGAIN);
	end();
}

/* Each device that is promised after all is given back by a word of its own. */
static void test_promise_while_freeing(void **state)
{
	begin();
	start(2);
	world_jobs();
	promise_as(0, -EBUSY);
	promise_as(1, 0);
	expect_state("freeing");
	unlease(1);
	world_jobs();
	assert_int_equal(n_over, 1);
	end();
}

static void test_new_guard_while_leasing(void **state)
{
	begin();
	start(2);
	world_jobs();
	promise_as(0, 0);
	attempt_on_guard(run);
	assert_int_equal(w.n_lease, 4);
	promise_as(1, 0);
	assert_int_equal(w.n_launched, 0);
	promise_as(0, 0);
	assert_int_equal(w.n_launched, 1);
	end();
}

/* What the old one had promised may be somebody else's by now. */
static void test_new_guard_while_granting(void **state)
{
	begin();
	start(2);
	world_jobs();
	promise_as(0, 0);
	promise_as(1, 0);
	world_say_status(SHMSG_PREPARED, SHIM_PREPARED, 4);
	world_jobs();
	assert_int_equal(w.n_grant, 1);
	attempt_on_guard(run);
	assert_int_equal(w.n_lease, 4);
	assert_int_equal(w.lease.pid, 0);
	promise_as(0, 0);
	assert_int_equal(w.n_grant, 1);
	promise_as(1, 0);
	assert_int_equal(w.n_grant, 2);
	assert_int_equal(w.n_go, 0);
	grant_as(0);
	assert_int_equal(w.n_go, 1);
	end();
}

/* It counts the devices otherwise. */
static void test_new_guard_moves(void **state)
{
	begin();
	start_granting();
	attempt_on_guard(run);
	promise_as(1, 0);
	assert_int_equal(n_moved, 1);
	assert_true(devset_has(run->devices, 1) && !devset_has(run->devices, 0));
	grant_as(0);
	world_say_status(SHMSG_STARTED, SHIM_RUNNING, 4);
	attempt_on_guard(run);
	assert_int_equal(w.lease.pid, 4);
	promise_as(0, 0);
	assert_int_equal(n_moved, 2);
	exit_with(0);
	unlease(0);
	world_jobs();
	assert_int_equal(n_over, 1);
	end();
}

static void test_lease_refused_while_granting(void **state)
{
	begin();
	start_granting();
	attempt_on_guard(run);
	promise_as(0, -EBUSY);
	assert_int_equal(w.n_requeue, 1);
	assert_int_equal(w.n_grant, 1);
	assert_int_equal(w.n_go, 0);
	cancelled();
	unlease(-1);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_TAKEN);
	assert_string_equal(w.committed_why, "in use");
	end();
}

static void test_grant_refused(void **state)
{
	begin();
	start_granting();
	grant_as(-ESRCH);
	assert_int_equal(w.n_requeue, 1);
	assert_int_equal(w.n_go, 0);
	cancelled();
	unlease(0);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_TAKEN);
	assert_string_equal(w.committed_why, "it has no lease");
	end();
}

/* It runs there, whatever the guard knows of it: asked again until it can take the lease. */
static void test_new_guard_cannot_take_lease(void **state)
{
	begin();
	start_running();
	assert_false(attempt_wants_lease(run));
	attempt_on_guard(run);
	promise_as(-1, -ENODEV);
	assert_true(attempt_wants_lease(run));
	assert_int_equal(w.n_stop + w.n_requeue, 0);
	attempt_lease_again(run);
	assert_int_equal(w.n_lease, 3);
	assert_false(attempt_wants_lease(run));
	promise_as(0, 0);
	attempt_lease_again(run);
	assert_int_equal(w.n_lease, 3);
	end();
}

static void test_new_guard_while_freeing(void **state)
{
	begin();
	start_freeing();
	attempt_on_guard(run);
	assert_int_equal(w.n_unlease, 2);
	unlease(-1);
	world_jobs();
	assert_int_equal(n_over, 1);
	end();
}

static void test_taken_before_it_runs(void **state)
{
	begin();
	start_granting();
	take(0);
	assert_int_equal(w.n_requeue, 1);
	cancelled();
	unlease(0);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_TAKEN);
	assert_string_equal(w.committed_why, "taken by PID 9");
	end();
}

static void test_preempted_by_a_neighbour(void **state)
{
	begin();
	w.preemptible = true;
	start_running();
	take(0);
	assert_int_equal(w.n_requeue, 1);
	world_say_end(&(struct task_end){
		.outcome = TASK_SIGNALLED, .signal = 15, .cause = CAUSE_REQUEUE });
	unlease(0);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_PREEMPTED);
	assert_non_null(strstr(w.committed_why, "GPU 0 was taken by PID 9"));
	end();
}

/* Freed by the guard before we know of the end. */
static void test_freed_before_the_end(void **state)
{
	begin();
	start_running();
	unlease(0);
	expect_state("running");
	exit_with(0);
	expect_state("filing");
	assert_int_equal(w.n_unlease, 0);
	world_jobs();
	end();
}

static void test_unleased_of_an_earlier_attempt(void **state)
{
	begin();
	start(0);
	world_jobs();
	unlease(0);
	world_say_status(SHMSG_STARTED, SHIM_RUNNING, 4);
	unlease(-1);
	expect_state("running");
	world_jobs();
	end();
}

static void test_use(void **state)
{
	const struct msg_lease_use m = { .util_permille = 500,
					 .util_ns = NS_PER_S,
					 .peak_bytes = 77 };

	begin();
	start_running();
	attempt_on_use(run, &m);
	assert_int_equal(w.n_gpu, 1);
	exit_with(0);
	unlease(0);
	world_jobs();
	assert_int_equal(w.committed.end->gpu_peak_bytes, 77);
	assert_int_equal(w.committed.end->gpu_util_permille, 500);
	end();
}

/* ---- launch and note ---- */

static void test_launch_fails(void **state)
{
	begin();
	w.shim_code = -EAGAIN; /* the fork server is busy */
	start(0);
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
	expect_state("starting");
	w.fork_code = w.shim_code = 0;
	assert_true(world_timer());
	assert_int_equal(w.n_launched, 1);
	assert_false(world_timer());
	end();
}

static void test_cannot_be_launched(void **state)
{
	begin();
	w.shim_code = -E2BIG;
	start(1);
	world_jobs();
	promise_as(0, 0);
	expect_state("freeing");
	unlease(0);
	world_jobs();
	assert_int_equal(w.committed.end->outcome, TASK_NOT_STARTED);
	assert_int_equal(w.committed.end->exit_code, 126);
	assert_int_equal(w.committed.ended.kind, END_EXIT);
	end();
}

/* So long after the claim that another may have it: not before that was written. */
static void test_begins_late(void **state)
{
	begin();
	start(0);
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
	end();
}

static void test_note_fails_in_time(void **state)
{
	begin();
	w.note_code = -EIO;
	start_granting();
	assert_int_equal(w.n_said, 0);
	end();
}

/* We were away for so long that others took it. */
static void test_claim_is_gone(void **state)
{
	begin();
	start_noting();
	w.note_code = w.confirm_code = -ENOENT;
	world_jobs();
	assert_int_equal(w.n_requeue, 1);
	assert_int_equal(w.grace_ms, 0);
	assert_int_equal(w.n_grant, 0);
	cancelled();
	unlease(0);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_NODE_LOST);
	end();
}

/* A note that has not gone over yet does not outlive the attempt. */
static void test_note_is_taken_back(void **state)
{
	begin();
	start(0);
	world_jobs();
	world_say_status(SHMSG_STARTED, SHIM_RUNNING, 4);
	exit_with(0);
	assert_int_equal(w.n_jobs, 1);
	world_jobs();
	assert_int_equal(w.n_notes, 0);
	assert_int_equal(w.n_commits, 1);
	end();
}

static void test_note_that_went_over(void **state)
{
	begin();
	start(0);
	world_jobs();
	world_say_status(SHMSG_STARTED, SHIM_RUNNING, 4);
	assert_true(world_work());
	exit_with(0);
	assert_int_equal(w.n_jobs, 2);
	world_jobs();
	assert_int_equal(n_over, 1);
	end();
}

static void test_hangs_up_while_noted(void **state)
{
	begin();
	start_noting();
	world_hang_up();
	assert_true(world_job()); /* the note */
	assert_int_equal(w.n_looks, 0);
	w.found = ADOPT_LOST;
	w.orphans = 0;
	assert_true(world_job());
	assert_true(world_timer());
	assert_true(world_orphans());
	expect_state("freeing");
	unlease(0);
	world_jobs();
	assert_int_equal(w.n_go, 0);
	assert_int_equal(w.committed.end->outcome, TASK_UNKNOWN);
	end();
}

/* ---- a stop in every state ---- */

static void stop_by_owner(uint32_t grace_ms)
{
	attempt_stop(run, END_STOPPED, grace_ms, "stopped");
}

static void finish_stopped(void)
{
	world_jobs();
	assert_int_equal(n_over, 1);
	assert_int_equal(w.committed.ended.kind, END_STOPPED);
	assert_true(w.committed.ended.last);
	assert_true(was_stopped);
	end();
}

static void test_stop_while_claimed(void **state)
{
	begin();
	start(1);
	stop_by_owner(UINT32_MAX);
	assert_true(world_job());
	assert_int_equal(n_stopped, 1); /* it has its claim now, and its end comes after that */
	assert_int_equal(w.n_lease, 0);
	finish_stopped();
}

/* The same for what makes room, which nobody is told. */
static void test_preempted_while_claimed(void **state)
{
	begin();
	start(1);
	attempt_stop(run, END_PREEMPTED, UINT32_MAX, "preempted");
	world_jobs();
	assert_int_equal(n_stopped, 0);
	assert_int_equal(w.committed.ended.kind, END_PREEMPTED);
	assert_string_equal(w.committed_why, "preempted");
	end();
}

static void test_stop_while_leasing(void **state)
{
	begin();
	start_leasing();
	stop_by_owner(UINT32_MAX);
	expect_state("freeing");
	unlease(-1);
	finish_stopped();
}

static void test_stop_while_launching(void **state)
{
	begin();
	w.shim_code = -EAGAIN;
	start_starting();
	stop_by_owner(UINT32_MAX);
	expect_state("freeing");
	assert_false(world_timer());
	unlease(0);
	finish_stopped();
}

static void stop_at_shim(void (*reach)(void))
{
	begin();
	reach();
	stop_by_owner(700);
	assert_int_equal(w.n_stop, 1);
	assert_int_equal(w.grace_ms, 700);
	stop_by_owner(UINT32_MAX);
	assert_int_equal(w.grace_ms, 700); /* the shortest counts */
	stop_by_owner(0);
	assert_int_equal(w.n_stop, 3);
	assert_int_equal(w.grace_ms, 0);
	world_jobs();
	world_say_end(&(struct task_end){ .outcome = TASK_CANCELLED, .cause = CAUSE_STOP });
	expect_state("freeing");
	unlease(0);
	finish_stopped();
}

static void test_stop_at_shim(void **state)
{
	stop_at_shim(start_starting);
	stop_at_shim(start_noting);
	stop_at_shim(start_granting);
	stop_at_shim(start_running);
}

/* What its owner says is the last word; else the first. */
static void test_stop_kinds(void **state)
{
	begin();
	start_running();
	attempt_stop(run, END_PREEMPTED, UINT32_MAX, "preempted");
	attempt_stop(run, END_LIFETIME, UINT32_MAX, "its lifetime");
	assert_int_equal(w.n_requeue, 2);
	assert_int_equal(w.n_stop, 0);
	stop_by_owner(UINT32_MAX);
	assert_int_equal(w.n_stop, 1);
	world_say_end(&(struct task_end){
		.outcome = TASK_SIGNALLED, .signal = 15, .cause = CAUSE_REQUEUE });
	unlease(0);
	finish_stopped();
}

static void test_stop_finds_socket_full(void **state)
{
	begin();
	start_running();
	w.talk_code = -EAGAIN;
	stop_by_owner(UINT32_MAX);
	assert_int_equal(w.timer_ms, 100);
	assert_true(world_timer());
	assert_int_equal(w.n_stop, 0);
	w.talk_code = 0;
	assert_true(world_timer());
	assert_int_equal(w.n_stop, 1);
	assert_false(world_timer());
	end();
}

static void test_stop_while_looking(void **state)
{
	begin();
	start_running();
	world_hang_up();
	stop_by_owner(300);
	assert_int_equal(w.n_stop, 0);
	w.found = ADOPT_LIVES;
	world_jobs();
	assert_int_equal(w.n_adopt, 1);
	assert_int_equal(w.n_stop, 1);
	assert_int_equal(w.grace_ms, 300);
	end();
}

static void test_stop_while_orphans_end(void **state)
{
	begin();
	start_running();
	world_hang_up();
	world_jobs();
	assert_int_equal(w.orphans_grace_ms, 5000);
	stop_by_owner(0);
	w.orphans = 1;
	assert_true(world_timer());
	assert_int_equal(w.orphans_hurry_ms, 0);
	assert_true(world_orphans());
	w.orphans = 0;
	assert_true(world_timer());
	assert_true(world_orphans());
	expect_state("freeing");
	unlease(0);
	finish_stopped();
}

static void test_stop_while_freeing(void **state)
{
	begin();
	start_running();
	world_say_end(&(struct task_end){ .outcome = TASK_UNKNOWN });
	attempt_stop(run, END_PREEMPTED, UINT32_MAX, "preempted"); /* too late to matter */
	stop_by_owner(UINT32_MAX);
	unlease(0);
	finish_stopped();
}

/* The thread reads the rest: it counts if this try fails. */
static void test_stop_while_committing(void **state)
{
	begin();
	start_running();
	world_say_end(&(struct task_end){ .outcome = TASK_UNKNOWN });
	unlease(0);
	w.commit_code = -ENOSPC;
	assert_true(world_work());
	assert_int_equal(w.committed.ended.kind, END_NODE_LOST);
	stop_by_owner(UINT32_MAX);
	assert_true(world_job());
	assert_int_equal(n_over, 0);
	assert_int_equal(w.place.commit_code, -ENOSPC);
	w.commit_code = 0;
	assert_true(world_timer());
	finish_stopped();
}

static void test_stop_while_committed(void **state)
{
	begin();
	start_running();
	world_say_end(&(struct task_end){ .outcome = TASK_UNKNOWN });
	unlease(0);
	assert_true(world_work());
	stop_by_owner(UINT32_MAX);
	assert_true(world_job());
	assert_int_equal(n_over, 1);
	assert_int_equal(verdict.what, RETRY_AGAIN); /* who has stopped it takes that back */
	assert_false(was_stopped);
	end();
}

/* ---- the connection breaks ---- */

static void test_lost_and_alive(void **state)
{
	begin();
	start_running();
	world_hang_up();
	expect_state("running");
	assert_false(world_connected());
	w.look_code = -EIO;
	world_jobs();
	assert_int_equal(w.timer_ms, 1000);
	assert_int_equal(w.n_said, 1);
	assert_true(world_timer());
	world_jobs();
	assert_int_equal(w.timer_ms, 2000);
	for (int i = 0; i < 5; i++) {
		assert_true(world_timer());
		world_jobs();
	}
	assert_int_equal(w.timer_ms, 10000);
	assert_int_equal(w.n_said, 1);
	w.look_code = 0;
	w.found = ADOPT_LIVES;
	assert_true(world_timer());
	world_jobs();
	assert_true(world_connected());
	assert_int_equal(w.n_adopt, 1);
	assert_int_equal(w.n_lease, 2); /* a guard that is new does not know of it */
	assert_int_equal(w.lease.pid, 4);
	assert_int_equal(w.n_stop + w.n_requeue, 0);
	exit_with(0);
	unlease(0);
	world_jobs();
	assert_int_equal(verdict.what, RETRY_DONE);
	end();
}

static void test_lost_and_ended(void **state)
{
	begin();
	start_running();
	world_hang_up();
	w.found = ADOPT_ENDED;
	w.record = world_exited(0);
	assert_true(world_job());
	expect_state("freeing");
	unlease(0);
	world_jobs();
	assert_int_equal(verdict.what, RETRY_DONE);
	end();
}

static void test_lost_and_killed(void **state)
{
	begin();
	start_running();
	world_hang_up();
	w.orphans = 2;
	world_jobs();
	assert_true(world_timer());
	assert_true(world_orphans());
	expect_state("running");
	assert_int_equal(w.n_unlease, 0); /* something of it runs */
	w.orphans = 0;
	assert_true(world_timer());
	assert_true(world_orphans());
	expect_state("freeing");
	unlease(0);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_NODE_LOST);
	assert_non_null(strstr(w.committed_text, "its shim was killed"));
	end();
}

/* Another process has the name: that is no answer. */
static void test_lost_and_another(void **state)
{
	begin();
	start_running();
	world_hang_up();
	w.found = ADOPT_OTHER;
	world_jobs();
	assert_int_equal(w.n_said, 1);
	assert_true(world_timer());
	assert_int_equal(w.n_jobs, 1);
	w.found = ADOPT_LIVES;
	world_jobs();
	assert_true(world_connected());
	end();
}

/* Nothing was started for us; that another one has its name means that nobody of ours runs. */
static void test_shim_refused(void **state)
{
	static const enum adopt_found nobody[] = { ADOPT_OTHER, ADOPT_LOST };

	for (size_t i = 0; i < 2; i++) {
		begin();
		start_starting();
		world_say_end(&(struct task_end){ .outcome = TASK_REFUSED, .text = "no memory" });
		w.found = nobody[i];
		assert_true(world_job());
		expect_state("freeing");
		unlease(0);
		world_jobs();
		assert_int_equal(w.committed.ended.kind, END_REFUSED);
		assert_string_equal(w.committed_text, "no memory");
		end();
	}
}

static void test_shim_refused_but_alive(void **state)
{
	begin();
	start_starting();
	world_say_end(&(struct task_end){ .outcome = TASK_REFUSED, .text = "its name is taken" });
	w.found = ADOPT_LIVES;
	world_jobs();
	expect_state("running");
	world_hang_up(); /* and then it was refused no more */
	w.found = ADOPT_OTHER;
	world_jobs();
	assert_true(world_timer());
	world_jobs();
	assert_int_equal(w.n_commits, 0);
	w.found = ADOPT_LIVES;
	assert_true(world_timer());
	world_jobs();
	end();
}

/* One that took the task and could not begin it has ended. */
static void test_refused_after_its_start(void **state)
{
	begin();
	start_granting();
	world_say_end(&(struct task_end){
		.outcome = TASK_REFUSED, .started_wall_ns = 1, .text = "no memory" });
	assert_int_equal(w.n_looks + w.n_jobs, 0);
	unlease(0);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_REFUSED);
	end();
}

static void test_go_fails(void **state)
{
	begin();
	start_granting();
	w.talk_code = -EPIPE;
	grant_as(0);
	assert_false(world_connected());
	w.talk_code = 0;
	w.found = ADOPT_ENDED;
	w.record = (struct task_end){ .outcome = TASK_CANCELLED, .cause = CAUSE_ALONE };
	assert_true(world_job());
	unlease(0);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_NODE_LOST);
	end();
}

/* ---- what an earlier agent left ---- */

static void adopt(bool stopped)
{
	struct adoptee a = { .claim = { .name = { .id = 7, .epoch = 3 },
					.attempt = 1,
					.started = true,
					.stopped = stopped,
					.who.proc = { .pid = 4, .start = 44 },
					.path = "running/7" } };
	struct devset devices = { { 0 } };

	a.spec = spec_new();
	a.spec->name = xstrdup("job");
	text_list_add(&a.devices, "GPU-0");
	devset_add(&devices, 0);
	run = attempt_adopt(&w.place, &a, devices);
	assert_null(a.spec);
	expect_state("running");
}

static void test_adopted(void **state)
{
	begin();
	adopt(false);
	attempt_on_guard(run); /* it is named there */
	assert_int_equal(w.n_lease, 1);
	w.found = ADOPT_LIVES;
	world_jobs();
	assert_int_equal(w.n_lease, 2);
	world_say_status(SHMSG_STATUS, SHIM_RUNNING, 4);
	assert_int_equal(n_started, 1); /* since when is known now */
	exit_with(0);
	unlease(0);
	world_jobs();
	assert_int_equal(verdict.what, RETRY_DONE);
	assert_true(w.committed.heartbeats && w.committed.log_away);
	end();
}

/* Its agent went before GO. */
static void test_adopted_never_begun(void **state)
{
	begin();
	adopt(false);
	w.found = ADOPT_LIVES;
	world_jobs();
	world_say_status(SHMSG_STATUS, SHIM_PREPARED, 4);
	assert_int_equal(w.n_requeue, 1);
	cancelled();
	unlease(0);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_NODE_LOST);
	end();
}

static void test_adopted_stopped(void **state)
{
	begin();
	adopt(true);
	w.found = ADOPT_LIVES;
	world_jobs();
	assert_int_equal(w.n_stop, 1);
	world_say_end(
		&(struct task_end){ .outcome = TASK_SIGNALLED, .signal = 15, .cause = CAUSE_STOP });
	unlease(0);
	finish_stopped();
}

/* To one that we are about to start ourselves STATUS is no news. */
static void test_status_before_go(void **state)
{
	begin();
	start_granting();
	world_say_status(SHMSG_STATUS, SHIM_PREPARED, 4);
	assert_int_equal(w.n_requeue + w.n_stop, 0);
	expect_state("granting");
	end();
}

/* ---- the end ---- */

/* What it had to say is known: a look would take the timer of the commit. */
static void test_hangs_up_after_the_end(void **state)
{
	struct task_end how = world_exited(0);

	how.record_errno = ENOSPC;
	begin();
	start_running();
	world_say_end(&how);
	assert_true(world_connected()); /* until it is written */
	unlease(0);
	w.commit_code = -ENOSPC;
	assert_true(world_job());
	assert_int_equal(w.n_ack, 0);
	assert_int_equal(w.timer_ms, 1000);
	world_hang_up();
	assert_int_equal(w.n_jobs, 0);
	w.commit_code = 0;
	assert_true(world_timer());
	world_jobs();
	assert_int_equal(n_over, 1);
	end();
}

static void test_acknowledged_when_written(void **state)
{
	struct task_end how = world_exited(0);

	how.record_errno = ENOSPC;
	begin();
	start_running();
	world_say_end(&how);
	unlease(0);
	assert_int_equal(w.n_ack, 0);
	world_jobs();
	assert_int_equal(w.n_ack, 1);
	end();
}

static void test_commit_fails(void **state)
{
	json_t *report;

	begin();
	start_committing();
	assert_int_equal(n_succeeded, 1);
	w.commit_code = -ENOSPC;
	assert_true(world_job());
	assert_false(w.committed.told);
	assert_int_equal(w.n_said, 1);
	assert_int_equal(w.timer_ms, 1000);
	expect_state("filing");
	report = attempt_report(run);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(report, "unfiled"), "why")),
		"the disk is full");
	json_decref(report);
	assert_true(world_timer());
	assert_true(world_job());
	assert_true(w.committed.told); /* it was tried before */
	assert_int_equal(n_succeeded, 1);
	assert_int_equal(w.n_said, 1); /* once */
	assert_int_equal(w.timer_ms, 2000);
	w.commit_code = 0;
	assert_true(world_timer());
	world_jobs();
	assert_int_equal(n_over, 1);
	assert_int_equal(w.place.commit_code, 0);
	end();
}

static void test_late_words_mean_nothing(void **state)
{
	begin();
	start_committing();
	take(0);
	promise_as(0, 0);
	grant_as(0);
	unlease(0);
	attempt_on_guard(run);
	assert_int_equal(w.n_jobs, 1);
	assert_int_equal(w.n_requeue + w.n_stop, 0);
	world_jobs();
	assert_int_equal(n_over, 1);
	assert_int_equal(w.committed.ended.kind, END_EXIT);
	end();
}

static void swept(void)
{
	w.on_swept(w.swept_user);
}

static void test_sweeps(void **state)
{
	begin();
	w.sweeps = true;
	start_running();
	exit_with(0);
	expect_state("running"); /* what else ends with it still does */
	assert_int_equal(w.n_unlease, 0);
	stop_by_owner(UINT32_MAX);
	swept();
	expect_state("freeing");
	unlease(0);
	world_jobs();
	assert_int_equal(n_over, 1);
	assert_true(was_stopped);
	end();
}

/* Who came before it, or preempted it, has won; and beside what never ran nobody has to go. */
static void test_sweeps_not(void **state)
{
	begin();
	w.sweeps = true;
	start_running();
	attempt_stop(run, END_PREEMPTED, UINT32_MAX, "preempted");
	exit_with(0);
	expect_state("freeing");
	unlease(0);
	world_jobs();
	end();
	begin();
	w.sweeps = true;
	start_leasing();
	stop_by_owner(UINT32_MAX);
	expect_state("freeing");
	unlease(0);
	world_jobs();
	end();
}

/* Stopped by its owner while its devices are given back, it is swept after all, and once. */
static void test_sweeps_what_is_stopped_later(void **state)
{
	begin();
	w.sweeps = true;
	start_running();
	attempt_stop(run, END_PREEMPTED, UINT32_MAX, "preempted");
	exit_with(0);
	expect_state("freeing");
	stop_by_owner(UINT32_MAX);
	unlease(0);
	world_jobs();
	assert_int_equal(n_over, 0);
	assert_non_null(w.on_swept);
	swept();
	world_jobs();
	assert_int_equal(n_over, 1);
	assert_true(was_stopped);
	end();
}

static void test_forgotten(void **state)
{
	begin();
	start_running();
	run = attempt_forget(run);
	assert_int_equal(w.n_stop + w.n_requeue + w.n_unlease, 0);
	end();
}

/* ---- whatever comes in whatever order ---- */

enum shim_model { NO_SHIM, PREPARED, GOING, RUNNING, ENDED, KILLED };

static struct {
	uint32_t seed;
	bool fair; /* nothing goes wrong any more */
	unsigned int gpus;
	enum shim_model shim;
	unsigned int n_launched, n_go, n_stop, n_adopt; /* that the shim has taken */
	struct task_end end;				/* ENDED */
	bool orphans;
	/* The guard of now. */
	unsigned int n_lease, n_grant, n_unlease; /* that it has taken */
	unsigned int asked;			  /* leases that are not answered yet */
	struct devset promised;
	bool granting, granted, freeing;
	bool freed; /* by some guard, and nothing asked since */
	bool leased;
} model;

static uint32_t any(uint32_t n)
{
	model.seed = model.seed * 1664525 + 1013904223;
	return (model.seed >> 16) % n;
}

static void check_commit(void)
{
	assert_true(model.shim == NO_SHIM || model.shim == ENDED ||
		    (model.shim == KILLED && !model.orphans));
	assert_true(!model.leased || model.freed);
}

/* What was asked of shim and guard since. */
static void take_orders(void)
{
	if (w.n_launched != model.n_launched)
		model.shim = any(8) || model.fair ? PREPARED : KILLED;
	model.n_launched = w.n_launched;
	if (w.n_go != model.n_go) {
		assert_true(!model.gpus || model.granted);
		model.shim = model.shim == PREPARED ? GOING : model.shim;
	}
	model.n_go = w.n_go;
	if (w.n_stop + w.n_requeue != model.n_stop && model.shim == PREPARED) {
		model.shim = ENDED;
		model.end = (struct task_end){ .outcome = TASK_CANCELLED, .cause = CAUSE_REQUEUE };
	}
	model.n_stop = w.n_stop + w.n_requeue;
	if (w.n_lease != model.n_lease) {
		model.asked += w.n_lease - model.n_lease;
		model.leased = true;
		model.freed = false;
	}
	model.n_lease = w.n_lease;
	model.granting = model.granting || w.n_grant != model.n_grant;
	model.n_grant = w.n_grant;
	model.freeing = model.freeing || w.n_unlease != model.n_unlease;
	model.n_unlease = w.n_unlease;
}

static void step_shim(void)
{
	if (!world_connected()) {
		/* Before anybody listens. */
		if (model.shim == GOING && any(2))
			model.shim = RUNNING;
		return;
	}
	if (model.shim == KILLED || (!model.fair && any(6) == 0)) {
		world_hang_up();
	} else if (w.n_adopt != model.n_adopt) {
		model.n_adopt = w.n_adopt;
		if (model.shim == ENDED)
			world_say_end(&model.end);
		else
			world_say_status(SHMSG_STATUS,
					 model.shim == PREPARED ? SHIM_PREPARED : SHIM_RUNNING, 4);
	} else if (model.shim == PREPARED) {
		if (w.spec_flags & LAUNCH_GO && any(4)) {
			model.shim = RUNNING;
			world_say_status(SHMSG_STARTED, SHIM_RUNNING, 4);
		} else {
			world_say_status(SHMSG_PREPARED, SHIM_PREPARED, 4);
		}
	} else if (model.shim == GOING) {
		model.shim = RUNNING;
		world_say_status(SHMSG_STARTED, SHIM_RUNNING, 4);
	} else if (model.shim == RUNNING) {
		if (!model.fair && any(5) == 0) {
			model.shim = KILLED;
			model.orphans = true;
			return;
		}
		model.shim = ENDED;
		model.end = world_exited((int)any(2));
		world_say_end(&model.end);
	} else if (model.shim == ENDED) {
		world_say_end(&model.end);
	}
}

static void new_guard(void)
{
	model.asked = 0;
	model.promised = (struct devset){ { 0 } };
	model.granting = model.granted = model.freeing = false;
	attempt_on_guard(run);
}

static void answer_lease(void)
{
	unsigned int slot = model.asked-- % model.gpus;

	if (!model.fair && any(6) == 0) {
		promise_as(any(2) ? -1 : (int)slot, -EBUSY);
		return;
	}
	devset_add(&model.promised, slot);
	promise_as((int)slot, 0);
}

static void step_guard(void)
{
	if (!model.gpus)
		return;
	if (!model.fair && any(8) == 0) {
		new_guard();
	} else if (model.asked) {
		answer_lease();
	} else if (model.granting) {
		model.granting = false;
		model.granted = devset_count(model.promised) == model.gpus;
		grant_as(model.granted ? 0 : -ESRCH);
	} else if (model.freeing) {
		model.freeing = model.granted = false;
		model.freed = true;
		if (!devset_count(model.promised)) {
			unlease(-1);
			return;
		}
		while (devset_count(model.promised) && run) {
			unsigned int slot = devset_next(model.promised, 0);

			devset_del(&model.promised, slot);
			unlease((int)slot);
		}
	}
}

static void step_spooler(void)
{
	(void)world_work();
}

static void step_loop(void)
{
	(void)world_job();
}

static void step_timer(void)
{
	(void)world_timer();
}

static void step_orphans(void)
{
	w.orphans = model.orphans = model.orphans && any(2);
	(void)world_orphans();
}

static void step_world(void)
{
	static void (*const steps[])(void) = { step_spooler, step_loop, step_timer,
					       step_orphans, step_shim, step_guard };
	static const enum end_kind kinds[] = { END_STOPPED, END_PREEMPTED, END_LIFETIME };
	uint32_t what;

	w.look_code = !model.fair && any(4) == 0 ? -EIO : 0;
	w.commit_code = !model.fair && any(3) == 0 ? -EIO : 0;
	w.note_code = !model.fair && any(4) == 0 ? -EIO : 0;
	w.shim_code = !model.fair && any(4) == 0 ? -EAGAIN : 0;
	w.talk_code = !model.fair && any(10) == 0 ? -EAGAIN : 0;
	w.found = model.shim == ENDED || model.shim == NO_SHIM ? ADOPT_ENDED : ADOPT_LIVES;
	if (model.shim == KILLED)
		w.found = ADOPT_LOST;
	w.record = model.shim == ENDED ? model.end : (struct task_end){ .outcome = TASK_CANCELLED };
	what = any(model.fair ? 24 : 28);
	if (what < 24)
		steps[what % 6]();
	else if (what < 26)
		attempt_stop(run, kinds[any(3)], any(2) ? UINT32_MAX : 0, "to be stopped");
	else if (what == 26 && model.gpus)
		take(0);
	else
		w.boot_ns += any(2) * NS_PER_S;
}

static void run_at_random(uint32_t seed)
{
	begin();
	memset(&model, 0, sizeof(model));
	model.seed = seed;
	model.gpus = any(WORLD_GPUS + 1);
	w.preemptible = any(2);
	w.on_commit = check_commit;
	start(model.gpus);
	for (unsigned int i = 0; run && i < 2000; i++) {
		/* The orphans' look is a thread's, and comes when it likes. */
		model.fair = i > 150;
		w.orphans = model.orphans;
		step_world();
		take_orders();
		world_turn();
	}
	if (n_over != 1)
		fail_msg("seed %u: it is not over", seed);
	end();
}

static void test_at_random(void **state)
{
	for (uint32_t seed = 1; seed <= 10000; seed++)
		run_at_random(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_without_devices),
		cmocka_unit_test(test_with_devices),
		cmocka_unit_test(test_no_claim),
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
		cmocka_unit_test(test_launch_fails),
		cmocka_unit_test(test_cannot_be_launched),
		cmocka_unit_test(test_begins_late),
		cmocka_unit_test(test_note_fails_in_time),
		cmocka_unit_test(test_claim_is_gone),
		cmocka_unit_test(test_note_is_taken_back),
		cmocka_unit_test(test_note_that_went_over),
		cmocka_unit_test(test_hangs_up_while_noted),
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
		cmocka_unit_test(test_lost_and_alive),
		cmocka_unit_test(test_lost_and_ended),
		cmocka_unit_test(test_lost_and_killed),
		cmocka_unit_test(test_lost_and_another),
		cmocka_unit_test(test_shim_refused),
		cmocka_unit_test(test_shim_refused_but_alive),
		cmocka_unit_test(test_refused_after_its_start),
		cmocka_unit_test(test_go_fails),
		cmocka_unit_test(test_adopted),
		cmocka_unit_test(test_adopted_never_begun),
		cmocka_unit_test(test_adopted_stopped),
		cmocka_unit_test(test_status_before_go),
		cmocka_unit_test(test_hangs_up_after_the_end),
		cmocka_unit_test(test_acknowledged_when_written),
		cmocka_unit_test(test_commit_fails),
		cmocka_unit_test(test_late_words_mean_nothing),
		cmocka_unit_test(test_sweeps),
		cmocka_unit_test(test_sweeps_not),
		cmocka_unit_test(test_sweeps_what_is_stopped_later),
		cmocka_unit_test(test_forgotten),
		cmocka_unit_test(test_at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
