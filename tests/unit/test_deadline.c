/* SPDX-License-Identifier: MIT */

/* When an agent ends by itself, in virtual time: one clock that goes on while the machine sleeps,
 * and one that people set. */

#include "unit.h"

#include "agent/node/deadline.h"
#include "base/clock.h"
#include "base/mem.h"

#define BOOT (5000 * NS_PER_S)
#define WALL (1700000000 * NS_PER_S)

static struct deadline all[DEADLINE_MAX];

static void begin(struct agent_config c)
{
	deadlines_begin(all, &c, BOOT);
}

static uint64_t wait_at(uint64_t boot_s, uint64_t wall_s)
{
	return deadlines_wait_ms(all, BOOT + boot_s * NS_PER_S, WALL + wall_s * NS_PER_S);
}

static void test_none(void **state)
{
	begin((struct agent_config){ .notice_ms = 1000 });
	deadline_begin_for(all, &(struct agent_config){ .for_ms = 0 }, BOOT);
	assert_true(wait_at(0, 0) == UINT64_MAX);
	for (int i = 0; i < DEADLINE_MAX; i++)
		assert_false(deadline_is_awaited(&all[i]));
}

static void expect_why(enum deadline_id id, const char *why)
{
	char buf[DEADLINE_TEXT_MAX];

	assert_string_equal(deadline_why(&all[id], buf), why);
}

/* It counts from when it holds, not from the start. */
static void test_for(void **state)
{
	const struct agent_config c = { .for_ms = 3000 };

	begin(c);
	assert_true(wait_at(0, 0) == UINT64_MAX);
	deadline_begin_for(all, &c, BOOT + 10 * NS_PER_S);
	assert_int_equal(wait_at(10, 0), 3000);
	assert_int_equal(wait_at(12, 99999), 1000); /* whatever the wall clock is set to */
	assert_int_equal(wait_at(13, 0), 0);
	assert_int_equal(all[DEADLINE_FOR].then, DRAIN_NOT);
	expect_why(DEADLINE_FOR, "the time is up");
	all[DEADLINE_FOR].over = true;
	assert_true(wait_at(14, 0) == UINT64_MAX); /* once */
}

/* A step of the wall clock brings it nearer, or farther away, and is seen within ten seconds. */
static void test_until(void **state)
{
	begin((struct agent_config){ .until_wall_ns = WALL + 3600 * NS_PER_S });
	assert_int_equal(wait_at(0, 0), 10000);
	assert_int_equal(deadline_left_ms(&all[DEADLINE_UNTIL], BOOT, WALL), 3600000);
	assert_int_equal(deadline_left_ms(&all[DEADLINE_UNTIL], BOOT, WALL + 3599 * NS_PER_S),
			 1000);
	assert_int_equal(wait_at(1, 4000), 0);
	assert_int_equal(deadline_left_ms(&all[DEADLINE_UNTIL], BOOT + 9999 * NS_PER_S, WALL),
			 3600000);
	assert_true(deadline_wall_ns(&all[DEADLINE_UNTIL], BOOT, WALL + 5) ==
		    WALL + 3600 * NS_PER_S);
	expect_why(DEADLINE_UNTIL, "the time has come");
}

/* A machine that slept has used it up all the same; its end by the wall clock follows that. */
static void test_lifetime(void **state)
{
	const struct deadline *d = &all[DEADLINE_LIFETIME];

	begin((struct agent_config){ .lifetime_ms = 86400000, .lifetime_stops = true });
	assert_int_equal(wait_at(0, 0), 10000);
	assert_int_equal(deadline_left_ms(d, BOOT + 86395 * NS_PER_S, WALL), 5000);
	assert_int_equal(wait_at(86395, 0), 5000);
	assert_int_equal(wait_at(86400, 0), 0);
	assert_int_equal(wait_at(100000, 0), 0); /* asleep over its end */
	assert_int_equal(d->then, DRAIN_REQUEUE);
	assert_true(deadline_wall_ns(d, BOOT + 3600 * NS_PER_S, WALL + 7200 * NS_PER_S) ==
		    WALL + (7200 + 82800) * NS_PER_S);
	expect_why(DEADLINE_LIFETIME, "the lifetime of 1d is over");
	begin((struct agent_config){ .lifetime_ms = 1000 });
	assert_int_equal(d->then, DRAIN_WAIT);
}

/* It is waited for the notice first; one that would come with the announcement is not given. */
static void test_notice(void **state)
{
	struct deadline *d = &all[DEADLINE_LIFETIME];

	begin((struct agent_config){ .lifetime_ms = 9000, .notice_ms = 4000 });
	assert_false(d->noticed);
	assert_int_equal(wait_at(0, 0), 5000);
	assert_int_equal(wait_at(5, 0), 0);
	assert_int_equal(wait_at(7, 0), 0); /* whoever was not ready in time gives it late */
	d->noticed = true;
	assert_int_equal(wait_at(5, 0), 4000);
	begin((struct agent_config){ .lifetime_ms = 9000, .notice_ms = 9000 });
	assert_true(d->noticed);
	begin((struct agent_config){ .lifetime_ms = 9000 });
	assert_true(d->noticed);
	assert_int_equal(wait_at(0, 0), 9000);
}

/* The next one counts, and each is over by itself. */
static void test_two(void **state)
{
	begin((struct agent_config){ .lifetime_ms = 9000, .until_wall_ns = WALL + 3 * NS_PER_S });
	assert_int_equal(wait_at(0, 0), 3000);
	all[DEADLINE_UNTIL].over = true;
	assert_int_equal(wait_at(0, 5), 9000);
	assert_int_equal(wait_at(8, 5), 1000);
}

/* It leaves two minutes before the end of its job; what it was told of that last counts. */
static void test_job(void **state)
{
	const struct deadline *d = &all[DEADLINE_JOB];

	begin((struct agent_config){ .leave_ms = 120000 });
	assert_false(deadline_is_awaited(d));
	deadline_set_job(all, 600000, 120000, BOOT);
	assert_true(deadline_is_awaited(d));
	assert_int_equal(deadline_left_ms(d, BOOT, WALL), 480000);
	assert_int_equal(deadline_left_ms(d, BOOT + 479 * NS_PER_S, WALL + 3600 * NS_PER_S), 1000);
	assert_int_equal(wait_at(475, 0), 5000);
	assert_int_equal(d->then, DRAIN_EXPIRE);
	assert_string_equal(deadline_what_then(d), "what runs then is stopped and requeued");
	expect_why(DEADLINE_JOB, "the job ends in 2m at most");
	all[DEADLINE_JOB].over = true;
	deadline_set_job(all, 3600000, 120000, BOOT + 60 * NS_PER_S);
	assert_true(deadline_is_awaited(d));
	assert_int_equal(deadline_left_ms(d, BOOT, WALL), 3540000);
	/* A job that is shorter than that is left at once. */
	deadline_set_job(all, 60000, 120000, BOOT);
	assert_true(deadline_is_awaited(d));
	assert_int_equal(wait_at(0, 0), 0);
}

/* Once an hour, for the last time when an answer still comes before it begins to leave, and never
 * twice in a minute. */
static void test_ask_again(void **state)
{
	static const struct {
		uint64_t left_s, asked_s, wait_s;
	} rows[] = {
		{ 86400, 0, 3600 },
		{ 3700, 3600, 3600 },
		{ 3610, 0, 3590 },
		{ 600, 3000, 580 },
		{ 600, UINT64_MAX, 580 },
		{ 30, UINT64_MAX, 10 },
		{ 20, 70, 0 },
		{ 5, 70, 0 },
		{ 70, 10, 50 },
		{ 70, 0, 60 },
		{ 65, 0, 60 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t asked =
			rows[i].asked_s == UINT64_MAX ? UINT64_MAX : rows[i].asked_s * 1000;

		assert_int_equal(deadline_ask_ms(rows[i].left_s * 1000, asked),
				 rows[i].wait_s * 1000);
	}
	assert_true(deadline_ask_ms(0, UINT64_MAX) == UINT64_MAX); /* it leaves already */
	assert_true(deadline_ask_ms(50000, 5000) == UINT64_MAX); /* too early, and too late then */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),   cmocka_unit_test(test_for),
		cmocka_unit_test(test_until),  cmocka_unit_test(test_lifetime),
		cmocka_unit_test(test_notice), cmocka_unit_test(test_two),
		cmocka_unit_test(test_job),    cmocka_unit_test(test_ask_again),
	};

	return cmocka_run_group_tests_name("deadline", tests, NULL, NULL);
}
