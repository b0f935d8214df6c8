/* SPDX-License-Identifier: MIT */

/* A task that is tried again and again: its file stays small, and says the same. */

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "spool/files.h"
#include "spool/instance.h"
#include "spool/own.h"
#include "spool/scan.h"
#include "spool/transit.h"
#include "spool/usage.h"
#include "spool_world.h"

static struct spool *sp;
static struct claimer me;

static int setup(void **state)
{
	assert_int_equal(spool_setup(state), 0);
	sp = open_spool();
	me = self(sp, "me");
	return 0;
}

static int teardown(void **state)
{
	sp = spool_close(sp);
	return spool_teardown(state);
}

/* The name of the only task, and where it lies. */
static void find(struct task_name *ret, char *path)
{
	char file[NAME_FILE_MAX];
	struct scan_task t;

	assert_true(get(sp, 1, &t));
	*ret = t.name;
	(void)spool_path(t.dir, name_format(ret, file), path);
}

static struct claim start(struct task_file *ret)
{
	char path[SPOOL_PATH_MAX];
	struct err e = ERR_INIT;
	struct task_name n;
	struct claim c;

	find(&n, path);
	if (claim_task(sp, &n, &me, ret, &c, &e) != 0)
		fail_msg("%s", e.text);
	assert_int_equal(claim_started(sp, &c, &me.proc, NULL, &e), 0);
	return c;
}

static const struct spool_use some_use = { .gpus = 2,
					   .gpu_peak_bytes = 5,
					   .gpu_util_permille = 500,
					   .energy_mj = 1500,
					   .energy_ns = 2 * NS_PER_S,
					   .empty_ns = NS_PER_S / 2,
					   .seen_ns = 2 * NS_PER_S };

/* An attempt of one second that failed; memory 0: as before. */
static void fail_once(uint64_t memory)
{
	struct spool_again again = { .memory = memory,
				     .begun_ns = clock_wall_ns() - NS_PER_S,
				     .use = some_use,
				     .not_before_ns = NS_PER_S,
				     .reason = "exit code 1; it is tried again at once" };
	struct task_file t;
	struct err e = ERR_INIT;
	struct claim c = start(&t);

	again.attempts = c.attempt;
	task_file_clear(&t);
	if (transit_requeue(sp, NULL, &c, &again, &e) != 0)
		fail_msg("%s", e.text);
}

static off_t size_now(void)
{
	char path[SPOOL_PATH_MAX];
	struct task_name n;
	struct stat st;

	find(&n, path);
	assert_int_equal(fstatat(sp->fd, path, &st, 0), 0);
	return st.st_size;
}

static void on_line(void *data, const char *line, size_t len)
{
	json_t *o = json_loadb(line, len, 0, NULL);

	usage_add(data, o);
	json_decref(o);
}

static void read_all(struct task_file *t, struct usage *u)
{
	char path[SPOOL_PATH_MAX];
	struct err e = ERR_INIT;
	struct task_name n;
	off_t offset = 0;

	find(&n, path);
	if (task_file_read(sp, path, t, &e) < 0)
		fail_msg("%s", e.text);
	*u = (struct usage){ .asked = n.gpus };
	assert_int_equal(lines_read(sp, path, &offset, on_line, u, &e), 0);
}

static void edit(const char *json)
{
	json_t *set = json_loads(json, 0, NULL);
	char path[SPOOL_PATH_MAX];
	struct task_name n;

	find(&n, path);
	assert_int_equal(transit_edit(sp, &n, &(struct transit_edit){ .set = set }, NULL), 0);
	json_decref(set);
}

static void add_line(struct usage *u, const char *line)
{
	on_line(u, line, strlen(line));
}

static void test_end_that_is_there_twice(void **state)
{
	static const char end[] =
		"{\"event\":\"end\",\"epoch\":1,\"attempt\":1,\"result\":\"done\","
		"\"exit\":0,\"begun\":1000.0,\"time\":1010.0,\"gpus\":2}";
	static const char other[] = "{\"event\":\"end\",\"element\":2,\"epoch\":0,\"attempt\":1,"
				    "\"result\":\"done\",\"exit\":0,\"begun\":1000.0,"
				    "\"time\":1010.0,\"gpus\":2}";
	struct usage u = { .asked = 2 };

	add_line(&u, end);
	add_line(&u, end); /* its file could not be moved at first */
	assert_float_equal(u.seconds, 10, 0.01);
	add_line(&u, other);
	assert_float_equal(u.gpu_seconds, 40, 0.01);
}

static void test_stays_small(void **state)
{
	enum { TIMES = 400 };
	struct task_file t;
	struct usage u;
	off_t largest = 0;

	(void)submit(sp,
		     "{\"argv\":[\"false\"],\"gpus\":2,\"memory\":\"1G\",\"retries\":\"forever\","
		     "\"on_end\":\"echo over\"}");
	for (unsigned int i = 0; i < TIMES; i++) {
		fail_once(i == 20 ? 7UL << 30 : 0);
		if (i == 10)
			edit("{\"memory\":\"3G\",\"timeout\":\"5m\"}");
		largest = size_now() > largest ? size_now() : largest;
	}
	assert_true(largest < 64 << 10);
	read_all(&t, &u);
	assert_int_equal(t.history.attempts, TIMES);
	assert_int_equal(t.history.epoch, TIMES);
	assert_int_equal(t.history.unread, 0);
	assert_false(t.history.claimed || t.history.ended);
	assert_string_equal(t.history.reason, "exit code 1; it is tried again at once");
	assert_true(t.spec->memory == 7UL << 30 && t.spec->timeout == 300000);
	assert_true(t.spec->retries == SPEC_FOREVER && t.spec->argv.n == 1);
	assert_true(fabs(u.seconds - TIMES) < 20 && fabs(u.gpu_seconds - 2 * u.seconds) < 1);
	assert_true(fabs(u.busy - u.seconds) < 1 && fabs(u.watched - 2 * u.seconds) < 1);
	assert_true(u.gpus == 2 && u.peak_bytes == 5 && !u.unknown && u.ended_ns);
	assert_float_equal(u.energy_j, 1.5 * TIMES, 0.01);
	assert_float_equal(u.energy_s, 2 * TIMES, 0.01);
	assert_float_equal(u.empty_s, 0.5 * TIMES, 0.01);
	assert_float_equal(u.seen_s, 2 * TIMES, 0.01);
	assert_string_equal(t.spec->on_end, "echo over"); /* which is written as an edit */
	task_file_clear(&t);

	/* What its owner says last holds. */
	edit("{\"memory\":\"2G\"}");
	for (unsigned int i = 0; i < TIMES; i++)
		fail_once(0);
	read_all(&t, &u);
	assert_true(t.spec->memory == 2UL << 30 && t.history.attempts == 2 * TIMES);
	task_file_clear(&t);
}

/* A large script is no reason to fold. */
static void test_large_script(void **state)
{
	cleanup_free char *script = xmalloc(200001);
	struct task_file t;
	struct usage u;
	off_t before;

	(void)memset(script, 'x', 200000);
	script[200000] = '\0';

	cleanup_free char *json = xasprintf("{\"script\":\"%s\"}", script);

	(void)submit(sp, json);
	fail_once(0);
	before = size_now();
	fail_once(0);
	assert_true(size_now() > before);
	read_all(&t, &u);
	assert_int_equal(strlen(t.spec->script), 200000);
	task_file_clear(&t);
}

/* Somebody else has the task by now, under the very name that we know. */
static void test_taken_away(void **state)
{
	const struct spool_again later = { .attempts = 9, .reason = "taken away" };
	struct spool_again again = { .attempts = 1, .reason = "late" };
	struct task_file t;
	struct err e = ERR_INIT;
	struct usage u;
	struct claim c;
	off_t before;

	(void)submit(sp, "{\"argv\":[\"false\"]}");
	while (size_now() < 30 << 10)
		fail_once(0);
	c = start(&t);
	task_file_clear(&t);
	c.record_bytes = 1 << 20;
	before = size_now();
	assert_int_equal(record_append(sp, c.path,
				       record_requeue(&later, c.name.epoch + 5, clock_wall_ns()),
				       false, &e),
			 0);
	assert_int_equal(transit_requeue(sp, NULL, &c, &again, &e), 0);
	assert_true(size_now() > before);
	read_all(&t, &u);
	assert_int_equal(t.history.attempts, 9);
	assert_string_equal(t.history.reason, "taken away");
	task_file_clear(&t);

	/* And where it is gone nothing appears. */
	assert_int_equal(transit_requeue(sp, NULL, &c, &again, &e), -ENOENT);
	assert_false(spool_exists(sp, c.path));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = { TEST(test_end_that_is_there_twice),
					    TEST(test_stays_small), TEST(test_large_script),
					    TEST(test_taken_away) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
