/* SPDX-License-Identifier: MIT */

/* What an attempt had, from the records of its claim, of its end, and of what its shim has left. */

#include <stdlib.h>
#include <string.h>

#include "spool_world.h"
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/task/taskrun.h"
#include "cli/task/taskstate.h"
#include "spool/heartbeat.h"
#include "spool/instance.h"
#include "task/end_record.h"

/* Of a task, wherever it is. */
static struct taskrun run_of(const struct spool *sp, uint64_t id, uint64_t element)
{
	struct task_place p;
	struct task_file f;
	struct taskrun run;

	assert_int_equal(select_by_id(sp, id, element, &p, NULL), 0);
	p.element = element;
	assert_int_equal(task_file_read(sp, p.path, &f, NULL), 0);
	taskrun_read(sp, &p, &f.history, &run);
	task_file_clear(&f);
	return run;
}

/* What a shim leaves in the spool while no agent files it. */
static void leave_end(const struct spool *sp, const struct claim *c, uint32_t outcome, int code)
{
	struct task_record r = { .token = "default.1",
				 .boot_id = "b",
				 .shim = c->who.proc,
				 .end = { .outcome = outcome,
					  .exit_code = outcome == TASK_EXITED ? code : 0,
					  .signal = outcome == TASK_SIGNALLED ? code : 0,
					  .started_wall_ns = clock_wall_ns() - 10 * NS_PER_S,
					  .ended_wall_ns = clock_wall_ns() } };
	cleanup_free char *text = NULL;
	char path[SPOOL_PATH_MAX];
	size_t len;

	text = end_record_format(&r, &len);
	put(sp, heartbeat_end_path(&c->name, path), text);
}

static void an_attempt_is_followed_through_its_records(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"],\"name\":\"a\"}");
	struct taskrun run = run_of(sp, id, 0);
	struct spool_again again = { .attempts = 1 };
	struct spool_end end;
	struct claim c;

	assert_int_equal(run.attempt, 0);
	assert_false(run.running || run.ended || run.left);
	c = claim(sp, id, &me);
	run = run_of(sp, id, 0);
	assert_true(run.running && !run.ended);
	assert_int_equal(run.attempt, 1);
	assert_string_equal(run.who.agent, "n1");
	assert_string_equal(run.log, ""); /* there is none yet */
	put(sp, "logs/1-a.1.log", "");
	run = run_of(sp, id, 0);
	assert_string_equal(run.log, "logs/1-a.1.log");

	again.begun_ns = clock_wall_ns();
	assert_int_equal(transit_requeue(sp, NULL, &c, &again, NULL), 0);
	run = run_of(sp, id, 0);
	assert_false(run.running || run.ended);
	assert_int_equal(run.attempt, 1);
	assert_true(run.again_ns);

	c = claim(sp, id, &me);
	end = done(&c);
	end.result = RESULT_FAILED;
	end.exit = 3;
	assert_int_equal(transit_end(sp, NULL, &c, &end, NULL), 0);
	run = run_of(sp, id, 0);
	assert_true(run.ended && !run.running && !run.unstarted);
	assert_int_equal(run.attempt, 2);
	assert_int_equal(run.end.exit, 3);
	(void)spool_close(sp);
}

static void what_was_stopped_while_it_waited_was_not_started(void **state)
{
	struct spool *sp = open_spool();
	struct taskrun run;
	struct scan_task t;

	assert_true(get(sp, submit(sp, "{\"argv\":[\"true\"]}"), &t));
	assert_int_equal(transit_cancel(sp, &t.name, "stopped", NULL), 0);
	run = run_of(sp, 1, 0);
	assert_true(run.ended && run.unstarted);
	assert_int_equal(run.attempt, 0);
	assert_int_equal(run.started_ns, 0);
	(void)spool_close(sp);
}

static void what_a_shim_has_left_is_an_end_that_nobody_has_committed(void **state)
{
	static const struct {
		uint32_t outcome;
		int code;
		bool left;
		const char *how;
	} cases[] = {
		{ TASK_EXITED, 0, true, "exit code 0" },
		{ TASK_EXITED, 3, true, "exit code 3" },
		{ TASK_SIGNALLED, 9, true, "signal 9" },
		{ TASK_CANCELLED, 0, false, NULL }, /* it was never begun: another attempt is due */
	};
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");
	struct claim c = claim(sp, submit(sp, "{\"argv\":[\"true\"]}"), &me);
	char path[SPOOL_PATH_MAX];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *want = NULL, *text = NULL;
		struct taskrun run;

		leave_end(sp, &c, cases[i].outcome, cases[i].code);
		run = run_of(sp, 1, 0);
		assert_int_equal(run.left, cases[i].left);
		if (!run.left)
			continue;
		text = taskrun_format_left(sp, "", &run);
		want = xasprintf(
			"has ended (%s), which no agent has committed yet; where none runs: "
			"tenure on",
			cases[i].how);
		assert_string_equal(text, want);
		assert_true(run.left_ns >= run.started_ns + 9 * NS_PER_S);
	}
	put(sp, heartbeat_end_path(&c.name, path), "{\"no\":\"record\"}");
	assert_false(run_of(sp, 1, 0).left);
	(void)spool_close(sp);
}

/* Its agent may say why it cannot commit that; of one on another node it says where. */
static void who_has_to_commit_it_is_told(void **state)
{
	struct spool *sp = open_spool();
	struct taskrun run = { .left = true, .left_exit = 3 };
	json_t *none = json_pack("{s:i}", "id", 1);
	json_t *word = json_pack("{s:{s:s, s:i, s:I}}", "unfiled", "why", "No space\nleft", "exit",
				 7, "ended_ns", (json_int_t)1000);
	cleanup_free char *there = NULL, *why = NULL;

	(void)str_copy(run.who.host, sizeof(run.who.host), "n7.example");
	taskrun_take_agents(&run, NULL);
	taskrun_take_agents(&run, none);
	there = taskrun_format_left(sp, " -i other", &run);
	assert_string_equal(there,
			    "has ended (exit code 3), which no agent has committed yet; where none "
			    "runs: tenure on -i other on n7.example");
	taskrun_take_agents(&run, word);
	assert_int_equal(run.left_exit, 7);
	assert_int_equal(run.left_ns, 1000);
	why = taskrun_format_left(sp, " -i other", &run);
	assert_string_equal(
		why, "has ended (exit code 7), and waits for its agent to commit that, which "
		     "tries again and again: No space left");
	json_decref(none);
	json_decref(word);
	(void)spool_close(sp);
}

static void an_element_has_the_records_of_its_own(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"],\"name\":\"a\",\"array\":\"0-3\"}");
	struct batch *b = open_batch(sp, id, "n1");
	struct spool_end end;
	struct taskrun run;
	struct claim c;

	assert_int_equal(batch_claim(b, 1, &me, &c, NULL), 0);
	end = done(&c);
	end.result = RESULT_FAILED;
	end.exit = 3;
	assert_int_equal(batch_end(b, NULL, &c, &end, NULL), 0);
	assert_int_equal(batch_claim(b, 2, &me, &c, NULL), 0);
	assert_int_equal(batch_sync(b, NULL), 0);
	put(sp, "logs/1.2-a.1.log", "");

	run = run_of(sp, id, 1);
	assert_true(run.ended && !run.running);
	assert_int_equal(run.end.exit, 3);
	assert_string_equal(run.who.agent, "n1");
	run = run_of(sp, id, 2);
	assert_true(run.running && !run.ended);
	assert_int_equal(run.attempt, 1);
	assert_string_equal(run.log, "logs/1.2-a.1.log");
	run = run_of(sp, id, 3);
	assert_false(run.running || run.ended || run.unstarted);
	assert_int_equal(run.attempt, 0);
	/* Of a batch as a whole there is no attempt. */
	run = run_of(sp, id, 0);
	assert_false(run.running || run.ended);
	(void)batch_close(b);
	(void)spool_close(sp);
}

/* ---- what is said of it ---- */

static void processes_are_named_up_to_some(void **state)
{
	struct tree_proc procs[9] = { 0 };
	struct tree t = { .procs = procs };
	cleanup_free char *none = taskrun_format_procs(&t), *some = NULL, *many = NULL;

	for (size_t i = 0; i < ARRAY_LEN(procs); i++) {
		procs[i].id.pid = (pid_t)(10 + i);
		procs[i].state = i == 1 ? 'Z' : 'S'; /* one that has ended is none */
		(void)str_copy(procs[i].comm, sizeof(procs[i].comm), "p");
	}
	assert_string_equal(none, "");
	t.n = 3;
	some = taskrun_format_procs(&t);
	assert_string_equal(some, "PID 10 (p), 12 (p)");
	t.n = 9;
	many = taskrun_format_procs(&t);
	assert_string_equal(many, "PID 10 (p), 12 (p), 13 (p), 14 (p), 15 (p), 16 (p) and 2 more");
}

static void a_log_that_could_not_be_made_is_told_of(void **state)
{
	struct spool *sp = open_spool();
	struct log_away away = { .error = "No space left" };
	cleanup_free char *lost = taskrun_format_away(sp, &away), *here = NULL, *there = NULL;

	assert_string_equal(lost,
			    "its log could not be made, and what it prints is lost: No space left");
	(void)str_copy(away.file, sizeof(away.file), "/var/tmp/x.log");
	(void)str_copy(away.host, sizeof(away.host), spool_host(sp));
	here = taskrun_format_away(sp, &away);
	assert_string_equal(here, "its log could not be made (No space left); what it prints is in "
				  "/var/tmp/x.log");
	(void)str_copy(away.host, sizeof(away.host), "n7");
	there = taskrun_format_away(sp, &away);
	assert_string_equal(there,
			    "its log could not be made (No space left); what it prints is in "
			    "/var/tmp/x.log on node n7");
	(void)spool_close(sp);
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, spool_setup, spool_teardown)
	const struct CMUnitTest tests[] = {
		IN_A_SPOOL(an_attempt_is_followed_through_its_records),
		IN_A_SPOOL(what_was_stopped_while_it_waited_was_not_started),
		IN_A_SPOOL(what_a_shim_has_left_is_an_end_that_nobody_has_committed),
		IN_A_SPOOL(who_has_to_commit_it_is_told),
		IN_A_SPOOL(an_element_has_the_records_of_its_own),
		cmocka_unit_test(processes_are_named_up_to_some),
		IN_A_SPOOL(a_log_that_could_not_be_made_is_told_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
