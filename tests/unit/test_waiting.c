/* SPDX-License-Identifier: MIT */

/* A batch by the name that it has now, and a claim that is to be undone: what the spooler's jobs do
 * while commands and other nodes change names beside them (spool_world.h). */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/queue/depends.h"
#include "agent/queue/waiting.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "place_world.h"
#include "spool/instance.h"
#include "spool/own.h"
#include "spool/transit.h"
#include "spool_world.h"

#define BATCH "{\"script\":\"x\",\"array\":\"1-2\"}"

/* As a command does it, without the agent's knowledge. */
static void set_paused(const struct spool *sp, uint64_t id, bool paused)
{
	struct scan_task t;

	assert_true(get(sp, id, &t));
	assert_int_equal(transit_pause(sp, &t.name, paused, NULL), 0);
}

/* Each element, by this agent. */
static void end_all(struct batch *b, const struct claimer *who, enum task_result result)
{
	uint64_t element;
	struct claim c;

	while ((element = batch_next(b, clock_wall_ns()))) {
		struct spool_end end;

		assert_int_equal(batch_claim(b, element, who, &c, NULL), 0);
		end = done(&c);
		end.result = result;
		assert_int_equal(batch_end(b, NULL, &c, &end, NULL), 0);
	}
}

/* ---- by its name of now ---- */

static void what_the_index_knows_is_shared(void **state)
{
	struct spool_place p = open_place("one");
	uint64_t id = submit(p.spool, BATCH);
	struct waiting_batch first, again;
	struct err e = ERR_INIT;

	look_around(&p);
	assert_int_equal(waiting_get(&p, id, &first, &e), 0);
	assert_int_equal(waiting_get(&p, id, &again, &e), 0);
	assert_false(first.once);
	assert_ptr_equal(first.batch, again.batch);
	waiting_put(&p, &first);
	assert_null(first.batch);
	assert_int_equal(batch_counts(again.batch).waiting, 2); /* it is open still */
	waiting_put(&p, &again);
	close_place(&p);
}

/* The index is older than it: opened for this once, and the index stays as the planner knows it. */
static void what_the_index_does_not_know_yet_is_found(void **state)
{
	struct spool_place p = open_place("one");
	uint64_t id = submit(p.spool, BATCH);
	struct waiting_batch w;
	struct err e = ERR_INIT;

	assert_null(scan_find(p.scan, id, 0));
	assert_int_equal(waiting_get(&p, id, &w, &e), 0);
	assert_true(w.once && w.batch);
	assert_int_equal(batch_counts(w.batch).waiting, 2);
	assert_null(scan_find(p.scan, id, 0));
	waiting_put(&p, &w);
	assert_null(w.batch);
	close_place(&p);
}

static void a_batch_that_was_renamed_is_found(void **state)
{
	struct spool_place p = open_place("one");
	uint64_t id = submit(p.spool, BATCH);
	struct waiting_batch w;
	struct task_name n;
	struct err e = ERR_INIT;

	look_around(&p);
	set_paused(p.spool, id, true);
	assert_int_equal(waiting_get(&p, id, &w, &e), 0);
	assert_true(w.once);
	waiting_put(&p, &w);
	assert_int_equal(waiting_name(&p, id, &n, &e), 0);
	assert_true(n.flags & NAME_PAUSED);
	assert_false(scan_find(p.scan, id, 0)->name.flags & NAME_PAUSED);
	close_place(&p);
}

static void what_does_not_wait_is_not_found(void **state)
{
	struct spool_place p = open_place("one");
	struct claimer two = self(p.spool, "two");
	uint64_t single = submit(p.spool, "{\"argv\":[\"true\"]}");
	uint64_t taken = submit(p.spool, "{\"argv\":[\"true\"]}");
	const uint64_t ids[] = { single, taken, 4711 };

	(void)claim(p.spool, taken, &two);
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		struct waiting_batch w;
		struct task_name n;
		struct err e = ERR_INIT;

		assert_int_equal(waiting_get(&p, ids[i], &w, &e), -ENOENT);
		assert_non_null(strstr(e.text, "does not wait any more"));
		assert_null(w.batch);
		assert_int_equal(waiting_name(&p, ids[i], &n, &e), -ENOENT);
	}
	close_place(&p);
}

/* A command that changes it has a moment, and not more: the name is what it is then. */
static void a_command_that_holds_it_is_waited_for_a_moment(void **state)
{
	struct spool_place p = open_place("one");
	uint64_t id = submit(p.spool, BATCH);
	char was[NAME_FILE_MAX], held[NAME_FILE_MAX], from[SPOOL_PATH_MAX], to[SPOOL_PATH_MAX];
	struct task_name n;
	struct scan_task t;
	struct err e = ERR_INIT;
	uint64_t begun = clock_mono_ns();

	assert_true(get(p.spool, id, &t));
	(void)spool_path(SPOOL_PENDING, name_format(&t.name, was), from);
	t.name.flags |= NAME_EDITED;
	(void)spool_path(SPOOL_PENDING, name_format(&t.name, held), to);
	assert_int_equal(spool_rename(p.spool, from, to, NULL), 0);
	assert_int_equal(waiting_name(&p, id, &n, &e), 0);
	assert_true(n.flags & NAME_EDITED);
	assert_true(clock_mono_ns() - begun >= 400 * NS_PER_MS);
	close_place(&p);
}

/* ---- its end ---- */

static void a_batch_is_filed_when_its_last_element_has_ended(void **state)
{
	static const struct {
		enum task_result result;
		const char *dir;
		enum sched_dep after;
	} cases[] = {
		{ RESULT_DONE, "done", SCHED_DEP_READY },
		{ RESULT_FAILED, "failed", SCHED_DEP_NEVER },
	};
	struct spool_place p = open_place("one");

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t id = submit(p.spool, BATCH), waits = id + 1;
		struct task_spec *spec = spec_new();
		struct place_batch *b;
		struct err e = ERR_INIT;

		spec->after = (struct uint_list){ .n = 1, .nums = xcalloc(1, sizeof(uint64_t)) };
		spec->after.nums[0] = id;
		look_around(&p);
		depends_set(&p, waits, spec);
		b = place_batch(&p, id, &e);
		assert_non_null(b);
		assert_int_equal(waiting_commit_if_over(b->batch, &p, id, &e), 0);
		assert_int_equal(ended_times(p.spool, id), 0);
		end_all(b->batch, &p.self, cases[i].result);
		assert_int_equal(waiting_commit_if_over(b->batch, &p, id, &e), 0);
		assert_int_equal(count_files(p.spool, cases[i].dir), 1);
		assert_null(p.batches);
		/* Who waits for it is told once that is safe on the disk. */
		assert_int_equal(depends_state(&p, waits), SCHED_DEP_WAIT);
		look_around(&p);
		look_around(&p); /* one reading may have missed it */
		depends_settle(&p, DEPENDS_SYNCED, NULL, NULL);
		assert_int_equal(depends_state(&p, waits), cases[i].after);
		depends_set(&p, waits, NULL);
		(void)spec_free(spec);
	}
	depends_free(&p);
	close_place(&p);
}

/* Another agent was faster, or a command has it: what it says of the batch counts. */
static void a_batch_that_is_called_otherwise_is_left_alone(void **state)
{
	struct spool_place p = open_place("one");
	uint64_t id = submit(p.spool, BATCH);
	struct place_batch *b;
	struct err e = ERR_INIT;

	look_around(&p);
	b = place_batch(&p, id, &e);
	end_all(b->batch, &p.self, RESULT_DONE);
	set_paused(p.spool, id, true);
	assert_int_equal(waiting_commit_if_over(b->batch, &p, id, &e), 0);
	assert_int_equal(ended_times(p.spool, id), 0);
	assert_non_null(p.batches);
	close_place(&p);
}

/* ---- a claim that is undone ---- */

static void a_claim_is_given_back(void **state)
{
	struct spool_place p = open_place("one");
	uint64_t id = submit(p.spool, "{\"argv\":[\"true\"]}");
	struct scan_task waits, now;

	assert_true(get(p.spool, id, &waits));
	(void)claim(p.spool, id, &p.self);
	place_undo_claim(&p, &waits.name);
	assert_null(p.undo);
	assert_true(get(p.spool, id, &now));
	assert_int_equal(now.dir, SPOOL_PENDING);
	/* Whoever has done it already: it is not there any more. */
	place_undo_claim(&p, &waits.name);
	assert_null(p.undo);
	close_place(&p);
}

/* Where it cannot be given back it is tried again, until it is or is claimed anew. */
static void a_claim_that_cannot_be_given_back_is_tried_again(void **state)
{
	struct spool_place p = open_place("one");
	uint64_t ids[2];
	struct scan_task waits[2], now;
	char file[NAME_FILE_MAX], blocked[2][SPOOL_PATH_MAX];

	for (size_t i = 0; i < 2; i++) {
		ids[i] = submit(p.spool, "{\"argv\":[\"true\"]}");
		assert_true(get(p.spool, ids[i], &waits[i]));
		(void)claim(p.spool, ids[i], &p.self);
		/* Something lies where it is to go that no file can replace. */
		(void)spool_path(SPOOL_PENDING, name_format(&waits[i].name, file), blocked[i]);
		assert_int_equal(mkdirat(p.spool->fd, blocked[i], 0700), 0);
		place_undo_claim(&p, &waits[i].name);
	}
	assert_non_null(p.undo);
	place_undo_again(&p);
	assert_non_null(p.undo);
	place_undo_forget(&p, ids[0]);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(unlinkat(p.spool->fd, blocked[i], AT_REMOVEDIR), 0);
	place_undo_again(&p);
	assert_null(p.undo);
	assert_true(get(p.spool, ids[0], &now));
	assert_int_equal(now.dir, SPOOL_RUNNING);
	assert_true(get(p.spool, ids[1], &now));
	assert_int_equal(now.dir, SPOOL_PENDING);
	close_place(&p);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, spool_setup, spool_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_the_index_knows_is_shared),
		TEST(what_the_index_does_not_know_yet_is_found),
		TEST(a_batch_that_was_renamed_is_found),
		TEST(what_does_not_wait_is_not_found),
		TEST(a_command_that_holds_it_is_waited_for_a_moment),
		TEST(a_batch_is_filed_when_its_last_element_has_ended),
		TEST(a_batch_that_is_called_otherwise_is_left_alone),
		TEST(a_claim_is_given_back),
		TEST(a_claim_that_cannot_be_given_back_is_tried_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
