/* SPDX-License-Identifier: MIT */

/* What `tenure pause`, `resume` and `priority` change of what waits: tasks, lanes, all. */

#include <stdlib.h>
#include <string.h>

#include "cli_world.h"
#include "spool_world.h"
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/task/select.h"
#include "spool/instance.h"
#include "spool/lane.h"

/* 1 a and 2 b of lane week, 3 a of no lane, 4 many with 2 elements, 5 runs, 6 is done, 7 is in its
 * back-off. */
static struct spool *world(void)
{
	static const char *const specs[] = {
		"\"name\":\"a\",\"lane\":\"week\"",
		"\"name\":\"b\",\"lane\":\"week\"",
		"\"name\":\"a\"",
		"\"name\":\"many\",\"array\":\"0-1\"",
		"\"name\":\"runs\"",
		"\"name\":\"ended\"",
		"\"name\":\"later\"",
	};
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");
	struct spool_again again = { .attempts = 1,
				     .begun_ns = clock_wall_ns(),
				     .not_before_ns = clock_wall_ns() + 3600 * NS_PER_S };
	struct spool_end end;
	struct claim c;

	for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
		cleanup_free char *json = xasprintf("{\"argv\":[\"true\"],%s}", specs[i]);

		assert_int_equal(submit(sp, json), i + 1);
	}
	(void)claim(sp, 5, &me);
	c = claim(sp, 6, &me);
	end = done(&c);
	assert_int_equal(transit_end(sp, NULL, &c, &end, NULL), 0);
	c = claim(sp, 7, &me);
	assert_int_equal(transit_requeue(sp, NULL, &c, &again, NULL), 0);
	return sp;
}

/* The tasks that are paused, "W" for lane week, and "B" for a back-off that is over. */
static char *paused(const struct spool *sp)
{
	char *text = xstrdup(lane_is_paused(sp, "week") ? "W" : "");
	struct scan_task t;

	for (uint64_t id = 1; id <= 7; id++) {
		cleanup_free char *before = text;

		text = get(sp, id, &t) && t.name.flags & NAME_PAUSED
			       ? xasprintf("%s%d", before, (int)id)
			       : xstrdup(before);
	}
	if (get(sp, 7, &t) && !t.name.begin_s) {
		cleanup_free char *before = text;

		text = xasprintf("%sB", before);
	}
	return text;
}

/* Steps, each after those before it. */
static const struct {
	const struct cmd *cmd;
	const char *words;
	int code;
	const char *out, *err; /* the beginning of each; "": nothing */
	const char *paused;
} steps[] = {
	{ &cmd_pause, "1", 0, "1 a is paused\n", "", "1" },
	{ &cmd_pause, "1", 0, "1 a is paused\n", "", "1" },
	{ &cmd_resume, "1", 0, "1 a is resumed\n", "", "" },
	{ &cmd_resume, "1", 0, "1 a is not paused\n", "", "" },
	/* All that are called so, and the beginning of a name where it is clear. */
	{ &cmd_pause, "a", 0, "1 a is paused\n3 a is paused\n", "", "13" },
	{ &cmd_resume, "a", 0, "1 a is resumed\n3 a is resumed\n", "", "" },
	{ &cmd_pause, "man", 0, "4 many is paused\n", "", "4" },
	/* A lane is paused itself: what is submitted to it later waits as well. */
	{ &cmd_pause, "week", 0, "lane week is paused\n", "", "W4" },
	{ &cmd_resume, "2", 0, "2 b is not paused\n",
	  "tenure: note: its lane is paused, too: tenure resume week\n", "W4" },
	{ &cmd_pause, "2", 0, "2 b is paused\n", "", "W24" },
	{ &cmd_resume, "week", 0, "lane week is resumed\n2 b is resumed\n", "", "4" },
	{ &cmd_resume, "week", 1, "",
	  "tenure: nothing of lane \"week\" is paused, or in a back-off\n", "4" },
	/* Of all, what is not paused is not meant by resume; a back-off is over with it. */
	{ &cmd_pause, "all", 0, "1 a is paused\n", "", "12347" },
	{ &cmd_resume, "all", 0, "1 a is resumed\n", "", "B" },
	{ &cmd_resume, "all", 0, "", "tenure: note: nothing that waits is paused\n", "B" },
	/* What cannot be changed. */
	{ &cmd_pause, "5", 1, "",
	  "tenure: task 5 (runs) runs already; only what waits can be changed\n", "B" },
	{ &cmd_pause, "6", 1, "", "tenure: task 6 (ended) has ended already: done, ", "B" },
	{ &cmd_pause, "4.1", 1, "",
	  "tenure: 4.1 is an element; its priority and pauses are those of task 4 as a whole\n",
	  "B" },
	{ &cmd_pause, "9", 1, "", "tenure: there is no task 9 in instance \"default\"", "B" },
	/* Word by word: a wrong one keeps none of the others from it. */
	{ &cmd_pause, "1 9 2", 1, "1 a is paused\n2 b is paused\n", "tenure: there is no task 9",
	  "12B" },
	{ &cmd_pause, "nobody", 1, "",
	  "tenure: no task that waits or runs in instance \"default\" is called \"nobody\"",
	  "12B" },
};

static void each_step_changes_what_it_is_about(void **state)
{
	struct spool *sp = world();

	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		struct said s = cli(steps[i].cmd, steps[i].words);
		cleanup_free char *is = paused(sp);

		if (s.code != steps[i].code || !str_has_prefix(s.out, steps[i].out) ||
		    !str_has_prefix(s.err, steps[i].err) || (!steps[i].out[0] && s.out[0]) ||
		    (!steps[i].err[0] && s.err[0]) || strcmp(is, steps[i].paused) != 0)
			fail_msg("step %zu, %s %s: %d, %s%s%s", i, steps[i].cmd->name,
				 steps[i].words, s.code, s.out, s.err, is);
		said_clear(&s);
	}
	(void)spool_close(sp);
}

static void a_priority_is_a_number_of_what_waits(void **state)
{
	static const struct {
		const char *words;
		int code;
		const char *out, *err;
	} cases[] = {
		{ "3 1", 0, "1 a has priority 3\n", "" },
		{ "0 2 3", 0, "2 b has priority 0\n3 a has priority 0\n", "" },
		{ "99999 week", 0, "2 b has priority 99999\n", "" },
		{ "7 5", 1, "", "tenure: task 5 (runs) runs already" },
		{ "99999 5 1", 1, "1 a has priority 99999\n",
		  "tenure: task 5 (runs) runs already" },
		{ "100000 1", 2, "", "tenure: " },
		{ "high 1", 2, "", "tenure: " },
		{ "-1 1", 2, "", "tenure: " },
		{ "3", 2, "", "tenure: usage: tenure priority " },
	};
	struct spool *sp = world();
	struct scan_task t;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct said s = cli(&cmd_priority, cases[i].words);

		if (s.code != cases[i].code || !str_has_prefix(s.out, cases[i].out) ||
		    !str_has_prefix(s.err, cases[i].err) || (!cases[i].err[0] && s.err[0]))
			fail_msg("priority %s: %d, %s%s", cases[i].words, s.code, s.out, s.err);
		said_clear(&s);
	}
	assert_true(get(sp, 1, &t));
	assert_int_equal(t.name.priority, 99999); /* with its lane */
	assert_true(get(sp, 3, &t));
	assert_int_equal(t.name.priority, 0);
	assert_true(get(sp, 4, &t));
	assert_int_equal(t.name.priority, SPEC_PRIORITY);
	(void)spool_close(sp);
}

/* Also of one that is asked for before anything of it is there: it has to have been one. */
static void a_lane_that_is_empty_can_be_paused_if_it_was_one(void **state)
{
	struct spool *sp = world();
	struct said s = cli(&cmd_stop, "week");

	assert_int_equal(s.code, 0);
	said_clear(&s);
	s = cli(&cmd_pause, "week");
	assert_int_equal(s.code, 0);
	assert_string_equal(s.out, "lane week is paused\n");
	assert_true(lane_is_paused(sp, "week"));
	said_clear(&s);
	s = cli(&cmd_pause, "weak");
	assert_int_equal(s.code, 1);
	assert_false(lane_is_paused(sp, "weak"));
	said_clear(&s);
	(void)spool_close(sp);
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, cli_setup, cli_teardown)
	const struct CMUnitTest tests[] = {
		IN_A_SPOOL(each_step_changes_what_it_is_about),
		IN_A_SPOOL(a_priority_is_a_number_of_what_waits),
		IN_A_SPOOL(a_lane_that_is_empty_can_be_paused_if_it_was_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
