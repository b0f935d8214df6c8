/* SPDX-License-Identifier: MIT */

/* The idle workload on one device: when it starts, what comes of its ends, and what people read of
 * it. */

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "agent/attempt/lease.h"
#include "agent/attempt/workload.h"
#include "attempt_world.h"
#include "base/clock.h"
#include "base/str.h"
#include "hold/device_state.h"

#define STEP_S 1000 /* the clock stands there at first */

static struct sched_queue *plan;
static struct workload *workload;
static unsigned int n_changed;

static void on_changed(void *user)
{
	n_changed++;
}

static const struct view_workload *shown(void)
{
	return &workload_view(workload)[0];
}

static void expect_state(const char *state)
{
	assert_string_equal(shown()->state, state);
	assert_int_equal(shown()->there, strcmp(state, "off") != 0);
	assert_int_equal(shown()->runs, strcmp(state, "running") == 0);
}

static uint64_t now(void)
{
	return clock_mono_ns();
}

static void later(uint64_t s)
{
	w.mono_ns += s * NS_PER_S;
}

/* The guard shows the device as idle since then. */
static void idle_for(uint64_t s)
{
	w.view.devices[0].idle_since_ns = now() - s * NS_PER_S;
	w.view.devices[0].looked_ns = now();
}

static const struct agent_config config = { .instance = "i" };

static void begin_with(const char *command)
{
	world_begin();
	w.mono_ns = STEP_S * NS_PER_S;
	w.view.n_slots = 1;
	w.view.c = &config;
	w.view.policy.all = true;
	w.view.policy.idle_for_ms = 5000;
	w.view.policy.rehold_ms = 30000;
	w.view.devices[0].state = DEV_IDLE;
	(void)str_copy(w.view.devices[0].instance, sizeof(w.view.devices[0].instance), "i");
	idle_for(10);
	n_changed = 0;
	plan = sched_queue_new();
	w.config.workload = command;
	w.config.workload_cwd = "/";
	w.config.workload_grace_ms = 3000;
	workload = workload_new(&(struct workload_config){ .log_dir = "/dev/null/logs",
							   .place = &w.place,
							   .plan = plan,
							   .changed = on_changed });
}

static void begin(void)
{
	begin_with("work");
}

static void end(void)
{
	world_jobs();
	workload = workload_free(workload);
	plan = sched_queue_free(plan);
	world_end();
}

static void look(void)
{
	struct devset busy = { { 0 } };

	workload_look(workload, true, busy);
}

static struct lease_id lease;

static void promise_as(int slot, int code)
{
	struct msg_lease_reply m = {
		.id = lease, .slot = slot, .code = code, .reason.text = "the site's limit"
	};

	attempt_on_promise(workload_by_lease(workload, &lease), &m);
}

static void grant_as(int code)
{
	struct msg_lease_reply m = {
		.id = lease, .slot = -1, .code = code, .reason.text = "it has no lease"
	};

	attempt_on_granted(workload_by_lease(workload, &lease), &m);
}

static void unlease_of(int slot)
{
	struct msg_unleased m = { .id = lease, .slot = slot };

	attempt_on_unleased(workload_by_lease(workload, &lease), &m);
}

static void unlease(void)
{
	unlease_of(0);
}

static void take(void)
{
	struct msg_lease_taken m = { .id = lease, .reason.text = "taken by PID 9" };

	attempt_on_taken(workload_by_lease(workload, &lease), &m);
}

static void new_guard(void)
{
	workload_on_guard(workload);
}

static bool is_planned(void)
{
	struct sched_task t;

	return sched_get(plan, (struct sched_ref){ LEASE_WORKLOAD, 1 }, &t) == 0 && t.preemptible &&
	       t.gpus == 1;
}

static void start_leasing(void)
{
	look();
	expect_state("preparing");
	world_jobs();
	expect_state("leasing");
	lease = w.lease.id;
}

static void start_starting(void)
{
	start_leasing();
	promise_as(0, 0);
	expect_state("starting");
}

static void start_granting(void)
{
	start_starting();
	world_say_status(SHMSG_PREPARED, SHIM_PREPARED, 4);
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

static void exit_after(uint64_t s)
{
	struct task_end how = world_exited(1);

	how.run_ns = s * NS_PER_S;
	world_say_end(&how);
	expect_state("freeing");
	unlease();
	expect_state("off");
}

static uint64_t waits_s(void)
{
	return shown()->next_ns ? (shown()->next_ns - now() + NS_PER_S / 2) / NS_PER_S : 0;
}

/* ---- when ---- */

static void test_way_through(void **state)
{
	begin();
	look();
	assert_true(is_planned());
	assert_true(devset_has(workload_devices(workload), 0));
	world_jobs();
	assert_int_equal(w.n_said,
			 1); /* nothing keeps it from running, a log that cannot be had neither */
	assert_non_null(strstr(w.said, "gpu 0  what the workload prints is lost"));
	expect_state("leasing");
	lease = w.lease.id;
	assert_int_equal(lease.task, LEASE_WORKLOAD);
	assert_int_equal(lease.element, 1);
	assert_int_equal(w.lease.flags, LEASE_PREEMPTIBLE);
	assert_int_equal(w.lease.bytes, 0);
	assert_string_equal(w.lease.uuid, "GPU-0");
	promise_as(0, 0);
	assert_int_equal(w.n_launched, 1);
	assert_int_equal(w.spec_flags & (LAUNCH_GO | LAUNCH_ATTENDED), LAUNCH_ATTENDED);
	assert_string_equal(w.visible, "0");
	world_say_status(SHMSG_PREPARED, SHIM_PREPARED, 4);
	expect_state("granting");
	assert_int_equal(shown()->pid, 4);
	assert_int_equal(w.n_grant, 1);
	grant_as(0);
	assert_int_equal(w.n_go, 1);
	world_say_status(SHMSG_STARTED, SHIM_RUNNING, 4);
	expect_state("running");
	assert_int_equal(shown()->starts, 1);
	assert_string_equal(w.said, "gpu 0  the workload runs (PID 5)");
	assert_int_equal(n_changed, 0);
	exit_after(60);
	assert_string_equal(w.said, "gpu 0  the workload has ended: exit code 1");
	assert_string_equal(shown()->text, "exit code 1");
	assert_int_equal(shown()->pid, 0);
	assert_int_equal(n_changed, 1);
	assert_false(is_planned());
	assert_int_equal(devset_count(workload_devices(workload)), 0);
	assert_int_equal(w.n_records_removed, 0); /* it is over before that is done */
	world_jobs();
	assert_int_equal(w.n_records_removed, 1);
	end();
}

static void test_starts_not(void **state)
{
	struct devset busy = { { 0 } };

	begin();
	workload_look(workload, false, busy); /* not wanted */
	idle_for(4);
	look();
	idle_for(10);
	w.view.devices[0].n_leases = 1;
	look();
	w.view.devices[0].n_leases = 0;
	w.view.devices[0].state = DEV_BUSY;
	look();
	w.view.devices[0].state = DEV_IDLE;
	(void)str_copy(w.view.devices[0].instance, sizeof(w.view.devices[0].instance), "other");
	look();
	(void)str_copy(w.view.devices[0].instance, sizeof(w.view.devices[0].instance), "i");
	devset_add(&busy, 0); /* a task is about to have it */
	workload_look(workload, true, busy);
	w.view.policy.max_devices = 1;
	devset_del(&busy, 0);
	devset_add(&busy, 1);
	workload_look(workload, true, busy);
	expect_state("off");
	w.view.policy.max_devices = 2;
	workload_look(workload, true, busy);
	expect_state("preparing");
	end();
}

static void test_together(void **state)
{
	begin();
	w.view.n_slots = 2;
	w.view.policy.together = true;
	w.view.devices[1] = w.view.devices[0];
	w.view.devices[1].index = 1;
	w.view.devices[1].idle_since_ns = now();
	look();
	assert_int_equal(devset_count(workload_devices(workload)), 0);
	w.view.devices[1].idle_since_ns = now() - 10 * NS_PER_S;
	look();
	assert_int_equal(devset_count(workload_devices(workload)), 2);
	end();
}

/* Before that a device that is just being cleared would be taken for an idle one. */
static void test_waits_for_a_look(void **state)
{
	begin();
	start_running();
	exit_after(60);
	later(1);
	w.view.devices[0].idle_since_ns = now() - 10 * NS_PER_S;
	look();
	expect_state("off");
	idle_for(10);
	look();
	expect_state("preparing");
	end();
}

static void test_waits_after_a_yield(void **state)
{
	begin();
	start_running();
	take();
	exit_after(60);
	assert_string_equal(shown()->text, "taken by PID 9");
	later(1);
	idle_for(20);
	look();
	expect_state("off");
	idle_for(31);
	start_running(); /* and then no more */
	workload_stop_all(workload, "the agent ends");
	exit_after(60);
	later(1);
	idle_for(20);
	look();
	expect_state("preparing");
	end();
}

/* ---- what goes wrong ---- */

/* Its shim has not heard of its agent for so long: that says nothing of the workload. */
static void ends_alone_after(uint64_t s)
{
	start_running();
	world_say_end(&(struct task_end){ .outcome = TASK_SIGNALLED,
					  .signal = 15,
					  .cause = CAUSE_ALONE,
					  .run_ns = s * NS_PER_S });
	expect_state("freeing");
	unlease();
	expect_state("off");
	assert_int_equal(waits_s(), 0);
	later(1);
	idle_for(10);
}

static void test_ended_for_want_of_an_agent(void **state)
{
	static const unsigned int waits[] = { 5, 10 };

	begin();
	for (unsigned int i = 0; i < 2; i++) {
		start_running();
		exit_after(1);
		assert_int_equal(waits_s(), waits[i]);
		later(waits[i]);
		idle_for(10);
	}
	ends_alone_after(9);
	start_running();
	exit_after(1);
	assert_int_equal(waits_s(), 20); /* the third time */
	later(20);
	idle_for(10);
	ends_alone_after(3600);
	start_running();
	exit_after(1);
	assert_int_equal(waits_s(), 5);
	end();
}

static void test_ends_at_once(void **state)
{
	static const unsigned int waits[] = { 5, 10, 20, 40, 80, 160, 320, 600, 600 };

	begin();
	for (unsigned int i = 0; i < 9; i++) {
		start_running();
		exit_after(1);
		assert_int_equal(waits_s(), waits[i]);
		assert_false(shown()->refused);
		if (i == 0)
			assert_string_equal(
				w.said,
				"gpu 0  the workload ended at once: exit code 1; again in 5s");
		if (i == 1)
			assert_string_equal(shown()->text, "exit code 1, 2 times in a row");
		later(waits[i] - 1);
		idle_for(10);
		look();
		expect_state("off");
		later(1);
		idle_for(10);
	}
	start_running();
	assert_int_equal(shown()->starts, 10);
	exit_after(11); /* not at once */
	assert_int_equal(waits_s(), 0);
	later(1);
	idle_for(10);
	start_running();
	exit_after(1);
	assert_int_equal(waits_s(), 5);
	end();
}

static void test_lease_is_refused(void **state)
{
	static const unsigned int waits[] = { 5, 10, 20, 40, 60, 60 };

	begin();
	for (unsigned int i = 0; i < 6; i++) {
		start_leasing();
		promise_as(0, -EPERM);
		if (strcmp(shown()->state, "freeing") == 0)
			unlease();
		expect_state("off");
		assert_int_equal(waits_s(), waits[i]);
		assert_true(shown()->refused);
		if (i == 0)
			assert_string_equal(
				w.said,
				"gpu 0  the workload cannot start: the site's limit; again in 5s");
		later(waits[i]);
		idle_for(10);
	}
	start_running(); /* which ends the row */
	assert_false(shown()->refused);
	exit_after(60);
	later(1);
	idle_for(10);
	start_leasing();
	promise_as(0, -EPERM);
	if (strcmp(shown()->state, "freeing") == 0)
		unlease();
	assert_int_equal(waits_s(), 5);
	end();
}

static void test_launch_fails(void **state)
{
	begin();
	w.shim_code = -ENOMEM;
	start_leasing();
	promise_as(0, 0);
	expect_state("freeing");
	assert_int_equal(w.unleased.attempt, lease.attempt);
	unlease();
	assert_int_equal(waits_s(), 5);
	assert_true(shown()->refused);
	later(5);
	idle_for(10);
	w.shim_code = 0;
	w.place.fork_server.fd = -1;
	w.fork_code = -ENOMEM;
	start_leasing();
	promise_as(0, 0);
	unlease();
	assert_int_equal(waits_s(), 10);
	end();
}

/* The next try soon, by whoever comes first: the plan, or a timer. */
static void test_fork_server_is_busy(void **state)
{
	begin();
	w.shim_code = -EAGAIN;
	start_starting();
	assert_false(world_connected());
	w.shim_code = 0;
	if (!world_timer())
		look();
	assert_true(world_connected());
	end();
}

static void test_killed(void **state)
{
	begin();
	start_running();
	exit_after(1);
	assert_int_equal(waits_s(), 5);
	later(5);
	idle_for(10);
	start_running();
	world_hang_up();
	world_jobs();
	assert_true(world_timer());
	assert_true(world_orphans());
	expect_state("freeing");
	unlease();
	expect_state("off");
	assert_non_null(strstr(shown()->text, "its shim was killed"));
	end();
}

static void test_lost_and_alive(void **state)
{
	begin();
	start_running();
	world_hang_up();
	w.look_code = -EIO;
	world_jobs();
	assert_non_null(strstr(w.said, "the workload"));
	later(2);
	w.look_code = 0;
	w.found = ADOPT_LIVES;
	if (!world_timer())
		look();
	world_jobs();
	assert_true(world_connected());
	world_say_status(SHMSG_STATUS, SHIM_RUNNING, 4);
	expect_state("running");
	assert_int_equal(shown()->starts, 1);
	end();
}

static void test_acknowledges_at_once(void **state)
{
	struct task_end how = world_exited(0);

	how.record_errno = ENOSPC;
	begin();
	start_running();
	world_say_end(&how);
	unlease();
	expect_state("off");
	assert_int_equal(w.n_ack, 1);
	assert_false(world_connected());
	end();
}

/* ---- it has to go ---- */

static void stop(void)
{
	workload_stop(workload, 0, "a task needs the GPU");
}

static void expect_stopped(void)
{
	assert_int_equal(w.n_requeue, 0); /* nothing of it waits again */
	expect_state("freeing");
	unlease();
	expect_state("off");
	assert_string_equal(shown()->text, "a task needs the GPU");
	assert_int_equal(waits_s(), 0);
	end();
}

static void test_stop_while_prepared(void **state)
{
	begin();
	look();
	stop();
	world_jobs();
	expect_state("off");
	assert_int_equal(w.n_lease, 0);
	assert_int_equal(waits_s(), 0);
	end();
}

static void test_stop_while_leasing(void **state)
{
	begin();
	start_leasing();
	stop();
	expect_stopped();
}

static void stop_at_shim(void (*reach)(void))
{
	begin();
	reach();
	stop();
	assert_int_equal(w.n_stop + w.n_cancel,
			 1); /* a shim takes the one for the other before GO */
	world_say_end(&(struct task_end){ .outcome = TASK_CANCELLED, .cause = CAUSE_STOP });
	expect_stopped();
}

static void test_stop_at_shim(void **state)
{
	stop_at_shim(start_starting);
	stop_at_shim(start_granting);
}

static void test_stop_while_running(void **state)
{
	begin();
	start_running();
	stop();
	assert_int_equal(w.n_stop, 1);
	assert_int_equal(w.grace_ms, UINT32_MAX);
	world_say_end(
		&(struct task_end){ .outcome = TASK_SIGNALLED, .signal = 15, .cause = CAUSE_STOP });
	expect_stopped();
}

static void test_not_wanted_any_more(void **state)
{
	begin();
	start_running();
	workload_look(workload, false, (struct devset){ { 0 } });
	assert_int_equal(w.n_stop, 1);
	world_say_end(
		&(struct task_end){ .outcome = TASK_SIGNALLED, .signal = 15, .cause = CAUSE_STOP });
	unlease();
	assert_string_equal(shown()->text, "nothing is held any more");
	end();
}

static void test_stop_while_looking(void **state)
{
	begin();
	start_running();
	world_hang_up();
	stop();
	assert_int_equal(w.n_stop, 0);
	w.found = ADOPT_LIVES;
	world_jobs();
	assert_int_equal(w.n_stop, 1);
	end();
}

static void test_taken_before_it_runs(void **state)
{
	begin();
	start_granting();
	take();
	assert_int_equal(w.n_stop + w.n_cancel, 1);
	world_say_end(&(struct task_end){ .outcome = TASK_CANCELLED, .cause = CAUSE_STOP });
	unlease();
	assert_string_equal(shown()->text, "taken by PID 9");
	assert_int_equal(waits_s(), 0);
	end();
}

static void test_is_attended(void **state)
{
	begin();
	workload_attend(workload);
	start_running();
	assert_int_equal(w.n_gpu, 0);
	workload_attend(workload);
	assert_int_equal(w.n_gpu, 1);
	end();
}

/* ---- guards ---- */

static void test_new_guard(void **state)
{
	begin();
	start_leasing();
	new_guard();
	assert_int_equal(w.n_lease, 2);
	assert_int_equal(w.lease.pid, 0);
	end();
	begin();
	start_running();
	new_guard();
	assert_int_equal(w.n_lease, 2);
	assert_int_equal(w.lease.pid, 4);
	assert_int_equal(w.lease.id.attempt, lease.attempt);
	promise_as(0, 0);
	assert_int_equal(w.n_stop, 0);
	exit_after(60);
	end();
	begin();
	start_running();
	world_say_end(&(struct task_end){ .outcome = TASK_EXITED });
	new_guard();
	assert_int_equal(w.n_unlease, 2);
	end();
}

/* It would not make it go for anybody. */
static void test_new_guard_refuses(void **state)
{
	begin();
	start_running();
	new_guard();
	promise_as(0, -EBUSY);
	assert_int_equal(w.n_stop, 1);
	end();
}

static void test_new_guard_counts_otherwise(void **state)
{
	begin();
	w.view.n_slots = 2;
	start_running();
	new_guard();
	promise_as(1, 0);
	assert_int_equal(w.n_stop, 1);
	world_say_end(
		&(struct task_end){ .outcome = TASK_SIGNALLED, .signal = 15, .cause = CAUSE_STOP });
	unlease_of(1);
	assert_string_equal(shown()->text, "its GPUs are counted anew");
	end();
}

static void test_grant_is_refused(void **state)
{
	begin();
	start_granting();
	grant_as(-ESRCH);
	assert_int_equal(w.n_go, 0);
	assert_int_equal(w.n_stop + w.n_cancel, 1);
	end();
}

/* ---- of an agent before us ---- */

static void adopt(void)
{
	struct msg_lease_state m = {
		.id = { LEASE_WORKLOAD, 7, 4000000000U }, .slot = 0, .pid = 4, .start = 44
	};

	lease = m.id;
	(void)str_copy(m.uuid, sizeof(m.uuid), "GPU-0");
	workload_on_state(workload, &m);
}

static void test_adopted(void **state)
{
	begin_with(NULL); /* also where there is no command any more */
	look();
	expect_state("off");
	adopt();
	expect_state("adopting");
	assert_true(is_planned());
	adopt(); /* is known */
	assert_int_equal(w.n_jobs, 1);
	w.found = ADOPT_LIVES;
	world_jobs();
	world_say_status(SHMSG_STATUS, SHIM_RUNNING, 4);
	expect_state("running");
	assert_int_equal(shown()->pid, 4);
	stop();
	world_say_end(
		&(struct task_end){ .outcome = TASK_SIGNALLED, .signal = 15, .cause = CAUSE_STOP });
	expect_state("freeing");
	assert_int_equal(w.unleased.element, 7); /* the lease as it was told */
	assert_int_equal(w.unleased.attempt, 4000000000U);
	unlease();
	expect_state("off");
	end();
}

/* No name of a shim comes twice. */
static void test_attempts_follow(void **state)
{
	begin();
	adopt();
	w.found = ADOPT_ENDED;
	w.record = world_exited(0);
	world_jobs();
	unlease();
	expect_state("off");
	later(10);
	idle_for(10);
	start_leasing();
	assert_int_equal(lease.attempt, 4000000001U);
	end();
}

/* Where one of ours has the device. */
static void test_not_adopted(void **state)
{
	begin();
	start_running();
	adopt();
	assert_int_equal(w.n_unlease, 1);
	assert_int_equal(w.unleased.element, 7);
	expect_state("running");
	end();
}

static void test_adopted_before_go(void **state)
{
	begin();
	adopt();
	w.found = ADOPT_LIVES;
	world_jobs();
	world_say_status(SHMSG_STATUS, SHIM_PREPARED, 4);
	assert_int_equal(w.n_stop + w.n_cancel, 1);
	end();
}

static void test_mig_instance(void **state)
{
	begin();
	w.view.devices[0].mig = 0;
	start_starting();
	assert_string_equal(w.visible, "GPU-0");
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_way_through),
		cmocka_unit_test(test_starts_not),
		cmocka_unit_test(test_together),
		cmocka_unit_test(test_waits_for_a_look),
		cmocka_unit_test(test_waits_after_a_yield),
		cmocka_unit_test(test_ended_for_want_of_an_agent),
		cmocka_unit_test(test_ends_at_once),
		cmocka_unit_test(test_lease_is_refused),
		cmocka_unit_test(test_launch_fails),
		cmocka_unit_test(test_fork_server_is_busy),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_lost_and_alive),
		cmocka_unit_test(test_acknowledges_at_once),
		cmocka_unit_test(test_stop_while_prepared),
		cmocka_unit_test(test_stop_while_leasing),
		cmocka_unit_test(test_stop_at_shim),
		cmocka_unit_test(test_stop_while_running),
		cmocka_unit_test(test_not_wanted_any_more),
		cmocka_unit_test(test_stop_while_looking),
		cmocka_unit_test(test_taken_before_it_runs),
		cmocka_unit_test(test_is_attended),
		cmocka_unit_test(test_new_guard),
		cmocka_unit_test(test_new_guard_refuses),
		cmocka_unit_test(test_new_guard_counts_otherwise),
		cmocka_unit_test(test_grant_is_refused),
		cmocka_unit_test(test_adopted),
		cmocka_unit_test(test_attempts_follow),
		cmocka_unit_test(test_not_adopted),
		cmocka_unit_test(test_adopted_before_go),
		cmocka_unit_test(test_mig_instance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
