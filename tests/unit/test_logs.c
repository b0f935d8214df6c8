/* SPDX-License-Identifier: MIT */

/* Which logs `tenure logs` shows, of which attempt, and what it says where there is none. */

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli_world.h"
#include "spool_world.h"
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/instance.h"

/* A log that was written to so many seconds ago. */
static void leave(const struct spool *sp, const char *file, const char *text, uint64_t ago_s)
{
	struct timespec times[2] = { clock_timespec(clock_wall_ns() - ago_s * NS_PER_S) };
	char path[SPOOL_PATH_MAX];
	cleanup_free char *whole = NULL;

	put(sp, spool_path(SPOOL_LOGS, file, path), text);
	times[1] = times[0];
	whole = xasprintf("%s/%s", spool_path_of(sp), path);
	assert_int_equal(utimensat(AT_FDCWD, whole, times, 0), 0);
}

/* 1 train has run twice, 2 has 3 elements, of which 2 has run, 3 has printed nothing at all, 4
 * waits, 12 is another one. */
static struct spool *world(void)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");
	struct spool_end end;
	struct batch *b;
	struct claim c;

	(void)submit(sp, "{\"argv\":[\"true\"],\"name\":\"train\"}");
	(void)submit(sp, "{\"argv\":[\"true\"],\"name\":\"many\",\"array\":\"0-2\"}");
	(void)submit(sp, "{\"argv\":[\"true\"],\"name\":\"silent\"}");
	(void)submit(sp, "{\"argv\":[\"true\"],\"name\":\"waits\"}");
	for (uint64_t id = 1; id <= 3; id += 2) {
		c = claim(sp, id, &me);
		end = done(&c);
		end.attempt = 2;
		assert_int_equal(transit_end(sp, NULL, &c, &end, NULL), 0);
	}
	b = open_batch(sp, 2, "n1");
	assert_int_equal(batch_claim(b, 2, &me, &c, NULL), 0);
	end = done(&c);
	assert_int_equal(batch_end(b, NULL, &c, &end, NULL), 0);
	assert_int_equal(batch_sync(b, NULL), 0);
	(void)batch_close(b);
	leave(sp, "1-train.1.log", "first\n", 200);
	leave(sp, "1-train.2.log", "second\n", 100);
	leave(sp, "2.2-many.1.log", "of the element\n", 50);
	leave(sp, "3-silent.1.log", "", 50);
	/* What is called nearly so. */
	leave(sp, "12-train.3.log", "of another task\n", 1);
	leave(sp, "1-train.log", "of no attempt\n", 1);
	leave(sp, "1-train.x.log", "of no attempt\n", 1);
	leave(sp, "1-train.0.log", "of no attempt\n", 1);
	leave(sp, "1-train.9.logs", "no log\n", 1);
	leave(sp, "1.2-train.9.log", "of an element\n", 1);
	return sp;
}

static const struct {
	const char *words;
	int code;
	const char *out, *err; /* the whole; the beginning */
} cases[] = {
	{ "1", 0, "second\n", "" },
	{ "train", 0, "second\n", "" },
	{ "1 --attempt 1", 0, "first\n", "" },
	{ "1 --attempt 2", 0, "second\n", "" },
	{ "2.2", 0, "of the element\n", "" },
	{ "3", 0, "", "" },
	/* Of several a line says whose it is. */
	{ "1 2.2", 0, "==> 1 train <==\nsecond\n\n==> 2.2 many <==\nof the element\n", "" },
	{ "1 3 1", 0, "==> 1 train <==\nsecond\n\n==> 1 train <==\nsecond\n", "" },
	/* One without a log keeps none of the others from being shown. */
	{ "4 1", 1, "==> 1 train <==\nsecond\n", "tenure: task 4 " },
	{ "1 --attempt 3", 1, "", "tenure: task 1 " },
	{ "4", 1, "", "tenure: task 4 " },
	{ "2.3", 1, "", "tenure: task 2.3 " },
	{ "2", 1, "",
	  "tenure: task 2 has 3 elements with a log each; say which: tenure logs 2.1\n" },
	{ "9", 1, "", "tenure: there is no task 9" },
	{ "1 9", 1, "", "tenure: there is no task 9" },
	{ "nobody", 1, "", "tenure: no task in instance \"default\" is called \"nobody\"" },
	{ "1 --attempt 0", 2, "", "tenure: --attempt: " },
	{ "", 1, "", "tenure: note: task 4 waits, your latest\ntenure: task 4 has no log" },
};

static void the_latest_attempt_is_shown(void **state)
{
	struct spool *sp = world();

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct said s = cli(&cmd_logs, cases[i].words);

		if (s.code != cases[i].code || strcmp(s.out, cases[i].out) != 0 ||
		    !str_has_prefix(s.err, cases[i].err) || (!cases[i].err[0] && s.err[0]))
			fail_msg("logs %s: %d, %s%s", cases[i].words, s.code, s.out, s.err);
		said_clear(&s);
	}
	(void)spool_close(sp);
}

/* A retried task numbers its attempts from where it was; who was written to last is the latest. */
static void the_latest_is_whose_log_was_written_to_last(void **state)
{
	struct spool *sp = world();
	struct said s;

	leave(sp, "1-train.1.log", "first, and more\n", 10);
	s = cli(&cmd_logs, "1");
	assert_string_equal(s.out, "first, and more\n");
	said_clear(&s);
	(void)spool_close(sp);
}

/* What others have put there is not shown. */
static void only_a_file_is_a_log(void **state)
{
	struct spool *sp = world();
	cleanup_free char *link = xasprintf("%s/logs/1-train.3.log", spool_path_of(sp));
	cleanup_free char *fifo = xasprintf("%s/logs/1-train.4.log", spool_path_of(sp));
	cleanup_free char *dir = xasprintf("%s/logs/1-train.5.log", spool_path_of(sp));
	struct said s;

	assert_int_equal(symlink("/etc/passwd", link), 0);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(mkdir(dir, 0700), 0);
	s = cli(&cmd_logs, "1");
	assert_int_equal(s.code, 0);
	assert_string_equal(s.out, "second\n");
	said_clear(&s);
	(void)spool_close(sp);
}

static void tenures_own_lines_can_be_left_out(void **state)
{
	static const char log[] = "=== tenure    task 1 (train), attempt 2\n=== command   true\n"
				  "=== node      n1\n=== devices   none\n=== directory /\n"
				  "=== started   2026-11-21 14:02:11\n"
				  "output\n=== not one of tenure's\n"
				  "=== ended     2026-11-21 14:02:12, exit code 0\n"
				  "=== ran       1s\n";
	struct spool *sp = world();
	struct said s;

	leave(sp, "1-train.2.log", log, 0);
	s = cli(&cmd_logs, "1");
	assert_string_equal(s.out, log);
	said_clear(&s);
	s = cli(&cmd_logs, "1 --plain");
	assert_string_equal(s.out, "output\n=== not one of tenure's\n");
	said_clear(&s);
	(void)spool_close(sp);
}

/* Of one that has ended it comes back by itself, with all that there is. */
static void following_what_has_ended_ends(void **state)
{
	struct spool *sp = world();
	struct said s = cli(&cmd_logs, "-f 1 2.2");

	assert_int_equal(s.code, 0);
	assert_string_equal(s.err, "");
	assert_non_null(strstr(s.out, "==> 1 train <==\n"));
	assert_non_null(strstr(s.out, "second\n"));
	assert_non_null(strstr(s.out, "==> 2.2 many <==\nof the element\n"));
	said_clear(&s);
	(void)spool_close(sp);
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, cli_setup, cli_teardown)
	const struct CMUnitTest tests[] = {
		IN_A_SPOOL(the_latest_attempt_is_shown),
		IN_A_SPOOL(the_latest_is_whose_log_was_written_to_last),
		IN_A_SPOOL(only_a_file_is_a_log),
		IN_A_SPOOL(tenures_own_lines_can_be_left_out),
		IN_A_SPOOL(following_what_has_ended_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
