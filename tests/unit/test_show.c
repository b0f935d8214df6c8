/* SPDX-License-Identifier: MIT */

/* The lines and the JSON of `tenure show`, of tasks, batches and elements, without an agent. */

#include <stdlib.h>
#include <string.h>

#include "cli_world.h"
#include "spool_world.h"
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/instance.h"

static char *shown(const char *line)
{
	struct said s = cli(&cmd_show, line);
	char *text = take_ptr(s.out);

	if (s.code != 0 || s.err[0])
		fail_msg("show %s: %d, %s", line, s.code, s.err);
	said_clear(&s);
	return text;
}

static void assert_has(const char *text, const char *line)
{
	cleanup_free char *whole = xasprintf("\n%s\n", line), *all = xasprintf("\n%s", text);

	if (!strstr(all, whole))
		fail_msg("\"%s\" is missing in:\n%s", line, text);
}

static void end_task(const struct spool *sp, uint64_t id, enum task_result result,
		     unsigned int exit, const char *reason)
{
	struct claimer me = self(sp, "n1");
	struct claim c = claim(sp, id, &me);
	struct spool_end end = done(&c);

	end.result = result;
	end.exit = exit;
	end.begun_ns = end.ended_ns - 65 * NS_PER_S;
	(void)str_copy(end.reason, sizeof(end.reason), reason);
	assert_int_equal(transit_end(sp, NULL, &c, &end, NULL), 0);
}

static void what_was_submitted_is_shown(void **state)
{
	struct spool *sp = open_spool();
	cleanup_free char *text = NULL;

	(void)submit(sp,
		     "{\"argv\":[\"sh\",\"-c\",\"echo $1\",\"a b\",\"\"],\"name\":\"n\","
		     "\"priority\":7,\"memory\":\"20G\",\"env\":[\"A=1\",\"B=2\"],\"paused\":true,"
		     "\"begin\":\"2099-01-01T12:00:00+01:00\",\"cwd\":\"/tmp\"}");
	text = shown("1");
	assert_true(str_has_prefix(text, "id            1\n"));
	assert_has(text, "state         paused");
	assert_has(text, "priority      7");
	assert_has(text, "attempts      0");
	assert_has(text, "not_before    2099-01-01 12:00:00");
	assert_has(text, "name          n");
	assert_has(text, "memory        20G");
	assert_has(text, "argv          sh -c 'echo $1' 'a b' ''");
	assert_has(text, "env           2 variables (--json shows them)");
	assert_has(text, "cwd           /tmp");
	/* Once: the name of the file says these, whatever was submitted. */
	assert_null(strstr(strstr(text, "priority") + 1, "priority"));
	assert_null(strstr(text, "\npaused"));
	assert_null(strstr(text, "\nbegin"));
	assert_null(strstr(text, "\nversion"));
	(void)spool_close(sp);
}

/* Of somebody's text nothing reaches the terminal that it does not show. */
static void a_text_is_no_command_to_the_terminal(void **state)
{
	struct spool *sp = open_spool();
	cleanup_free char *text = NULL, *argv = NULL;

	(void)submit(sp, "{\"script\":\"#!/bin/sh\\n\\techo \\u001b[31mred\\n\\necho \\u0007\\n\","
			 "\"name\":\"n\",\"model\":\"a\\u001b]0;title\\u0007b\"}");
	(void)submit(sp, "{\"argv\":[\"echo\",\"\\u001b[31m\",\"it's\"],\"name\":\"n\"}");
	text = shown("1");
	assert_has(text, "script:");
	assert_has(text, "    #!/bin/sh");
	assert_non_null(strstr(text, "\n    \techo "));
	argv = shown("2");
	assert_has(argv, "argv          echo $'\\033[31m' 'it'\\''s'");
	for (const char *p = text; *p; p++)
		assert_true((unsigned char)*p >= ' ' || *p == '\n' || *p == '\t');
	for (const char *p = argv; *p; p++)
		assert_true((unsigned char)*p >= ' ' || *p == '\n');
	(void)spool_close(sp);
}

static void how_it_ended_is_shown(void **state)
{
	static const struct {
		enum task_result result;
		unsigned int exit;
		const char *reason;
		const char *state, *how, *because; /* because NULL: nothing is said */
	} cases[] = {
		{ RESULT_DONE, 0, "done", "done", ", exit code 0\n", NULL },
		{ RESULT_FAILED, 3, "exit code 3", "failed", ", exit code 3\n", "exit code 3" },
		{ RESULT_FAILED, NAME_SIGNALLED + 9, "its time was over", "failed", ", signal 9\n",
		  "its time was over" },
		{ RESULT_CANCELLED, NAME_SIGNALLED + 15, "stopped by tenure stop", "cancelled",
		  ", signal 15\n", "stopped by tenure stop" },
	};
	struct spool *sp = open_spool();

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *id = xasprintf("%zu", i + 1), *text = NULL, *line = NULL;

		(void)submit(sp, "{\"argv\":[\"true\"]}");
		end_task(sp, i + 1, cases[i].result, cases[i].exit, cases[i].reason);
		text = shown(id);
		line = xasprintf("state         %s", cases[i].state);
		assert_has(text, line);
		assert_has(text, "attempts      1");
		assert_has(text, "node          n1");
		assert_has(text, "ran           1m 05s");
		assert_non_null(strstr(strstr(text, "\nended         "), cases[i].how));
		if (!cases[i].because) {
			assert_null(strstr(text, "\nbecause"));
		} else {
			cleanup_free char *because =
				xasprintf("because       %s", cases[i].because);

			assert_has(text, because);
		}
	}
	(void)spool_close(sp);
}

static void what_was_stopped_before_it_started_has_not_run(void **state)
{
	struct spool *sp = open_spool();
	cleanup_free char *text = NULL;
	struct scan_task t;

	(void)submit(sp, "{\"argv\":[\"true\"]}");
	assert_true(get(sp, 1, &t));
	assert_int_equal(transit_cancel(sp, &t.name, "stopped by tenure stop", NULL), 0);
	text = shown("1");
	assert_has(text, "state         cancelled");
	assert_has(text, "because       stopped by tenure stop");
	assert_non_null(strstr(text, ", before it started\n"));
	assert_null(strstr(text, "\nran "));
	(void)spool_close(sp);
}

/* ---- batches ---- */

static void a_batch_and_its_elements_are_shown(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");
	cleanup_free char *whole = NULL, *failed = NULL, *waits = NULL;
	struct batch *b;
	struct claim c;
	struct spool_end end;

	(void)submit(
		sp,
		"{\"argv\":[\"true\"],\"name\":\"many\",\"sweep\":[\"lr=0.1,0.2\",\"seed=1..2\"]}");
	b = open_batch(sp, 1, "n1");
	for (uint64_t element = 1; element <= 3; element++) {
		assert_int_equal(batch_claim(b, element, &me, &c, NULL), 0);
		end = done(&c);
		end.result = element == 2 ? RESULT_FAILED : RESULT_DONE;
		end.exit = element == 2 ? 3 : 0;
		if (element < 3)
			assert_int_equal(batch_end(b, NULL, &c, &end, NULL), 0);
	}
	assert_int_equal(batch_sync(b, NULL), 0);
	(void)batch_close(b);

	whole = shown("1");
	assert_has(whole, "elements      1 waiting, 1 running, 1 done, 1 failed");
	assert_has(whole, "failed        1.2 (exit code 3)");
	assert_null(strstr(whole, "\nattempts"));
	failed = shown("1.2");
	assert_true(str_has_prefix(failed, "id            1.2\n"));
	assert_has(failed, "state         failed");
	assert_has(failed, "parameters    lr=0.1 seed=2");
	assert_has(failed, "attempts      1");
	waits = shown("1.4");
	assert_has(waits, "state         pending");
	assert_has(waits, "parameters    lr=0.2 seed=2");
	assert_has(waits, "attempts      0");
	(void)spool_close(sp);
}

static void an_element_knows_its_index_or_its_command(void **state)
{
	struct spool *sp = open_spool();
	cleanup_free char *index = NULL, *command = NULL, *all = NULL;

	(void)submit(sp, "{\"argv\":[\"true\"],\"array\":\"10-12\"}");
	(void)submit(sp, "{\"commands\":[\"echo a\",\"echo b | cat\"]}");
	index = shown("1.3");
	assert_has(index, "index         12");
	command = shown("2.2");
	assert_has(command, "command       echo b | cat");
	all = shown("2");
	assert_has(all, "commands      2 (--json shows them)");
	(void)spool_close(sp);
}

/* ---- for programs ---- */

static void json_has_all_of_the_task(void **state)
{
	struct spool *sp = open_spool();
	cleanup_free char *text = NULL;
	json_t *doc, *want;

	(void)submit(sp, "{\"argv\":[\"true\"],\"name\":\"n\",\"gpus\":2,\"env\":[\"A=1\"]}");
	text = shown("n --json");
	doc = json_loads(text, 0, NULL);
	assert_non_null(doc);
	(void)json_object_del(doc, "file");
	want = json_pack("{s:i, s:s, s:i, s:i, s:i, s:{s:i, s:[s], s:s, s:i, s:[s]}}", "id", 1,
			 "state", "pending", "priority", 500, "attempts", 0, "epoch", 0, "task",
			 "version", 1, "argv", "true", "name", "n", "gpus", 2, "env", "A=1");
	if (!json_equal(doc, want))
		fail_msg("%s", text);
	json_decref(doc);
	json_decref(want);
	(void)spool_close(sp);
}

static void what_is_not_there_is_an_error(void **state)
{
	static const struct {
		const char *words;
		int code;
		const char *err;
	} cases[] = {
		{ "9", 1, "tenure: there is no task 9 in instance \"default\"" },
		{ "nobody", 1, "tenure: no task in instance \"default\" is called \"nobody\"" },
		{ "1.1", 1, "tenure: task 1 is no batch and has no elements: say 1" },
		{ "1 1", 2, "tenure: unexpected argument \"1\"" },
	};
	struct spool *sp = open_spool();

	(void)submit(sp, "{\"argv\":[\"true\"]}");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct said s = cli(&cmd_show, cases[i].words);

		if (s.code != cases[i].code || s.out[0] || !str_has_prefix(s.err, cases[i].err))
			fail_msg("show %s: %d, %s%s", cases[i].words, s.code, s.out, s.err);
		said_clear(&s);
	}
	(void)spool_close(sp);
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, cli_setup, cli_teardown)
	const struct CMUnitTest tests[] = {
		IN_A_SPOOL(what_was_submitted_is_shown),
		IN_A_SPOOL(a_text_is_no_command_to_the_terminal),
		IN_A_SPOOL(how_it_ended_is_shown),
		IN_A_SPOOL(what_was_stopped_before_it_started_has_not_run),
		IN_A_SPOOL(a_batch_and_its_elements_are_shown),
		IN_A_SPOOL(an_element_knows_its_index_or_its_command),
		IN_A_SPOOL(json_has_all_of_the_task),
		IN_A_SPOOL(what_is_not_there_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
