/* SPDX-License-Identifier: MIT */

/* Ends of tasks are made safe in groups, a long journal is cut, and what fails is tried again. The
 * journal, the timer and the spooler are the test's; the child that syncs is a real one. */

#include "idle_loop.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/queue/groupcommit.h"
#include "base/mem.h"
#include "base/str.h"

static uv_loop_t loop;
static struct groupcommit *group;

static struct {
	struct spool_job *job;
	uv_timer_t *timer;
	uv_timer_cb on_timer;
	uint64_t wait_ms;
	/* The journal. */
	int sync_code, cut_code, drop_code;
	bool is_long;
	int child_error;	  /* -1: there is no child */
	bool child_dies;	  /* without a word */
	unsigned int syncs, cuts; /* calls */
	uint64_t part, dropped;
	/* Told. */
	unsigned int n_synced, n_said;
	char said[300];
} world;

void __wrap_spooler_do(struct spooler *s, struct spool_job *job);
void __wrap_spooler_do(struct spooler *s, struct spool_job *job)
{
	assert_null(world.job);
	world.job = job;
}

int __wrap_uv_timer_start(uv_timer_t *t, uv_timer_cb cb, uint64_t timeout, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *t, uv_timer_cb cb, uint64_t timeout, uint64_t repeat)
{
	assert_null(world.on_timer);
	world.timer = t;
	world.on_timer = cb;
	world.wait_ms = timeout;
	return 0;
}

int __wrap_endlog_sync(struct endlog *l, struct err *e);
int __wrap_endlog_sync(struct endlog *l, struct err *e)
{
	world.syncs++;
	return world.sync_code < 0 ? err_set(e, world.sync_code, "the disk is full") : 0;
}

bool __wrap_endlog_is_long(const struct endlog *l);
bool __wrap_endlog_is_long(const struct endlog *l)
{
	return world.is_long;
}

int __wrap_endlog_cut(struct endlog *l, uint64_t *ret_part, struct err *e);
int __wrap_endlog_cut(struct endlog *l, uint64_t *ret_part, struct err *e)
{
	world.cuts++;
	*ret_part = ++world.part;
	return world.cut_code;
}

int __wrap_endlog_drop(struct endlog *l, uint64_t part, struct err *e);
int __wrap_endlog_drop(struct endlog *l, uint64_t part, struct err *e)
{
	world.dropped = part;
	return world.drop_code;
}

int __wrap_spool_sync_child(const struct spool *sp, pid_t *ret_child, int *ret_pipe);
int __wrap_spool_sync_child(const struct spool *sp, pid_t *ret_child, int *ret_pipe)
{
	int ends[2];

	if (world.child_error < 0)
		return -EAGAIN;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	*ret_child = fork();
	if (*ret_child == 0) {
		if (!world.child_dies)
			(void)!write(ends[1], &world.child_error, sizeof(world.child_error));
		_exit(0);
	}
	(void)close(ends[1]);
	*ret_pipe = ends[0];
	return 0;
}

void __wrap_eventlog_say(struct eventlog *n, enum log_level level, const char *fmt, ...);
void __wrap_eventlog_say(struct eventlog *n, enum log_level level, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(world.said, sizeof(world.said), fmt, args);
	va_end(args);
	world.n_said++;
}

static void synced(void *user)
{
	world.n_synced++;
}

static int setup(void **state)
{
	memset(&world, 0, sizeof(world));
	if (begin_loop(&loop) < 0)
		return -1;
	group = groupcommit_new(&loop, NULL, NULL, synced, NULL);
	return 0;
}

static int teardown(void **state)
{
	groupcommit_free(group);
	return end_loop(&loop);
}

/* The timer fires; false: it does not run. */
static bool fire(void)
{
	uv_timer_cb cb = world.on_timer;

	world.on_timer = NULL;
	if (cb)
		cb(world.timer);
	return cb != NULL;
}

/* What the spooler was given is done; false: nothing was. */
static bool work(void)
{
	static struct spool_place place;
	struct spool_job *job = world.job;

	world.job = NULL;
	if (!job)
		return false;
	job->work(job, &place);
	job->done(job);
	return true;
}

static void sync_once(void)
{
	groupcommit_soon(group);
	assert_true(fire());
	assert_true(work());
}

static void wait_for_child(void)
{
	for (int i = 0; i < 20000 && !world.job && !world.n_said; i++)
		(void)uv_run(&loop, UV_RUN_NOWAIT);
}

static void ends_of_one_moment_are_one_group(void **state)
{
	for (int i = 0; i < 5; i++)
		groupcommit_soon(group);
	assert_int_equal(world.wait_ms, 200);
	assert_null(world.job);
	assert_true(fire());
	/* What ends while it is written is in the next one. */
	groupcommit_soon(group);
	assert_true(work());
	assert_int_equal(world.syncs, 1);
	assert_int_equal(world.n_synced, 1);
	assert_true(fire() && work());
	assert_int_equal(world.n_synced, 2);
	assert_false(fire());
}

static void what_fails_is_tried_again_later_each_time(void **state)
{
	static const uint64_t waits[] = { 400,	 800,	1600,  3200,  6400,
					  12800, 25600, 51200, 60000, 60000 };

	world.sync_code = -ENOSPC;
	sync_once();
	for (size_t i = 0; i < ARRAY_LEN(waits); i++) {
		assert_int_equal(world.wait_ms, waits[i]);
		assert_int_equal(world.n_synced, 0);
		assert_true(fire() && work());
	}
	/* Said when it begins and when it is over. */
	assert_int_equal(world.n_said, 1);
	assert_non_null(strstr(world.said, "not safe from a power loss yet: the disk is full"));
	world.sync_code = 0;
	assert_true(fire() && work());
	assert_int_equal(world.n_synced, 1);
	assert_int_equal(world.n_said, 2);
	assert_false(fire());
	/* The next one that fails begins anew. */
	world.sync_code = -EIO;
	sync_once();
	assert_int_equal(world.wait_ms, 400);
	assert_int_equal(world.n_said, 3);
}

static void a_long_journal_is_cut_and_dropped(void **state)
{
	sync_once();
	assert_int_equal(world.cuts, 0);
	world.is_long = true;
	sync_once();
	assert_int_equal(world.cuts, 1);
	/* Meanwhile ends are made safe as before, and nothing more is cut. */
	sync_once();
	assert_int_equal(world.n_synced, 3);
	assert_int_equal(world.cuts, 1);
	wait_for_child();
	assert_true(work());
	assert_int_equal(world.dropped, 1);
	assert_int_equal(world.n_said, 0);
	sync_once();
	assert_int_equal(world.cuts, 2);
	wait_for_child();
	assert_true(work());
	assert_int_equal(world.dropped, 2);
}

static void a_journal_that_cannot_be_synced_grows(void **state)
{
	world.is_long = true;
	world.child_error = EIO;
	sync_once();
	wait_for_child();
	assert_null(world.job);
	assert_non_null(strstr(world.said, "could not be synced (Input/output error)"));
	assert_int_equal(world.dropped, 0);
	/* The next group tries it again. */
	world.n_said = 0;
	world.child_dies = true;
	sync_once();
	assert_int_equal(world.cuts, 2);
	wait_for_child();
	assert_non_null(strstr(world.said, "could not be synced (the process was ended)"));
}

static void without_a_process_the_part_goes_with_the_next_one(void **state)
{
	world.is_long = true;
	world.child_error = -1;
	sync_once();
	assert_int_equal(world.cuts, 1);
	assert_int_equal(world.n_synced, 1);
	assert_int_equal(world.n_said, 0);
	world.child_error = 0;
	sync_once();
	wait_for_child();
	assert_true(work());
	assert_int_equal(world.dropped, 2);
}

/* An error is no reason to cut. */
static void what_is_not_safe_is_not_cut(void **state)
{
	world.is_long = true;
	world.sync_code = -EIO;
	sync_once();
	assert_int_equal(world.cuts, 0);
}

static void who_ends_begins_nothing_more(void **state)
{
	world.is_long = true;
	groupcommit_soon(group);
	assert_true(fire());
	groupcommit_stop(group);
	assert_true(work());
	groupcommit_soon(group);
	assert_false(fire());
	/* The child ends by itself, and what it did is not told. */
	for (int i = 0; i < 200; i++)
		(void)uv_run(&loop, UV_RUN_NOWAIT);
	assert_null(world.job);
	assert_int_equal(world.n_said, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ends_of_one_moment_are_one_group),
		TEST(what_fails_is_tried_again_later_each_time),
		TEST(a_long_journal_is_cut_and_dropped),
		TEST(a_journal_that_cannot_be_synced_grows),
		TEST(without_a_process_the_part_goes_with_the_next_one),
		TEST(what_is_not_safe_is_not_cut),
		TEST(who_ends_begins_nothing_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
