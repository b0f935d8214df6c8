/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/mem.h"
#include "base/opts.h"
#include "base/strbuf.h"

static const struct opt rows[] = {
	{ .name = "json", .short_name = 'j', .spec = { VALUE_FLAG }, .help = "print JSON" },
	{ .name = "quiet", .short_name = 'q', .spec = { VALUE_FLAG }, .help = "say nothing" },
	{ .name = "gpus",
	  .short_name = 'g',
	  .spec = { VALUE_GPUS },
	  .arg = "LIST",
	  .def = "all",
	  .help = "which" },
	{ .name = "util",
	  .short_name = 'u',
	  .spec = { VALUE_PERCENT },
	  .arg = "PERCENT",
	  .def = "75",
	  .group = "Load",
	  .help = "aim" },
	{ .name = "name",
	  .short_name = 'n',
	  .spec = { VALUE_STRING },
	  .arg = "TEXT",
	  .help = "name" },
	{ .name = "set", .spec = { VALUE_TEXTS }, .arg = "NAME=VALUE", .help = "may be repeated" },
	{ .name = "secret", .spec = { VALUE_FLAG }, .help = "not shown", .flags = OPT_HIDDEN },
	{ 0 },
};

static char *all_args(const struct opts *o)
{
	struct strbuf b = STRBUF_INIT;

	for (size_t i = 0; i < opts_argc(o); i++)
		strbuf_addf(&b, "%s|", opts_arg(o, i));
	return strbuf_take(&b);
}

/* The words are one string, split at blanks. */
static const struct {
	const char *line;
	enum opts_mode mode;
	int r;
	const char *error;
	const char *gpus, *name, *args;
	bool json, quiet;
} cases[] = {
	{ "", OPTS_DEFAULT, 0, NULL, NULL, NULL, "" },
	{ "--json", OPTS_DEFAULT, 0, NULL, NULL, NULL, "", true },
	{ "-jq x", OPTS_DEFAULT, 0, NULL, NULL, NULL, "x|", true, true },
	{ "-j --no-json", OPTS_DEFAULT, 0, NULL, NULL, NULL, "", false },
	{ "--json=false", OPTS_DEFAULT, 0, NULL, NULL, NULL, "", false },
	{ "--gpus 0 1 2 x", OPTS_DEFAULT, 0, NULL, "0,1,2", NULL, "x|" },
	{ "--gpus 0 --gpus=2 -g3", OPTS_DEFAULT, 0, NULL, "0,2,3", NULL, "" },
	{ "--gpus 0, 1, 2", OPTS_DEFAULT, 0, NULL, "0,1,2", NULL, "" },
	{ "--gpus 0,,1", OPTS_DEFAULT, -EINVAL, "comma with no GPU beside it" },
	{ "--gpus=0 1", OPTS_DEFAULT, 0, NULL, "0", NULL, "1|" },
	{ "-g=0,1 --json", OPTS_DEFAULT, 0, NULL, "0,1", NULL, "", true },
	{ "-jn x y", OPTS_DEFAULT, 0, NULL, NULL, "x", "y|", true },
	{ "--name a --name b", OPTS_DEFAULT, 0, NULL, NULL, "b", "" },
	{ "--name=", OPTS_DEFAULT, 0, NULL, NULL, "", "" },
	{ "-- --json -x", OPTS_DEFAULT, 0, NULL, NULL, NULL, "--json|-x|" },
	{ "- x", OPTS_DEFAULT, 0, NULL, NULL, NULL, "-|x|" },
	{ "-j make --json", OPTS_STOP_AT_WORD, 0, NULL, NULL, NULL, "make|--json|", true },
	{ "--gpus 4 -- make -j2", OPTS_STOP_AT_WORD, 0, NULL, "4", NULL, "make|-j2|" },
	{ "--utl 5", OPTS_DEFAULT, -EINVAL, "unknown option --utl; did you mean --util?" },
	{ "--hlep", OPTS_DEFAULT, -EINVAL, "did you mean --help?" },
	{ "--completely-else", OPTS_DEFAULT, -EINVAL, "unknown option --completely-else" },
	{ "--no-util", OPTS_DEFAULT, -EINVAL, "unknown option" },
	{ "-x", OPTS_DEFAULT, -EINVAL, "unknown option -x" },
	{ "--gpus", OPTS_DEFAULT, -EINVAL, "--gpus needs a value: GPUs like" },
	{ "--name", OPTS_DEFAULT, -EINVAL, "--name needs a value, TEXT (name)" },
	{ "--set", OPTS_DEFAULT, -EINVAL, "--set needs a value, NAME=VALUE (may be repeated)" },
	{ "--gpus -- 1", OPTS_DEFAULT, -EINVAL, "--gpus needs a value" },
	{ "--gpus x", OPTS_DEFAULT, -EINVAL, "--gpus: \"x\" names no GPU" },
	{ "--util 101", OPTS_DEFAULT, -ERANGE, "--util: \"101\" is more than 100%" },
	{ "--json=perhaps", OPTS_DEFAULT, -EINVAL, "--json: " },
};

static int split(char *line, char **argv, int max)
{
	char *save = NULL;
	int argc = 1;

	argv[0] = line;
	for (char *w = strtok_r(line, " ", &save); w && argc < max; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	return argc;
}

static void assert_text(const char *got, const char *want)
{
	if (want) {
		assert_non_null(got);
		assert_string_equal(got, want);
	} else {
		assert_null(got);
	}
}

static void test_parse(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *line = xstrdup(cases[i].line);
		char *argv[16];
		int argc = split(line, argv, 16);
		struct opts *o = opts_new();
		struct err e = ERR_INIT;

		opts_add_rows(o, rows);

		int r = opts_parse(o, argc, argv, cases[i].mode, &e);

		if (r != cases[i].r || (r < 0 && !strstr(e.text, cases[i].error)))
			fail_msg("\"%s\" gave %d: %s", cases[i].line, r, e.text);
		if (r == 0) {
			cleanup_free char *args = all_args(o);

			assert_text(opts_text(o, "gpus"), cases[i].gpus);
			assert_text(opts_text(o, "name"), cases[i].name);
			assert_string_equal(args, cases[i].args);
			assert_int_equal(opts_flag(o, "json"), cases[i].json);
			assert_int_equal(opts_flag(o, "quiet"), cases[i].quiet);
			assert_int_equal(opts_value(o, "util")->num, 750);
		}
		(void)opts_free(o);
	}
}

/* Whatever a text ends with, the next one is another. */
static void test_texts(void **state)
{
	static const char *const texts[] = { "", "a=1,", "b=2,3", "" };
	char line[] = "--set= --set=a=1, --set b=2,3 --set=", *argv[8];
	int argc = split(line, argv, 8);
	struct opts *o = opts_new();
	struct err e = ERR_INIT;

	opts_add_rows(o, rows);
	assert_int_equal(opts_parse(o, argc, argv, OPTS_DEFAULT, &e), 0);
	assert_int_equal(opts_value(o, "set")->words.n, ARRAY_LEN(texts));
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		assert_string_equal(opts_value(o, "set")->words.texts[i], texts[i]);
	(void)opts_free(o);
}

static void test_help(void **state)
{
	struct opts *o = opts_new();

	opts_add_rows(o, rows);

	cleanup_free char *text = opts_help(o, 60);

	assert_non_null(strstr(text, "  -j, --json                print JSON\n"));
	assert_non_null(strstr(text, "\nLoad:\n  -u, --util PERCENT        aim (default 75)\n"));
	assert_null(strstr(text, "secret"));
	(void)opts_free(o);
}

/* What a command says of an option that it has not needs it as it was written. */
static void the_unknown_option_is_known_by_its_name(void **state)
{
	static const struct {
		const char *line, *unknown; /* NULL: another mistake, or none */
	} lines[] = {
		{ "--json", NULL },	      { "--utl 5", "--utl" }, { "--utl=5", "--utl" },
		{ "--no-util", "--no-util" }, { "-jx", "-x" },	      { "-name x", NULL },
		{ "--util 101", NULL },	      { "-- -x", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		cleanup_free char *line = xstrdup(lines[i].line);
		char *argv[8];
		int argc = split(line, argv, 8);
		struct opts *o = opts_new();

		opts_add_rows(o, rows);
		(void)opts_parse(o, argc, argv, OPTS_DEFAULT, NULL);
		assert_text(opts_unknown(o), lines[i].unknown);
		(void)opts_free(o);
	}
}

/* By its first letter; "x" is hidden. */
static const char *group_of_word(const void *words, size_t i)
{
	const char *word = ((const char *const *)words)[i];

	return word[0] == 'a' ? "As" : word[0] == 'b' ? "Bs" : word[0] == 'c' ? "Cs" : NULL;
}

static void rows_come_group_by_group(void **state)
{
	static const struct {
		const char *rows[8], *want;
	} tables[] = {
		{ { NULL }, "" },
		{ { "x" }, "" },
		{ { "b1" }, "Bs: b1 " },
		{ { "b1", "a1", "b2", "x", "c1", "a2", "b3" }, "Bs: b1 b2 b3 As: a1 a2 Cs: c1 " },
		{ { "x", "a1", "x", "a2", "x" }, "As: a1 a2 " },
	};

	for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
		cleanup_strbuf struct strbuf b = STRBUF_INIT;
		struct group_walk w = { .group_of = group_of_word, .rows = tables[i].rows };

		while (tables[i].rows[w.n])
			w.n++;
		while (group_next(&w))
			strbuf_addf(&b, "%s%s%s ", w.first ? w.group : "", w.first ? ": " : "",
				    tables[i].rows[w.i]);
		assert_string_equal(strbuf_str(&b), tables[i].want);
		assert_false(group_next(&w));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_help),
		cmocka_unit_test(the_unknown_option_is_known_by_its_name),
		cmocka_unit_test(rows_come_group_by_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
