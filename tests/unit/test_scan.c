/* SPDX-License-Identifier: MIT */

/* What a look at the queue tells (spool_world.h). */

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "spool/instance.h"
#include "spool/own.h"
#include "spool/transit.h"
#include "spool_world.h"

struct read_dirs {
	enum spool_dir dirs[8];
	size_t n, most;
};

static int note_dir(void *data, const struct task_name *n, const char *dir)
{
	struct read_dirs *d = data;

	d->dirs[d->n++] = spool_dir_of(dir);
	return d->n == d->most ? 7 : 0;
}

static void test_scan_of_what_ended(void **state)
{
	static const enum task_result results[] = { RESULT_DONE, RESULT_CANCELLED, RESULT_FAILED };
	static const enum spool_dir order[] = { SPOOL_DONE, SPOOL_PENDING };
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1");
	struct read_dirs d = { .most = 8 };
	struct err e = ERR_INIT;

	assert_int_equal(spool_dir_of("done/2026-11-21"), SPOOL_DONE);
	assert_int_equal(spool_dir_of("failed"), SPOOL_FAILED);
	assert_int_equal(spool_dir_of("failed2/x"), SPOOL_DIR_MAX);
	assert_int_equal(scan_ended(sp, note_dir, &d, &e), 0);
	assert_int_equal(d.n, 0);
	for (size_t i = 0; i < ARRAY_LEN(results); i++) {
		uint64_t id = submit(sp, "{\"argv\":[\"false\"]}");
		struct claim c = claim(sp, id, &me);
		struct spool_end end = done(&c);

		end.result = results[i];
		assert_int_equal(transit_end(sp, NULL, &c, &end, &e), 0);
	}
	(void)submit(sp, "{\"argv\":[\"true\"]}");

	assert_int_equal(scan_ended(sp, note_dir, &d, &e), 0);
	assert_int_equal(d.n, 3);
	assert_true(d.dirs[0] == SPOOL_FAILED && d.dirs[1] == SPOOL_CANCELLED &&
		    d.dirs[2] == SPOOL_DONE);
	d.n = 0;
	assert_int_equal(scan_dirs(sp, order, ARRAY_LEN(order), note_dir, &d, &e), 0);
	assert_true(d.n == 2 && d.dirs[0] == SPOOL_DONE && d.dirs[1] == SPOOL_PENDING);
	/* What the function says ends all of it. */
	d = (struct read_dirs){ .most = 2 };
	assert_int_equal(scan_ended(sp, note_dir, &d, &e), 7);
	assert_int_equal(d.n, 2);
	sp = spool_close(sp);
}

struct changes {
	unsigned int n[3];
};

static void count_change(void *data, enum scan_change change, const struct scan_task *t)
{
	((struct changes *)data)->n[change]++;
}

static void test_scan(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1");
	struct scan *s = scan_new(sp, 0);
	struct err e = ERR_INIT;
	struct changes ch = { { 0 } };
	struct claim c;

	for (int i = 0; i < 1000; i++)
		(void)submit(sp, "{\"argv\":[\"true\"]}");
	assert_int_equal(scan_update(s, count_change, &ch, &e), 0);
	assert_int_equal(ch.n[SCAN_ADDED], 1000);
	c = claim(sp, 500, &me);
	assert_int_equal(scan_update(s, count_change, &ch, &e), 0);
	assert_int_equal(ch.n[SCAN_CHANGED], 1);
	assert_int_equal(scan_count(s, SPOOL_RUNNING), 1);

	struct spool_end end = done(&c);

	assert_int_equal(transit_end(sp, NULL, &c, &end, &e), 0);
	scan_note(s, SPOOL_RUNNING, &c.name, false);
	assert_null(scan_find(s, 500, 0));
	assert_int_equal(scan_update(s, count_change, &ch, &e), 0);
	assert_int_equal(scan_update(s, count_change, &ch, &e), 0);
	assert_int_equal(ch.n[SCAN_REMOVED], 0); /* it was noted */
	assert_int_equal(scan_count(s, SPOOL_PENDING), 999);
	for (uint64_t id = 1; id <= 1000; id++)
		assert_int_equal(scan_find(s, id, 0) != NULL, id != 500);
	s = scan_free(s);
	sp = spool_close(sp);
}

static void what_runs_is_listed_first_and_then_as_it_will_start(void **state)
{
	static const char *const specs[] = { "{\"argv\":[\"a\"],\"priority\":99999}",
					     "{\"argv\":[\"b\"],\"lane\":\"week\"}",
					     "{\"argv\":[\"c\"],\"priority\":0}",
					     "{\"argv\":[\"d\"]}" };
	static const uint64_t order[] = { 4, 3, 2, 1 };
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1");
	struct scan *s = scan_new(sp, 0);
	struct scan_task *tasks;
	struct err e = ERR_INIT;

	assert_int_equal(scan_list(s, &tasks), 0);
	free(tasks);
	for (size_t i = 0; i < ARRAY_LEN(specs); i++)
		(void)submit(sp, specs[i]);
	(void)claim(sp, 4, &me);
	assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	assert_int_equal(scan_list(s, &tasks), ARRAY_LEN(order));
	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		assert_int_equal(tasks[i].name.id, order[i]);
	assert_int_equal(tasks[0].dir, SPOOL_RUNNING);
	assert_string_equal(tasks[0].name.agent, "node1");
	assert_string_equal(tasks[2].name.lane, "week");
	assert_string_equal(tasks[2].name.name, "b");
	free(tasks);
	s = scan_free(s);
	sp = spool_close(sp);
}

/* Under one name a file says one thing: who saw neither of an edit's renames reads it again. */
static void test_scan_of_edits(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1");
	struct scan *s = scan_new(sp, 0);
	uint64_t id = submit(sp, "{\"argv\":[\"true\"]}");
	json_t *set = json_pack("{s:s}", "memory", "2G"), *none = json_object();
	uint64_t begin = 4000000000;
	struct changes ch = { { 0 } };
	struct task_name n;
	struct claim c;

	assert_int_equal(scan_update(s, count_change, &ch, NULL), 0);
	for (unsigned int i = 1; i <= 3; i++) {
		n = scan_find(s, id, 0)->name;
		assert_int_equal(transit_edit(sp, &n, &(struct transit_edit){ .set = set }, NULL),
				 0);
		assert_int_equal(scan_update(s, count_change, &ch, NULL), 0);
		assert_int_equal(ch.n[SCAN_CHANGED], i);
		assert_int_equal(scan_find(s, id, 0)->name.edits, 2 * i);
	}
	/* So does one that is all in the name, so that who has planned it otherwise is told. */
	n = scan_find(s, id, 0)->name;
	assert_int_equal(transit_edit(sp, &n,
				      &(struct transit_edit){ .set = none, .begin_s = &begin },
				      NULL),
			 0);
	assert_true(n.edits == 7 && n.begin_s == begin);
	begin = 0;
	assert_int_equal(transit_edit(sp, &n,
				      &(struct transit_edit){ .set = none, .begin_s = &begin },
				      NULL),
			 0);
	/* Who gives a claim back leaves what was known of it, and an end what is told of all. */
	c = claim(sp, id, &me);
	assert_int_equal(c.name.edits, 8);
	n = c.name;
	assert_int_equal(transit_commit(sp, c.path, &n, RESULT_DONE, clock_wall_ns(), 0, NULL), 0);
	assert_int_equal(n.edits, 0);
	json_decref(none);
	json_decref(set);
	s = scan_free(s);
	sp = spool_close(sp);
}

static void set_time(const struct spool *sp, const char *dir, time_t sec)
{
	const struct timespec times[2] = { { .tv_sec = sec }, { .tv_sec = sec } };

	assert_int_equal(utimensat(sp->fd, dir, times, 0), 0);
}

/* Directories in which nothing has come or gone are not read again. */
static void test_scan_settled(void **state)
{
	struct spool *sp = open_spool();
	uint64_t id = submit(sp, "{\"argv\":[\"true\"],\"name\":\"x\"}");
	struct scan *s = scan_new(sp, 0);
	struct err e = ERR_INIT;
	struct changes ch = { { 0 } };
	struct task_name n;

	set_time(sp, "pending", 1000);
	set_time(sp, "running", 1000);
	for (int i = 0; i < 2; i++)
		assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	put(sp, "pending/00500,77,nunseen", "{\"argv\":[\"true\"],\"name\":\"unseen\"}\n");
	set_time(sp, "pending", 1000); /* as if it had not come */
	assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	assert_null(scan_find(s, 77, 0));
	assert_non_null(scan_find(s, id, 0));
	set_time(sp, "pending", 1001);
	assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	assert_non_null(scan_find(s, 77, 0));
	/* What is gone is missed twice before it counts, settled or not. */
	assert_int_equal(unlinkat(sp->fd, "pending/00500,77,nunseen", 0), 0);
	set_time(sp, "pending", 1002);
	for (int i = 0; i < 2; i++)
		assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	assert_null(scan_find(s, 77, 0));

	/* What is taken out of the index though it is there is told anew, as it is met then. */
	n = scan_find(s, id, 0)->name;
	scan_note(s, SPOOL_RUNNING, &n, false);
	assert_int_equal(scan_update(s, count_change, &ch, &e), 0);
	assert_int_equal(ch.n[SCAN_ADDED], 0);
	scan_note(s, SPOOL_PENDING, &n, false);
	assert_null(scan_find(s, id, 0));
	assert_int_equal(scan_update(s, count_change, &ch, &e), 0);
	assert_int_equal(ch.n[SCAN_ADDED], 1);
	assert_non_null(scan_find(s, id, 0));
	s = scan_free(s);
	sp = spool_close(sp);
}

/* -------- what a directory hides for a moment -------- */

/* Of a task that is renamed while its directory is read, neither name may be met. */
static struct {
	uint64_t id;
	unsigned int times; /* so often yet; then it has been renamed */
	unsigned int reads; /* of pending/ */
} hiding;

struct passing {
	const struct spool *sp;
	spool_entry_fn fn;
	void *data;
	bool renamed;
};

static int pass_others(void *data, const char *file, unsigned char type)
{
	struct passing *p = data;
	struct task_name n;

	if (!hiding.times || !name_parse(file, &n) || n.id != hiding.id)
		return p->fn(p->data, file, type);
	if (!p->renamed)
		assert_int_equal(transit_pause(p->sp, &n, !(n.flags & NAME_PAUSED), NULL), 0);
	p->renamed = true;
	return 0;
}

int __real_spool_each(const struct spool *sp, const char *dir, spool_entry_fn fn, void *data,
		      struct err *e);
int __wrap_spool_each(const struct spool *sp, const char *dir, spool_entry_fn fn, void *data,
		      struct err *e);
int __wrap_spool_each(const struct spool *sp, const char *dir, spool_entry_fn fn, void *data,
		      struct err *e)
{
	struct passing p = { .sp = sp, .fn = fn, .data = data };
	int r;

	if (strcmp(dir, "pending") != 0)
		return __real_spool_each(sp, dir, fn, data, e);
	hiding.reads++;
	r = __real_spool_each(sp, dir, pass_others, &p, e);
	hiding.times -= p.renamed;
	return r;
}

static void a_task_that_is_renamed_meanwhile_is_there(void **state)
{
	struct spool *sp = open_spool();
	uint64_t id = submit(sp, "{\"argv\":[\"true\"]}"), other;
	struct scan *s = scan_new(sp, 0);
	struct changes ch = { { 0 } };

	/* By who looks for the first time, and knows nothing of it. */
	set_time(sp, "pending", 999);
	hiding.id = id;
	hiding.times = 1;
	assert_int_equal(scan_update(s, count_change, &ch, NULL), 0);
	assert_int_equal(hiding.times, 0);
	assert_non_null(scan_find(s, id, 0));
	assert_true(scan_find(s, id, 0)->name.flags & NAME_PAUSED);
	assert_int_equal(scan_count(s, SPOOL_PENDING), 1);
	/* By who knows it, whenever he looks: it never seems to be gone. */
	for (unsigned int i = 0; i < 4; i++) {
		set_time(sp, "pending", 1000 + i);
		hiding.times = 1;
		assert_int_equal(scan_update(s, count_change, &ch, NULL), 0);
		assert_int_equal(hiding.times, 0);
		assert_non_null(scan_find(s, id, 0));
		assert_int_equal(!!(scan_find(s, id, 0)->name.flags & NAME_PAUSED), i % 2);
	}
	assert_int_equal(ch.n[SCAN_REMOVED], 0);
	/* Where nothing is missed one reading is enough, whatever else has come meanwhile. */
	hiding.reads = 0;
	other = submit(sp, "{\"argv\":[\"true\"]}");
	assert_int_equal(scan_update(s, count_change, &ch, NULL), 0);
	assert_non_null(scan_find(s, other, 0));
	assert_int_equal(hiding.reads, 1);
	s = scan_free(s);
	sp = spool_close(sp);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, spool_setup, spool_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_scan),
		TEST(test_scan_of_what_ended),
		TEST(what_runs_is_listed_first_and_then_as_it_will_start),
		TEST(test_scan_of_edits),
		TEST(test_scan_settled),
		TEST(a_task_that_is_renamed_meanwhile_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
