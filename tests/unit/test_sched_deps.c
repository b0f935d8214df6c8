/* SPDX-License-Identifier: MIT */

/* Dependencies: both kinds, what can never run, what changes its mind, and ways round. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/mem.h"
#include "sched/deps.h"

static char told[256];

static void tell(void *user, uint64_t id, enum sched_dep now)
{
	static const char *const words[] = {
		[SCHED_DEP_READY] = "ready", [SCHED_DEP_WAIT] = "waits", [SCHED_DEP_NEVER] = "never"
	};
	size_t n = strlen(told);

	snprintf(told + n, sizeof(told) - n, "%s%llu %s", n ? ", " : "", (unsigned long long)id,
		 words[now]);
}

static void wait_for(struct deps *d, uint64_t id, enum deps_kind kind, uint64_t on)
{
	struct deps_on o = { .id = on, .kind = kind };

	told[0] = '\0';
	deps_set(d, id, &o, 1);
}

static void expect(struct deps *d, uint64_t id, enum deps_state state, const char *expected)
{
	told[0] = '\0';
	deps_tell(d, id, state);
	assert_string_equal(told, expected);
}

static void expect_text(struct deps *d, uint64_t id, const char *expected)
{
	struct strbuf text = STRBUF_INIT;

	deps_text(d, id, &text);
	assert_string_equal(strbuf_str(&text), expected);
	strbuf_clear(&text);
}

static void test_each_state(void **state)
{
	static const struct {
		enum deps_kind kind;
		enum deps_state told;
		enum sched_dep state;
		const char *text;
	} cases[] = {
		{ DEPS_AFTER, DEPS_OPEN, SCHED_DEP_WAIT, "waits until task 1 has ended well" },
		{ DEPS_AFTER, DEPS_GOOD, SCHED_DEP_READY, "" },
		{ DEPS_AFTER, DEPS_BAD, SCHED_DEP_NEVER,
		  "task 1, which it needs, has not ended well" },
		{ DEPS_AFTER, DEPS_NONE, SCHED_DEP_NEVER,
		  "task 1, which it needs, is not there any more" },
		{ DEPS_AFTER_ANY, DEPS_OPEN, SCHED_DEP_WAIT, "waits until task 1 has ended" },
		{ DEPS_AFTER_ANY, DEPS_GOOD, SCHED_DEP_READY, "" },
		{ DEPS_AFTER_ANY, DEPS_BAD, SCHED_DEP_READY, "" },
		{ DEPS_AFTER_ANY, DEPS_NONE, SCHED_DEP_NEVER,
		  "task 1, which it needs, is not there any more" },
	};
	struct deps *d = deps_new(tell, NULL);

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		deps_set(d, 2, NULL, 0);
		wait_for(d, 2, cases[i].kind, 1);
		assert_true(deps_is_unknown(d, 1));
		assert_int_equal(deps_told(d, 1), DEPS_OPEN);
		deps_tell(d, 1, cases[i].told);
		assert_false(deps_is_unknown(d, 1));
		assert_int_equal(deps_told(d, 1), cases[i].told);
		assert_int_equal(deps_state(d, 2), cases[i].state);
		expect_text(d, 2, cases[i].text);
	}
	deps_set(d, 2, NULL, 0);
	assert_false(deps_is_waited_for(d, 1));
	expect(d, 1, DEPS_BAD, "");
	/* Nothing of that is remembered. */
	wait_for(d, 2, DEPS_AFTER, 1);
	assert_true(deps_is_unknown(d, 1));
	assert_int_equal(deps_state(d, 2), SCHED_DEP_WAIT);
	d = deps_free(d);
}

static void test_all_of_them(void **state)
{
	struct deps *d = deps_new(tell, NULL);
	struct deps_on on[] = { { .id = 1 }, { .id = 2, .kind = DEPS_AFTER_ANY }, { .id = 7 } };

	deps_set(d, 3, on, 3);
	expect_text(d, 3, "waits until task 1 has ended well, and for 2 more");
	expect(d, 1, DEPS_GOOD, "3 waits");
	expect_text(d, 3, "waits until task 2 has ended, and for 1 more");
	expect(d, 7, DEPS_GOOD, "3 waits");
	expect(d, 2, DEPS_BAD, "3 ready");
	expect(d, 2, DEPS_BAD, "");
	/* Both ways for the same one. */
	on[1].id = 1;
	deps_set(d, 4, on, 2);
	deps_set(d, 5, on, 2);
	expect(d, 1, DEPS_BAD, "5 never, 4 never, 3 never");
	d = deps_free(d);
}

static void test_failure_goes_on_and_comes_back(void **state)
{
	struct deps *d = deps_new(tell, NULL);

	wait_for(d, 2, DEPS_AFTER, 1);
	wait_for(d, 3, DEPS_AFTER, 2);
	wait_for(d, 4, DEPS_AFTER_ANY, 3);
	expect(d, 1, DEPS_BAD, "2 never, 3 never");
	expect_text(d, 3, "task 2, which it needs, can never run");
	/* It does not run, but may end all the same, when it is stopped. */
	expect_text(d, 4, "waits until task 3 has ended");
	/* Asked for again. */
	expect(d, 1, DEPS_OPEN, "2 waits, 3 waits");
	expect(d, 1, DEPS_GOOD, "2 ready");
	/* One that waits for it comes when it has failed already. */
	expect(d, 2, DEPS_BAD, "3 never");
	wait_for(d, 5, DEPS_AFTER, 2);
	assert_string_equal(told, "5 never");
	/* 3 is edited, 5 starts or is stopped. */
	wait_for(d, 3, DEPS_AFTER, 1);
	assert_string_equal(told, "3 ready");
	deps_set(d, 5, NULL, 0);
	assert_int_equal(deps_state(d, 5), SCHED_DEP_READY);
	d = deps_free(d);
}

static void test_long_chain(void **state)
{
	enum { N = 100000 };
	struct deps *d = deps_new(tell, NULL);

	for (uint64_t i = 2; i <= N; i++)
		wait_for(d, i, DEPS_AFTER, i - 1);
	deps_tell(d, 1, DEPS_BAD);
	assert_int_equal(deps_state(d, N), SCHED_DEP_NEVER);
	deps_tell(d, 1, DEPS_OPEN);
	assert_int_equal(deps_state(d, N), SCHED_DEP_WAIT);
	for (uint64_t i = 2; i <= N; i++)
		deps_set(d, i, NULL, 0);
	assert_false(deps_is_waited_for(d, 1));
	d = deps_free(d);
}

static void test_many_wait_for_one(void **state)
{
	enum { N = 100000 };
	struct deps *d = deps_new(tell, NULL);

	for (uint64_t i = 2; i <= N; i++)
		wait_for(d, i, DEPS_AFTER, 1);
	deps_tell(d, 1, DEPS_GOOD);
	for (uint64_t i = 2; i <= N; i++) {
		assert_int_equal(deps_state(d, i), SCHED_DEP_READY);
		deps_set(d, i, NULL, 0);
	}
	d = deps_free(d);
}

static void test_ways_round(void **state)
{
	struct deps *d = deps_new(tell, NULL);

	wait_for(d, 1, DEPS_AFTER, 1);
	assert_int_equal(deps_state(d, 1), SCHED_DEP_NEVER);
	expect_text(d, 1, "it waits for itself: 1 -> 1");
	deps_set(d, 1, NULL, 0);

	wait_for(d, 2, DEPS_AFTER, 1);
	wait_for(d, 3, DEPS_AFTER_ANY, 2);
	wait_for(d, 1, DEPS_AFTER, 3);
	assert_int_equal(deps_state(d, 1), SCHED_DEP_NEVER);
	expect_text(d, 1, "it waits for itself: 1 -> 3 -> 2 -> 1");
	expect_text(d, 2, "task 1, which it needs, can never run");
	assert_int_equal(deps_state(d, 3), SCHED_DEP_WAIT);
	/* Another one on the way is edited. */
	wait_for(d, 3, DEPS_AFTER, 9);
	assert_int_equal(deps_state(d, 1), SCHED_DEP_WAIT);
	assert_int_equal(deps_state(d, 2), SCHED_DEP_WAIT);
	expect(d, 9, DEPS_GOOD, "3 ready");
	/* Two ways round through one of them. */
	wait_for(d, 3, DEPS_AFTER, 2);
	struct deps_on both[] = { { .id = 3 }, { .id = 4 } };

	wait_for(d, 4, DEPS_AFTER, 1);
	deps_set(d, 1, both, 2);
	assert_int_equal(deps_state(d, 1), SCHED_DEP_NEVER);
	deps_set(d, 2, NULL, 0);
	assert_int_equal(deps_state(d, 1), SCHED_DEP_NEVER);
	expect_text(d, 1, "it waits for itself: 1 -> 4 -> 1");
	deps_set(d, 4, NULL, 0);
	assert_int_equal(deps_state(d, 1), SCHED_DEP_WAIT);
	/* Who has ended is on no way any more. */
	wait_for(d, 4, DEPS_AFTER_ANY, 1);
	assert_int_equal(deps_state(d, 4), SCHED_DEP_NEVER);
	deps_tell(d, 4, DEPS_GOOD);
	assert_int_equal(deps_state(d, 1), SCHED_DEP_WAIT);
	d = deps_free(d);
}

/* Against a plain computation of the same, after each of many random steps. */
enum { IDS = 9 };

struct plain {
	struct deps_on on[IDS + 1][3];
	size_t n[IDS + 1];
	enum deps_state told[IDS + 1];
};

static bool reaches(const struct plain *p, uint64_t from, uint64_t to, bool *seen)
{
	for (size_t i = 0; i < p->n[from]; i++) {
		uint64_t id = p->on[from][i].id;

		if (id == to)
			return true;
		if (seen[id] || p->told[id] != DEPS_OPEN)
			continue;
		seen[id] = true;
		if (reaches(p, id, to, seen))
			return true;
	}
	return false;
}

static bool is_waited_for(const struct plain *p, uint64_t id)
{
	for (uint64_t x = 1; x <= IDS; x++)
		for (size_t i = 0; i < p->n[x]; i++)
			if (p->on[x][i].id == id)
				return true;
	return false;
}

static enum sched_dep judge(const struct plain *p, const bool *never, uint64_t x, bool loops)
{
	enum sched_dep dep = loops ? SCHED_DEP_NEVER : SCHED_DEP_READY;

	for (size_t i = 0; i < p->n[x]; i++) {
		const struct deps_on *on = &p->on[x][i];
		enum deps_state is = p->told[on->id];
		bool after = on->kind == DEPS_AFTER;

		if (is == DEPS_NONE ||
		    (after && (is == DEPS_BAD || (is == DEPS_OPEN && never[on->id]))))
			return SCHED_DEP_NEVER;
		if (is == DEPS_OPEN && dep == SCHED_DEP_READY)
			dep = SCHED_DEP_WAIT;
	}
	return dep;
}

/* `never` is the least set that is closed: who is in a loop, and who is broken, again and again. */
static void check_all(const struct plain *p, const struct deps *d)
{
	bool never[IDS + 1] = { false }, changed = true, loops[IDS + 1];

	for (uint64_t x = 1; x <= IDS; x++) {
		bool seen[IDS + 1] = { false };

		loops[x] = reaches(p, x, x, seen);
	}
	while (changed) {
		changed = false;
		for (uint64_t x = 1; x <= IDS; x++)
			if (!never[x] && judge(p, never, x, false) == SCHED_DEP_NEVER)
				never[x] = changed = true;
	}
	for (uint64_t x = 1; x <= IDS; x++) {
		enum sched_dep is = deps_state(d, x);

		/* Of a loop at least one can never run; which, depends on who came last. */
		if (!loops[x] && !never[x])
			continue;
		assert_true(is == SCHED_DEP_NEVER || loops[x]);
	}
	for (uint64_t x = 1; x <= IDS; x++) {
		bool any = false;

		for (uint64_t y = 1; y <= IDS; y++)
			any = any || loops[y];
		if (!any)
			assert_int_equal(deps_state(d, x), judge(p, never, x, false));
	}
}

static void test_against_the_plain_way(void **state)
{
	struct deps *d = deps_new(tell, NULL);
	struct plain p = { .n = { 0 } };
	unsigned int seed = 7;

	for (int step = 0; step < 20000; step++) {
		uint64_t id = 1 + (uint64_t)rand_r(&seed) % IDS;

		told[0] = '\0';
		if (rand_r(&seed) % 2) {
			p.n[id] = (size_t)rand_r(&seed) % 4;
			for (size_t i = 0; i < p.n[id]; i++)
				p.on[id][i] =
					(struct deps_on){ .id = 1 + (uint64_t)rand_r(&seed) % IDS,
							  .kind = (unsigned)rand_r(&seed) % 2 };
			deps_set(d, id, p.on[id], p.n[id]);
		} else {
			p.told[id] = (unsigned)rand_r(&seed) % 4;
			deps_tell(d, id, p.told[id]);
		}
		/* As the agent does it: nobody keeps true how what nobody waits for stands. */
		for (uint64_t x = 1; x <= IDS; x++)
			if (!is_waited_for(&p, x))
				p.told[x] = DEPS_OPEN;
		check_all(&p, d);
	}
	d = deps_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_state),
		cmocka_unit_test(test_all_of_them),
		cmocka_unit_test(test_failure_goes_on_and_comes_back),
		cmocka_unit_test(test_long_chain),
		cmocka_unit_test(test_many_wait_for_one),
		cmocka_unit_test(test_ways_round),
		cmocka_unit_test(test_against_the_plain_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
