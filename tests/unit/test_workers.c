/* SPDX-License-Identifier: MIT */

/* What may take its time, done by threads. */

#include "unit.h"

#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/workers.h"

#define HANGS_MS 200
#define LIMIT_MS 5000

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
/* Who reads the wall clock reads it just before it is set forward by an hour. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
	int r = __real_clock_gettime(clock, ret);

	if (clock == CLOCK_REALTIME)
		ret->tv_sec -= 3600;
	return r;
}

static void take_a_while(void *data)
{
	(void)usleep(HANGS_MS * 1000);
	*(bool *)data = true;
}

static void what_is_begun_is_done_whatever_becomes_of_the_wall_clock(void **state)
{
	struct err e = ERR_INIT;
	struct workers *w = NULL;
	bool done = false;

	(void)state;
	assert_int_equal(workers_new(&w, &e), 0);
	assert_int_equal(workers_do(w, take_a_while, &done), 0);
	w = workers_free(w, LIMIT_MS);
	assert_true(done);
}

static void hang(void *data)
{
	(void)data;
	(void)pause();
}

static void one_that_hangs_is_left_behind(void **state)
{
	uint64_t began = clock_mono_ns();
	struct err e = ERR_INIT;
	struct workers *w = NULL;

	(void)state;
	assert_int_equal(workers_new(&w, &e), 0);
	assert_int_equal(workers_do(w, hang, NULL), 0);
	w = workers_free(w, HANGS_MS);
	assert_true(clock_mono_ns() - began >= HANGS_MS * NS_PER_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_begun_is_done_whatever_becomes_of_the_wall_clock),
		cmocka_unit_test(one_that_hangs_is_left_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
