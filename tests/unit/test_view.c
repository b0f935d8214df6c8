/* SPDX-License-Identifier: MIT */

/* What an agent knows of the devices: which are counted as what, which are meant, and its phase. */

#include "unit.h"

#include <string.h>

#include "agent/node/view.h"
#include "base/mem.h"
#include "base/str.h"

static const struct agent_config config = { .instance = "alpha" };

/* n devices that the guard has spoken of, all idle. */
static struct view *new_view(uint32_t n)
{
	struct view *v = xcalloc(1, sizeof(*v));

	v->c = &config;
	v->n_slots = v->guard.n_devices = n;
	for (uint32_t i = 0; i < n; i++) {
		v->seen[i] = true;
		v->devices[i] = (struct dev_status){ .index = i, .mig = -1, .state = DEV_IDLE };
		(void)str_print(v->devices[i].uuid, sizeof(v->devices[i].uuid), "GPU-%ca00",
				'a' + (int)i);
	}
	return v;
}

static void lease(struct dev_status *d, enum lease_stage stage, uint64_t task)
{
	d->n_leases = 1;
	d->lease_stage = stage;
	d->lease.task = task;
}

static void hold(struct dev_status *d, const char *instance, uint64_t bytes)
{
	d->state = DEV_HELD;
	d->held_bytes = bytes;
	(void)str_copy(d->instance, sizeof(d->instance), instance);
}

static void test_nothing_is_counted_of_nothing(void **state)
{
	cleanup_free struct view *v = new_view(0);
	const struct tally none = { 0 };
	struct tally n;

	memset(&n, 0xff, sizeof(n));
	view_tally(v, &n);
	assert_memory_equal(n.states, none.states, sizeof(n.states));
	assert_memory_equal(n.uses, none.uses, sizeof(n.uses));
	assert_int_equal(n.held_by_others + n.workloads, 0);
}

static void test_states(void **state)
{
	cleanup_free struct view *v = new_view(5);
	struct tally n;

	v->devices[1].state = DEV_BUSY;
	hold(&v->devices[2], "alpha", 7);
	v->seen[3] = false;
	v->devices[4].state = DEV_STATE_MAX; /* of a newer guard: no state that we know */
	view_tally(v, &n);
	assert_int_equal(n.states[DEV_IDLE], 1);
	assert_int_equal(n.states[DEV_BUSY], 1);
	assert_int_equal(n.states[DEV_HELD], 1);
	assert_int_equal(n.held_bytes[VIEW_UNUSED], 7);
	assert_int_equal(n.uses[VIEW_UNUSED], 4);
	assert_int_equal(view_devices(v), 5);
}

static void test_what_another_instance_holds_is_told_apart(void **state)
{
	cleanup_free struct view *v = new_view(4);
	struct tally n;

	hold(&v->devices[0], "beta", 5);
	hold(&v->devices[1], "alpha", 6);
	hold(&v->devices[2], "", 8); /* by no policy: for a task */
	hold(&v->devices[3], "beta", 0);
	v->devices[3].state = DEV_IDLE; /* it was held once */
	view_tally(v, &n);
	assert_int_equal(n.held_by_others, 1);
	assert_int_equal(n.states[DEV_HELD], 2);
	assert_int_equal(n.states[DEV_IDLE], 1);
	assert_int_equal(n.held_bytes[VIEW_UNUSED], 14);
}

/* Its instances stand for it; what a task has of it is a use all the same. */
static void test_a_card_in_mig_mode(void **state)
{
	cleanup_free struct view *v = new_view(3);
	struct tally n;

	v->devices[1].index = v->devices[2].index = 0;
	v->devices[1].mig = 0;
	v->devices[2].mig = 1;
	lease(&v->devices[0], LEASE_USED, 42);
	view_tally(v, &n);
	assert_true(view_is_mig_card(v, 0));
	assert_false(view_is_mig_card(v, 1));
	assert_int_equal(n.states[DEV_IDLE], 2);
	assert_int_equal(n.uses[VIEW_BY_TASK], 1);
	assert_int_equal(view_devices(v), 2);
}

static void test_uses(void **state)
{
	static const struct {
		unsigned int leases;
		uint64_t task;
		enum lease_stage stage;
		enum dev_state state;
		enum view_use use;
	} cases[] = {
		{ 0, 42, LEASE_USED, DEV_LENT, VIEW_UNUSED },
		{ 1, LEASE_WORKLOAD, LEASE_USED, DEV_LENT, VIEW_UNUSED },
		{ 1, 42, LEASE_PROMISED, DEV_IDLE, VIEW_RESERVED },
		{ 1, 42, LEASE_ASKED, DEV_HELD, VIEW_RESERVED },
		{ 1, 42, LEASE_GRANTED, DEV_LENT, VIEW_BY_TASK },
		{ 1, 42, LEASE_USED, DEV_LENDING, VIEW_BY_TASK },
		{ 1, 42, LEASE_GRANTED, DEV_HELD, VIEW_RESERVED },
		{ 1, 42, LEASE_USED, DEV_HOLDING, VIEW_RESERVED },
		{ 1, 42, LEASE_OVER, DEV_HELD, VIEW_JUST_FREED },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free struct view *v = new_view(1);
		struct tally n;

		v->devices[0].state = cases[i].state;
		lease(&v->devices[0], cases[i].stage, cases[i].task);
		v->devices[0].n_leases = cases[i].leases;
		view_tally(v, &n);
		assert_int_equal(view_use_of(&v->devices[0]), cases[i].use);
		for (int use = 0; use < VIEW_USE_MAX; use++)
			assert_int_equal(n.uses[use], use == (int)cases[i].use);
		assert_int_equal(n.states[cases[i].state], 1);
		assert_int_equal(n.unused[cases[i].state], cases[i].use == VIEW_UNUSED);
	}
}

static void test_workloads(void **state)
{
	cleanup_free struct view *v = new_view(3);
	struct view_workload workloads[3] = { [0] = { .there = true }, [2] = { .runs = true } };
	struct tally n;

	v->workloads = workloads;
	view_tally(v, &n);
	assert_int_equal(n.workloads, 1);
}

/* ---- which device is meant ---- */

static void test_index_of_a_name(void **state)
{
	static const struct {
		const char *name;
		int index;
	} cases[] = { { "2", 2 },	   { "GPU-ba", 1 }, { "gpu-BA00", 1 }, { "GPU-", -1 },
		      { "GPU-ba001", -1 }, { "7", -1 },	    { "", -1 } };
	cleanup_free struct view *v = new_view(3);

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(view_index_of(v, cases[i].name), cases[i].index);
	v->seen[2] = false;
	assert_int_equal(view_index_of(v, "2"), -1);
}

static void test_selected(void **state)
{
	cleanup_free struct view *v = new_view(4);

	v->policy.all = true;
	for (uint32_t i = 0; i < 4; i++)
		assert_true(view_is_selected(v, i));
	v->policy.all = false;
	assert_false(view_is_selected(v, 1));
	(void)str_copy(v->policy.gpus[0], sizeof(v->policy.gpus[0]), "1");
	v->policy.n_gpus = 1;
	assert_true(view_is_selected(v, 1));
	assert_false(view_is_selected(v, 2));
	v->devices[2].index = 1; /* an instance of the card that is named */
	v->devices[2].mig = 0;
	assert_true(view_is_selected(v, 2));
	assert_false(view_is_selected(v, 3));
}

static void test_behind(void **state)
{
	cleanup_free struct view *v = new_view(2);

	assert_false(view_is_behind(v));
	v->awaited[1] = true;
	assert_true(view_is_behind(v));
	v->seen[1] = false;
	assert_false(view_is_behind(v));
}

/* ---- the phase ---- */

static void test_phase(void **state)
{
	cleanup_free struct view *v = new_view(2);
	struct agent_config c = config;

	v->c = &c;
	v->policy.hold = true;
	assert_string_equal(phase_name(view_phase(v)), "starting");
	v->guard_up = true;
	assert_string_equal(phase_name(view_phase(v)), "starting");
	v->life.phase = LIFE_SERVING;
	assert_string_equal(phase_name(view_phase(v)), "blind");
	v->guard.flags = GUARD_SEES;
	assert_string_equal(phase_name(view_phase(v)), "waiting");
	hold(&v->devices[0], "beta", 1);
	assert_string_equal(phase_name(view_phase(v)), "waiting");
	v->devices[1].state = DEV_HOLDING;
	assert_string_equal(phase_name(view_phase(v)), "holding");
	v->policy.hold = false;
	assert_string_equal(phase_name(view_phase(v)), "watching");
	v->life.how = DRAIN_WAIT;
	assert_string_equal(phase_name(view_phase(v)), "draining");
	v->life.phase = LIFE_CLEARING;
	assert_string_equal(phase_name(view_phase(v)), "releasing");
	assert_string_equal(phase_name(PHASE_MAX), "?");
}

/* The workload runs where the instance would hold: the guard is told to hold nothing. */
static void test_phase_with_a_workload(void **state)
{
	cleanup_free struct view *v = new_view(1);
	struct agent_config c = config;
	struct view_workload workload = { .runs = true };

	c.workload = "train";
	v->c = &c;
	v->guard_up = true;
	v->guard.flags = GUARD_SEES;
	v->life.phase = LIFE_SERVING;
	assert_int_equal(view_phase(v), PHASE_WAITING);
	v->workloads = &workload;
	assert_int_equal(view_phase(v), PHASE_HOLDING);
	v->life.released = true;
	assert_int_equal(view_phase(v), PHASE_WATCHING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_counted_of_nothing),
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_what_another_instance_holds_is_told_apart),
		cmocka_unit_test(test_a_card_in_mig_mode),
		cmocka_unit_test(test_uses),
		cmocka_unit_test(test_workloads),
		cmocka_unit_test(test_index_of_a_name),
		cmocka_unit_test(test_selected),
		cmocka_unit_test(test_behind),
		cmocka_unit_test(test_phase),
		cmocka_unit_test(test_phase_with_a_workload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
