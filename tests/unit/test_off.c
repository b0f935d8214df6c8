/* SPDX-License-Identifier: MIT */

/* What `off`, `shutdown` and `status` say where no agent runs, and which tasks run on all the same.
 */

#include <stdlib.h>
#include <string.h>

#include "cli_world.h"
#include "spool_world.h"
#include "unit.h"

#include "base/mem.h"
#include "base/str.h"
#include "spool/heartbeat.h"
#include "spool/instance.h"

#define NOTHING "Nothing to do: no agent of instance default runs on this node.\n"

static void assert_said(const struct cmd *cmd, const char *line, int code, const char *out,
			const char *err)
{
	struct said s = cli(cmd, line);

	if (s.code != code || strcmp(s.out, out) != 0 || !str_has_prefix(s.err, err) ||
	    (!err[0] && s.err[0]))
		fail_msg("%s %s: %d, %s%s", cmd->name, line, s.code, s.out, s.err);
	said_clear(&s);
}

/* Letting go of nothing is no error, whether anything was ever submitted or not. */
static void nothing_that_is_held_is_let_go_of(void **state)
{
	static const char *const lines[] = { "", "--drain", "--stop-tasks" };
	struct spool *sp;

	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		assert_said(&cmd_off, lines[i], 0, NOTHING, "");
	sp = open_spool();
	(void)submit(sp, "{\"argv\":[\"true\"]}");
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		assert_said(&cmd_off, lines[i], 0, NOTHING, "");
	assert_said(&cmd_off, "--json", 0,
		    "{\"pid\":null,\"released\":true,\"took_ms\":0.0,\"tasks_running\":null}\n",
		    "");
	assert_said(&cmd_off, "now", CMD_USAGE, "", "tenure: unexpected argument \"now\"");
	(void)spool_close(sp);
}

/* ---- tasks that were to end as well ---- */

/* What has been claimed, by whom, and on which boot. */
static void run(const struct spool *sp, uint64_t id, const char *boot)
{
	struct claimer who = self(sp, "n1");

	assert_int_equal(submit(sp, "{\"argv\":[\"true\"],\"name\":\"a\"}"), id);
	if (boot)
		(void)str_copy(who.boot, sizeof(who.boot), boot);
	(void)claim(sp, id, &who);
}

/* Of what was begun on this node, and has neither a shim nor an end, nobody knows. */
static void tasks_that_may_run_on_are_named(void **state)
{
	struct spool *sp = open_spool();

	run(sp, 1, "another-kernel");
	assert_said(&cmd_off, "--drain", 0, NOTHING, "");
	run(sp, 2, NULL);
	assert_said(&cmd_off, "", 0, NOTHING, ""); /* they were not to end */
	assert_said(
		&cmd_off, "--drain", 1, "",
		"tenure: task 2 was not committed, so that it is not known whether it runs: tenure on "
		"starts an agent that takes over what runs and commits what has ended; then ask "
		"again\n");
	for (uint64_t id = 3; id <= 8; id++)
		run(sp, id, NULL);
	assert_said(
		&cmd_off, "--stop-tasks", 1, "",
		"tenure: tasks 2, 3, 4, 5, 6 and 2 more were not committed, so that it is not known "
		"whether they run: ");
	(void)spool_close(sp);
}

/* What its shim has left says that it has ended, and how. */
static void what_has_ended_does_not_run_on(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");
	struct spool_end end;
	struct claim c;

	(void)submit(sp, "{\"argv\":[\"true\"]}");
	c = claim(sp, 1, &me);
	end = done(&c);
	assert_int_equal(transit_end(sp, NULL, &c, &end, NULL), 0);
	assert_said(&cmd_off, "--drain", 0, NOTHING, "");
	(void)spool_close(sp);
}

/* ---- on all nodes ---- */

static void leave(const struct spool *sp, const char *agent, const char *boot, bool ended)
{
	struct heartbeat b = { .count = 7, .who = self(sp, agent), .ended = ended };
	char path[SPOOL_PATH_MAX];

	if (boot)
		(void)str_copy(b.who.boot, sizeof(b.who.boot), boot);
	assert_int_equal(heartbeat_write(sp, heartbeat_agent_path(agent, path), &b, NULL), 0);
}

static void nobody_is_there_to_be_shut_down(void **state)
{
	struct spool *sp;

	assert_said(&cmd_shutdown, "", CMD_NOTHING_RUNS, "",
		    "tenure: no agent of instance default runs, on any node\n");
	sp = open_spool();
	leave(sp, "n7", "its-kernel", true);
	assert_said(&cmd_shutdown, "", CMD_NOTHING_RUNS, "",
		    "tenure: no agent of instance default runs, on any node; n7: it ended ");
	assert_said(&cmd_shutdown, "--timeout 0s", CMD_USAGE, "", "tenure: --timeout: ");
	(void)spool_close(sp);
}

/* Each that does not answer is told of; nothing is left for it to obey later. */
static void who_does_not_answer_is_told_of(void **state)
{
	struct spool *sp = open_spool();
	struct said s;

	leave(sp, "here", NULL, false);
	leave(sp, "n7", "its-kernel", false);
	s = cli(&cmd_shutdown, "--timeout 10ms");
	assert_int_equal(s.code, CMD_NOTHING_RUNS);
	assert_string_equal(s.out, "");
	assert_non_null(strstr(
		s.err, "tenure: here, on this node, does not answer (its last heartbeat was "));
	assert_non_null(strstr(s.err, "); if it hangs: kill "));
	assert_non_null(strstr(s.err, "tenure: n7 does not answer (its last heartbeat was "));
	assert_non_null(
		strstr(s.err, "if it does not exist any more: tenure shutdown --gone n7\n"));
	assert_non_null(
		strstr(s.err, "tenure: no agent of instance default answers, on any node\n"));
	assert_int_equal(count_files(sp, "control"), 0);
	said_clear(&s);
	(void)spool_close(sp);
}

static void a_status_of_nobody_has_a_code_of_its_own(void **state)
{
	assert_said(
		&cmd_status, "", CMD_NOTHING_RUNS, "",
		"tenure: tenure is not running for instance default; start it with: tenure on\n");
	assert_said(&cmd_status, "--json -i other", CMD_NOTHING_RUNS, "",
		    "tenure: tenure is not running for instance other; start it with: "
		    "tenure on -i other\n");
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, cli_setup, cli_teardown)
	const struct CMUnitTest tests[] = {
		IN_A_SPOOL(nothing_that_is_held_is_let_go_of),
		IN_A_SPOOL(tasks_that_may_run_on_are_named),
		IN_A_SPOOL(what_has_ended_does_not_run_on),
		IN_A_SPOOL(nobody_is_there_to_be_shut_down),
		IN_A_SPOOL(who_does_not_answer_is_told_of),
		IN_A_SPOOL(a_status_of_nobody_has_a_code_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
