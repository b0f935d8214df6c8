/* SPDX-License-Identifier: MIT */

/* What `tenure retry` puts back into the queue, and what it leaves where it is. */

#include <stdlib.h>
#include <string.h>

#include "cli_world.h"
#include "spool_world.h"
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/task/select.h"
#include "cli/task/taskstate.h"
#include "spool/instance.h"

static void end_task(const struct spool *sp, uint64_t id, enum task_result result)
{
	struct claimer me = self(sp, "n1");
	struct claim c = claim(sp, id, &me);
	struct spool_end end = done(&c);

	end.result = result;
	end.exit = result == RESULT_FAILED ? 3 : 0;
	assert_int_equal(transit_end(sp, NULL, &c, &end, NULL), 0);
}

/* 1 good is done, 2 bad and 3 bad2 of lane week have failed, 4 stopped was stopped, 5 waits, 6
 * runs; of 7 many 1 is done, 2 has failed, 3 was stopped and 4 waits. */
static struct spool *world(void)
{
	static const char *const specs[] = {
		"\"name\":\"good\"",
		"\"name\":\"bad\"",
		"\"name\":\"bad2\",\"lane\":\"week\"",
		"\"name\":\"stopped\"",
		"\"name\":\"waits\"",
		"\"name\":\"runs\"",
		"\"name\":\"many\",\"array\":\"0-3\"",
	};
	static const enum task_result ends[] = { RESULT_DONE, RESULT_FAILED, RESULT_CANCELLED };
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");
	struct scan_task t;
	struct batch *b;
	struct claim c;

	for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
		cleanup_free char *json = xasprintf("{\"argv\":[\"true\"],%s}", specs[i]);

		assert_int_equal(submit(sp, json), i + 1);
	}
	end_task(sp, 1, RESULT_DONE);
	end_task(sp, 2, RESULT_FAILED);
	end_task(sp, 3, RESULT_FAILED);
	assert_true(get(sp, 4, &t));
	assert_int_equal(transit_cancel(sp, &t.name, "stopped", NULL), 0);
	(void)claim(sp, 6, &me);
	b = open_batch(sp, 7, "n1");
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		struct spool_end end;

		assert_int_equal(batch_claim(b, i + 1, &me, &c, NULL), 0);
		end = done(&c);
		end.result = ends[i];
		assert_int_equal(batch_end(b, NULL, &c, &end, NULL), 0);
	}
	assert_int_equal(batch_sync(b, NULL), 0);
	(void)batch_close(b);
	return sp;
}

/* "dfpcpr" of the tasks, and behind it "dfcw" of the elements. */
static char *places(const struct spool *sp)
{
	static const char dirs[SPOOL_DIR_MAX] = { [SPOOL_PENDING] = 'p',
						  [SPOOL_RUNNING] = 'r',
						  [SPOOL_DONE] = 'd',
						  [SPOOL_FAILED] = 'f',
						  [SPOOL_CANCELLED] = 'c' };
	static const char states[] = { [BATCH_WAITING] = 'w',
				       [BATCH_RUNNING] = 'r',
				       [BATCH_DONE] = 'd',
				       [BATCH_FAILED] = 'f',
				       [BATCH_CANCELLED] = 'c' };
	char *text = xcalloc(1, 16);
	struct task_place p;
	size_t n = 0;

	for (uint64_t id = 1; id <= 7; id++) {
		assert_int_equal(select_by_id(sp, id, 0, &p, NULL), 0);
		text[n++] = dirs[p.dir];
	}
	text[n++] = ' ';
	for (uint64_t element = 1; element <= 4; element++)
		text[n++] = states[taskstate_element_state(sp, &p, element, NULL)];
	return text;
}

static const struct {
	const char *words;
	int code;
	const char *out, *err; /* the beginning of each; "": nothing */
	const char *places;
} cases[] = {
	{ "1", 0, "1 good is requeued\n", "", "pffcprp dfcw" },
	{ "2 4", 0, "2 bad is requeued\n4 stopped is requeued\n", "", "dpfpprp dfcw" },
	{ "bad", 0, "2 bad is requeued\n", "", "dpfcprp dfcw" },
	/* Of a lane, and of all, what has failed. */
	{ "week", 0, "3 bad2 is requeued\n", "", "dfpcprp dfcw" },
	{ "all", 0, "2 bad is requeued\n3 bad2 is requeued\n", "", "dppcprp dfcw" },
	/* Of a batch what has not ended well, all that has ended, or one. */
	{ "7", 0, "7 many: 2 elements are requeued\n", "", "dffcprp dwww" },
	{ "--all 7", 0, "7 many: 3 elements are requeued\n", "", "dffcprp wwww" },
	{ "many", 0, "7 many: 2 elements are requeued\n", "", "dffcprp dwww" },
	{ "7.1", 0, "7.1 many is requeued\n", "", "dffcprp wfcw" },
	{ "7.2", 0, "7.2 many is requeued\n", "", "dffcprp dwcw" },
	/* What has not ended. */
	{ "5", 1, "",
	  "tenure: task 5 (waits) has not ended: it is pending; tenure stop 5 ends it\n",
	  "dffcprp dfcw" },
	{ "6", 1, "", "tenure: task 6 (runs) has not ended: it is running; tenure stop 6 ends it\n",
	  "dffcprp dfcw" },
	{ "7.4", 1, "", "tenure: 7.4 has not ended yet\n", "dffcprp dfcw" },
	/* What is not there. */
	{ "9", 1, "", "tenure: there is no task 9 in instance \"default\"", "dffcprp dfcw" },
	{ "7.5", 1, "", "tenure: task 7 has 4 elements, no 5", "dffcprp dfcw" },
	{ "1.1", 1, "", "tenure: task 1 is no batch and has no elements", "dffcprp dfcw" },
	{ "nobody", 1, "", "tenure: no task in instance \"default\" is called \"nobody\"",
	  "dffcprp dfcw" },
	{ "", 2, "", "tenure: usage: tenure retry ", "dffcprp dfcw" },
	/* Word by word: a wrong one keeps none of the others from it. */
	{ "2 9 3", 1, "2 bad is requeued\n3 bad2 is requeued\n", "tenure: there is no task 9",
	  "dppcprp dfcw" },
	{ "9 3 5", 1, "3 bad2 is requeued\n",
	  "tenure: there is no task 9 in instance \"default\" (tenure list -a shows them all)\n"
	  "tenure: task 5 (waits) has not ended",
	  "dfpcprp dfcw" },
};

static void what_has_ended_waits_again(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *where = NULL;
		struct spool *sp;
		struct said s;

		assert_int_equal(cli_setup(state), 0);
		sp = world();
		s = cli(&cmd_retry, cases[i].words);
		where = places(sp);
		if (s.code != cases[i].code || !str_has_prefix(s.out, cases[i].out) ||
		    (!cases[i].out[0] && s.out[0]) || !str_has_prefix(s.err, cases[i].err) ||
		    (!cases[i].err[0] && s.err[0]) || strcmp(where, cases[i].places) != 0)
			fail_msg("retry %s: %d, %s%s%s", cases[i].words, s.code, s.out, s.err,
				 where);
		said_clear(&s);
		(void)spool_close(sp);
		assert_int_equal(cli_teardown(state), 0);
	}
}

/* The next attempt is a new one: whoever has the old one cannot end it any more. */
static void it_waits_under_a_new_epoch(void **state)
{
	struct spool *sp = world();
	struct scan_task t;

	for (uint64_t epoch = 1; epoch <= 3; epoch++) {
		struct said s = cli(&cmd_retry, "2");

		assert_int_equal(s.code, 0);
		said_clear(&s);
		assert_true(get(sp, 2, &t));
		assert_int_equal(t.name.epoch, epoch);
		end_task(sp, 2, RESULT_FAILED);
	}
	(void)spool_close(sp);
}

static void nothing_that_has_failed_is_no_error_of_all(void **state)
{
	struct spool *sp = open_spool();
	struct said s;

	(void)submit(sp, "{\"argv\":[\"true\"],\"name\":\"many\",\"array\":\"0-1\"}");
	s = cli(&cmd_retry, "all");
	assert_int_equal(s.code, 0);
	assert_string_equal(s.out, "");
	assert_string_equal(s.err, "tenure: note: no task in instance \"default\" has failed\n");
	said_clear(&s);
	s = cli(&cmd_retry, "1");
	assert_int_equal(s.code, 1);
	assert_true(
		str_has_prefix(s.err, "tenure: no element of task 1 has failed or was stopped;"));
	said_clear(&s);
	(void)spool_close(sp);
}

/* Those of a lane are told one by one, however many are synced together. */
static void very_many_are_requeued_together(void **state)
{
	struct spool *sp = open_spool();
	size_t lines = 0;
	struct said s;

	for (uint64_t id = 1; id <= 70; id++) {
		assert_int_equal(
			submit(sp, "{\"argv\":[\"true\"],\"name\":\"a\",\"lane\":\"week\"}"), id);
		end_task(sp, id, RESULT_FAILED);
	}
	s = cli(&cmd_retry, "week");
	assert_int_equal(s.code, 0);
	for (const char *p = s.out; *p; p++)
		lines += *p == '\n';
	assert_int_equal(lines, 70);
	assert_int_equal(count_files(sp, "failed"), 0);
	assert_int_equal(count_files(sp, "pending"), 70);
	said_clear(&s);
	(void)spool_close(sp);
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, cli_setup, cli_teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_has_ended_waits_again),
		IN_A_SPOOL(it_waits_under_a_new_epoch),
		IN_A_SPOOL(nothing_that_has_failed_is_no_error_of_all),
		IN_A_SPOOL(very_many_are_requeued_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
