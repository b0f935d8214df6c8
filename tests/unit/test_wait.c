/* SPDX-License-Identifier: MIT */

/* What `tenure wait` waits for, what it prints, and the exit code with which it ends. */

#include <stdlib.h>
#include <string.h>

#include "cli_world.h"
#include "spool_world.h"
#include "unit.h"

#include "base/mem.h"
#include "base/str.h"
#include "spool/instance.h"

static void end_task(const struct spool *sp, uint64_t id, enum task_result result,
		     unsigned int exit)
{
	struct claimer me = self(sp, "n1");
	struct claim c = claim(sp, id, &me);
	struct spool_end end = done(&c);

	end.result = result;
	end.exit = exit;
	assert_int_equal(transit_end(sp, NULL, &c, &end, NULL), 0);
}

/* 1 is done, 2 has failed with 3, 3 was killed, 4 was stopped, 5 of lane old is done, 6 waits, 7
 * runs; of 8, 1 is done, 2 has failed. */
static struct spool *world(void)
{
	static const char *const specs[] = { "\"name\":\"good\"",
					     "\"name\":\"bad\"",
					     "\"name\":\"killed\"",
					     "\"name\":\"stopped\"",
					     "\"name\":\"old1\",\"lane\":\"old\"",
					     "\"name\":\"waits\"",
					     "\"name\":\"runs\"",
					     "\"name\":\"many\",\"array\":\"0-2\"" };
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");
	struct scan_task t;
	struct batch *b;
	struct claim c;

	for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
		cleanup_free char *json = xasprintf("{\"argv\":[\"true\"],%s}", specs[i]);

		assert_int_equal(submit(sp, json), i + 1);
	}
	end_task(sp, 1, RESULT_DONE, 0);
	end_task(sp, 2, RESULT_FAILED, 3);
	end_task(sp, 3, RESULT_FAILED, NAME_SIGNALLED + 9);
	assert_true(get(sp, 4, &t));
	assert_int_equal(transit_cancel(sp, &t.name, "stopped", NULL), 0);
	end_task(sp, 5, RESULT_DONE, 0);
	(void)claim(sp, 7, &me);
	b = open_batch(sp, 8, "n1");
	for (uint64_t element = 1; element <= 2; element++) {
		struct spool_end end;

		assert_int_equal(batch_claim(b, element, &me, &c, NULL), 0);
		end = done(&c);
		end.result = element == 1 ? RESULT_DONE : RESULT_FAILED;
		end.exit = element == 1 ? 0 : 7;
		assert_int_equal(batch_end(b, NULL, &c, &end, NULL), 0);
	}
	assert_int_equal(batch_sync(b, NULL), 0);
	(void)batch_close(b);
	return sp;
}

static const struct {
	const char *words;
	int code;
	const char *out, *err; /* the whole; the beginning */
} cases[] = {
	{ "1", 0, "1 good done\n", "" },
	{ "good", 0, "1 good done\n", "" },
	{ "2", 3, "2 bad failed\n", "" },
	{ "3", 137, "3 killed failed\n", "" },
	{ "4", 1, "4 stopped cancelled\n", "" },
	{ "8.1", 0, "8.1 many done\n", "" },
	{ "8.2", 7, "8.2 many failed\n", "" },
	/* Of several: all are done, or not. */
	{ "1 5", 0, "1 good done\n5 old1 done\n", "" },
	{ "2 1", 1, "2 bad failed\n1 good done\n", "" },
	{ "1 3", 1, "1 good done\n3 killed failed\n", "" },
	{ "-q 2", 3, "", "" },
	/* What has not ended, for as long as is said. */
	{ "6 --timeout 1ms", 1, "", "tenure: the time is up: task 6 waits is pending\n" },
	{ "7 --timeout 1ms", 1, "", "tenure: the time is up: task 7 runs is running\n" },
	{ "8 --timeout 1ms", 1, "", "tenure: the time is up: task 8 many is pending\n" },
	{ "8.3 --timeout 1ms", 1, "", "tenure: the time is up: task 8.3 many is pending\n" },
	{ "1 6 --timeout 1ms", 1, "1 good done\n", "tenure: the time is up: task 6 waits" },
	/* A lane that is over is no mistake, one that has never been is. */
	{ "old", 0, "", "tenure: note: nothing of lane \"old\" waits or runs any more\n" },
	{ "older", 1, "", "tenure: no task in instance \"default\" is called \"older\"" },
	{ "9", 1, "", "tenure: there is no task 9 in instance \"default\"" },
	{ "1 9", 1, "", "tenure: there is no task 9" },
	{ "8.4", 1, "", "tenure: task 8 has 3 elements, no 4" },
	{ "1 --timeout soon", 2, "", "tenure: --timeout: " },
	{ "--timeout 1ms", 1, "",
	  "tenure: note: task 8 many, your latest\ntenure: the time is up: task 8 many" },
};

static void the_exit_code_is_that_of_what_was_waited_for(void **state)
{
	struct spool *sp = world();

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct said s = cli(&cmd_wait, cases[i].words);

		if (s.code != cases[i].code || strcmp(s.out, cases[i].out) != 0 ||
		    !str_has_prefix(s.err, cases[i].err) || (!cases[i].err[0] && s.err[0]))
			fail_msg("wait %s: %d, %s%s", cases[i].words, s.code, s.out, s.err);
		said_clear(&s);
	}
	(void)spool_close(sp);
}

/* What a lane, a name or all mean is what is there at the start. */
static void several_are_meant_by_one_word(void **state)
{
	struct spool *sp = open_spool();
	struct said s;

	for (uint64_t id = 1; id <= 2; id++)
		assert_int_equal(
			submit(sp, "{\"argv\":[\"true\"],\"name\":\"a\",\"lane\":\"week\"}"), id);
	for (size_t i = 0; i < 3; i++) {
		static const char *const words[] = { "week", "a", "all" };
		cleanup_free char *line = xasprintf("%s --timeout 1ms", words[i]);

		s = cli(&cmd_wait, line);
		assert_int_equal(s.code, 1);
		assert_string_equal(s.err, "tenure: the time is up: task 1 a is pending\n");
		said_clear(&s);
	}
	end_task(sp, 1, RESULT_DONE, 0);
	s = cli(&cmd_wait, "week --timeout 1ms");
	assert_string_equal(s.err, "tenure: the time is up: task 2 a is pending\n");
	said_clear(&s);
	end_task(sp, 2, RESULT_DONE, 0);
	s = cli(&cmd_wait, "all");
	assert_int_equal(s.code, 0);
	said_clear(&s);
	(void)spool_close(sp);
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, cli_setup, cli_teardown)
	const struct CMUnitTest tests[] = {
		IN_A_SPOOL(the_exit_code_is_that_of_what_was_waited_for),
		IN_A_SPOOL(several_are_meant_by_one_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
