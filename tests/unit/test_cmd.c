/* SPDX-License-Identifier: MIT */

/* What every command gets from its row: options, settings, help, exit codes, suggestions. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli_world.h"
#include "spool_world.h"
#include "unit.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"

/* ---- exit codes ---- */

static int returned; /* by run(), with this text */
static const char *text;

static int run(const struct cmd_ctx *ctx, struct err *e)
{
	puts("it ran");
	if (text)
		(void)err_set(e, returned, "%s", text);
	return returned;
}

static const struct cmd plain = {
	.name = "plain", .summary = "runs", .run = run, .flags = CMD_NO_SETTINGS
};

static void what_it_returns_becomes_an_exit_code(void **state)
{
	static const struct {
		int returned;
		const char *text;
		int code;
		const char *err;
	} cases[] = {
		{ 0, NULL, 0, "" },
		{ 0, "what did not matter", 0, "" },
		{ -ENOENT, "it is not there", CMD_FAILED, "tenure: it is not there\n" },
		{ -EPERM, "it may not be", CMD_DENIED, "tenure: it may not be\n" },
		{ -EIO, NULL, CMD_FAILED, "" },
		{ CMD_USAGE, "so it is not meant", CMD_USAGE, "tenure: so it is not meant\n" },
		{ CMD_NOTHING_RUNS, NULL, CMD_NOTHING_RUNS, "" },
		{ 137, NULL, 137, "" },
		/* Nothing of a text reaches the terminal that it does not show. */
		{ -EIO, "a\033[31mb", CMD_FAILED, "tenure: a?[31mb\n" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct said s;

		returned = cases[i].returned;
		text = cases[i].text;
		s = cli(&plain, "");
		if (s.code != cases[i].code || strcmp(s.out, "it ran\n") != 0 ||
		    strcmp(s.err, cases[i].err) != 0)
			fail_msg("%d: %d, %s", cases[i].returned, s.code, s.err);
		said_clear(&s);
	}
	returned = 0;
	text = NULL;
}

/* ---- arguments ---- */

static char *got; /* the arguments, "a|b|" */

static int take(const struct cmd_ctx *ctx, struct err *e)
{
	free(got);
	got = xstrdup("");
	for (size_t i = 0; i < opts_argc(ctx->opts); i++) {
		cleanup_free char *before = got;

		got = xasprintf("%s%s|", before, opts_arg(ctx->opts, i));
	}
	return CMD_OK;
}

static const struct opt flag_row[] = {
	{ .name = "flag", .short_name = 'f', .spec = { VALUE_FLAG }, .help = "a flag" },
	{ 0 },
};

static void explain(const char *option, struct err *e)
{
	if (strcmp(option, "--other") == 0)
		(void)err_set(e, -EINVAL, "here %s is written otherwise", option);
}

static const struct cmd none = { .name = "none",
				 .summary = "takes none",
				 .opts = flag_row,
				 .flags = CMD_NO_SETTINGS,
				 .run = take };
static const struct cmd some = { .name = "some",
				 .summary = "takes some",
				 .args = "A [B]",
				 .min_args = 1,
				 .max_args = 2,
				 .opts = flag_row,
				 .flags = CMD_NO_SETTINGS,
				 .run = take,
				 .explain = explain };
static const struct cmd any = { .name = "any",
				.summary = "takes any",
				.args = "A..",
				.min_args = 1,
				.opts = flag_row,
				.flags = CMD_NO_SETTINGS,
				.run = take };
static const struct cmd rest = { .name = "rest",
				 .summary = "takes rest",
				 .args = "COMMAND..",
				 .min_args = 1,
				 .opts = flag_row,
				 .flags = CMD_NO_SETTINGS | CMD_STOP_AT_WORD,
				 .run = take };

static void arguments_are_as_many_as_it_says(void **state)
{
	static const struct {
		const struct cmd *cmd;
		const char *line, *got, *err; /* got NULL: it did not run */
	} cases[] = {
		{ &none, "", "", "" },
		{ &none, "-f", "", "" },
		{ &none, "a", NULL, "tenure: unexpected argument \"a\"; see tenure none --help\n" },
		{ &some, "a", "a|", "" },
		{ &some, "a -f b", "a|b|", "" },
		{ &some, "", NULL,
		  "tenure: usage: tenure some A [B] (tenure some --help tells more)\n" },
		{ &some, "a b c", NULL,
		  "tenure: unexpected argument \"c\"; see tenure some --help\n" },
		{ &some, "-- -f", "-f|", "" },
		{ &any, "a b c d", "a|b|c|d|", "" },
		{ &any, "-f", NULL, "tenure: usage: tenure any A.. " },
		{ &rest, "-f make -j2 --flag", "make|-j2|--flag|", "" },
		{ &some, "--flga a", NULL,
		  "tenure: unknown option --flga; did you mean --flag?\n" },
		/* It may know better what an option is, that it has not. */
		{ &some, "--other a", NULL, "tenure: here --other is written otherwise\n" },
		{ &any, "--other a", NULL, "tenure: unknown option --other\n" },
		{ &some, "--json a", NULL, "tenure: unknown option --json\n" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct said s = cli(cases[i].cmd, cases[i].line);
		bool ran = cases[i].got;

		if (s.code != (ran ? CMD_OK : CMD_USAGE) || !str_has_prefix(s.err, cases[i].err) ||
		    (ran && (strcmp(got, cases[i].got) != 0 || s.err[0])))
			fail_msg("%s %s: %d, %s, %s", cases[i].cmd->name, cases[i].line, s.code,
				 got ? got : "?", s.err);
		said_clear(&s);
	}
	free(take_ptr(got));
}

/* ---- commands below ---- */

static const struct cmd *const subs[] = { &none, &some, NULL };
static const struct cmd above = {
	.name = "above", .summary = "has some", .subs = subs, .flags = CMD_NO_SETTINGS
};

static void a_command_below_is_chosen_by_the_first_word(void **state)
{
	struct said s = cli(&above, "some a b");

	assert_int_equal(s.code, 0);
	assert_string_equal(got, "a|b|");
	said_clear(&s);
	s = cli(&above, "some");
	assert_true(str_has_prefix(
		s.err, "tenure: usage: tenure above some A [B] (tenure above some --help "));
	said_clear(&s);
	s = cli(&above, "soem");
	assert_int_equal(s.code, CMD_USAGE);
	assert_string_equal(s.err, "tenure: above has no command \"soem\"; did you mean some?\n");
	said_clear(&s);
	/* Without one it says what there is: for who asks on standard output. */
	s = cli(&above, "");
	assert_int_equal(s.code, CMD_USAGE);
	assert_string_equal(s.out, "");
	assert_non_null(strstr(s.err, "\nCommands:\n  none "));
	said_clear(&s);
	s = cli(&above, "--help");
	assert_int_equal(s.code, CMD_OK);
	assert_non_null(strstr(s.out, "\nCommands:\n  none "));
	said_clear(&s);
	free(take_ptr(got));
}

/* What ends something is suggested only to who has all but typed it. */
static void what_ends_something_is_not_suggested_lightly(void **state)
{
	static const struct cmd stop = { .name = "stop", .flags = CMD_ENDS },
				show = { .name = "show" },
				secret = { .name = "secret", .flags = CMD_HIDDEN },
				status = { .name = "status" };
	static const struct cmd *const list[] = { &stop, &show, &secret, &status, NULL };
	static const struct {
		const char *word, *near; /* "": none */
	} cases[] = {
		{ "stpo", "; did you mean stop?" },
		{ "stopp", "; did you mean stop?" },
		{ "sto", "; did you mean stop?" },
		{ "top", "" },
		{ "step", "" },
		{ "shwo", "; did you mean show?" },
		{ "stat", "; did you mean status?" },
		{ "secrt", "" },
		{ "completely", "" },
		{ "", "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *near = cmd_suggest(list, cases[i].word);

		if (strcmp(near, cases[i].near) != 0)
			fail_msg("%s%s", cases[i].word, near);
	}
	assert_ptr_equal(cmd_find(list, "secret"), &secret);
	assert_null(cmd_find(list, "sto"));
	assert_null(cmd_find(NULL, "stop"));
}

/* ---- help ---- */

static const struct cmd_example examples[] = { { "tenure told --flag", "with its flag" }, { 0 } };
static const struct cmd_variable variables[] = { { "TENURE_X", "what it finds" }, { 0 } };
static const struct cmd told = {
	.name = "told",
	.summary = "tells of itself",
	.args = "A",
	.min_args = 1,
	.description = "One paragraph.\n\nAnother one.",
	.examples = examples,
	.opts = flag_row,
	.variables = variables,
	.flags = CMD_NO_SETTINGS | CMD_JSON,
	.run = take,
};

static void help_is_made_of_the_row(void **state)
{
	static const char want[] =
		"tenure told: tells of itself\n\nUsage:\n  tenure told [OPTIONS] A\n\n"
		"One paragraph.\n\nAnother one.\n\nExamples:\n  $ tenure told --flag\n"
		"      with its flag\n\nOptions:\n  -f, --flag                a flag\n"
		"      --json                print JSON\n\nGeneral:\n"
		"  -h, --help                show this help\n\nIn the task's environment:\n"
		"  TENURE_X\n      what it finds\n";
	static const char *const lines[] = { "--help", "-h", "a --help", "-fh" };

	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		struct said s = cli(&told, lines[i]);

		assert_int_equal(s.code, 0);
		assert_string_equal(s.out, want);
		assert_string_equal(s.err, "");
		said_clear(&s);
	}
	assert_null(got); /* it did not run */
}

/* ---- settings ---- */

static int show_memory(const struct cmd_ctx *ctx, struct err *e)
{
	cleanup_free char *memory = settings_origin_text(ctx->settings, SET_MEMORY);

	puts(memory);
	return CMD_OK;
}

static const struct cmd holds = { .name = "holds",
				  .setting_groups = SETTING_GROUP_HOLD,
				  .run = show_memory };
static const struct cmd asks = { .name = "asks",
				 .setting_groups = SETTING_GROUP_QUEUE,
				 .run = show_memory };

static void write_config(const char *yaml)
{
	cleanup_free char *dir = xasprintf("%s/none/tenure", spool_world_root());
	cleanup_free char *file = xasprintf("%s/config.yaml", dir);

	assert_int_equal(fs_mkdirs(dir, 0700, NULL), 0);
	assert_int_equal(fs_write_atomic(file, yaml, strlen(yaml), 0600, NULL), 0);
}

/* Who only asks is not kept from it by a mistake in what it does not need. */
static void a_mistake_in_a_file_stops_who_needs_it(void **state)
{
	struct said s = cli(&holds, "--memory 38G");

	assert_int_equal(s.code, 0);
	assert_string_equal(s.out, "command line --memory\n");
	said_clear(&s);
	s = cli(&asks, "--memory 38G");
	assert_int_equal(s.code, CMD_USAGE);
	assert_true(str_has_prefix(s.err, "tenure: unknown option --memory"));
	said_clear(&s);

	write_config("memory: 38\n");
	s = cli(&holds, "");
	assert_int_equal(s.code, CMD_USAGE);
	assert_non_null(strstr(s.err, "config.yaml:1:9: memory: "));
	assert_string_equal(s.out, "");
	said_clear(&s);
	s = cli(&asks, "");
	assert_int_equal(s.code, 0);
	assert_string_equal(s.out, "default\n");
	assert_true(str_has_prefix(s.err, "tenure: warning: "));
	assert_non_null(strstr(s.err, "; it counts as not set\n"));
	said_clear(&s);

	write_config("[\n");
	s = cli(&asks, "");
	assert_int_equal(s.code, 0);
	assert_non_null(strstr(s.err, "; that file does not count\n"));
	said_clear(&s);
	s = cli(&plain, "");
	assert_int_equal(s.code, 0);
	assert_string_equal(s.err, "");
	said_clear(&s);
}

static void a_misspelt_variable_is_warned_of(void **state)
{
	struct said s;

	(void)setenv("TENURE_MEMROY", "38G", 1);
	s = cli(&asks, "");
	assert_int_equal(s.code, 0);
	assert_string_equal(
		s.err, "tenure: warning: TENURE_MEMROY in the environment is no setting and does "
		       "nothing; did you mean TENURE_MEMORY?\n");
	said_clear(&s);
	(void)unsetenv("TENURE_MEMROY");
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, cli_setup, cli_teardown)
	const struct CMUnitTest tests[] = {
		IN_A_SPOOL(what_it_returns_becomes_an_exit_code),
		IN_A_SPOOL(arguments_are_as_many_as_it_says),
		IN_A_SPOOL(a_command_below_is_chosen_by_the_first_word),
		cmocka_unit_test(what_ends_something_is_not_suggested_lightly),
		IN_A_SPOOL(help_is_made_of_the_row),
		IN_A_SPOOL(a_mistake_in_a_file_stops_who_needs_it),
		IN_A_SPOOL(a_misspelt_variable_is_warned_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
