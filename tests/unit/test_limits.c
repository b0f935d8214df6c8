/* SPDX-License-Identifier: MIT */

/* max_devices: what counts against an instance's limit and the site's, and what is let go for a
 * task. No device has a holder; their states are written. */

#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "hold/guard/ledger.h"
#include "hold/guard/limits.h"

#define DEVICES 6

enum { ME, OTHER, CLIENTS };

static int setup(void **state)
{
	static const char *const names[CLIENTS] = { "me", "other" };
	struct guard *g = xcalloc(1, sizeof(*g));

	g->n_devs = DEVICES;
	for (uint32_t i = 0; i < DEVICES; i++)
		g->devs[i] = (struct device){ .slot = i,
					      .owner = ME,
					      .leaver = -1,
					      .present = true,
					      .id = { .index = i, .mig = -1 },
					      .hold = { .lock_fd = -1 },
					      .holder = { .fd = -1 },
					      .state = DEV_IDLE };
	for (int i = 0; i < CLIENTS; i++) {
		g->clients[i] = (struct client){ .used = true, .fd = -1, .has_policy = true };
		(void)str_copy(g->clients[i].instance, sizeof(g->clients[i].instance), names[i]);
		policy_defaults(&g->clients[i].policy);
	}
	*state = g;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

static void set(struct guard *g, uint32_t slot, enum dev_state state, int owner)
{
	g->devs[slot].state = state;
	g->devs[slot].owner = owner;
}

static void lease(struct guard *g, uint32_t slot, int client, uint32_t flags)
{
	struct lease *l = g->leases;

	while (l->used)
		l++;
	*l = (struct lease){ .used = true, .slot = slot, .flags = flags, .pidfd = -1 };
	l->id.task = 1 + (uint64_t)(l - g->leases);
	(void)str_copy(l->instance, sizeof(l->instance), g->clients[client].instance);
	g->devs[slot].ledger.n_leases++;
}

static void limit(struct guard *g, int client, uint32_t own, uint32_t site)
{
	g->clients[client].policy.max_devices = own;
	g->clients[client].policy.site_devices = site;
}

static bool is_full(struct guard *g, uint32_t slot)
{
	return limit_is_full(g, &g->clients[ME], &g->devs[slot]);
}

static int may_lease(struct guard *g, uint32_t slot, struct dev_reason *why)
{
	return limit_lease(g, &g->clients[ME], &g->devs[slot], why);
}

/* ---- holds ---- */

static void without_a_limit_nothing_is_full(void **state)
{
	struct guard *g = *state;

	for (uint32_t i = 0; i < DEVICES; i++)
		set(g, i, DEV_HELD, ME);
	assert_false(is_full(g, 0));
}

static void what_is_held_or_used_counts_once(void **state)
{
	struct guard *g = *state;

	limit(g, ME, 2, 0);
	assert_false(is_full(g, 5));
	set(g, 0, DEV_HELD, ME);
	assert_false(is_full(g, 5));
	lease(g, 0, ME, 0); /* held, and promised */
	assert_false(is_full(g, 5));
	lease(g, 1, ME, 0);
	assert_true(is_full(g, 5));
	/* Where a task is it is counted already. */
	assert_false(is_full(g, 1));
}

/* Its memory is there until it is not. */
static void what_lets_go_counts_still(void **state)
{
	static const struct {
		enum dev_state state;
		bool counts;
	} cases[] = {
		{ DEV_HOLDING, true }, { DEV_HELD, true },  { DEV_YIELDING, true },
		{ DEV_LENDING, true }, { DEV_IDLE, false }, { DEV_BUSY, false },
		{ DEV_LENT, false },   { DEV_LEFT, false },
	};
	struct guard *g = *state;

	limit(g, ME, 1, 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		set(g, 0, cases[i].state, ME);
		assert_int_equal(is_full(g, 5), cases[i].counts);
	}
}

static void others_count_for_the_site_alone(void **state)
{
	struct guard *g = *state;

	set(g, 0, DEV_HELD, OTHER);
	lease(g, 1, OTHER, 0);
	limit(g, ME, 1, 0);
	assert_false(is_full(g, 5));
	limit(g, ME, 0, 3);
	assert_false(is_full(g, 5));
	limit(g, ME, 0, 2);
	assert_true(is_full(g, 5));
}

/* A card in MIG mode is none that could be held; a reservation is no task. */
static void cards_and_reservations_do_not_count(void **state)
{
	struct guard *g = *state;

	limit(g, ME, 1, 0);
	set(g, 0, DEV_HELD, ME);
	g->devs[0].id.mig_parent = true;
	lease(g, 1, ME, LEASE_RESERVED);
	assert_false(is_full(g, 5));
}

static void a_device_says_why_it_is_not_held(void **state)
{
	struct guard *g = *state;
	struct device *d = &g->devs[5];

	set(g, 0, DEV_HELD, ME);
	limit(g, ME, 2, 0);
	assert_false(limit_hold(g, &g->clients[ME], d));
	assert_string_equal(d->said.reason.text, "");
	limit(g, ME, 1, 0);
	assert_true(limit_hold(g, &g->clients[ME], d));
	assert_string_equal(d->said.reason.text, "max_devices of me allows 1 GPU at a time");
	limit(g, ME, 1, 1);
	assert_true(limit_hold(g, &g->clients[ME], d));
	assert_string_equal(d->said.reason.text,
			    "this site's max_devices allows 1 GPU at a time, for all instances");
}

/* ---- tasks ---- */

/* A hold goes for a task, so it is not in its way. */
static void holds_are_not_in_the_way_of_tasks(void **state)
{
	struct guard *g = *state;
	struct dev_reason why;

	for (uint32_t i = 0; i < DEVICES; i++)
		set(g, i, DEV_HELD, i % 2 ? ME : OTHER);
	limit(g, ME, 1, 1);
	assert_int_equal(may_lease(g, 5, &why), 0);
}

static void tasks_are_in_the_way_of_tasks(void **state)
{
	struct guard *g = *state;
	struct dev_reason why = { .text = "" };

	limit(g, ME, 2, 0);
	lease(g, 0, ME, 0);
	lease(g, 0, ME, 0); /* two on one device */
	lease(g, 1, OTHER, 0);
	assert_int_equal(may_lease(g, 5, &why), 0);
	lease(g, 2, ME, 0);
	assert_int_equal(may_lease(g, 5, &why), -EDQUOT);
	assert_string_equal(why.text, "max_devices of me allows 2 GPUs at a time");
	/* One more beside its own takes no device more. */
	assert_int_equal(may_lease(g, 2, &why), 0);
}

static void the_site_counts_tasks_and_what_others_collect(void **state)
{
	struct guard *g = *state;
	struct dev_reason why;

	limit(g, ME, 0, 3);
	lease(g, 0, OTHER, 0);
	lease(g, 1, OTHER, LEASE_RESERVED);
	lease(g, 2, ME, LEASE_RESERVED); /* its own is what it collects for this */
	assert_int_equal(may_lease(g, 5, &why), 0);
	lease(g, 3, ME, 0);
	assert_int_equal(may_lease(g, 5, &why), -EDQUOT);
	assert_true(str_has_prefix(why.text, "this site's max_devices allows 3 GPUs"));
	/* The device itself is not one more. */
	assert_int_equal(may_lease(g, 1, &why), 0);
}

/* Which limit there is, is not known before its policy is. */
static void without_a_policy_there_is_no_limit(void **state)
{
	struct guard *g = *state;

	limit(g, ME, 1, 1);
	lease(g, 0, ME, 0);
	g->clients[ME].has_policy = false;
	assert_int_equal(may_lease(g, 5, NULL), 0);
}

/* ---- what is let go ---- */

static unsigned int count(const struct guard *g, enum dev_state state)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < DEVICES; i++)
		n += g->devs[i].state == state;
	return n;
}

static void a_task_takes_the_place_of_a_hold(void **state)
{
	struct guard *g = *state;

	limit(g, ME, 3, 0);
	for (uint32_t i = 0; i < 3; i++)
		set(g, i, DEV_HELD, ME);
	limit_trim(g, &g->clients[ME]);
	assert_int_equal(count(g, DEV_HELD), 3);
	lease(g, 5, ME, 0);
	limit_trim(g, &g->clients[ME]);
	/* The last one, and it alone: what lets go is not counted again. */
	assert_int_equal(count(g, DEV_HELD), 2);
	assert_int_equal(g->devs[2].state, DEV_YIELDING);
	limit_trim(g, &g->clients[ME]);
	assert_int_equal(count(g, DEV_HELD), 2);
}

/* What is collected for a task goes last, and what a task has never. */
static void what_is_collected_is_let_go_last(void **state)
{
	struct guard *g = *state;

	for (uint32_t i = 0; i < 4; i++)
		set(g, i, DEV_HELD, ME);
	g->devs[2].ledger.promise.wanted = g->devs[3].ledger.promise.wanted = true;
	lease(g, 1, ME, 0);
	limit(g, ME, 3, 0);
	limit_trim(g, &g->clients[ME]);
	assert_int_equal(g->devs[0].state, DEV_YIELDING);
	limit(g, ME, 2, 0);
	limit_trim(g, &g->clients[ME]);
	assert_int_equal(g->devs[3].state, DEV_YIELDING);
	limit(g, ME, 1, 0);
	limit_trim(g, &g->clients[ME]);
	assert_int_equal(g->devs[2].state, DEV_YIELDING);
	assert_int_equal(g->devs[1].state, DEV_HELD);
}

/* For the site's limit one of another instance goes, where there is none of its own. */
static void for_the_site_others_let_go(void **state)
{
	struct guard *g = *state;

	set(g, 0, DEV_HELD, OTHER);
	set(g, 1, DEV_HELD, OTHER);
	set(g, 2, DEV_HELD, ME);
	lease(g, 5, ME, 0);
	limit(g, ME, 0, 3);
	limit_trim(g, &g->clients[ME]);
	assert_int_equal(g->devs[2].state, DEV_YIELDING);
	assert_int_equal(count(g, DEV_HELD), 2);
	limit(g, ME, 0, 2);
	limit_trim(g, &g->clients[ME]);
	assert_int_equal(g->devs[1].state, DEV_YIELDING);
	/* Its own limit is no reason for that. */
	limit(g, ME, 1, 0);
	lease(g, 4, ME, 0);
	limit_trim(g, &g->clients[ME]);
	assert_int_equal(g->devs[0].state, DEV_HELD);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(without_a_limit_nothing_is_full),
		TEST(what_is_held_or_used_counts_once),
		TEST(what_lets_go_counts_still),
		TEST(others_count_for_the_site_alone),
		TEST(cards_and_reservations_do_not_count),
		TEST(a_device_says_why_it_is_not_held),
		TEST(holds_are_not_in_the_way_of_tasks),
		TEST(tasks_are_in_the_way_of_tasks),
		TEST(the_site_counts_tasks_and_what_others_collect),
		TEST(without_a_policy_there_is_no_limit),
		TEST(a_task_takes_the_place_of_a_hold),
		TEST(what_is_collected_is_let_go_last),
		TEST(for_the_site_others_let_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
