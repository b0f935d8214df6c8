/* SPDX-License-Identifier: MIT */

/* What `tenure prune` removes, and what it keeps because something else needs it. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli_world.h"
#include "spool_world.h"
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/instance.h"

static uint64_t ended_ago(const struct spool *sp, const char *keys, uint64_t s,
			  enum task_result result)
{
	struct claimer me = self(sp, "n1");
	cleanup_free char *json = xasprintf("{\"argv\":[\"true\"],\"name\":\"a\"%s}", keys);
	uint64_t id = submit(sp, json);
	struct claim c = claim(sp, id, &me);
	struct spool_end end = done(&c);
	char path[SPOOL_PATH_MAX];

	end.result = result;
	end.ended_ns -= s * NS_PER_S;
	end.begun_ns = end.ended_ns - NS_PER_S;
	put(sp, str_print(path, sizeof(path), "logs/%d-a.1.log", (int)id), "what it printed\n");
	assert_int_equal(transit_end(sp, NULL, &c, &end, NULL), 0);
	return id;
}

static bool has_log(const struct spool *sp, const char *file)
{
	char path[SPOOL_PATH_MAX];

	return spool_exists(sp, spool_path(SPOOL_LOGS, file, path));
}

static void assert_pruned(const char *options, const char *out)
{
	struct said s = cli(&cmd_prune, options);

	if (s.code != 0 || strcmp(s.out, out) != 0 || s.err[0])
		fail_msg("prune %s: %d, %s%s", options, s.code, s.out, s.err);
	said_clear(&s);
}

static void what_ended_before_goes_with_its_log(void **state)
{
	static const enum task_result results[] = { RESULT_DONE, RESULT_FAILED, RESULT_CANCELLED };
	struct spool *sp = open_spool();

	for (size_t i = 0; i < ARRAY_LEN(results); i++)
		(void)ended_ago(sp, "", 7200, results[i]); /* 1, 2, 3 */
	(void)ended_ago(sp, "", 60, RESULT_DONE);	   /* 4 */
	(void)submit(sp, "{\"argv\":[\"true\"]}");	   /* 5 */
	put(sp, "logs/5-a.1.log", "of an attempt before\n");
	put(sp, "logs/15-a.1.log", "of another one\n");
	put(sp, "logs/1x.log", "of nobody\n");

	assert_pruned("--older-than 3h", "0 tasks removed\n");
	assert_int_equal(count_files(sp, "logs"), 7);
	assert_pruned("--older-than 1h", "3 tasks removed\n");
	for (uint64_t id = 1; id <= 4; id++)
		assert_int_equal(ended_times(sp, id), id == 4);
	assert_false(has_log(sp, "1-a.1.log"));
	assert_true(has_log(sp, "4-a.1.log") && has_log(sp, "5-a.1.log"));
	assert_true(has_log(sp, "15-a.1.log") && has_log(sp, "1x.log"));
	assert_pruned("--older-than 1s", "1 task removed\n");
	assert_pruned("--older-than 1s", "0 tasks removed\n");
	assert_int_equal(count_files(sp, "tmp"), 0);
	(void)spool_close(sp);
}

/* Whoever waits for it has to find it. */
static void what_something_waits_for_is_kept(void **state)
{
	struct spool *sp = open_spool();
	struct said s;

	(void)ended_ago(sp, "", 7200, RESULT_DONE);		    /* 1 */
	(void)ended_ago(sp, "", 7200, RESULT_FAILED);		    /* 2 */
	(void)ended_ago(sp, "", 7200, RESULT_DONE);		    /* 3 */
	(void)ended_ago(sp, ",\"after\":[3]", 60, RESULT_FAILED);   /* 4 may be retried */
	(void)ended_ago(sp, ",\"after\":[1]", 7200, RESULT_FAILED); /* 5 goes itself */
	assert_int_equal(submit(sp, "{\"argv\":[\"true\"],\"after_any\":[2]}"), 6);

	assert_pruned(
		"--older-than 1h",
		"2 tasks removed\n2 kept: tasks that wait, run or have failed name them (after)\n");
	assert_int_equal(ended_times(sp, 1) + ended_times(sp, 5), 0);
	assert_int_equal(ended_times(sp, 2) + ended_times(sp, 3), 2);
	assert_true(has_log(sp, "2-a.1.log") && has_log(sp, "3-a.1.log"));
	s = cli(&cmd_stop, "6");
	assert_int_equal(s.code, 0);
	said_clear(&s);
	assert_pruned(
		"--older-than 1h",
		"1 task removed\n1 kept: tasks that wait, run or have failed name it (after)\n");
	(void)spool_close(sp);
}

/* One that was interrupted between two removals: the next one goes on with it. */
static void what_an_interrupted_prune_has_left_goes_too(void **state)
{
	struct spool *sp = open_spool();
	uint64_t id = ended_ago(sp, "", 7200, RESULT_DONE);

	put(sp, "tmp/" SPOOL_PRUNED ",99,x", "{}");
	put(sp, "logs/99-b.1.log", "");
	put(sp, "logs/99.3-b.2.log", "");
	put(sp, "tmp/other,98,x", "{}");
	assert_int_equal(id, 1);
	assert_pruned("--older-than 30d", "1 task removed\n");
	assert_false(has_log(sp, "99-b.1.log") || has_log(sp, "99.3-b.2.log"));
	assert_true(has_log(sp, "1-a.1.log"));
	assert_int_equal(count_files(sp, "tmp"), 1);
	(void)spool_close(sp);
}

static void a_batch_goes_with_its_journals(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"],\"array\":\"0-1\"}");
	struct batch *b = open_batch(sp, id, "n1");
	struct claim c;

	for (uint64_t element = 1; element <= 2; element++) {
		struct spool_end end;

		assert_int_equal(batch_claim(b, element, &me, &c, NULL), 0);
		end = done(&c);
		end.ended_ns -= 7200 * NS_PER_S;
		end.begun_ns = end.ended_ns - NS_PER_S;
		assert_int_equal(batch_end(b, NULL, &c, &end, NULL), 0);
	}
	assert_int_equal(batch_sync(b, NULL), 0);
	assert_pruned("--older-than 1s", "0 tasks removed\n"); /* it is not over */
	assert_int_equal(batch_commit(b, NULL), 0);
	(void)batch_close(b);
	assert_true(spool_exists(sp, "ends/1"));
	/* When it was committed is when it ended. */
	assert_pruned("--older-than 1h", "0 tasks removed\n");
	(void)usleep(2100000);
	assert_pruned("--older-than 1s", "1 task removed\n");
	assert_false(spool_exists(sp, "ends/1"));
	(void)spool_close(sp);
}

static void what_may_go_has_to_be_said(void **state)
{
	static const struct {
		const char *options, *err;
	} cases[] = {
		{ "", "say with --older-than 30d what may go" },
		{ "--older-than 30", "--older-than: " },
		{ "--older-than 0s", "--older-than: " },
		{ "--older-than", "--older-than needs a value" },
	};
	struct spool *sp = open_spool();

	(void)ended_ago(sp, "", 7200, RESULT_DONE);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct said s = cli(&cmd_prune, cases[i].options);

		if (s.code != CMD_USAGE || s.out[0] || !strstr(s.err, cases[i].err))
			fail_msg("prune %s: %d, %s%s", cases[i].options, s.code, s.out, s.err);
		said_clear(&s);
	}
	assert_int_equal(ended_times(sp, 1), 1);
	(void)spool_close(sp);
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, cli_setup, cli_teardown)
	const struct CMUnitTest tests[] = {
		IN_A_SPOOL(what_ended_before_goes_with_its_log),
		IN_A_SPOOL(what_something_waits_for_is_kept),
		IN_A_SPOOL(what_an_interrupted_prune_has_left_goes_too),
		IN_A_SPOOL(a_batch_goes_with_its_journals),
		IN_A_SPOOL(what_may_go_has_to_be_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
