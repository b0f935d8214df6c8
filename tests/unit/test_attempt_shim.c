/* SPDX-License-Identifier: MIT */

/* An attempt and its shim: the connection breaks, or an earlier agent has left it. */

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "agent/attempt/lease.h"
#include "agent/attempt/steps.h"
#include "agent/attempt/task.h"
#include "attempt_task.h"
#include "attempt_world.h"
#include "base/mem.h"

/* ---- the connection breaks ---- */

static void test_lost_and_alive(void **state)
{
	at_begin();
	at_start_running();
	world_hang_up();
	at_expect("running");
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
	at_exit(0);
	at_unlease(0);
	world_jobs();
	assert_int_equal(told.verdict.what, RETRY_DONE);
	at_end();
}

static void test_lost_and_ended(void **state)
{
	at_begin();
	at_start_running();
	world_hang_up();
	w.found = ADOPT_ENDED;
	w.record = world_exited(0);
	assert_true(world_job());
	at_expect("freeing");
	at_unlease(0);
	world_jobs();
	assert_int_equal(told.verdict.what, RETRY_DONE);
	at_end();
}

static void test_lost_and_killed(void **state)
{
	at_begin();
	at_start_running();
	world_hang_up();
	w.orphans = 2;
	world_jobs();
	assert_true(world_timer());
	assert_true(world_orphans());
	at_expect("running");
	assert_int_equal(w.n_unlease, 0); /* something of it runs */
	w.orphans = 0;
	assert_true(world_timer());
	assert_true(world_orphans());
	at_expect("freeing");
	at_unlease(0);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_NODE_LOST);
	assert_non_null(strstr(w.committed_text, "its shim was killed"));
	at_end();
}

/* Another process has the name: that is no answer. */
static void test_lost_and_another(void **state)
{
	at_begin();
	at_start_running();
	world_hang_up();
	w.found = ADOPT_OTHER;
	world_jobs();
	assert_int_equal(w.n_said, 1);
	assert_true(world_timer());
	assert_int_equal(w.n_jobs, 1);
	w.found = ADOPT_LIVES;
	world_jobs();
	assert_true(world_connected());
	at_end();
}

/* Nothing was started for us; that another one has its name means that nobody of ours runs. */
static void test_shim_refused(void **state)
{
	static const enum adopt_found nobody[] = { ADOPT_OTHER, ADOPT_LOST };

	for (size_t i = 0; i < 2; i++) {
		at_begin();
		at_start_starting();
		world_say_end(&(struct task_end){ .outcome = TASK_REFUSED, .text = "no memory" });
		w.found = nobody[i];
		assert_true(world_job());
		at_expect("freeing");
		at_unlease(0);
		world_jobs();
		assert_int_equal(w.committed.ended.kind, END_REFUSED);
		assert_string_equal(w.committed_text, "no memory");
		at_end();
	}
}

static void test_shim_refused_but_alive(void **state)
{
	at_begin();
	at_start_starting();
	world_say_end(&(struct task_end){ .outcome = TASK_REFUSED, .text = "its name is taken" });
	w.found = ADOPT_LIVES;
	world_jobs();
	at_expect("running");
	world_hang_up(); /* and then it was refused no more */
	w.found = ADOPT_OTHER;
	world_jobs();
	assert_true(world_timer());
	world_jobs();
	assert_int_equal(w.n_commits, 0);
	w.found = ADOPT_LIVES;
	assert_true(world_timer());
	world_jobs();
	at_end();
}

/* One that took the task and could not begin it has ended. */
static void test_refused_after_its_start(void **state)
{
	at_begin();
	at_start_granting();
	world_say_end(&(struct task_end){
		.outcome = TASK_REFUSED, .started_wall_ns = 1, .text = "no memory" });
	assert_int_equal(w.n_looks + w.n_jobs, 0);
	at_unlease(0);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_REFUSED);
	at_end();
}

static void test_go_fails(void **state)
{
	at_begin();
	at_start_granting();
	w.talk_code = -EPIPE;
	at_grant(0);
	assert_false(world_connected());
	w.talk_code = 0;
	w.found = ADOPT_ENDED;
	w.record = (struct task_end){ .outcome = TASK_CANCELLED, .cause = CAUSE_ALONE };
	assert_true(world_job());
	at_unlease(0);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_NODE_LOST);
	at_end();
}

static void test_hangs_up_while_noted(void **state)
{
	at_begin();
	at_start_noting();
	world_hang_up();
	assert_true(world_job()); /* the note */
	assert_int_equal(w.n_looks, 0);
	w.found = ADOPT_LOST;
	w.orphans = 0;
	assert_true(world_job());
	assert_true(world_timer());
	assert_true(world_orphans());
	at_expect("freeing");
	at_unlease(0);
	world_jobs();
	assert_int_equal(w.n_go, 0);
	assert_int_equal(w.committed.end->outcome, TASK_UNKNOWN);
	at_end();
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
	attempt = attempt_adopt(&w.place, &a, devices);
	assert_null(a.spec);
	at_expect("running");
}

static void test_adopted(void **state)
{
	at_begin();
	adopt(false);
	attempt_on_guard(attempt); /* it is named there */
	assert_int_equal(w.n_lease, 1);
	w.found = ADOPT_LIVES;
	world_jobs();
	assert_int_equal(w.n_lease, 2);
	world_say_status(SHMSG_STATUS, SHIM_RUNNING, 4);
	assert_int_equal(told.n_started, 1); /* since when is known now */
	at_exit(0);
	at_unlease(0);
	world_jobs();
	assert_int_equal(told.verdict.what, RETRY_DONE);
	assert_true(w.committed.heartbeats && w.committed.log_away);
	at_end();
}

/* Its agent went before GO. */
static void test_adopted_never_begun(void **state)
{
	at_begin();
	adopt(false);
	w.found = ADOPT_LIVES;
	world_jobs();
	world_say_status(SHMSG_STATUS, SHIM_PREPARED, 4);
	assert_int_equal(w.n_requeue, 1);
	at_cancel();
	at_unlease(0);
	world_jobs();
	assert_int_equal(w.committed.ended.kind, END_NODE_LOST);
	at_end();
}

static void test_adopted_stopped(void **state)
{
	at_begin();
	adopt(true);
	w.found = ADOPT_LIVES;
	world_jobs();
	assert_int_equal(w.n_stop, 1);
	world_say_end(
		&(struct task_end){ .outcome = TASK_SIGNALLED, .signal = 15, .cause = CAUSE_STOP });
	at_unlease(0);
	at_finish_stopped();
}

/* To one that we are about to start ourselves STATUS is no news. */
static void test_status_before_go(void **state)
{
	at_begin();
	at_start_granting();
	world_say_status(SHMSG_STATUS, SHIM_PREPARED, 4);
	assert_int_equal(w.n_requeue + w.n_stop, 0);
	at_expect("granting");
	at_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lost_and_alive),
		cmocka_unit_test(test_lost_and_ended),
		cmocka_unit_test(test_lost_and_killed),
		cmocka_unit_test(test_lost_and_another),
		cmocka_unit_test(test_shim_refused),
		cmocka_unit_test(test_shim_refused_but_alive),
		cmocka_unit_test(test_refused_after_its_start),
		cmocka_unit_test(test_go_fails),
		cmocka_unit_test(test_hangs_up_while_noted),
		cmocka_unit_test(test_adopted),
		cmocka_unit_test(test_adopted_never_begun),
		cmocka_unit_test(test_adopted_stopped),
		cmocka_unit_test(test_status_before_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
