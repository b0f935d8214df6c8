/* SPDX-License-Identifier: MIT */

/* What the guard is told of devices that are collected: the difference between what the plan wants
 * and what the guard was told (guardlink_reserve() is the test's). */

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "agent/reserving.h"
#include "base/mem.h"
#include "base/str.h"

#define SLOTS 4

static struct {
	unsigned int n; /* calls */
	uint64_t tasks[SLOTS];
	uint32_t elements[SLOTS];
	bool told[SLOTS];
	int code;
} guard;

int __wrap_guardlink_reserve(struct guardlink *link, const struct lease_id *id, const char *uuid);
int __wrap_guardlink_reserve(struct guardlink *link, const struct lease_id *id, const char *uuid)
{
	unsigned int slot = (unsigned int)(uuid[4] - '0');

	assert_int_equal(id->attempt, 0);
	assert_true(slot < SLOTS);
	guard.n++;
	if (guard.code < 0)
		return guard.code;
	guard.tasks[slot] = id->task;
	guard.elements[slot] = id->element;
	guard.told[slot] = true;
	return 0;
}

static struct view view;
static struct reserving reserving;
static const struct devset none;

static int setup(void **state)
{
	memset(&guard, 0, sizeof(guard));
	reserving = (struct reserving){ 0 };
	view.n_slots = SLOTS;
	for (int i = 0; i < SLOTS; i++)
		(void)str_print(view.devices[i].uuid, sizeof(view.devices[i].uuid), "GPU-%d", i);
	return 0;
}

static struct devset slot_set(unsigned int slot)
{
	struct devset s = { { 0 } };

	devset_add(&s, slot);
	return s;
}

static void plan(enum sched_action_kind kind, uint64_t id, uint32_t element, unsigned int slot)
{
	const struct sched_action a = { .kind = kind,
					.ref = { id, element },
					.devices = slot_set(slot) };

	reserving_plan(&reserving, &a);
}

/* After a plan; how often the guard was told something. */
static unsigned int tell(struct devset busy)
{
	unsigned int before = guard.n;

	reserving_tell(&reserving, NULL, &view, busy);
	return guard.n - before;
}

static void only_what_has_changed_is_told(void **state)
{
	assert_int_equal(tell(none), 0);
	plan(SCHED_RESERVE, 7, 2, 1);
	assert_int_equal(tell(none), 1);
	assert_int_equal(guard.tasks[1], 7);
	assert_int_equal(guard.elements[1], 2);
	assert_int_equal(tell(none), 0);
	plan(SCHED_RESERVE, 7, 3, 1); /* another element */
	plan(SCHED_RESERVE, 8, 0, 2);
	assert_int_equal(tell(none), 2);
	plan(SCHED_UNRESERVE, 0, 0, 1);
	assert_int_equal(tell(none), 1);
	assert_int_equal(guard.tasks[1], 0);
	assert_int_equal(guard.tasks[2], 8);
}

/* Within one plan, what comes last is so. */
static void a_plan_that_changes_its_mind_is_told_once(void **state)
{
	plan(SCHED_RESERVE, 7, 0, 0);
	plan(SCHED_UNRESERVE, 0, 0, 0);
	assert_int_equal(tell(none), 0);
	plan(SCHED_RESERVE, 7, 0, 0);
	plan(SCHED_PREEMPT, 9, 0, 0); /* says nothing of who collects it */
	assert_int_equal(tell(none), 1);
	assert_int_equal(guard.tasks[0], 7);
}

/* The lease of what starts there takes the reservation's place; afterwards the guard is told anew,
 * because it waits for that. */
static void a_device_in_use_is_told_of_afterwards(void **state)
{
	plan(SCHED_RESERVE, 7, 0, 0);
	assert_int_equal(tell(none), 1);
	plan(SCHED_START, 7, 0, 0);
	assert_int_equal(tell(slot_set(0)), 0);
	plan(SCHED_RESERVE, 8, 0, 0);
	assert_int_equal(tell(slot_set(0)), 0);
	assert_int_equal(tell(none), 1);
	assert_int_equal(guard.tasks[0], 8);
	assert_int_equal(tell(none), 0);
	/* Anew also where it is the same task as before. */
	assert_int_equal(tell(slot_set(0)), 0);
	assert_int_equal(tell(none), 1);
	assert_int_equal(guard.tasks[0], 8);
}

static void what_was_left_is_told_even_if_nobody_wants_it(void **state)
{
	reserving_on_left(&reserving, slot_set(3));
	assert_int_equal(tell(none), 1);
	assert_true(guard.told[3]);
	assert_int_equal(guard.tasks[3], 0);
	assert_int_equal(tell(none), 0);
}

static void a_line_that_is_down_is_tried_again(void **state)
{
	plan(SCHED_RESERVE, 7, 0, 0);
	guard.code = -ENOTCONN;
	assert_int_equal(tell(none), 1);
	assert_int_equal(tell(none), 1);
	guard.code = 0;
	assert_int_equal(tell(none), 1);
	assert_int_equal(guard.tasks[0], 7);
	assert_int_equal(tell(none), 0);
}

static void reply(uint64_t task, int32_t slot, int32_t code, uint32_t attempt)
{
	const struct msg_lease_reply m = { .id = { .task = task, .attempt = attempt },
					   .slot = slot,
					   .code = code };

	reserving_on_reply(&reserving, &m);
}

static void what_the_guard_refuses_is_told_again(void **state)
{
	plan(SCHED_RESERVE, 7, 0, 0);
	assert_int_equal(tell(none), 1);
	reply(7, 0, 0, 0); /* it could */
	assert_int_equal(tell(none), 0);
	reply(7, 0, -EBUSY, 0);
	assert_int_equal(tell(none), 1);
	/* About what is not told any more, of a lease, of no slot that we know. */
	reply(6, 0, -EBUSY, 0);
	reply(7, 0, -EBUSY, 1);
	reply(7, -1, -ENODEV, 0);
	reply(7, PROTO_DEVICES_MAX, -ENODEV, 0);
	assert_int_equal(tell(none), 0);
}

/* A new guard says what it has; the difference is told. */
static void a_new_guard_is_told_what_it_does_not_have(void **state)
{
	static const struct msg_lease_state has = { .id = { .task = 7 }, .slot = 0 },
					    nowhere = { .id = { .task = 7 },
							.slot = PROTO_DEVICES_MAX };

	for (unsigned int slot = 0; slot < 2; slot++)
		plan(SCHED_RESERVE, 7 + slot, 0, slot);
	assert_int_equal(tell(none), 2);
	reserving_forget_told(&reserving);
	reserving_on_state(&reserving, &has);
	reserving_on_state(&reserving, &nowhere);
	guard.tasks[1] = 0;
	assert_int_equal(tell(none), 1);
	assert_int_equal(guard.tasks[1], 8);
}

static void what_drains_collects_nothing(void **state)
{
	plan(SCHED_RESERVE, 7, 0, 0);
	assert_int_equal(tell(none), 1);
	reserving_clear(&reserving);
	assert_int_equal(tell(none), 1);
	assert_int_equal(guard.tasks[0], 0);
	assert_int_equal(tell(none), 0);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(only_what_has_changed_is_told),
		TEST(a_plan_that_changes_its_mind_is_told_once),
		TEST(a_device_in_use_is_told_of_afterwards),
		TEST(what_was_left_is_told_even_if_nobody_wants_it),
		TEST(a_line_that_is_down_is_tried_again),
		TEST(what_the_guard_refuses_is_told_again),
		TEST(a_new_guard_is_told_what_it_does_not_have),
		TEST(what_drains_collects_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
