/* SPDX-License-Identifier: MIT */

/* An attempt to which things happen in whatever order. */

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "agent/attempt/lease.h"
#include "agent/attempt/steps.h"
#include "attempt_task.h"
#include "attempt_world.h"
#include "base/clock.h"

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
	attempt_on_guard(attempt);
}

static void answer_lease(void)
{
	unsigned int slot = model.asked-- % model.gpus;

	if (!model.fair && any(6) == 0) {
		at_promise(any(2) ? -1 : (int)slot, -EBUSY);
		return;
	}
	devset_add(&model.promised, slot);
	at_promise((int)slot, 0);
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
		at_grant(model.granted ? 0 : -ESRCH);
	} else if (model.freeing) {
		model.freeing = model.granted = false;
		model.freed = true;
		if (!devset_count(model.promised)) {
			at_unlease(-1);
			return;
		}
		while (devset_count(model.promised) && attempt) {
			unsigned int slot = devset_next(model.promised, 0);

			devset_del(&model.promised, slot);
			at_unlease((int)slot);
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
		attempt_stop(attempt, kinds[any(3)], any(2) ? UINT32_MAX : 0, "to be stopped");
	else if (what == 26 && model.gpus)
		at_take(0);
	else
		w.boot_ns += any(2) * NS_PER_S;
}

static void run_at_random(uint32_t seed)
{
	at_begin();
	memset(&model, 0, sizeof(model));
	model.seed = seed;
	model.gpus = any(WORLD_GPUS + 1);
	w.preemptible = any(2);
	w.on_commit = check_commit;
	at_start(model.gpus);
	for (unsigned int i = 0; attempt && i < 2000; i++) {
		/* The orphans' look is a thread's, and comes when it likes. */
		model.fair = i > 150;
		w.orphans = model.orphans;
		step_world();
		take_orders();
		world_turn();
	}
	if (told.n_over != 1)
		fail_msg("seed %u: it is not over", seed);
	at_end();
}

static void test_at_random(void **state)
{
	for (uint32_t seed = 1; seed <= 10000; seed++)
		run_at_random(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
