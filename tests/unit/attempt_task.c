/* SPDX-License-Identifier: MIT */
#include "attempt_task.h"

#include "unit.h"

#include <string.h>

#include "agent/attempt/lease.h"
#include "agent/attempt/steps.h"
#include "agent/attempt/task.h"
#include "base/mem.h"
#include "base/str.h"

struct attempt *attempt;
struct told told;

static void on_over(void *user, struct attempt *r, const struct retry_verdict *v)
{
	assert_ptr_equal(r, attempt);
	told.n_over++;
	told.verdict = *v;
	told.was_stopped = r->end_kind == END_STOPPED;
	told.claim_code = r->claim_code;
	attempt = NULL;
}

static void on_succeeded(void *user, struct attempt *r)
{
	told.n_succeeded++;
}

static void on_mustered(void *user, struct attempt *r)
{
	told.n_mustered++;
}

static void on_started(void *user, struct attempt *r)
{
	told.n_started++;
}

static void on_stopped(void *user, struct attempt *r)
{
	told.n_stopped++;
}

static void on_lanes(void *user, const struct lanes_met *met)
{
}

static void on_moved(void *user, struct attempt *r)
{
	told.n_moved++;
}

static void on_resized(void *user, struct attempt *r, enum resize_end end)
{
	told.n_resized++;
	told.resized = end;
}

static struct retry_streak *on_streak(void *user, const struct attempt *r)
{
	return &told.streak;
}

/* There is no meter. */
static void on_closing(void *user, struct attempt *a)
{
}

static const struct attempt_owner owner = {
	.over = on_over,
	.succeeded = on_succeeded,
	.mustered = on_mustered,
	.started = on_started,
	.stopped = on_stopped,
	.lanes = on_lanes,
	.moved = on_moved,
	.closing = on_closing,
	.resized = on_resized,
	.streak = on_streak,
};

void at_begin(void)
{
	world_begin();
	w.place.owner = &owner;
	attempt = NULL;
	told = (struct told){ 0 };
}

void at_end(void)
{
	if (attempt)
		attempt = attempt_forget(attempt);
	world_end();
}

void at_start(unsigned int gpus)
{
	struct devset devices = { { 0 } };

	for (unsigned int i = 0; i < gpus; i++)
		devset_add(&devices, i);
	attempt = attempt_start(&w.place, (struct sched_ref){ 7, 0 }, 0, devices);
}

void at_expect(const char *name)
{
	json_t *report = attempt_report(attempt);

	assert_string_equal(json_string_value(json_object_get(report, "state")), name);
	json_decref(report);
}

void at_promise(int slot, int code)
{
	struct msg_lease_reply m = { .slot = slot, .code = code, .reason.text = "in use" };

	attempt_on_promise(attempt, &m);
}

void at_grant(int code)
{
	struct msg_lease_reply m = { .slot = -1, .code = code, .reason.text = "it has no lease" };

	attempt_on_granted(attempt, &m);
}

void at_unlease(int slot)
{
	struct msg_unleased m = { .slot = slot };

	if (slot >= 0 && slot < WORLD_GPUS)
		(void)str_copy(m.uuid, sizeof(m.uuid), w.view.devices[slot].uuid);
	attempt_on_unleased(attempt, &m);
}

void at_take(int slot)
{
	struct msg_lease_taken m = { .slot = slot, .reason.text = "taken by PID 9" };

	attempt_on_taken(attempt, &m);
}

void at_start_leasing(void)
{
	at_start(1);
	world_jobs();
	at_expect("leasing");
}

void at_start_starting(void)
{
	at_start_leasing();
	at_promise(0, 0);
	at_expect("starting");
}

void at_start_noting(void)
{
	at_start_starting();
	world_say_status(SHMSG_PREPARED, SHIM_PREPARED, 4);
	assert_int_equal(w.n_jobs, 1);
}

void at_start_granting(void)
{
	at_start_noting();
	world_jobs();
	at_expect("granting");
}

void at_start_running(void)
{
	at_start_granting();
	at_grant(0);
	world_say_status(SHMSG_STARTED, SHIM_RUNNING, 4);
	at_expect("running");
}

void at_exit(int code)
{
	struct task_end how = world_exited(code);

	world_say_end(&how);
}

void at_cancel(void)
{
	struct task_end how = { .outcome = TASK_CANCELLED,
				.cause = CAUSE_REQUEUE,
				.ended_wall_ns = 1 };

	world_say_end(&how);
}

void at_start_freeing(void)
{
	at_start_running();
	at_exit(0);
	at_expect("freeing");
}

void at_start_committing(void)
{
	at_start_freeing();
	at_unlease(0);
	at_expect("filing");
}

void at_stop(uint32_t grace_ms)
{
	attempt_stop(attempt, END_STOPPED, grace_ms, "stopped");
}

void at_finish_stopped(void)
{
	world_jobs();
	assert_int_equal(told.n_over, 1);
	assert_int_equal(w.committed.ended.kind, END_STOPPED);
	assert_true(w.committed.ended.last);
	assert_true(told.was_stopped);
	at_end();
}
