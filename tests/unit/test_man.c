/* SPDX-License-Identifier: MIT */

/* The man pages of commands that only this test knows: what a row says is in its page, once. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli_world.h"
#include "spool_world.h"
#include "unit.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/roff.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/help.h"
#include "cli/man.h"

/* Each begins a request where it comes first in a line, or an escape, if it is taken as it is. */
#define EVIL ".TH evil\n.so /etc/passwd\n'br \\fBbold"

static int do_nothing(const struct cmd_ctx *ctx, struct err *e)
{
	return 0;
}

static const char *const colours[] = { "red", "green", NULL };

static const struct opt rows[] = {
	{ .name = "plain", .short_name = 'p', .spec = { VALUE_FLAG }, .help = "of no group" },
	{ .name = "size",
	  .spec = { VALUE_SIZE },
	  .arg = "SIZE",
	  .def = "1G",
	  .group = "Sizes",
	  .help = "how large" },
	{ .name = "colour",
	  .spec = { VALUE_CHOICE, .choices = colours },
	  .arg = "COLOUR",
	  .help = "which one" },
	{ .name = "most",
	  .spec = { VALUE_SIZE },
	  .arg = "SIZE",
	  .group = "Sizes",
	  .env = "TENURE_MOST",
	  .help = "at most, with --size" },
	{ .name = "secret",
	  .spec = { VALUE_FLAG },
	  .group = "Secrets",
	  .help = "nobody is told",
	  .flags = OPT_HIDDEN },
	{ 0 },
};

static const struct cmd_example examples[] = {
	{ "tenure first --size 2G", "twice as large" },
	{ "tenure first -- .TH x", "a command" },
	{ 0 },
};

static const struct cmd_variable variables_of_task[] = {
	{ "TENURE_TASK_ID", "its id" },
	{ 0 },
};

static const struct cmd first = {
	.name = "first",
	.group = "Alpha",
	.summary = "what comes first",
	.args = "FILE..",
	.description = "One paragraph.\n\nAnother one, about `tenure first`.",
	.examples = examples,
	.opts = rows,
	.variables = variables_of_task,
	.run = do_nothing,
};

static const struct cmd below = {
	.name = "below", .summary = "a part of it", .opts = rows, .run = do_nothing
};
static const struct cmd below_too = { .name = "below-too",
				      .summary = "another part",
				      .args = "[N]",
				      .opts = rows,
				      .run = do_nothing };
static const struct cmd *const parts[] = { &below, &below_too, NULL };

static const struct cmd second = {
	.name = "second", .group = "Beta", .summary = "has parts", .subs = parts
};
static const struct cmd third = {
	.name = "third", .group = "Alpha", .summary = "comes later", .run = do_nothing
};
static const struct cmd hidden = { .name = "hidden",
				   .group = "Gamma",
				   .summary = "is not shown",
				   .flags = CMD_HIDDEN,
				   .run = do_nothing };

static const struct opt evil_rows[] = {
	{ .name = "evil", .spec = { VALUE_STRING }, .arg = EVIL, .def = EVIL, .help = EVIL },
	{ 0 },
};
static const struct cmd_example evil_examples[] = { { EVIL, EVIL }, { 0 } };
static const struct cmd_variable evil_variables[] = { { EVIL, EVIL }, { 0 } };
static const struct cmd evil = {
	.name = "evil",
	.group = "Beta",
	.summary = EVIL,
	.args = EVIL,
	.description = EVIL,
	.examples = evil_examples,
	.opts = evil_rows,
	.variables = evil_variables,
	.run = do_nothing,
};

const struct cmd *const commands[] = { &first, &second, &hidden, &third, &evil, NULL };

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

static void assert_has(const char *page, const char *what)
{
	if (!strstr(page, what))
		fail_msg("\"%s\" is missing in:\n%s", what, page);
}

/* The lines are in the page, in that order. */
static void assert_in_order(const char *page, const char *const *lines)
{
	const char *at = page;

	for (; *lines; lines++) {
		const char *found = strstr(at, *lines);

		if (!found)
			fail_msg("\"%s\" is missing, or too early, in:\n%s", *lines, page);
		at = found + strlen(*lines);
	}
}

static void a_page_has_all_that_its_row_says(void **state)
{
	static const char *const lines[] = {
		".TH \"TENURE-FIRST\" 1 ",
		".SH NAME\ntenure\\-first \\- what comes first\n",
		".SH \"SYNOPSIS\"\n\\fBtenure first\\fR [\\fIOPTIONS\\fR] FILE..\n",
		".SH \"DESCRIPTION\"\n.PP\nOne paragraph.\n.PP\nAnother one, about \\fBtenure first\\fR.\n",
		".SH \"OPTIONS\"\n",
		".SH \"ENVIRONMENT OF THE TASK\"\n.TP\n\\fBTENURE_TASK_ID\\fR\nits id\n",
		".SH \"EXAMPLES\"\n.TP\n\\fB$ tenure first \\-\\-size 2G\\fR\ntwice as large\n",
		".SH \"EXIT STATUS\"\n",
		".SH \"SEE ALSO\"\n.BR tenure (1),\n.BR tenure\\-third (1),\n.BR tenure.yaml (5)\n",
		NULL,
	};
	cleanup_free char *page = manpage_command(&first);

	assert_in_order(page, lines);
	assert_int_equal(count(page, "\n.SH "), 8);
}

static void options_come_by_their_groups(void **state)
{
	static const char *const lines[] = {
		".SS \"Options\"\n.TP\n\\fB\\-p\\fR, \\fB\\-\\-plain\\fR\nof no group\n",
		".TP\n\\fB\\-\\-colour\\fR \\fICOLOUR\\fR\nwhich one: \\fBred\\fR | \\fBgreen\\fR\n",
		"\\fB\\-\\-help\\fR",
		NULL,
	};
	static const char *const sizes[] = {
		".SS \"Sizes\"\n.TP\n\\fB\\-\\-size\\fR \\fISIZE\\fR\nhow large (default 1G)\n",
		".TP\n\\fB\\-\\-most\\fR \\fISIZE\\fR\nat most, with \\fB\\-\\-size\\fR [TENURE_MOST]\n",
		NULL,
	};
	cleanup_free char *page = manpage_command(&first), *plain = manpage_command(&third);

	assert_in_order(page, lines);
	assert_in_order(page, sizes);
	assert_int_equal(count(page, ".SS \"Options\""), 1);
	assert_int_equal(count(page, ".SS \"Sizes\""), 1);
	assert_null(strstr(page, "secret"));
	assert_null(strstr(page, "Secrets"));
	/* Where one of them is a setting, it says where else it can be set. */
	assert_has(page, "What has a variable in brackets is a setting");
	assert_null(strstr(plain, "What has a variable in brackets"));
}

/* What commands below another one have in common is told once. */
static void the_commands_below_are_on_its_page(void **state)
{
	static const char *const lines[] = {
		".SH \"SYNOPSIS\"\n\\fBtenure second below\\fR [\\fIOPTIONS\\fR]\n.br\n"
		"\\fBtenure second below\\-too\\fR [\\fIOPTIONS\\fR] [N]\n.br\n",
		".SH \"COMMANDS\"\n.SS \"tenure second below\"\na part of it.\n",
		"\\fB\\-\\-size\\fR",
		".SS \"tenure second below\\-too [N]\"\nanother part.\n.SH \"OPTIONS\"\n",
		NULL,
	};
	cleanup_free char *page = manpage_command(&second);

	assert_in_order(page, lines);
	assert_int_equal(count(page, "how large"), 1);
	assert_null(strstr(page, "secret"));
}

static void the_overview_lists_each_command_once(void **state)
{
	static const char *const lines[] = {
		".TH \"TENURE\" 1 ",
		".SH \"COMMANDS\"\n.SS \"Alpha\"\n.TP\n.BR tenure\\-first (1)\nwhat comes first\n"
		".TP\n.BR tenure\\-third (1)\ncomes later\n"
		".SS \"Beta\"\n.TP\n.BR tenure\\-second (1)\nhas parts\n",
		".SH \"EXIT STATUS\"\n.TP\n\\fB0\\fR\n",
		".SH \"FILES\"\n",
		".SH \"SEE ALSO\"\n",
		NULL,
	};
	cleanup_free char *page = manpage_overview();

	assert_in_order(page, lines);
	assert_null(strstr(page, "hidden"));
	assert_null(strstr(page, "Gamma"));
	for (size_t i = 0; exit_codes[i].what; i++)
		assert_int_equal(count(page, exit_codes[i].what), 1);
}

static void every_setting_is_in_the_page_of_settings(void **state)
{
	cleanup_free char *page = manpage_settings();
	const char *groups[SET_MAX];
	size_t n = 0;

	for (int id = 0; id < SET_MAX; id++) {
		const struct setting *row = setting_row((enum setting_id)id);
		cleanup_free char *entry = xasprintf("\n.TP\n\\fB%s\\fR\n", row->key);
		cleanup_free char *variable = xasprintf("\nVariable: %s. Option: ", row->opt.env);
		const char *group = row->opt.group ? row->opt.group : "The site";
		bool known = false;

		assert_int_equal(count(page, entry), 1);
		assert_int_equal(count(page, variable), !(row->flags & SETTING_SITE_ONLY));
		for (size_t i = 0; i < n; i++)
			known = known || strcmp(groups[i], group) == 0;
		if (!known)
			groups[n++] = group;
	}
	for (size_t i = 0; i < n; i++) {
		cleanup_strbuf struct strbuf heading = STRBUF_INIT;

		roff_section(&heading, "SS", groups[i]);
		assert_int_equal(count(page, strbuf_str(&heading)), 1);
	}
	assert_int_equal(count(page, "\n.SS "), n);
	assert_has(page, "; at least 1%. Default: 75.\n.br\nVariable: TENURE_UTIL. Option: "
			 "\\fB\\-\\-util\\fR.\n");
	assert_has(page, "\nOnly the site's file may set it.\n");
}

/* Whatever a row says, no line of it is a request of its own. */
static void no_text_becomes_a_request(void **state)
{
	static const char *const known[] = { ".\\\"",  ".TH \"", ".nh\n", ".ad l\n", ".SH ",
					     ".SS \"", ".PP\n",	 ".TP\n", ".br\n",   ".BR " };
	static const struct cmd *const pages[] = { &first, &second, &third, &evil, NULL };

	for (size_t i = 0; pages[i]; i++) {
		cleanup_free char *page = manpage_command(pages[i]);

		assert_int_equal(count(page, "\n.TH "), 1);
		for (const char *p = page; *p; p += strcspn(p, "\n") + 1) {
			bool request = false;

			assert_true(*p != '\'');
			for (size_t k = 0; k < ARRAY_LEN(known) && *p == '.'; k++)
				request = request || str_has_prefix(p, known[k]);
			if (*p == '.' && !request)
				fail_msg("of %s: %.*s", pages[i]->name, (int)strcspn(p, "\n"), p);
		}
		assert_null(strstr(page, "\\fBbold"));
	}
}

/* ---- the command ---- */

static void a_page_is_asked_for_by_either_name(void **state)
{
	static const struct {
		const char *line, *heading;
	} cases[] = {
		{ "", ".TH \"TENURE\" 1 " },
		{ "tenure", ".TH \"TENURE\" 1 " },
		{ "first", ".TH \"TENURE-FIRST\" 1 " },
		{ "tenure-first", ".TH \"TENURE-FIRST\" 1 " },
		{ "hidden", ".TH \"TENURE-HIDDEN\" 1 " },
		{ "tenure.yaml", ".TH \"TENURE.YAML\" 5 " },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct said s = cli(&cmd_man, cases[i].line);

		assert_int_equal(s.code, 0);
		assert_has(s.out, cases[i].heading);
		said_clear(&s);
	}
}

static void a_page_that_is_not_there_is_no_empty_one(void **state)
{
	static const char *const names[] = { "nothing", "fir", "tenure-", "tenure-tenure-first",
					     "''" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct said s = cli(&cmd_man, names[i]);

		assert_int_equal(s.code, CMD_USAGE);
		assert_string_equal(s.out, "");
		assert_has(s.err, "there is no page \"");
		said_clear(&s);
	}
}

static void all_pages_that_are_shown_are_written(void **state)
{
	static const struct {
		const char *file;
		bool there;
	} files[] = {
		{ "man1/tenure.1", true },	   { "man1/tenure-first.1", true },
		{ "man1/tenure-second.1", true },  { "man1/tenure-third.1", true },
		{ "man1/tenure-hidden.1", false }, { "man5/tenure.yaml.5", true },
	};
	cleanup_free char *line = xasprintf("--dir %s/pages", spool_world_root());
	struct said s = cli(&cmd_man, line);

	assert_int_equal(s.code, 0);
	assert_string_equal(s.out, "");
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		cleanup_free char *path =
			xasprintf("%s/pages/%s", spool_world_root(), files[i].file);
		cleanup_free char *text = NULL, *page = manpage_command(&first);
		size_t len;

		assert_int_equal(fs_read_file(path, 1 << 20, &text, &len, NULL) == 0,
				 files[i].there);
		if (strstr(path, "first"))
			assert_string_equal(text, page);
	}
	said_clear(&s);
}

static void a_directory_that_cannot_be_written_to_is_an_error(void **state)
{
	struct said s = cli(&cmd_man, "--dir /dev/null/pages");

	assert_int_equal(s.code, CMD_FAILED);
	assert_has(s.err, "/dev/null/pages");
	said_clear(&s);
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, cli_setup, cli_teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_page_has_all_that_its_row_says),
		cmocka_unit_test(options_come_by_their_groups),
		cmocka_unit_test(the_commands_below_are_on_its_page),
		cmocka_unit_test(the_overview_lists_each_command_once),
		cmocka_unit_test(every_setting_is_in_the_page_of_settings),
		cmocka_unit_test(no_text_becomes_a_request),
		IN_A_SPOOL(a_page_is_asked_for_by_either_name),
		IN_A_SPOOL(a_page_that_is_not_there_is_no_empty_one),
		IN_A_SPOOL(all_pages_that_are_shown_are_written),
		IN_A_SPOOL(a_directory_that_cannot_be_written_to_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
