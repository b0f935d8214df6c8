/* SPDX-License-Identifier: MIT */

/* What becomes of a task after an attempt: tries, back-off, what does not count, fast failures. */

#include <string.h>

#include "unit.h"

#include "base/clock.h"
#include "sched/retry.h"

#define MINUTE (60 * NS_PER_S)

static struct retry_policy policy(uint32_t retries)
{
	struct retry_policy p;

	retry_defaults(&p);
	p.retries = retries;
	return p;
}

static struct retry_verdict end(const struct retry_policy *p, struct retry_state *s,
				enum end_kind kind, int code, uint64_t ran_ms)
{
	struct retry_streak streak = { 0 };
	struct retry_end e = { .kind = kind, .code = code, .ran_ms = ran_ms };

	return retry_decide(p, s, &streak, &e, 1000 * NS_PER_S);
}

static void test_kinds(void **state)
{
	static const struct {
		enum end_kind kind;
		int code;
		bool no_requeue;
		enum retry_what what; /* with one retry left */
		bool counted;
	} cases[] = {
		{ END_EXIT, 0, false, RETRY_DONE, false },
		{ END_EXIT, 1, false, RETRY_AGAIN, true },
		{ END_SIGNAL, 11, false, RETRY_AGAIN, true },
		{ END_OOM, 1, false, RETRY_AGAIN, true },
		{ END_TIMEOUT, 0, false, RETRY_AGAIN, true },
		{ END_TAKEN, 0, false, RETRY_AGAIN, false },
		{ END_TAKEN, 0, true, RETRY_AGAIN, false },
		{ END_PREEMPTED, 15, false, RETRY_AGAIN, false },
		{ END_PREEMPTED, 15, true, RETRY_FAILED, false },
		{ END_LIFETIME, 15, false, RETRY_AGAIN, false },
		{ END_LIFETIME, 15, true, RETRY_FAILED, false },
		{ END_EXPIRED, 15, false, RETRY_AGAIN, false },
		{ END_EXPIRED, 15, true, RETRY_FAILED, false },
		{ END_NODE_LOST, 0, false, RETRY_AGAIN, false },
		{ END_NODE_LOST, 0, true, RETRY_FAILED, false },
		{ END_REFUSED, 0, false, RETRY_AGAIN, false },
		{ END_STOPPED, 15, false, RETRY_CANCELLED, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct retry_policy p = policy(1);
		struct retry_state s = { 0 };

		p.no_requeue = cases[i].no_requeue;

		struct retry_verdict v = end(&p, &s, cases[i].kind, cases[i].code, MINUTE);

		assert_int_equal(v.what, cases[i].what);
		assert_int_equal(v.counted, cases[i].counted);
		assert_int_equal(s.tries, cases[i].counted);
		assert_true(v.text[0] != '\0');
	}
}

static void test_limited(void **state)
{
	struct retry_policy p = policy(2);
	struct retry_state s = { 0 };

	assert_int_equal(end(&p, &s, END_EXIT, 1, 60000).what, RETRY_AGAIN);
	assert_int_equal(end(&p, &s, END_TAKEN, 0, 0).what, RETRY_AGAIN);

	struct retry_verdict v = end(&p, &s, END_EXIT, 1, 60000);

	assert_int_equal(v.what, RETRY_AGAIN);
	assert_string_equal(v.text, "exit code 1, try 2 of 3; next at once");
	v = end(&p, &s, END_EXIT, 7, 60000);
	assert_int_equal(v.what, RETRY_FAILED);
	assert_string_equal(v.text, "exit code 7, try 3 of 3");
}

static void test_backoff_after_every_third(void **state)
{
	struct retry_policy p = policy(RETRY_FOREVER);
	struct retry_state s = { 0 };

	for (int i = 1; i <= 30; i++) {
		struct retry_verdict v = end(&p, &s, END_EXIT, 1, p.fast_ms);

		assert_int_equal(v.what, RETRY_AGAIN);
		assert_false(v.pause);
		assert_int_equal(v.at_ns - 1000 * NS_PER_S, i % 3 ? 0 : 10 * MINUTE);
	}
	p.backoff_ms = UINT64_MAX;
	s.tries = 2;
	assert_int_equal(end(&p, &s, END_EXIT, 1, 5).at_ns, UINT64_MAX);
	p.retry_every = 0;
	assert_int_equal(end(&p, &s, END_EXIT, 1, p.fast_ms).at_ns, 1000 * NS_PER_S);
}

/* Hundreds of attempts a second, each with a log of its own, help nobody. */
static void test_for_ever_is_no_storm(void **state)
{
	static const struct {
		uint32_t retries, retry_every;
		uint64_t backoff_ms, ran_ms, wait_ms;
	} cases[] = {
		{ RETRY_FOREVER, 1, 0, 5, 1000 },
		{ RETRY_FOREVER, 0, 0, 5, 1000 },
		{ RETRY_FOREVER, 3, 600000, 5, 1000 },
		{ RETRY_FOREVER, 1, 10, 9999, 1000 },
		{ RETRY_FOREVER, 1, 5000, 5, 5000 },
		{ RETRY_FOREVER, 1, 10, 10000, 10 },
		{ 100, 1, 0, 5, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct retry_policy p = policy(cases[i].retries);
		struct retry_state s = { 0 };
		struct retry_verdict v;

		p.retry_every = cases[i].retry_every;
		p.backoff_ms = cases[i].backoff_ms;
		v = end(&p, &s, END_EXIT, 1, cases[i].ran_ms);
		assert_int_equal(v.what, RETRY_AGAIN);
		assert_int_equal(v.at_ns - 1000 * NS_PER_S, cases[i].wait_ms * NS_PER_MS);
		assert_non_null(strstr(v.text, cases[i].wait_ms ? "; next in " : "; next at once"));
	}
}

static void test_memory_grows_after_oom_only(void **state)
{
	struct retry_policy p = policy(5);
	struct retry_state s = { .mem_bytes = 20000 };

	(void)end(&p, &s, END_OOM, 1, 60000);
	assert_int_equal(s.mem_bytes, 20000);
	p.oom_permille = 1500;
	p.oom_cap_bytes = UINT64_MAX;
	(void)end(&p, &s, END_EXIT, 1, 60000);
	assert_int_equal(s.mem_bytes, 20000);
	(void)end(&p, &s, END_OOM, 1, 60000);
	assert_int_equal(s.mem_bytes, 30000);
	s.mem_bytes = 1ULL << 40;
	(void)end(&p, &s, END_OOM, 1, 60000);
	assert_int_equal(s.mem_bytes, 3ULL << 39);
}

static void test_memory_grows_to_what_is_there(void **state)
{
	static const struct {
		uint64_t was_gib, cap_gib, is_gib;
		const char *said;
	} cases[] = {
		{ 20, 0, 20, ", with 20.0 GiB per GPU as before, as no GPU can be seen here now" },
		{ 20, 80, 30, ", with 30.0 GiB per GPU instead of 20.0 GiB" },
		{ 20, 30, 30, ", with 30.0 GiB per GPU instead of 20.0 GiB" },
		{ 20, 24, 24,
		  ", with 24.0 GiB per GPU instead of 20.0 GiB, all that a GPU here has" },
		{ 24, 24, 24, ", with 24.0 GiB per GPU as before, as no GPU here has more" },
		/* Another node's task: it asks for no less than it did. */
		{ 40, 24, 40, ", with 40.0 GiB per GPU as before, as no GPU here has more" },
		{ 0, 24, 0, NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct retry_policy p = policy(3);
		struct retry_state s = { .mem_bytes = cases[i].was_gib << 30 };
		struct retry_verdict v;

		p.oom_permille = 1500;
		p.oom_cap_bytes = cases[i].cap_gib << 30;
		v = end(&p, &s, END_OOM, 1, 60000);
		assert_true(s.mem_bytes == cases[i].is_gib << 30);
		if (cases[i].said)
			assert_string_equal(strstr(v.text, ", with"), cases[i].said);
		else
			assert_null(strstr(v.text, "with"));
	}
}

static void test_fast_failures_pause(void **state)
{
	struct retry_policy p = policy(0);
	struct retry_streak lane = { 0 };
	struct retry_end fast = { .kind = END_EXIT, .code = 127, .ran_ms = 20 };
	struct retry_end slow = { .kind = END_EXIT, .code = 1, .ran_ms = 20000 };
	struct retry_end good = { .kind = END_EXIT, .ran_ms = 1 };
	struct retry_end taken = { .kind = END_TAKEN };
	const struct {
		const struct retry_end *end;
		bool pause;
	} steps[] = { { &fast, false },	 { &fast, false }, { &slow, false }, { &fast, false },
		      { &fast, false },	 { &good, false }, { &fast, false }, { &fast, false },
		      { &taken, false }, { &fast, true } };

	/* Each is another task of the lane, none is retried. */
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct retry_state s = { 0 };
		struct retry_verdict v = retry_decide(&p, &s, &lane, steps[i].end, 0);

		assert_int_equal(v.pause, steps[i].pause);
		if (v.pause)
			assert_non_null(strstr(v.text, "paused: 3 failures in a row"));
		assert_null(strstr(v.text, "next"));
	}
}

/* Who resumes has done something about it, so that counting begins anew; and what ran already when
 * it was paused failed for what is mended now. */
static void test_pause_ends_the_streak(void **state)
{
	static const struct {
		uint64_t begun_ns, now_ns;
		bool pause;
	} steps[] = {
		{ 1, 10, false },  { 2, 11, false },  { 3, 12, true },	 { 4, 13, false },
		{ 5, 14, false },  { 11, 15, false }, { 20, 21, false }, { 22, 23, false },
		{ 24, 25, true },  { 24, 26, false }, { 30, 31, false }, { 32, 33, false },
		{ 23, 34, false }, { 40, 41, true },
	};
	struct retry_policy p = policy(9);
	struct retry_streak lane = { 0 };

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct retry_end fast = {
			.kind = END_EXIT, .code = 1, .ran_ms = 20, .begun_ns = steps[i].begun_ns
		};
		struct retry_state s = { 0 };
		struct retry_verdict v = retry_decide(&p, &s, &lane, &fast, steps[i].now_ns);

		assert_int_equal(v.pause, steps[i].pause);
		if (v.pause)
			assert_non_null(strstr(v.text, "paused: 3 failures in a row"));
	}
}

static void test_why_in_place_of_a_phrase(void **state)
{
	struct retry_policy p = policy(1);
	struct retry_state s = { 0 };
	struct retry_streak streak = { 0 };
	struct retry_end e = { .kind = END_TAKEN, .why = "taken by PID 77 (bob, python)" };
	struct retry_verdict v = retry_decide(&p, &s, &streak, &e, 0);

	assert_int_equal(v.at_ns, NS_PER_S); /* what is in the way may not be seen */
	assert_string_equal(v.text, "taken by PID 77 (bob, python); back in the queue, not counted "
				    "as a try");
	e = (struct retry_end){ .kind = END_EXIT, .code = 127, .why = "cannot start: no x" };
	v = retry_decide(&p, &s, &streak, &e, 0);
	assert_string_equal(v.text, "cannot start: no x, try 1 of 2; next at once");
	e = (struct retry_end){ .kind = END_SIGNAL, .code = 9, .why = "nobody asks" };
	v = retry_decide(&p, &s, &streak, &e, 0);
	assert_string_equal(v.text, "ended by signal 9, try 2 of 2");
}

static void test_not_again_for_its_owner(void **state)
{
	struct retry_policy p = policy(3);
	struct retry_state s = { 0 };
	struct retry_streak streak = { 0 };
	struct retry_end e = { .kind = END_EXIT, .code = 3, .ran_ms = 60000, .last = true };
	struct retry_verdict v = retry_decide(&p, &s, &streak, &e, 0);

	assert_int_equal(v.what, RETRY_FAILED);
	assert_string_equal(v.text, "exit code 3, try 1 of 4");
	e.code = 0;
	assert_int_equal(retry_decide(&p, &s, &streak, &e, 0).what, RETRY_DONE);
}

static void test_not_again_while_it_runs_on(void **state)
{
	struct retry_policy p = policy(3);
	struct retry_state s = { 0 };
	struct retry_streak streak = { 0 };
	struct retry_end e = { .kind = END_PREEMPTED, .why = "it runs on", .last = true };
	struct retry_verdict v = retry_decide(&p, &s, &streak, &e, 0);

	assert_int_equal(v.what, RETRY_FAILED);
	assert_string_equal(v.text, "it runs on");
	e.kind = END_TIMEOUT;
	assert_int_equal(retry_decide(&p, &s, &streak, &e, 0).what, RETRY_FAILED);
	e.kind = END_STOPPED;
	assert_int_equal(retry_decide(&p, &s, &streak, &e, 0).what, RETRY_CANCELLED);
}

static void test_what_never_ran_waits_again(void **state)
{
	struct retry_policy p = policy(0);
	struct retry_state s = { 0 };
	struct retry_streak streak = { 0 };
	struct retry_end e = { .kind = END_REFUSED, .never_ran = true };
	struct retry_verdict v;

	p.no_requeue = true;
	v = retry_decide(&p, &s, &streak, &e, 0);
	assert_int_equal(v.what, RETRY_AGAIN);
	assert_true(v.at_ns >= NS_PER_S);
	e.kind = END_NODE_LOST;
	assert_int_equal(retry_decide(&p, &s, &streak, &e, 0).what, RETRY_AGAIN);
	e.never_ran = false;
	assert_int_equal(retry_decide(&p, &s, &streak, &e, 0).what, RETRY_FAILED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_limited),
		cmocka_unit_test(test_backoff_after_every_third),
		cmocka_unit_test(test_for_ever_is_no_storm),
		cmocka_unit_test(test_memory_grows_after_oom_only),
		cmocka_unit_test(test_memory_grows_to_what_is_there),
		cmocka_unit_test(test_fast_failures_pause),
		cmocka_unit_test(test_pause_ends_the_streak),
		cmocka_unit_test(test_why_in_place_of_a_phrase),
		cmocka_unit_test(test_not_again_for_its_owner),
		cmocka_unit_test(test_not_again_while_it_runs_on),
		cmocka_unit_test(test_what_never_ran_waits_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
