/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/command.h"

static int run(const char *script, const struct command *how, struct command_output *ret,
	       struct err *e)
{
	const char *argv[] = { "sh", "-c", script, NULL };

	return command_run(argv, how, ret, e);
}

static void both_streams_and_the_status_are_read(void **state)
{
	struct command_output o;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(
		run("cat; echo oops >&2; exit 3", &(struct command){ .input = "in\n" }, &o, &e), 0);
	assert_int_equal(o.status, 3);
	assert_string_equal(strbuf_str(&o.out), "in\n");
	assert_string_equal(strbuf_str(&o.err), "oops\n");
	assert_true(command_said(&o, "OOPS"));
	command_output_clear(&o);
}

/* In another encoding, or for a terminal. */
static void what_is_no_text_is_told(void **state)
{
	struct command_output o;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(
		run("printf 'a\\tb\\r\\n\\303\\251 \\262\\273\\033[31m\\000x\\n'; printf '\\377\\n' >&2",
		    &(struct command){ .limit_ms = 0 }, &o, &e),
		0);
	assert_string_equal(strbuf_str(&o.out), "a\tb\r\n\303\251 ???[31m?x\n");
	assert_int_equal(o.out.len, strlen(strbuf_str(&o.out)));
	assert_string_equal(strbuf_str(&o.err), "?\n");
	command_output_clear(&o);
}

static void what_is_not_read_stops_nothing(void **state)
{
	struct command_output o;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(run("exec 0<&-; kill -9 $$", &(struct command){ .input = "x" }, &o, &e),
			 0);
	assert_int_equal(o.status, 128 + 9);
	command_output_clear(&o);
}

static void what_hangs_is_killed_with_all_it_started(void **state)
{
	struct command how = { .limit_ms = 200 };
	struct command_output o;
	struct err e = ERR_INIT;
	uint64_t began = clock_mono_ns();

	(void)state;
	assert_int_equal(run("sleep 60 & sleep 60", &how, &o, &e), -ETIMEDOUT);
	assert_true(clock_mono_ns() - began < 10 * NS_PER_S);
	assert_non_null(strstr(e.text, "sh has not answered"));
	command_output_clear(&o);
}

static void what_prints_without_end_is_ended(void **state)
{
	struct command_output o;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(run("yes 0123456789012345678901234567890123456789",
			     &(struct command){ .limit_ms = 60000 }, &o, &e),
			 -EMSGSIZE);
	command_output_clear(&o);
	assert_int_equal(run("yes 01234567890123456789 | head -c 10000000",
			     &(struct command){ .limit_ms = 60000 }, &o, &e),
			 0);
	assert_int_equal(o.out.len, 10000000);
	command_output_clear(&o);
}

static void the_environment_is_ours(void **state)
{
	const char *const env[] = { "PATH=/usr/bin:/bin",
				    "SQUEUE_FORMAT=%i",
				    "LC_ALL=de_DE",
				    "KEEP=1",
				    "TENURE_JOB_KEY=slurm.1.0",
				    NULL };
	const char *const clear[] = { "SQUEUE_", NULL };
	const char *const set[] = { "MORE=2", NULL };
	struct command how = { .environ = env, .clear = clear, .set = set };
	struct command_output o;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(
		run("echo $SQUEUE_FORMAT,$LC_ALL,$KEEP,$MORE,$TENURE_JOB_KEY", &how, &o, &e), 0);
	assert_string_equal(strbuf_str(&o.out), ",C,1,2,\n");
	command_output_clear(&o);
}

static void a_command_that_is_not_there_says_so(void **state)
{
	const char *argv[] = { "no-such-command-here", NULL };
	struct command_output o;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(command_run(argv, &(struct command){ .limit_ms = 0 }, &o, &e), -ENOENT);
	assert_non_null(strstr(e.text, "no-such-command-here: there is no such command"));
	command_output_clear(&o);
}

/* By its name, and in a directory that is searched besides PATH. */
static void a_script_can_be_a_command(void **state)
{
	const char *argv[] = { "tenure-test-script", NULL };
	char dir[] = "/tmp/test_engine_command.XXXXXX", path[64];
	struct command_output o;
	struct err e = ERR_INIT;
	FILE *f;

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/%s", dir, argv[0]);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs("#!/bin/sh\necho script\n", f) >= 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(path, 0700), 0);
	assert_int_equal(command_run(argv, &(struct command){ .path = dir }, &o, &e), 0);
	assert_string_equal(strbuf_str(&o.out), "script\n");
	command_output_clear(&o);
	(void)unlink(path);
	(void)rmdir(dir);
}

static void a_failure_is_told_in_its_own_words(void **state)
{
	static const struct {
		const char *out, *err, *text;
	} cases[] = {
		{ "", "\n  \nsbatch: error: no\nmore\n", "sbatch: error: no" },
		{ "",
		  "E1124 16:42:11.400833    5040 memcache.go:265] couldn't get resource list\n"
		  "E1124 16:42:11.401271    5040 memcache.go:265] couldn't get resource list\n"
		  "The connection to the server localhost:8080 was refused\nmore\n",
		  "sbatch: The connection to the server localhost:8080 was refused" },
		{ "", "E1124 16:42:11.4 5040 a.go:2] no\nE1124 16:42:11.5 5040 a.go:2] more\n",
		  "sbatch: E1124 16:42:11.4 5040 a.go:2] no" },
		{ "noise\nthe cause\n\n", "", "sbatch: the cause" },
		{ "", "", "sbatch ended with status 7 and said nothing" },
	};
	const char *argv[] = { "sbatch", NULL };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct command_output o = { .status = 7 };
		struct err e = ERR_INIT;

		strbuf_adds(&o.out, cases[i].out);
		strbuf_adds(&o.err, cases[i].err);
		assert_int_equal(command_failed(argv, &o, -EIO, &e), -EIO);
		assert_string_equal(e.text, cases[i].text);
		command_output_clear(&o);
	}
}

static void names_of_ours_say_nothing(void **state)
{
	const char *const names[] = { "quota", "", "exp1", NULL };
	struct command_output o = { .status = 1 };
	cleanup_free char *text = NULL;

	(void)state;
	strbuf_adds(&o.out, "job quota-exp1: no");
	strbuf_adds(&o.err, "quota");
	text = command_text(&o, names);
	assert_string_equal(text, "job      -    : no\n     ");
	command_output_clear(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_streams_and_the_status_are_read),
		cmocka_unit_test(what_is_no_text_is_told),
		cmocka_unit_test(what_is_not_read_stops_nothing),
		cmocka_unit_test(what_hangs_is_killed_with_all_it_started),
		cmocka_unit_test(what_prints_without_end_is_ended),
		cmocka_unit_test(the_environment_is_ours),
		cmocka_unit_test(a_command_that_is_not_there_says_so),
		cmocka_unit_test(a_script_can_be_a_command),
		cmocka_unit_test(a_failure_is_told_in_its_own_words),
		cmocka_unit_test(names_of_ours_say_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
