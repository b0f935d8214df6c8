/* SPDX-License-Identifier: MIT */

/*
 * What `tenure stop` does where no agent of this node runs: what waits is taken away, and of what
 * runs it is said who would have to end it.
 */

#include <stdlib.h>
#include <string.h>

#include "cli_world.h"
#include "spool_world.h"
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/task/select.h"
#include "spool/heartbeat.h"
#include "spool/instance.h"

/* 1 exp1 and 2 exp2 of lane week wait, 3 train waits for the second time, 4 many has 3 elements, 5
 * ended is done, 6 train waits. */
static struct spool *world(void)
{
	static const char *const specs[] = {
		"{\"argv\":[\"true\"],\"name\":\"exp1\",\"lane\":\"week\"}",
		"{\"argv\":[\"true\"],\"name\":\"exp2\",\"lane\":\"week\"}",
		"{\"argv\":[\"true\"],\"name\":\"train\"}",
		"{\"argv\":[\"true\"],\"name\":\"many\",\"array\":\"0-2\"}",
		"{\"argv\":[\"true\"],\"name\":\"ended\"}",
		"{\"argv\":[\"true\"],\"name\":\"train\"}",
	};
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");
	struct spool_again again = { .attempts = 1, .begun_ns = clock_wall_ns() };
	struct claim c;
	struct spool_end end;

	for (size_t i = 0; i < ARRAY_LEN(specs); i++)
		assert_int_equal(submit(sp, specs[i]), i + 1);
	c = claim(sp, 3, &me);
	assert_int_equal(transit_requeue(sp, NULL, &c, &again, NULL), 0);
	c = claim(sp, 5, &me);
	end = done(&c);
	assert_int_equal(transit_end(sp, NULL, &c, &end, NULL), 0);
	return sp;
}

/* "1p 2c": where each task is by now. */
static char *places(const struct spool *sp)
{
	static const char letters[SPOOL_DIR_MAX] = { [SPOOL_PENDING] = 'p',
						     [SPOOL_RUNNING] = 'r',
						     [SPOOL_DONE] = 'd',
						     [SPOOL_FAILED] = 'f',
						     [SPOOL_CANCELLED] = 'c' };
	struct task_place p;
	char *text = xstrdup("");

	for (uint64_t id = 1; select_by_id(sp, id, 0, &p, NULL) == 0; id++) {
		cleanup_free char *before = text;

		text = xasprintf("%s%c", before, letters[p.dir]);
	}
	return text;
}

static const struct {
	const char *words;
	int code;
	const char *out, *err; /* the beginning of each */
	const char *places;
} cases[] = {
	{ "1", 0, "1 exp1 is cancelled; it had not started\n", "", "cpppdp" },
	{ "3", 0, "3 train is cancelled; it waited to run again\n", "", "ppcpdp" },
	{ "exp2", 0, "2 exp2 is cancelled; it had not started\n", "", "pcppdp" },
	/* All of a name, of a lane, and all: the last one first, or it starts in another's place.
	 */
	{ "train", 0,
	  "6 train is cancelled; it had not started\n3 train is cancelled; it waited to run again\n",
	  "", "ppcpdc" },
	{ "week", 0,
	  "2 exp2 is cancelled; it had not started\n1 exp1 is cancelled; it had not started\n", "",
	  "ccppdp" },
	{ "all", 0, "", "", "ccccdc" },
	{ "4", 0, "4 many is cancelled: no more of its elements are started\n", "", "pppcdp" },
	{ "many", 0, "4 many is cancelled: no more of its elements are started\n", "", "pppcdp" },
	{ "4.2", 0, "4.2 many is cancelled; it did not run\n", "", "ppppdp" },
	{ "1 2", 0,
	  "1 exp1 is cancelled; it had not started\n2 exp2 is cancelled; it had not started\n", "",
	  "ccppdp" },
	/* What is wrong keeps none of the others from it. */
	{ "9", 1, "", "tenure: there is no task 9 in instance \"default\"", "ppppdp" },
	{ "9 1", 1, "1 exp1 is cancelled; it had not started\n", "tenure: there is no task 9",
	  "cpppdp" },
	{ "9 8 1", 1, "1 exp1 is cancelled; it had not started\n", "tenure: there is no task 9",
	  "cpppdp" },
	{ "5", 1, "", "tenure: task 5 (ended) has ended already: done, ", "ppppdp" },
	{ "ended", 1, "", "tenure: task 5 (ended) has ended already: done, ", "ppppdp" },
	{ "exp", 1, "", "tenure: \"exp\" is ambiguous (1 exp1, 2 exp2); use the ID", "ppppdp" },
	{ "nobody", 1, "", "tenure: no task that waits or runs in instance \"default\" is called",
	  "ppppdp" },
	{ "4.4", 1, "", "tenure: task 4 has 3 elements, no 4", "ppppdp" },
	{ "1.1", 1, "", "tenure: task 1 is no batch and has no elements", "ppppdp" },
	{ "''", 1, "", "tenure: \"\" means no task", "ppppdp" },
	{ "", 2, "", "tenure: usage: tenure stop ID|NAME|LANE|all|last..", "ppppdp" },
};

static void what_waits_is_taken_away(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *where = NULL;
		struct spool *sp;
		struct said s;

		assert_int_equal(cli_setup(state), 0);
		sp = world();
		s = cli(&cmd_stop, cases[i].words);
		where = places(sp);
		if (s.code != cases[i].code || !str_has_prefix(s.out, cases[i].out) ||
		    !str_has_prefix(s.err, cases[i].err) || (!cases[i].err[0] && s.err[0]) ||
		    strcmp(where, cases[i].places) != 0)
			fail_msg("stop %s: %d, %s%s%s", cases[i].words, s.code, s.out, s.err,
				 where);
		said_clear(&s);
		(void)spool_close(sp);
		assert_int_equal(cli_teardown(state), 0);
	}
}

static void nothing_that_waits_is_no_error(void **state)
{
	struct spool *sp = open_spool();
	struct said s = cli(&cmd_stop, "all");

	assert_int_equal(s.code, 0);
	assert_string_equal(s.err, "tenure: note: nothing waits or runs in instance \"default\"\n");
	said_clear(&s);
	(void)spool_close(sp);
}

/* An element that is stopped has an end of its own; the rest of its batch goes on waiting. */
static void a_stopped_element_is_ended_once(void **state)
{
	static const struct {
		const char *element, *err; /* "": it was stopped */
	} steps[] = {
		{ "4.2", "" },
		{ "4.2", "tenure: 4.2 has ended already: it was stopped\n" },
		{ "4.1", "" },
		{ "4.3", "" },
		{ "4.3", "tenure: 4.3 has ended already: it was stopped\n" },
		{ "4", "tenure: task 4 (many) has ended already: stopped, " },
	};
	struct spool *sp = world();
	struct task_place p;

	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		struct said s = cli(&cmd_stop, steps[i].element);

		if (s.code != (steps[i].err[0] != '\0') || !str_has_prefix(s.err, steps[i].err))
			fail_msg("%s: %d, %s%s", steps[i].element, s.code, s.out, s.err);
		said_clear(&s);
	}
	/* With its last element the batch is over. */
	assert_int_equal(select_by_id(sp, 4, 0, &p, NULL), 0);
	assert_int_equal(p.dir, SPOOL_CANCELLED);
	assert_int_equal(count_files(sp, "running"), 0);
	(void)spool_close(sp);
}

/* ---- what runs under agents that do not answer ---- */

static void leave(const struct spool *sp, const char *agent, const char *host, bool ended,
		  bool declared_dead)
{
	struct heartbeat b = { .count = 7, .who = self(sp, agent), .ended = ended };
	char path[SPOOL_PATH_MAX];

	(void)str_copy(b.who.host, sizeof(b.who.host), host);
	(void)str_copy(b.who.boot, sizeof(b.who.boot), "another-kernel");
	assert_int_equal(heartbeat_write(sp, heartbeat_agent_path(agent, path), &b, NULL), 0);
	if (declared_dead)
		assert_int_equal(
			heartbeat_write(sp, heartbeat_declared_dead_path(agent, path), &b, NULL),
			0);
}

static void who_would_have_to_end_it_is_told(void **state)
{
	static const struct {
		const char *agent, *host; /* host NULL: it has left no heartbeat */
		bool ended;
		const char *err;
	} agents[] = {
		{ "n7", NULL, false,
		  "tenure: task 1 runs under the agent n7, which is not there any more (it has left no "
		  "heartbeat): tenure on there starts one that takes it over; then stop it\n" },
		{ "n7", "n7.example", true,
		  "tenure: task 1 runs under the agent n7 (host n7.example), which is not there any "
		  "more (it ended " },
		{ "n7", "n7", false,
		  "tenure: task 1 runs under the agent n7, which does not answer (its last heartbeat "
		  "was " },
	};

	for (size_t i = 0; i < ARRAY_LEN(agents); i++) {
		struct claimer who;
		struct spool *sp;
		struct said s;

		assert_int_equal(cli_setup(state), 0);
		sp = world();
		who = self(sp, agents[i].agent);
		(void)claim(sp, 1, &who);
		if (agents[i].host)
			leave(sp, agents[i].agent, agents[i].host, agents[i].ended, false);
		s = cli(&cmd_stop, "1 2 --timeout 10ms");
		if (s.code != 1 || !str_has_prefix(s.err, agents[i].err))
			fail_msg("%zu: %d, %s", i, s.code, s.err);
		/* The other one is stopped all the same. */
		assert_string_equal(s.out, "2 exp2 is cancelled; it had not started\n");
		/* Nobody obeys later. */
		assert_int_equal(count_files(sp, "control"), 0);
		said_clear(&s);
		(void)spool_close(sp);
		assert_int_equal(cli_teardown(state), 0);
	}
}

/* Of many only some are named. */
static void many_of_one_agent_are_told_of_in_one_sentence(void **state)
{
	struct spool *sp = open_spool();
	struct claimer who = self(sp, "n7");
	struct said s;

	for (uint64_t id = 1; id <= 7; id++) {
		assert_int_equal(submit(sp, "{\"argv\":[\"true\"],\"name\":\"a\"}"), id);
		(void)claim(sp, id, &who);
	}
	s = cli(&cmd_stop, "1 2 3 4 5 6 --timeout 10ms");
	assert_true(str_has_prefix(s.err,
				   "tenure: tasks 1, 2, 3, 4, 5, 6 run under the agent n7, which "
				   "is not there any more"));
	assert_non_null(strstr(s.err, "takes them over; then stop them"));
	said_clear(&s);
	s = cli(&cmd_stop, "a --timeout 10ms");
	assert_true(str_has_prefix(s.err,
				   "tenure: tasks 7, 6, 5, 4, 3 and 2 more run under the agent"));
	said_clear(&s);
	(void)spool_close(sp);
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, cli_setup, cli_teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_waits_is_taken_away),
		IN_A_SPOOL(nothing_that_waits_is_no_error),
		IN_A_SPOOL(a_stopped_element_is_ended_once),
		cmocka_unit_test(who_would_have_to_end_it_is_told),
		IN_A_SPOOL(many_of_one_agent_are_told_of_in_one_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
