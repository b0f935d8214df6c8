/* SPDX-License-Identifier: MIT */

/* Jobs on the spooler's thread: one after another, in their order, told on the loop. */

#include "idle_loop.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/queue/spooler.h"
#include "base/mem.h"

static uv_loop_t loop;
static struct spooler *spooler;
static pthread_t loop_thread;
static char worked[64], told[64]; /* letters of jobs, in their order */
static unsigned int cleared;

static void clear(struct spool_place *place)
{
	assert_false(pthread_equal(pthread_self(), loop_thread));
	cleared++;
}

static int setup(void **state)
{
	memset(worked, 0, sizeof(worked));
	memset(told, 0, sizeof(told));
	cleared = 0;
	loop_thread = pthread_self();
	if (begin_loop(&loop) < 0)
		return -1;
	spooler = spooler_new(&loop, clear);
	return 0;
}

/* Until all that was given is told. */
static void run(void)
{
	while (!spooler_is_idle(spooler))
		(void)uv_run(&loop, UV_RUN_NOWAIT);
}

static int teardown(void **state)
{
	if (spooler) {
		run();
		assert_int_equal(spooler_free(spooler), 0);
	}
	assert_int_equal(cleared, 1);
	return end_loop(&loop);
}

struct letter {
	struct spool_job job;
	char c;
	sem_t *wait; /* before it works; NULL: it does not */
};

static void letter_work(struct spool_job *job, struct spool_place *place)
{
	const struct letter *l = (struct letter *)job;

	assert_false(pthread_equal(pthread_self(), loop_thread));
	assert_non_null(place);
	if (l->wait)
		(void)sem_wait(l->wait);
	worked[strlen(worked)] = l->c;
}

static void letter_done(struct spool_job *job)
{
	assert_true(pthread_equal(pthread_self(), loop_thread));
	told[strlen(told)] = ((struct letter *)job)->c;
	free(job);
}

static struct letter *letter(char c)
{
	struct letter *l = xcalloc(1, sizeof(*l));

	l->job = (struct spool_job){ .work = letter_work, .done = letter_done };
	l->c = c;
	return l;
}

static void jobs_keep_their_order(void **state)
{
	assert_true(spooler_is_idle(spooler));
	for (char c = 'a'; c <= 'e'; c++)
		spooler_do(spooler, &letter(c)->job);
	assert_false(spooler_is_idle(spooler));
	/* Nothing is done before the loop runs. */
	assert_string_equal(worked, "");
	run();
	assert_string_equal(worked, "abcde");
	assert_string_equal(told, "abcde");
}

/* It goes with what is given meanwhile, and is not forgotten where nothing is. */
static void what_may_wait_goes_with_others(void **state)
{
	spooler_do_later(spooler, &letter('a')->job);
	spooler_do_later(spooler, &letter('b')->job);
	spooler_do(spooler, &letter('c')->job);
	run();
	assert_string_equal(told, "abc");
	spooler_do_later(spooler, &letter('d')->job);
	run();
	assert_string_equal(told, "abcd");
}

static void follow_done(struct spool_job *job)
{
	letter_done(job);
	spooler_do(spooler, &letter('z')->job);
}

static void a_job_may_give_another_one(void **state)
{
	struct letter *l = letter('a');

	l->job.done = follow_done;
	spooler_do(spooler, &l->job);
	run();
	assert_string_equal(told, "az");
}

/* What is given while others are worked at goes over when these are back. */
static void a_job_that_hangs_keeps_the_others(void **state)
{
	sem_t wait;
	struct letter *slow = letter('a');

	assert_int_equal(sem_init(&wait, 0, 0), 0);
	slow->wait = &wait;
	spooler_do(spooler, &slow->job);
	(void)uv_run(&loop, UV_RUN_NOWAIT);
	spooler_do(spooler, &letter('b')->job);
	spooler_do_later(spooler, &letter('c')->job);
	for (int i = 0; i < 20; i++)
		(void)uv_run(&loop, UV_RUN_NOWAIT);
	assert_string_equal(told, "");
	assert_int_equal(spooler_free(spooler), -EBUSY);
	(void)sem_post(&wait);
	run();
	assert_string_equal(told, "abc");
	(void)sem_destroy(&wait);
}

static void what_has_not_gone_over_can_be_taken_back(void **state)
{
	struct letter *l[4];

	for (int i = 0; i < 4; i++) {
		l[i] = letter((char)('a' + i));
		spooler_do(spooler, &l[i]->job);
	}
	assert_true(spooler_take_back(spooler, &l[3]->job)); /* the last one, ... */
	spooler_do(spooler, &letter('x')->job);		     /* ... and the list goes on */
	assert_true(spooler_take_back(spooler, &l[0]->job));
	assert_true(spooler_take_back(spooler, &l[1]->job));
	assert_false(spooler_take_back(spooler, &l[1]->job));
	run();
	assert_string_equal(told, "cx");
	free(l[0]);
	free(l[1]);
	free(l[3]);
}

static void what_the_thread_has_cannot(void **state)
{
	sem_t wait;
	struct letter *slow = letter('a');

	assert_int_equal(sem_init(&wait, 0, 0), 0);
	slow->wait = &wait;
	spooler_do(spooler, &slow->job);
	(void)uv_run(&loop, UV_RUN_NOWAIT);
	assert_false(spooler_take_back(spooler, &slow->job));
	(void)sem_post(&wait);
	run();
	(void)sem_destroy(&wait);
}

/* The end of a file may wait for its server. */
static void files_are_closed_by_the_thread(void **state)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(spooler_close_fd(spooler, fd), -1);
	assert_true(fcntl(fd, F_GETFD) >= 0);
	run();
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(spooler_close_fd(spooler, -1), -1);
	assert_true(spooler_is_idle(spooler));
}

/* What was given since it was idle is done first. */
static void the_last_jobs_are_done_at_the_end(void **state)
{
	spooler_do(spooler, &letter('a')->job);
	spooler_do_later(spooler, &letter('b')->job);
	assert_int_equal(spooler_free(take_ptr(spooler)), 0);
	assert_string_equal(worked, "ab");
	assert_string_equal(told, "ab");
	assert_int_equal(cleared, 1);
	assert_int_equal(spooler_free(NULL), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(jobs_keep_their_order),
		TEST(what_may_wait_goes_with_others),
		TEST(a_job_may_give_another_one),
		TEST(a_job_that_hangs_keeps_the_others),
		TEST(what_has_not_gone_over_can_be_taken_back),
		TEST(what_the_thread_has_cannot),
		TEST(files_are_closed_by_the_thread),
		TEST(the_last_jobs_are_done_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
