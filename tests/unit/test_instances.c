/* SPDX-License-Identifier: MIT */

/* Which queues there are and who serves them, and which one commands mean. */

#include <stdlib.h>
#include <string.h>

#include "cli_world.h"
#include "spool_world.h"
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/agent_status.h"
#include "spool/heartbeat.h"
#include "spool/instance.h"

static void assert_said(const struct cmd *cmd, const char *line, int code, const char *out,
			const char *err)
{
	struct said s = cli(cmd, line);

	if (s.code != code || !str_has_prefix(s.out, out) || !str_has_prefix(s.err, err) ||
	    (!out[0] && s.out[0]) || (!err[0] && s.err[0]))
		fail_msg("%s %s: %d, %s%s", cmd->name, line, s.code, s.out, s.err);
	said_clear(&s);
}

/* Another queue of the same root, with a task that waits. */
static void make(const char *name)
{
	cleanup_free char *line = xasprintf("-i %s --no-env -- true", name);

	assert_said(&cmd_submit, line, 0, "1\n", "");
}

static void leave(const struct spool *sp, const char *agent, const struct heartbeat *as)
{
	struct heartbeat b = *as;
	char path[SPOOL_PATH_MAX];

	b.count = 7;
	b.who = self(sp, agent);
	(void)str_copy(b.who.boot, sizeof(b.who.boot), as->who.boot[0] ? as->who.boot : b.who.boot);
	(void)str_copy(b.who.host, sizeof(b.who.host), as->who.host);
	assert_int_equal(heartbeat_write(sp, heartbeat_agent_path(agent, path), &b, NULL), 0);
}

static void run(const struct spool *sp, uint64_t id, const char *agent)
{
	struct claimer who = self(sp, agent);

	assert_int_equal(submit(sp, "{\"argv\":[\"true\"]}"), id);
	(void)claim(sp, id, &who);
}

/* 1 and 2 run on here, 3 on n7; 4 waits. */
static struct spool *world(void)
{
	static const struct heartbeat here = { .who = { .host = "here" }, .devices = 4, .held = 3 },
				      off = { .who = { .boot = "its-kernel", .host = "n7.example" },
					      .devices = 8,
					      .ended = true };
	struct spool *sp = open_spool();

	leave(sp, "here", &here);
	leave(sp, "n7", &off);
	run(sp, 1, "here");
	run(sp, 2, "here");
	run(sp, 3, "n7");
	(void)submit(sp, "{\"argv\":[\"true\"]}");
	return sp;
}

static void queues_and_those_who_serve_the_one_that_is_meant(void **state)
{
	struct spool *sp = world();
	struct said s;

	make("other");
	s = cli(&cmd_instances, "");
	assert_int_equal(s.code, 0);
	assert_string_equal(s.err, "");
	assert_true(str_has_prefix(s.out, "   NAME     WAITING  RUNNING\n"
					  "*  default        1        3\n"
					  "   other          1        0\n"
					  "\nThe agents that serve default:\n"));
	/* What its heartbeat said, but for what runs, which is counted. */
	assert_non_null(strstr(s.out, "*  here              alive "));
	assert_non_null(strstr(s.out, "   n7    n7.example  ended "));
	assert_non_null(strstr(s.out, "     4     3     0     0        2\n"));
	assert_non_null(strstr(s.out, "     8     0     0     0        1\n"));
	said_clear(&s);
	assert_said(&cmd_instances, "-i other", 0,
		    "   NAME     WAITING  RUNNING\n"
		    "   default        1        3\n"
		    "*  other          1        0\n"
		    "\nNo agent serves other; tenure on -i other starts one.\n",
		    "");
	(void)spool_close(sp);
}

static void one_that_drains_or_is_silent_is_told_by_its_state(void **state)
{
	static const struct heartbeat draining = { .who = { .host = "a" }, .draining = true };
	struct spool *sp = open_spool();
	struct said s;

	leave(sp, "a", &draining);
	s = cli(&cmd_instances, "");
	assert_non_null(strstr(s.out, "*  a           draining "));
	said_clear(&s);
	put(sp, "agents/b", "no heartbeat");
	s = cli(&cmd_instances, "");
	assert_non_null(strstr(s.out, "   b           silent            -  "));
	said_clear(&s);
	(void)spool_close(sp);
}

static void a_line_of_json_per_queue(void **state)
{
	struct spool *sp = world();
	struct said s = cli(&cmd_instances, "--json");
	json_t *doc = json_loads(s.out, 0, NULL), *want;
	const json_t *nodes = json_object_get(doc, "nodes");

	assert_int_equal(s.code, 0);
	assert_non_null(doc);
	assert_int_equal(json_array_size(nodes), 2);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(nodes, 0), "running")),
			 2);
	assert_string_equal(json_string_value(json_object_get(json_array_get(nodes, 1), "state")),
			    "off");
	(void)json_object_del(doc, "nodes");
	want = json_pack("{s:s, s:b, s:i, s:i, s:[]}", "name", "default", "current", 1, "waiting",
			 1, "running", 3, "pools");
	assert_true(json_equal(doc, want));
	json_decref(want);
	json_decref(doc);
	said_clear(&s);
	(void)spool_close(sp);
}

/* What an agent in a job has left of itself. */
static void leave_status(const struct spool *sp, const char *agent, uint64_t end_ns)
{
	struct agent_status s = { .end_ns = end_ns, .restarts = 2 };
	cleanup_free char *text = NULL;

	(void)str_copy(s.agent, sizeof(s.agent), agent);
	(void)str_copy(s.version, sizeof(s.version), "0.9");
	(void)str_copy(s.engine, sizeof(s.engine), "slurm");
	(void)str_copy(s.job, sizeof(s.job), "123");
	(void)str_copy(s.pool, sizeof(s.pool), "night");
	text = agent_status_text(&s);
	assert_int_equal(agent_status_write(sp, agent, text, NULL), 0);
}

static void a_job_and_its_end_are_shown_where_an_agent_is_in_one(void **state)
{
	static const struct heartbeat b = { .who = { .host = "n7" }, .devices = 4 };
	struct spool *sp = open_spool();
	struct said s;
	json_t *doc, *want;
	char end[CLOCK_TEXT_MAX];

	leave(sp, "n7-slurm.123", &b);
	leave(sp, "n8", &b);
	s = cli(&cmd_instances, "");
	assert_null(strstr(s.out, "JOB"));
	said_clear(&s);
	/* 2026-11-24 13:00 UTC, where the tests are in CET. */
	leave_status(sp, "n7-slurm.123", 1795525200 * NS_PER_S);
	s = cli(&cmd_instances, "");
	assert_non_null(strstr(s.out, "RUNNING  JOB        ENDS\n"));
	assert_non_null(strstr(s.out, "  0  slurm 123  2026-11-24 14:00:00\n"));
	assert_non_null(strstr(s.out, "  0  -\n"));
	said_clear(&s);
	s = cli(&cmd_instances, "--json");
	doc = json_loads(s.out, 0, NULL);
	want = json_pack("{ss ss si ss so ss}", "engine", "slurm", "id", "123", "restarts", 2,
			 "pool", "night", "token", json_null(), "deadline",
			 clock_format_iso(1795525200 * NS_PER_S, end));
	assert_true(json_equal(
		json_object_get(json_array_get(json_object_get(doc, "nodes"), 0), "job"), want));
	assert_true(json_is_null(
		json_object_get(json_array_get(json_object_get(doc, "nodes"), 1), "job")));
	json_decref(want);
	json_decref(doc);
	said_clear(&s);
	(void)spool_close(sp);
}

static void no_queue_is_no_error(void **state)
{
	assert_said(&cmd_instances, "", 0, "There is none in /tmp/tenure-spool-", "");
	assert_said(&cmd_instances, "--json", 0, "", "");
}

/* ---- use ---- */

static void the_queue_that_is_meant_is_chosen(void **state)
{
	struct spool *sp = open_spool();

	(void)submit(sp, "{\"argv\":[\"true\"]}");
	make("other");
	assert_said(&cmd_use, "", 0, "default (default)\n", "");
	assert_said(&cmd_use, "other", 0, "Commands now mean the queue \"other\".\n", "");
	assert_said(&cmd_use, "", 0, "other (tenure use ", "");
	assert_said(&cmd_list, "--json", 0, "{\"id\":1,", "");
	assert_said(&cmd_use, "-i default", 0, "default (command line --instance)\n", "");
	/* What is set in the shell goes before it, and it may be a slip of the pen. */
	(void)setenv("TENURE_INSTANCE", "default", 1);
	assert_said(
		&cmd_use, "othre", 0,
		"\"othre\" is chosen for commands where TENURE_INSTANCE is not set.\n",
		"tenure: warning: TENURE_INSTANCE is set in this shell and goes before it: here "
		"commands mean \"default\" until that is unset\n"
		"tenure: note: there is no queue \"othre\" yet; tenure submit makes it");
	assert_said(&cmd_use, "", 0, "default (environment TENURE_INSTANCE)\n", "");
	(void)unsetenv("TENURE_INSTANCE");
	assert_said(&cmd_use, "", 0, "othre (tenure use ", "");
	(void)spool_close(sp);
}

static void what_can_be_no_queue_is_refused(void **state)
{
	static const char *const names[] = { "''", "a/b", "..", "'a b'", "-- -x" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		assert_said(&cmd_use, names[i], CMD_USAGE, "", "tenure: ");
	assert_said(&cmd_use, "", 0, "default (default)\n", "");
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, cli_setup, cli_teardown)
	const struct CMUnitTest tests[] = {
		IN_A_SPOOL(queues_and_those_who_serve_the_one_that_is_meant),
		IN_A_SPOOL(one_that_drains_or_is_silent_is_told_by_its_state),
		IN_A_SPOOL(a_line_of_json_per_queue),
		IN_A_SPOOL(a_job_and_its_end_are_shown_where_an_agent_is_in_one),
		IN_A_SPOOL(no_queue_is_no_error),
		IN_A_SPOOL(the_queue_that_is_meant_is_chosen),
		IN_A_SPOOL(what_can_be_no_queue_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
