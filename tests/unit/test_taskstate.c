/* SPDX-License-Identifier: MIT */

/* How tasks, batches and their elements stand, as names of files and journals tell it. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "spool_world.h"
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/task/taskstate.h"
#include "spool/instance.h"

static void the_directory_says_how_a_task_stands(void **state)
{
	static const struct {
		enum spool_dir dir;
		unsigned int flags;
		const char *name;
	} cases[] = {
		{ SPOOL_PENDING, 0, "pending" },
		{ SPOOL_PENDING, NAME_PAUSED, "paused" },
		{ SPOOL_PENDING, NAME_DEPENDS, "pending" },
		{ SPOOL_RUNNING, NAME_PAUSED, "running" }, /* from before it was claimed */
		{ SPOOL_DONE, NAME_PAUSED, "done" },
		{ SPOOL_FAILED, 0, "failed" },
		{ SPOOL_CANCELLED, NAME_PAUSED, "cancelled" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct task_name n = { .id = 1, .flags = cases[i].flags };

		assert_string_equal(taskstate_name(taskstate_of(&n, cases[i].dir)), cases[i].name);
	}
}

static void an_exit_is_a_code_or_a_signal(void **state)
{
	static const struct {
		unsigned int exit;
		const char *text;
	} cases[] = {
		{ 0, "exit code 0" },
		{ 3, "exit code 3" },
		{ NAME_SIGNALLED - 1, "exit code 255" },
		{ NAME_SIGNALLED + 9, "signal 9" },
	};
	char buf[TASKSTATE_EXIT_MAX];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_string_equal(taskstate_format_exit(cases[i].exit, buf), cases[i].text);
}

/* ---- batches ---- */

struct world {
	struct spool *sp;
	struct batch *b;
	uint64_t id;
	struct claimer me;
};

static struct world world(const char *spec)
{
	struct world w = { .sp = open_spool() };

	w.me = self(w.sp, "n1");
	w.id = submit(w.sp, spec);
	w.b = open_batch(w.sp, w.id, "n1");
	return w;
}

static void end_world(struct world *w)
{
	(void)batch_close(w->b);
	(void)spool_close(w->sp);
}

static void end(struct world *w, uint64_t element, enum task_result result, unsigned int exit,
		const char *reason)
{
	struct claim c;
	struct spool_end how;

	assert_int_equal(batch_claim(w->b, element, &w->me, &c, NULL), 0);
	how = done(&c);
	how.result = result;
	how.exit = exit;
	(void)str_copy(how.reason, sizeof(how.reason), reason);
	assert_int_equal(batch_end(w->b, NULL, &c, &how, NULL), 0);
	assert_int_equal(batch_sync(w->b, NULL), 0);
}

static void retry(struct world *w, uint64_t element)
{
	assert_int_equal(batch_retry(w->b, element, "asked for again", NULL), 0);
	assert_int_equal(batch_sync(w->b, NULL), 0);
}

static struct task_name name_of(const struct world *w)
{
	struct scan_task t;

	assert_true(get(w->sp, w->id, &t));
	return t.name;
}

static struct batch_counts counts_of(const struct world *w, const struct task_name *n)
{
	struct task_set active;
	struct batch_counts counts;

	assert_int_equal(select_all(w->sp, &active, NULL), 0);
	assert_int_equal(taskstate_counts(w->sp, n, &active, &counts, NULL), 0);
	free(active.tasks);
	return counts;
}

static void assert_counts(struct batch_counts n, uint64_t waiting, uint64_t running, uint64_t done,
			  uint64_t failed, uint64_t cancelled)
{
	json_t *o = taskstate_counts_json(&n);
	json_t *want = json_pack("{sI sI sI sI sI}", "waiting", (json_int_t)waiting, "running",
				 (json_int_t)running, "done", (json_int_t)done, "failed",
				 (json_int_t)failed, "cancelled", (json_int_t)cancelled);

	if (!json_equal(o, want))
		fail_msg("%s", json_dumps(o, 0));
	json_decref(o);
	json_decref(want);
}

static void elements_are_counted_where_they_are(void **state)
{
	struct world w = world("{\"argv\":[\"true\"],\"array\":\"0-5\"}");
	struct task_name n = name_of(&w);
	struct batch_counts counts;
	struct claim c;

	assert_counts(counts_of(&w, &n), 6, 0, 0, 0, 0);
	assert_false(taskstate_has_begun(w.sp, &n, &counts));
	end(&w, 1, RESULT_DONE, 0, "");
	end(&w, 2, RESULT_FAILED, 3, "");
	end(&w, 3, RESULT_CANCELLED, 0, "");
	/* What runs has a file; that is all that tells of it. */
	assert_int_equal(batch_claim(w.b, 4, &w.me, &c, NULL), 0);
	assert_counts(counts_of(&w, &n), 2, 1, 1, 1, 1);
	assert_true(taskstate_has_begun(w.sp, &n, &counts));
	assert_int_equal(counts.running, 1);
	retry(&w, 2);
	assert_counts(counts_of(&w, &n), 3, 1, 1, 0, 1);
	end_world(&w);
}

/* It was stopped as a whole: what waited then has no record of its own. */
static void what_waited_in_a_batch_that_was_stopped_is_cancelled(void **state)
{
	struct world w = world("{\"argv\":[\"true\"],\"array\":\"0-3\"}");
	struct task_name n = name_of(&w);

	end(&w, 2, RESULT_DONE, 0, "");
	n.ended_s = 1;
	assert_counts(counts_of(&w, &n), 0, 0, 1, 0, 3);
	end_world(&w);
}

static void an_element_stands_where_its_records_say(void **state)
{
	static const int want[] = { BATCH_DONE, BATCH_FAILED, BATCH_CANCELLED, BATCH_WAITING };
	struct world w = world("{\"argv\":[\"true\"],\"array\":\"0-3\"}");
	struct task_place p = { .dir = SPOOL_PENDING, .name = name_of(&w) };

	end(&w, 1, RESULT_DONE, 0, "");
	end(&w, 2, RESULT_FAILED, 1, "");
	end(&w, 3, RESULT_CANCELLED, 0, "");
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		assert_int_equal(taskstate_element_state(w.sp, &p, i + 1, NULL), want[i]);
	/* One that it does not have. */
	assert_int_equal(taskstate_element_state(w.sp, &p, 5, NULL), BATCH_CANCELLED);
	end_world(&w);
}

static void the_last_end_of_an_element_counts(void **state)
{
	struct world w = world("{\"argv\":[\"true\"],\"array\":\"0-3\"}");
	struct element_end found = { .element = 77 };

	assert_false(taskstate_last_end(w.sp, w.id, 2, &found));
	assert_false(taskstate_last_end(w.sp, 99, 2, &found));
	assert_int_equal(found.element, 77);
	end(&w, 2, RESULT_FAILED, 3, "first");
	end(&w, 3, RESULT_DONE, 0, "");
	retry(&w, 2);
	end(&w, 2, RESULT_FAILED, NAME_SIGNALLED + 9, "second");
	assert_true(taskstate_last_end(w.sp, w.id, 2, &found));
	assert_int_equal(found.element, 2);
	assert_int_equal(found.end.exit, NAME_SIGNALLED + 9);
	assert_string_equal(found.end.reason, "second");
	assert_string_equal(found.agent, "n1");
	end_world(&w);
}

/* Lines that nobody of ours wrote tell of no end. */
static void a_journal_with_other_lines_tells_the_rest(void **state)
{
	struct world w = world("{\"argv\":[\"true\"],\"array\":\"0-3\"}");
	struct element_end found;
	char path[SPOOL_PATH_MAX];

	end(&w, 2, RESULT_FAILED, 3, "");
	(void)str_print(path, sizeof(path), "ends/%d/other", (int)w.id);
	put(w.sp, path,
	    "\n{}\nno json\n{\"event\":\"end\",\"element\":-4,\"result\":\"done\"}\n"
	    "{\"event\":\"end\",\"element\":\"4\",\"result\":\"done\"}\n[1]\n"
	    "{\"event\":\"end\",\"element\":4,\"result\":\"perhaps\"}\n");
	assert_true(taskstate_last_end(w.sp, w.id, 2, &found));
	assert_false(taskstate_last_end(w.sp, w.id, 4, &found));
	end_world(&w);
}

static void what_has_failed_is_told_once_and_only_while_it_has(void **state)
{
	struct world w = world("{\"argv\":[\"true\"],\"array\":\"0-9\"}");
	struct task_name n = name_of(&w);
	struct element_ends failed;
	cleanup_free char *text = NULL, *more = NULL;

	assert_int_equal(taskstate_failed(w.sp, &n, &failed, NULL), 0);
	assert_int_equal(failed.n, 0);
	end(&w, 7, RESULT_FAILED, NAME_SIGNALLED + 9, "");
	end(&w, 2, RESULT_FAILED, 1, "");
	end(&w, 3, RESULT_DONE, 0, "");
	end(&w, 4, RESULT_CANCELLED, 0, "stopped");
	end(&w, 5, RESULT_FAILED, 0, "no GPU of it answered");
	end(&w, 6, RESULT_FAILED, 1, "");
	retry(&w, 6); /* it waits again */
	retry(&w, 2);
	end(&w, 2, RESULT_FAILED, 2, "");

	assert_int_equal(taskstate_failed(w.sp, &n, &failed, NULL), 0);
	text = taskstate_format_failed(42, &failed);
	assert_string_equal(text,
			    "42.2 (exit code 2), 42.5 (no GPU of it answered), 42.7 (signal 9)");
	free(failed.ends);

	for (uint64_t element = 8; element <= 10; element++)
		end(&w, element, RESULT_FAILED, 1, "");
	assert_int_equal(taskstate_failed(w.sp, &n, &failed, NULL), 0);
	assert_int_equal(failed.n, 6);
	more = taskstate_format_failed(42, &failed);
	assert_string_equal(more,
			    "42.2 (exit code 2), 42.5 (no GPU of it answered), 42.7 (signal 9), "
			    "42.8 (exit code 1), 42.9 (exit code 1) and 1 more");
	free(failed.ends);
	end_world(&w);
}

/* ---- who runs it ---- */

static void its_claim_says_who_runs_it(void **state)
{
	struct world w = world("{\"argv\":[\"true\"],\"array\":\"0-3\"}");
	struct claimer other = self(w.sp, "n2"), who = { .agent = "?" };
	struct claim c = claim(w.sp, submit(w.sp, "{\"argv\":[\"true\"]}"), &other);
	char agent[NAME_AGENT_MAX + 1];
	struct task_name n;

	taskstate_agent_of(w.sp, &c.name, agent);
	assert_string_equal(agent, "n2");
	assert_int_equal(batch_claim(w.b, 3, &w.me, &c, NULL), 0);
	assert_string_equal(c.name.agent, ""); /* of an element only its file says so */
	taskstate_agent_of(w.sp, &c.name, agent);
	assert_string_equal(agent, "n1");
	assert_true(taskstate_claimer(w.sp, &c.name, &who));
	assert_string_equal(who.agent, "n1");
	assert_string_equal(who.boot, spool_boot(w.sp));

	/* Nobody is known of one that does not run. */
	n = (struct task_name){ .id = w.id, .element = 1 };
	(void)str_copy(who.agent, sizeof(who.agent), "as it was");
	assert_false(taskstate_claimer(w.sp, &n, &who));
	assert_string_equal(who.agent, "as it was");
	taskstate_agent_of(w.sp, &n, agent);
	assert_string_equal(agent, "");
	end_world(&w);
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, spool_setup, spool_teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_directory_says_how_a_task_stands),
		cmocka_unit_test(an_exit_is_a_code_or_a_signal),
		IN_A_SPOOL(elements_are_counted_where_they_are),
		IN_A_SPOOL(what_waited_in_a_batch_that_was_stopped_is_cancelled),
		IN_A_SPOOL(an_element_stands_where_its_records_say),
		IN_A_SPOOL(the_last_end_of_an_element_counts),
		IN_A_SPOOL(a_journal_with_other_lines_tells_the_rest),
		IN_A_SPOOL(what_has_failed_is_told_once_and_only_while_it_has),
		IN_A_SPOOL(its_claim_says_who_runs_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
