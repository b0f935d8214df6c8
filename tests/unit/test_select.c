/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "spool_world.h"
#include "unit.h"

#include "base/mem.h"
#include "base/strbuf.h"
#include "cli/task/select.h"

/*
 * 1 exp1 (done), 2 exp10 and 3 exp11 of lane week, 4 train (runs), 5 batch of 3 elements, 6 Abend,
 * 7 train (waits), 8 over (cancelled) of lane old.
 */
static struct spool *world(void)
{
	static const char *const names[] = { "exp1",  "exp10", "exp11", "train",
					     "batch", "Abend", "train", "over" };
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");
	struct claim c;
	struct scan_task t;
	struct spool_end end;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *lane = i == 1 || i == 2 ? ",\"lane\":\"week\""
				   : i == 7	    ? ",\"lane\":\"old\""
						    : "";
		const char *array = i == 4 ? ",\"array\":\"0-2\"" : "";
		cleanup_free char *json = xasprintf("{\"argv\":[\"true\"],\"name\":\"%s\"%s%s}",
						    names[i], lane, array);

		assert_int_equal(submit(sp, json), i + 1);
	}
	c = claim(sp, 1, &me);
	end = done(&c);
	assert_int_equal(transit_end(sp, NULL, &c, &end, NULL), 0);
	c = claim(sp, 4, &me);
	assert_true(get(sp, 8, &t));
	assert_int_equal(transit_cancel(sp, &t.name, "stopped", NULL), 0);
	return sp;
}

/* Ids of what a word means, or "!" and the error. */
static const struct {
	const char *word;
	unsigned int flags;
	const char *expected;
} cases[] = {
	{ "2", 0, "2" },
	{ "5.2", 0, "!there is no task 5 in instance" }, /* no element has a file yet */
	{ "5", 0, "5" },
	{ "exp10", 0, "2" },
	{ "exp", 0, "!\"exp\" is ambiguous (2 exp10, 3 exp11); use the ID or a longer prefix" },
	{ "exp1", 0, "!no task that waits or runs in instance \"default\" is called \"exp1\"" },
	{ "exp1", SELECT_TELL_ENDED, "!task 1 (exp1) has ended already: done, " },
	{ "1", SELECT_TELL_ENDED, "!task 1 (exp1) has ended already: done, " },
	{ "1", 0, "!there is no task 1 in instance \"default\" (tenure list -a shows them all)" },
	{ "Ab", 0, "6" },
	{ "Ab", SELECT_EXACT, "!no task that waits or runs" },
	{ "ab", 0, "!no task that waits or runs in instance \"default\" is called \"ab\"" },
	{ "train", 0, "4 7" }, /* what runs comes first */
	{ "./train", 0, "4 7" },
	{ "week", 0, "!\"week\" is a lane, and one task is needed here" },
	{ "week", SELECT_LANES, "2 3" },
	{ "old", SELECT_LANES | SELECT_TELL_ENDED,
	  "!nothing of lane \"old\" waits or runs any more" },
	{ "all", SELECT_LANES, "4 2 3 5 6 7" },
	{ "all", 0, "!nothing waits or runs in instance" },
	{ "", 0, "!\"\" means no task" },
	{ "5.0", 0, "!there is no element 5.0: they count from 1" },
	{ "99", 0, "!there is no task 99" },
	{ "trian", 0,
	  "!no task that waits or runs in instance \"default\" is called \"trian\"; did you mean train" },
	{ "trian", SELECT_ENDED_TOO,
	  "!no task in instance \"default\" is called \"trian\"; did you mean train (tenure list -a" },
};

static void check(size_t i, const char *got)
{
	if (strncmp(got, cases[i].expected, strlen(cases[i].expected)) != 0 ||
	    (got[0] != '!' && strcmp(got, cases[i].expected) != 0))
		fail_msg("\"%s\": %s instead of %s", cases[i].word, got, cases[i].expected);
}

static void test_tasks(void **state)
{
	struct spool *sp = world();

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_strbuf struct strbuf b = STRBUF_INIT;
		struct task_set set = { .n = 0 };
		struct err e = ERR_INIT;

		if (select_tasks(sp, cases[i].word, cases[i].flags, &set, &e) < 0)
			strbuf_addf(&b, "!%s", e.text);
		for (size_t j = 0; j < set.n; j++)
			strbuf_addf(&b, "%s%d", j ? " " : "", (int)set.tasks[j].name.id);
		free(set.tasks);
		check(i, strbuf_str(&b));
	}
	(void)spool_close(sp);
}

/* One task, wherever it is: of several ended ones the last, of several that wait none. */
static void test_one(void **state)
{
	static const struct {
		const char *word;
		uint64_t id, element;
		enum spool_dir dir;
		const char *error;
	} ones[] = {
		{ "1", 1, 0, SPOOL_DONE },
		{ "exp1", 1, 0, SPOOL_DONE },
		{ "over", 8, 0, SPOOL_CANCELLED },
		{ "4", 4, 0, SPOOL_RUNNING },
		{ "5.3", 5, 3, SPOOL_PENDING },
		{ "5.4", .error = "task 5 has 3 elements, no 4" },
		{ "2.1", .error = "task 2 is no batch and has no elements: say 2" },
		{ "train", .error = "\"train\" is ambiguous (4 train, 7 train); use the ID" },
		{ "all", .error = "one task is needed here" },
		{ "nobody", .error = "no task in instance \"default\" is called \"nobody\"" },
	};
	struct spool *sp = world();

	for (size_t i = 0; i < ARRAY_LEN(ones); i++) {
		struct task_place p = { .element = 0 };
		struct err e = ERR_INIT;
		int r = select_one(sp, ones[i].word, &p, &e);

		if (ones[i].error) {
			assert_true(r < 0);
			if (!strstr(e.text, ones[i].error))
				fail_msg("%s: %s", ones[i].word, e.text);
			continue;
		}
		assert_int_equal(r, 0);
		assert_int_equal(p.name.id, ones[i].id);
		assert_int_equal(p.element, ones[i].element);
		assert_int_equal(p.dir, ones[i].dir);
		assert_string_equal(e.text, "");
	}
	assert_true(select_was_lane(sp, "old"));
	assert_false(select_was_lane(sp, "week"));
	(void)spool_close(sp);
}

static void test_texts(void **state)
{
	struct task_place p = { .dir = SPOOL_FAILED, .name = { .ended_s = 1770000000, .exit = 3 } };
	char text[SELECT_END_MAX], id[SELECT_ID_MAX];

	assert_string_equal(select_format_end(&p, text),
			    "has ended already: failed, with exit code 3, 2026-02-02 03:40:00");
	p.name.exit = NAME_SIGNALLED + 9;
	assert_string_equal(select_format_end(&p, text),
			    "has ended already: failed, by signal 9, 2026-02-02 03:40:00");
	p.dir = SPOOL_DONE;
	assert_string_equal(select_format_end(&p, text),
			    "has ended already: done, 2026-02-02 03:40:00");
	p.dir = SPOOL_CANCELLED;
	assert_string_equal(select_format_end(&p, text),
			    "has ended already: stopped, 2026-02-02 03:40:00");
	assert_string_equal(select_format_id(42, 0, id), "42");
	assert_string_equal(select_format_id(42, 7, id), "42.7");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_tasks, spool_setup, spool_teardown),
		cmocka_unit_test_setup_teardown(test_one, spool_setup, spool_teardown),
		cmocka_unit_test(test_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
