/* SPDX-License-Identifier: MIT */

/* Whether something has ended, and with which exit code whoever waits for it ends. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "spool_world.h"
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cli/task/watch.h"
#include "spool/instance.h"

static struct taskwatch *watched(const struct spool *sp, uint64_t id, uint64_t element)
{
	struct taskwatch *w = NULL;
	struct task_place p;
	struct err e = ERR_INIT;

	assert_int_equal(select_by_id(sp, id, element, &p, NULL), 0);
	p.element = element;
	if (taskwatch_open(sp, &p, &w, &e) < 0)
		fail_msg("%s", e.text);
	return w;
}

static void assert_stands(struct taskwatch *w, int look, enum taskstate want)
{
	assert_int_equal(taskwatch_look(w, NULL), look);
	assert_string_equal(taskstate_name(taskwatch_state(w)), taskstate_name(want));
}

/* ---- a task ---- */

static const struct {
	enum task_result result;
	unsigned int exit;
	enum taskstate state;
	int code;
} ends[] = {
	{ RESULT_DONE, 0, TASKSTATE_DONE, 0 },
	{ RESULT_FAILED, 3, TASKSTATE_FAILED, 3 },
	{ RESULT_FAILED, NAME_SIGNALLED + 9, TASKSTATE_FAILED, 137 },
	{ RESULT_FAILED, 0, TASKSTATE_FAILED, 1 }, /* it never came to run */
	{ RESULT_CANCELLED, 0, TASKSTATE_CANCELLED, 1 },
	{ RESULT_CANCELLED, NAME_SIGNALLED + 15, TASKSTATE_CANCELLED, 1 },
};

static void a_task_is_followed_from_its_place_to_its_end(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");

	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		uint64_t id = submit(sp, "{\"argv\":[\"true\"]}");
		struct taskwatch *w = watched(sp, id, 0);
		struct spool_end end;
		struct claim c;

		assert_stands(w, 0, TASKSTATE_PENDING);
		c = claim(sp, id, &me);
		assert_stands(w, 0, TASKSTATE_RUNNING);
		end = done(&c);
		end.result = ends[i].result;
		end.exit = ends[i].exit;
		assert_int_equal(transit_end(sp, NULL, &c, &end, NULL), 0);
		assert_stands(w, 1, ends[i].state);
		assert_int_equal(taskwatch_exit_code(w), ends[i].code);
		/* Whatever becomes of it later. */
		assert_stands(w, 1, ends[i].state);
		assert_int_equal(taskwatch_place(w)->name.id, id);
		(void)taskwatch_close(w);
	}
	(void)spool_close(sp);
}

/* One that is requeued, renamed or paused has not ended. */
static void what_moves_has_not_ended(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"]}");
	struct spool_again again = { .attempts = 1, .begun_ns = clock_wall_ns() };
	struct taskwatch *w = watched(sp, id, 0);
	struct claim c = claim(sp, id, &me);
	struct scan_task t;

	assert_stands(w, 0, TASKSTATE_RUNNING);
	assert_int_equal(transit_requeue(sp, NULL, &c, &again, NULL), 0);
	assert_stands(w, 0, TASKSTATE_PENDING);
	assert_true(get(sp, id, &t));
	assert_int_equal(transit_pause(sp, &t.name, true, NULL), 0);
	assert_stands(w, 0, TASKSTATE_PAUSED);
	(void)taskwatch_close(w);
	(void)spool_close(sp);
}

static void what_is_not_there_any_more_is_no_end(void **state)
{
	struct spool *sp = open_spool();
	uint64_t id = submit(sp, "{\"argv\":[\"true\"]}");
	struct taskwatch *w = watched(sp, id, 0);

	assert_int_equal(spool_unlink(sp, taskwatch_place(w)->path, NULL), 0);
	assert_int_equal(taskwatch_look(w, NULL), -ENOENT);
	(void)taskwatch_close(w);
	(void)spool_close(sp);
}

/* ---- an element ---- */

static void an_element_is_followed_in_its_batch(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"],\"array\":\"0-9\"}");
	struct batch *b = open_batch(sp, id, "n1");

	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		struct taskwatch *w = watched(sp, id, i + 1);
		struct spool_end end;
		struct claim c;

		assert_stands(w, 0, TASKSTATE_PENDING);
		assert_int_equal(batch_claim(b, i + 1, &me, &c, NULL), 0);
		assert_stands(w, 0, TASKSTATE_RUNNING);
		end = done(&c);
		end.result = ends[i].result;
		end.exit = ends[i].exit;
		assert_int_equal(batch_end(b, NULL, &c, &end, NULL), 0);
		assert_int_equal(batch_sync(b, NULL), 0);
		assert_stands(w, 1, ends[i].state);
		assert_int_equal(taskwatch_exit_code(w), ends[i].code);
		(void)taskwatch_close(w);
	}
	(void)batch_close(b);
	(void)spool_close(sp);
}

/* A batch that is stopped takes those along that wait, and not those that run. */
static void elements_end_with_a_batch_that_is_stopped(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"],\"array\":\"0-2\"}");
	struct batch *b = open_batch(sp, id, "n1");
	struct taskwatch *waits = watched(sp, id, 1), *runs = watched(sp, id, 2),
			 *whole = watched(sp, id, 0);
	struct spool_end end;
	struct scan_task t;
	struct claim c;

	assert_int_equal(batch_claim(b, 2, &me, &c, NULL), 0);
	assert_true(get(sp, id, &t));
	assert_int_equal(transit_cancel(sp, &t.name, "stopped", NULL), 0);
	assert_stands(waits, 1, TASKSTATE_CANCELLED);
	assert_int_equal(taskwatch_exit_code(waits), 1);
	assert_stands(runs, 0, TASKSTATE_RUNNING);
	assert_stands(whole, 1, TASKSTATE_CANCELLED);
	end = done(&c);
	assert_int_equal(batch_end(b, NULL, &c, &end, NULL), 0);
	assert_int_equal(batch_sync(b, NULL), 0);
	assert_stands(runs, 1, TASKSTATE_DONE);
	assert_int_equal(taskwatch_exit_code(runs), 0);
	(void)taskwatch_close(waits);
	(void)taskwatch_close(runs);
	(void)taskwatch_close(whole);
	(void)batch_close(b);
	(void)spool_close(sp);
}

static void one_look_tells_the_state(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"],\"array\":\"0-2\"}");
	struct batch *b = open_batch(sp, id, "n1");
	enum taskstate is = TASKSTATE_MAX;
	struct task_place p;
	struct claim c;

	assert_int_equal(batch_claim(b, 3, &me, &c, NULL), 0);
	assert_int_equal(select_by_id(sp, id, 3, &p, NULL), 0);
	assert_int_equal(taskwatch_state_of(sp, &p, &is, NULL), 0);
	assert_int_equal(is, TASKSTATE_RUNNING);
	p.element = 1;
	assert_int_equal(taskwatch_state_of(sp, &p, &is, NULL), 0);
	assert_int_equal(is, TASKSTATE_PENDING);
	(void)batch_close(b);
	(void)spool_close(sp);
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, spool_setup, spool_teardown)
	const struct CMUnitTest tests[] = {
		IN_A_SPOOL(a_task_is_followed_from_its_place_to_its_end),
		IN_A_SPOOL(what_moves_has_not_ended),
		IN_A_SPOOL(what_is_not_there_any_more_is_no_end),
		IN_A_SPOOL(an_element_is_followed_in_its_batch),
		IN_A_SPOOL(elements_end_with_a_batch_that_is_stopped),
		IN_A_SPOOL(one_look_tells_the_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
