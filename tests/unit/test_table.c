/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/mem.h"
#include "base/strbuf.h"
#include "cli/table.h"

#define MOST 4

static const struct table_column plain[] = { { "GPU", true }, { "STATE" }, { "WHO" }, { 0 } };
static const struct table_column narrow[] = {
	{ "ID", true },	      { "NAME", .cut = 6 }, { "LANE", .drop = 1 },
	{ "LOG", .drop = 2 }, { "NOTE" },	    { 0 },
};

/* What is printed where $COLUMNS are so many; 0: not said, and nothing is cut or wrapped. */
static char *printed(const struct table *t, unsigned int columns)
{
	cleanup_free char *text = xasprintf("%u", columns);
	FILE *out = tmpfile();
	int screen = dup(STDOUT_FILENO);
	char buf[4096];
	size_t n;

	assert_non_null(out);
	if (columns)
		(void)setenv("COLUMNS", text, 1);
	else
		(void)unsetenv("COLUMNS");
	/* Only standard output follows $COLUMNS. */
	(void)fflush(stdout);
	(void)dup2(fileno(out), STDOUT_FILENO);
	table_print(t, stdout);
	(void)fflush(stdout);
	(void)dup2(screen, STDOUT_FILENO);
	(void)close(screen);
	rewind(out);
	n = fread(buf, 1, sizeof(buf) - 1, out);
	buf[n] = '\0';
	(void)fclose(out);
	return xstrdup(buf);
}

static const struct {
	const struct table_column *columns;
	unsigned int width;
	const char *rows[MOST][5];
	const char *expected;
} cases[] = {
	/* No row: the titles alone. */
	{ plain, 0, { { NULL } }, "GPU  STATE  WHO\n" },
	/* Numbers at the right, no blanks at the end of a line, what is unknown is a dash. */
	{ plain,
	  0,
	  { { "0", "held", "me" }, { "10", "", "" }, { "3", "busy", "-" } },
	  "GPU  STATE  WHO\n  0  held   me\n 10\n  3  busy   -\n" },
	/* Columns are of characters, not of bytes; a wide one takes two. */
	{ plain,
	  0,
	  { { "0", "h\xc3\xa9ld", "x" }, { "1", "\xe7\xbd\x91", "y" } },
	  "GPU  STATE  WHO\n  0  h\xc3\xa9ld   x\n  1  \xe7\xbd\x91     y\n" },
	/* What would turn a terminal is not printed. */
	{ plain, 0, { { "0", "a\033[2Jb", "x\ny" } }, "GPU  STATE   WHO\n  0  a?[2Jb  x y\n" },
	/* It fits. */
	{ narrow,
	  80,
	  { { "1", "train", "a", "logs/1", "waits" } },
	  "ID  NAME   LANE  LOG     NOTE\n 1  train  a     logs/1  waits\n" },
	/* One blank between columns is enough. */
	{ narrow,
	  40,
	  { { "1", "train-long", "lane-a", "logs/1", "waits for 7" } },
	  "ID NAME       LANE   LOG    NOTE\n 1 train-long lane-a logs/1 waits for 7\n" },
	/* The log goes first, then the lane. */
	{ narrow,
	  40,
	  { { "1", "train-long", "lane-a", "logs/1.txt", "waits for 7" } },
	  "ID NAME       LANE   NOTE\n 1 train-long lane-a waits for 7\n" },
	/* Names lose their middle, but no more than that. */
	{ narrow,
	  40,
	  { { "1", "a-very-long-name-of-a-task", "a-lane-as-well", "logs/1",
	      "waits for a device that is free" } },
	  "ID NAME     NOTE\n 1 a-v..ask waits for a device that is\n            free\n" },
	/* The last column is wrapped below itself. */
	{ narrow,
	  40,
	  { { "12", "train", "", "",
	      "waits for memory on a device that a friend uses now and then" } },
	  "ID NAME  NOTE\n12 train waits for memory on a device\n         that a friend uses now and then\n" },
	/* A word that fits nowhere gets a line of its own. */
	{ narrow,
	  40,
	  { { "12", "train", "", "", "/home/somebody/a/very/long/path/of/a/log" } },
	  "ID NAME  NOTE\n12 train\n     /home/somebody/a/very/long/path/of/a/log\n" },
};

static void test_print(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct table *t = table_new(cases[i].columns);

		assert_true(table_is_empty(t));
		for (size_t j = 0; j < MOST && cases[i].rows[j][0]; j++) {
			const char *const *c = cases[i].rows[j];

			table_add(t, TABLE_PLAIN, c[0], c[1], c[2], c[3], c[4]);
			assert_false(table_is_empty(t));
		}

		cleanup_free char *text = printed(t, cases[i].width);

		if (strcmp(text, cases[i].expected) != 0)
			fail_msg("case %zu:\n%s\ninstead of\n%s", i, text, cases[i].expected);
		(void)table_free(t);
	}
}

/* A style needs a terminal; what is missing is a dash there as everywhere. */
static void test_styles(void **state)
{
	struct table *t = table_new(plain);

	table_add(t, TERM_GREEN, "1", NULL, NULL);

	cleanup_free char *text = printed(t, 0);

	assert_string_equal(text, "GPU  STATE  WHO\n  1  -      -\n");
	(void)table_free(t);
	assert_null(table_free(NULL));
}

/* Rows are added beyond every power of two. */
static void test_many(void **state)
{
	struct table *t = table_new(plain);
	size_t lines = 0;

	for (int i = 0; i < 100; i++)
		table_add(t, TABLE_PLAIN, "1", "a", "b");

	cleanup_free char *text = printed(t, 0);

	for (const char *p = text; (p = strchr(p, '\n')); p++)
		lines++;
	assert_int_equal(lines, 101);
	(void)table_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_print),
		cmocka_unit_test(test_styles),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
