/* SPDX-License-Identifier: MIT */

/* Dependencies: both kinds, what can never run, and circles. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

#include "base/mem.h"
#include "sched/deps.h"

static char told[256];

static void tell(struct sched_ref task, enum sched_dep now, void *user)
{
	size_t n = strlen(told);

	snprintf(told + n, sizeof(told) - n, "%s%llu %s", n ? ", " : "",
		 (unsigned long long)task.id, now == SCHED_DEP_READY ? "ready" : "never");
}

static struct sched_ref ref(uint64_t id)
{
	return (struct sched_ref){ .id = id };
}

static int wait_for(struct deps *d, uint64_t task, uint64_t on, enum deps_kind kind,
		    enum deps_known known)
{
	struct deps_on o = { .ref = ref(on), .kind = kind, .known = known };

	return deps_set(d, ref(task), &o, 1, NULL);
}

static void end(struct deps *d, uint64_t task, bool succeeded, const char *expected)
{
	told[0] = '\0';
	deps_ended(d, ref(task), succeeded, tell, NULL);
	assert_string_equal(told, expected);
}

static void test_known_already(void **state)
{
	static const struct {
		enum deps_kind kind;
		enum deps_known known;
		enum sched_dep state;
		const char *text;
	} cases[] = {
		{ DEPS_AFTER, DEPS_PENDING, SCHED_DEP_WAIT, "waits for task 1 to succeed" },
		{ DEPS_AFTER, DEPS_SUCCEEDED, SCHED_DEP_READY, "" },
		{ DEPS_AFTER, DEPS_FAILED, SCHED_DEP_NEVER, "task 1, which it needs, failed" },
		{ DEPS_AFTER, DEPS_UNKNOWN, SCHED_DEP_NEVER,
		  "task 1, which it needs, does not exist" },
		{ DEPS_AFTER_ANY, DEPS_PENDING, SCHED_DEP_WAIT, "waits for task 1 to end" },
		{ DEPS_AFTER_ANY, DEPS_SUCCEEDED, SCHED_DEP_READY, "" },
		{ DEPS_AFTER_ANY, DEPS_FAILED, SCHED_DEP_READY, "" },
		{ DEPS_AFTER_ANY, DEPS_UNKNOWN, SCHED_DEP_READY, "" },
	};
	struct deps *d = deps_new();
	char buf[DEPS_TEXT_MAX];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(wait_for(d, 2, 1, cases[i].kind, cases[i].known), cases[i].state);
		assert_string_equal(deps_text(d, ref(2), buf), cases[i].text);
	}
	d = deps_free(d);
}

static void test_all_of_them(void **state)
{
	struct deps *d = deps_new();
	struct deps_on on[] = { { .ref = ref(1) }, { .ref = ref(2), .kind = DEPS_AFTER_ANY } };
	char buf[DEPS_TEXT_MAX];

	assert_int_equal(deps_set(d, ref(3), on, 2, NULL), SCHED_DEP_WAIT);
	assert_string_equal(deps_text(d, ref(3), buf), "waits for task 2 to end and 1 more");
	end(d, 2, false, "");
	end(d, 1, true, "3 ready");
	end(d, 1, true, "");
	/* Both ways for the same one. */
	on[1].ref = ref(1);
	assert_int_equal(deps_set(d, ref(4), on, 2, NULL), SCHED_DEP_WAIT);
	assert_int_equal(deps_set(d, ref(5), on, 2, NULL), SCHED_DEP_WAIT);
	end(d, 1, false, "4 never, 5 never");
	d = deps_free(d);
}

static void test_failure_goes_on(void **state)
{
	struct deps *d = deps_new();

	assert_int_equal(wait_for(d, 2, 1, DEPS_AFTER, DEPS_PENDING), SCHED_DEP_WAIT);
	assert_int_equal(wait_for(d, 3, 2, DEPS_AFTER, DEPS_PENDING), SCHED_DEP_WAIT);
	assert_int_equal(wait_for(d, 4, 3, DEPS_AFTER_ANY, DEPS_PENDING), SCHED_DEP_WAIT);
	end(d, 1, false, "2 never, 4 ready, 3 never");
	deps_forget(d, ref(2));
	d = deps_free(d);
}

static void test_circles(void **state)
{
	struct deps *d = deps_new();
	struct deps_on on = { .ref = ref(3) };
	struct err e = ERR_INIT;

	assert_int_equal(wait_for(d, 2, 1, DEPS_AFTER, DEPS_PENDING), SCHED_DEP_WAIT);
	assert_int_equal(wait_for(d, 3, 2, DEPS_AFTER, DEPS_PENDING), SCHED_DEP_WAIT);
	assert_int_equal(deps_set(d, ref(1), &on, 1, &e), -ELOOP);
	assert_string_equal(e.text, "task 1 would wait for itself: 1 -> 3 -> 2 -> 1");
	on.ref = ref(1);
	assert_int_equal(deps_set(d, ref(1), &on, 1, &e), -ELOOP);
	assert_string_equal(e.text, "task 1 would wait for itself: 1 -> 1");
	/* Nothing was changed by that, and what is no circle any more is allowed. */
	end(d, 1, true, "2 ready");
	assert_int_equal(wait_for(d, 1, 3, DEPS_AFTER, DEPS_PENDING), SCHED_DEP_WAIT);
	d = deps_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_already),
		cmocka_unit_test(test_all_of_them),
		cmocka_unit_test(test_failure_goes_on),
		cmocka_unit_test(test_circles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
