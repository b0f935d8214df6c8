/* SPDX-License-Identifier: MIT */

/* Which devices a policy names, and which of these it leaves for others. Who of several instances
 * has a device is test_device's. */

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "guard_world.h"
#include "hold/guard/assign.h"

/* Two cards, one in MIG mode with two instances, one more card, in the order in which NVML has
 * them. */
enum { CARD_0, CARD_1, MIG_0, MIG_1, CARD_2, SLOTS };

static int setup(void **state)
{
	static const struct {
		uint32_t index;
		int32_t mig;
		bool parent;
		const char *uuid;
	} devices[SLOTS] = {
		[CARD_0] = { 0, -1, false, "GPU-aa00" }, [CARD_1] = { 1, -1, true, "GPU-ab11" },
		[MIG_0] = { 1, 0, false, "MIG-ca00" },	 [MIG_1] = { 1, 1, false, "MIG-cb11" },
		[CARD_2] = { 2, -1, false, "GPU-ac22" },
	};
	struct world *w;

	if (world_setup(state) < 0)
		return -1;
	w = *state;
	w->g->n_devs = SLOTS;
	for (uint32_t i = 0; i < SLOTS; i++) {
		struct device *d = &w->g->devs[i];

		if (i > 0)
			*d = *w->d;
		d->slot = i;
		d->id = (struct gpu_device){ .index = devices[i].index,
					     .mig = devices[i].mig,
					     .mig_parent = devices[i].parent };
		(void)str_copy(d->id.uuid, sizeof(d->id.uuid), devices[i].uuid);
	}
	return 0;
}

static void name(struct hold_policy *p, const char *const *names, size_t n)
{
	policy_defaults(p);
	p->all = false;
	p->n_gpus = (uint32_t)n;
	for (size_t i = 0; i < n; i++)
		(void)str_copy(p->gpus[i], sizeof(p->gpus[i]), names[i]);
}

static void expect(const struct selection *sel, const uint32_t *slots, size_t n)
{
	assert_int_equal(sel->n, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(sel->slots[i], slots[i]);
}

static void all_are_all_once(void **state)
{
	static const uint32_t slots[] = { CARD_0, CARD_1, MIG_0, MIG_1, CARD_2 };
	const struct world *w = *state;
	struct selection sel;
	struct hold_policy p;

	policy_defaults(&p);
	assert_true(p.all);
	assert_int_equal(assign_select(w->g, &p, &sel, NULL), 0);
	expect(&sel, slots, ARRAY_LEN(slots));
}

static void names_select_in_their_order(void **state)
{
	static const struct {
		const char *names[3];
		uint32_t slots[SLOTS];
		size_t n_names, n_slots;
	} cases[] = {
		{ { "2", "0" }, { CARD_2, CARD_0 }, 2, 2 },
		{ { "GPU-ac", "GPU-aa00" }, { CARD_2, CARD_0 }, 2, 2 },
		{ { "0", "0", "GPU-aa" }, { CARD_0 }, 3, 1 },
		/* A card in MIG mode stands for its instances; they can be named as well. */
		{ { "1" }, { CARD_1, MIG_0, MIG_1 }, 1, 3 },
		{ { "MIG-cb", "1" }, { MIG_1, CARD_1, MIG_0 }, 2, 3 },
		{ { "MIG-ca" }, { MIG_0 }, 1, 1 },
		{ { NULL }, { 0 }, 0, 0 },
	};
	const struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct selection sel;
		struct hold_policy p;

		struct err e = ERR_INIT;

		name(&p, cases[i].names, cases[i].n_names);
		if (assign_select(w->g, &p, &sel, &e) < 0)
			fail_msg("case %zu: %s", i, e.text);
		expect(&sel, cases[i].slots, cases[i].n_slots);
	}
}

/* What is there is selected all the same. */
static void a_name_that_is_not_there_is_told(void **state)
{
	static const char *const names[] = { "7", "0", "GPU-ff" };
	static const uint32_t slots[] = { CARD_0 };
	const struct world *w = *state;
	struct selection sel;
	struct hold_policy p;
	struct err e = ERR_INIT;

	name(&p, names, 3);
	assert_true(assign_select(w->g, &p, &sel, &e) < 0);
	assert_true(e.text[0]);
	expect(&sel, slots, 1);
}

/* Two devices begin so, and neither is meant; and what is no beginning of one. */
static void a_name_that_is_none_selects_nothing(void **state)
{
	static const char *const names[] = { "GPU-a", "GPU-", "", "gpu-aa00", "GPU-aa001", "-1" };
	const struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct selection sel;
		struct hold_policy p;

		name(&p, &names[i], 1);
		assert_true(assign_select(w->g, &p, &sel, NULL) < 0);
		assert_int_equal(sel.n, 0);
	}
}

static void whose_policy_is_not_known_may_mean_any(void **state)
{
	static const char *const names[] = { "0" };
	struct world *w = *state;
	struct client *c = &w->g->clients[0];

	name(&c->policy, names, 1);
	assert_true(assign_selects(w->g, c, &w->g->devs[CARD_0]));
	assert_false(assign_selects(w->g, c, &w->g->devs[CARD_2]));
	assert_true(assign_selects(w->g, NULL, &w->g->devs[CARD_2]));
	c->has_policy = false;
	assert_true(assign_selects(w->g, c, &w->g->devs[CARD_2]));
}

static void expect_left(const struct world *w, const uint32_t *slots, size_t n)
{
	unsigned int left = 0;

	for (uint32_t i = 0; i < SLOTS; i++)
		left += w->g->devs[i].leaver >= 0;
	assert_int_equal(left, n);
	for (size_t i = 0; i < n; i++) {
		assert_true(w->g->devs[slots[i]].leaver >= 0);
		assert_int_equal(w->g->devs[slots[i]].state, DEV_LEFT);
	}
}

/* The last ones of its order; a card whose instances stand for it is none that could be left. */
static void the_last_ones_are_left(void **state)
{
	static const char *const names[] = { "2", "1", "0" };
	static const uint32_t of_all[] = { CARD_2, MIG_1, MIG_0 }, of_names[] = { CARD_0, MIG_1 };
	struct world *w = *state;
	struct client *c = &w->g->clients[0];

	for (uint32_t leave = 0; leave <= 3; leave++) {
		c->policy.leave = leave;
		assign_all(w->g);
		expect_left(w, of_all, leave);
	}
	name(&c->policy, names, 3);
	c->policy.leave = 2;
	assign_all(w->g);
	expect_left(w, of_names, 2);
	/* More than there are. */
	c->policy.leave = 9;
	assign_all(w->g);
	for (uint32_t i = 0; i < SLOTS; i++)
		assert_true(device_is_left(&w->g->devs[i]));
}

/* Others are other people: what one instance leaves, none touches. */
static void what_one_leaves_none_takes(void **state)
{
	struct world *w = *state;
	struct client *other = &w->g->clients[1];

	*other = w->g->clients[0];
	(void)str_copy(other->instance, sizeof(other->instance), "other");
	other->asked = 1;
	w->g->clients[0].policy.leave = 1;
	assign_all(w->g);
	assert_int_equal(w->g->devs[CARD_2].leaver, 0);
	assert_true(device_is_left(&w->g->devs[CARD_2]));
	assert_false(device_is_left(&w->g->devs[CARD_0]));
	/* Until its instance is gone. */
	w->g->clients[0].used = false;
	assign_all(w->g);
	assert_int_equal(w->g->devs[CARD_2].leaver, -1);
	assert_int_equal(w->g->devs[CARD_2].owner, 1);
}

static void what_nobody_names_is_left(void **state)
{
	static const char *const names[] = { "2" };
	struct world *w = *state;

	name(&w->g->clients[0].policy, names, 1);
	assign_all(w->g);
	for (uint32_t i = 0; i < SLOTS; i++) {
		assert_int_equal(w->g->devs[i].owner, i == CARD_2 ? 0 : -1);
		assert_int_equal(w->g->devs[i].state == DEV_LEFT, i != CARD_2);
	}
	/* Selected again, it is looked at before anything is said of it. */
	policy_defaults(&w->g->clients[0].policy);
	assign_all(w->g);
	assert_int_equal(w->g->devs[CARD_0].state, DEV_BUSY);
}

#define TEST(name_) cmocka_unit_test_setup_teardown(name_, setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_are_all_once),
		TEST(names_select_in_their_order),
		TEST(a_name_that_is_not_there_is_told),
		TEST(a_name_that_is_none_selects_nothing),
		TEST(whose_policy_is_not_known_may_mean_any),
		TEST(the_last_ones_are_left),
		TEST(what_one_leaves_none_takes),
		TEST(what_nobody_names_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
