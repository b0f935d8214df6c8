/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/alloc.h"
#include "base/mem.h"
#include "spool/instance.h"
#include "spool/task_text.h"
#include "spool_world.h"

/* ---- limits ---- */

static const struct alloc_limits theirs = { .total = 8, .base = 2, .manual = 6, .per_alloc = 4 };

static void limits_are_a_table(void **state)
{
	static const struct alloc_use some[] = { { "exp1", ALLOC_MANUAL, 4 },
						 { "exp2", ALLOC_MANUAL, 1 },
						 { "base-1", ALLOC_BASE, 1 } };
	static const struct alloc_job eight[] = {
		{ .engine = "slurm", .id = "7", .name = "NDFS_a", .gpus = 4, .known = true },
		{ .engine = "slurm", .id = "8", .name = "NDFS_b" },
		{ .engine = "slurm",
		  .id = "9",
		  .name = "t-1",
		  .gpus = 3,
		  .known = true,
		  .of = "exp2" },
		{ .engine = "slurm", .id = "10", .name = "NDFS_cpu", .known = true },
	};
	static const struct {
		size_t n;      /* of some */
		size_t n_jobs; /* of eight */
		enum alloc_kind kind;
		unsigned int gpus;
		const char *setting; /* NULL: it is within them */
		unsigned int has;
		const char *refused;
	} cases[] = {
		{ 0, 0, ALLOC_MANUAL, 4, NULL, 0, "" },
		{ 0, 0, ALLOC_MANUAL, 5, "max_gpus_per_task", 0,
		  "one allocation may have 4 GPUs (max_gpus_per_task), and 5 are "
		  "asked for" },
		{ 2, 0, ALLOC_MANUAL, 1, NULL, 0, "" },
		{ 2, 0, ALLOC_MANUAL, 2, "max_manual_gpus", 5,
		  "allocations by hand may have 6 GPUs (max_manual_gpus), and 2 "
		  "more would be 7 (exp1 has 4, exp2 has 1)" },
		{ 3, 0, ALLOC_BASE, 1, NULL, 0, "" },
		{ 3, 0, ALLOC_BASE, 2, "base_gpus", 1,
		  "the automatic base may have 2 GPUs (base_gpus), and 2 more would "
		  "be 3 (exp1 has 4, exp2 has 1, base-1 has 1)" },
		/* What the engine lists counts where it is more; what is in both is named once. */
		{ 1, 4, ALLOC_MANUAL, 1, "max_total_gpus", 8,
		  "all allocations may have 8 GPUs (max_total_gpus), and 1 more would be 9 (exp1 "
		  "has 4, NDFS_a (job 7 of slurm) has 4, NDFS_b (job 8 of slurm) has at least 1)" },
		{ 0, 3, ALLOC_MANUAL, 1, "max_total_gpus", 8,
		  "all allocations may have 8 GPUs (max_total_gpus), and 1 more would be 9 "
		  "(NDFS_a (job 7 of slurm) has 4, NDFS_b (job 8 of slurm) has at least 1)" },
		{ 1, 2, ALLOC_MANUAL, 2, NULL, 0, "" },
		{ 1, 2, ALLOC_MANUAL, 4, "max_manual_gpus", 4,
		  "allocations by hand may have 6 GPUs (max_manual_gpus), and 4 more would be 8 "
		  "(exp1 has 4)" },
		/* Where it lists less the records count. */
		{ 3, 1, ALLOC_MANUAL, 1, NULL, 0, "" },
		/* The base makes room for who allocates by hand. */
		{ 3, 4, ALLOC_MANUAL, 1, NULL, 0, "" },
		{ 3, 4, ALLOC_BASE, 1, "max_total_gpus", 8,
		  "all allocations may have 8 GPUs (max_total_gpus), and 1 more would be 9 (exp1 "
		  "has 4, exp2 has 1 (its job 3), base-1 has 1, NDFS_a (job 7 of slurm) has 4, NDFS_b (job 8 "
		  "of slurm) has at least 1)" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct alloc_has has = {
			.uses = some, .n = cases[i].n, .jobs = eight, .n_jobs = cases[i].n_jobs
		};
		struct alloc_refusal refusal = { .setting = "?" };
		struct err e = ERR_INIT;
		int r = alloc_check_limits(&theirs, &has, cases[i].kind, cases[i].gpus, &refusal,
					   &e);

		assert_int_equal(r, cases[i].setting ? -EDQUOT : 0);
		assert_string_equal(e.text, cases[i].refused);
		assert_true(!cases[i].setting == !refusal.setting);
		if (!cases[i].setting)
			continue;
		assert_string_equal(refusal.setting, cases[i].setting);
		assert_int_equal(refusal.has, cases[i].has);
	}
}

static void no_limit_is_none(void **state)
{
	static const struct alloc_limits none = { .total = 0 };
	static const struct alloc_job many = { "slurm", "1", "NDFS_a", 4000, true };
	static const struct alloc_has has = { .jobs = &many, .n_jobs = 1 };

	(void)state;
	assert_int_equal(alloc_check_limits(&none, &has, ALLOC_MANUAL, 1000, NULL, NULL), 0);
}

/* One that is listed twice, in two partitions or by two pools of one cluster, counts once. */
static void jobs_that_count(void **state)
{
	struct alloc_job jobs[] = {
		{ .engine = "slurm", .id = "1", .name = "NDFS_a", .gpus = 2, .known = true },
		{ .engine = "slurm", .id = "2", .name = "NDFS_b", .gpus = 4, .over = true },
		{ .engine = "slurm",
		  .id = "3",
		  .name = "NDFS-exp1-main-abc",
		  .gpus = 4,
		  .aside = true },
		{ .engine = "slurm", .id = "1", .name = "NDFS_a", .gpus = 2, .known = true },
		{ .engine = "sge", .id = "1", .name = "NDFS_a", .gpus = 1, .known = true },
		{ .engine = "slurm", .id = "4", .name = "NDFS_a" },
	};
	size_t n;

	(void)state;
	n = alloc_jobs_keep(jobs, ARRAY_LEN(jobs));
	assert_int_equal(n, 3);
	assert_string_equal(jobs[0].id, "1");
	assert_string_equal(jobs[1].engine, "sge");
	assert_string_equal(jobs[2].id, "4");
	assert_int_equal(alloc_jobs_gpus(jobs, n), 4);
	assert_int_equal(alloc_jobs_keep(jobs, 0), 0);
}

/* ---- words ---- */

static void words_are_filled_in(void **state)
{
	static const struct {
		const char *word, *gpus, *filled;
	} cases[] = {
		{ "--gpus={gpu_list}", "0,3", "--gpus=0,3" },
		{ "{gpu_count}{gpu_count}", "0,3", "22" },
		{ "{task_id}/{gpu_list}/{other}", "",
		  "exp/"
		  "/{other}" },
		{ "{gpu_count}", "", "0" },
		{ "{gpu_list", "1", "{gpu_list" },
		{ "", "1", "" },
		{ "{gpu_list}", "GPU-aa,GPU-bb", "GPU-aa,GPU-bb" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *filled = alloc_fill_in(cases[i].word, cases[i].gpus, "exp");

		assert_string_equal(filled, cases[i].filled);
	}
}

static void changes_are_read(void **state)
{
	enum alloc_change change;
	const char *hook;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(alloc_parse_change(NULL, &change, &hook, NULL), 0);
	assert_int_equal(change, ALLOC_RESTART);
	assert_int_equal(alloc_parse_change("signal", &change, &hook, NULL), 0);
	assert_int_equal(change, ALLOC_SIGNAL);
	assert_int_equal(alloc_parse_change("hook: ./grow.sh 1", &change, &hook, NULL), 0);
	assert_int_equal(change, ALLOC_HOOK);
	assert_string_equal(hook, " ./grow.sh 1");
	assert_int_equal(alloc_parse_change("hook:  ", &change, &hook, &e), -EINVAL);
	assert_int_equal(alloc_parse_change("Restart", &change, &hook, &e), -EINVAL);
	assert_non_null(strstr(e.text, "\"Restart\" is none of restart, signal and hook:COMMAND"));
}

/* ---- files ---- */

static struct task_spec *make_order(const char *text)
{
	struct task_spec *s;
	size_t used;

	assert_int_equal(spec_read(text, strlen(text), &s, &used, NULL), 0);
	return s;
}

static void orders_are_numbered(void **state)
{
	struct spool *sp = open_spool();
	struct task_spec *s = make_order("{\"argv\":[\"true\"]}"), *read = NULL;
	struct err e = ERR_INIT;
	unsigned int n = 7;

	(void)state;
	assert_int_equal(alloc_last_order(sp, 42, &n, &e), 0);
	assert_int_equal(n, 0);
	assert_int_equal(alloc_order_read(sp, 42, 1, &read, &e), -ENOENT);
	assert_int_equal(alloc_order_write(sp, 42, 1, s, &e), 0);
	assert_int_equal(alloc_order_write(sp, 42, 1, s, &e), -EEXIST);
	assert_int_equal(alloc_order_write(sp, 42, 10, s, &e), 0);
	assert_int_equal(alloc_order_write(sp, 421, 20, s, &e), 0);
	assert_int_equal(alloc_last_order(sp, 42, &n, &e), 0);
	assert_int_equal(n, 10);
	assert_true(alloc_order_exists(sp, 42, 10));
	assert_false(alloc_order_exists(sp, 42, 9));
	assert_int_equal(alloc_order_read(sp, 42, 10, &read, &e), 0);
	assert_string_equal(read->argv.texts[0], "true");
	(void)spec_free(read);
	(void)spec_free(s);
	sp = spool_close(sp);
}

static void an_order_that_is_none(void **state)
{
	static const char *const bad[] = {
		"",
		"rubbish",
		"[]",
		"{\"allocation\":true,\"name\":\"a\"}",
		"{\"argv\":[\"true\"],\"on_change\":\"panic\"}",
		"{\"argv\":[]}",
	};
	struct spool *sp = open_spool();
	struct task_spec *read = NULL;
	char path[64];

	(void)state;
	assert_int_equal(spool_make_dir(sp, SPOOL_ALLOCS, NULL), 0);
	for (unsigned int i = 0; i < ARRAY_LEN(bad); i++) {
		(void)snprintf(path, sizeof(path), "allocs/42,start.%u", i + 1);
		assert_int_equal(spool_write_new(sp, path, bad[i], strlen(bad[i]), false, NULL), 0);
		assert_int_equal(alloc_order_read(sp, 42, i + 1, &read, NULL), -EINVAL);
	}
	sp = spool_close(sp);
}

static void a_state_is_kept(void **state)
{
	struct spool *sp = open_spool();
	struct alloc_state st = { .phase = ALLOC_ENDED,
				  .order = 3,
				  .restarts = 2,
				  .pid = 4711,
				  .host = "n7",
				  .gpus = "0,1",
				  .began_ns = 1700000000123000000,
				  .exit = NAME_SIGNALLED + 9,
				  .error = "it \377 broke" },
			   back;

	(void)state;
	assert_int_equal(alloc_state_read(sp, 42, &back, NULL), 0);
	assert_int_equal(back.phase, ALLOC_WAITING);
	assert_int_equal(spool_make_dir(sp, SPOOL_ALLOCS, NULL), 0);
	assert_int_equal(alloc_state_write(sp, 42, &st, NULL), 0);
	assert_int_equal(alloc_state_read(sp, 42, &back, NULL), 0);
	assert_int_equal(back.phase, ALLOC_ENDED);
	assert_int_equal(back.order, 3);
	assert_int_equal(back.restarts, 2);
	assert_int_equal(back.pid, 4711);
	assert_int_equal(back.exit, NAME_SIGNALLED + 9);
	assert_true(back.began_ns / 1000000 == st.began_ns / 1000000);
	assert_string_equal(back.host, "n7");
	assert_string_equal(back.gpus, "0,1");
	assert_string_equal(back.error, "it ? broke");
	assert_int_equal(spool_replace(sp, "allocs/42,state", "{", 1, NULL), 0);
	assert_int_equal(alloc_state_read(sp, 42, &back, NULL), 0);
	assert_int_equal(back.phase, ALLOC_WAITING);
	sp = spool_close(sp);
}

static void marks_are_found_and_forgotten(void **state)
{
	static const struct alloc_mark two = { .id = 2, .kind = ALLOC_BASE };
	static const struct alloc_mark ten = { .id = 10, .kind = ALLOC_MANUAL };
	struct spool *sp = open_spool();
	struct task_spec *s = make_order("{\"argv\":[\"true\"]}");
	struct alloc_marks marks;
	uint64_t gone = 10;

	(void)state;
	assert_int_equal(alloc_marks_read(sp, &marks, NULL), 0);
	assert_int_equal(marks.n, 0);
	assert_int_equal(alloc_mark_write(sp, &ten, NULL), 0);
	assert_int_equal(alloc_mark_write(sp, &two, NULL), 0);
	assert_int_equal(alloc_mark_write(sp, &two, NULL), -EEXIST);
	assert_int_equal(alloc_order_write(sp, 10, 1, s, NULL), 0);
	assert_int_equal(alloc_marks_read(sp, &marks, NULL), 0);
	assert_int_equal(marks.n, 2);
	assert_int_equal(alloc_marks_find(&marks, 2)->kind, ALLOC_BASE);
	assert_int_equal(alloc_marks_find(&marks, 10)->kind, ALLOC_MANUAL);
	assert_null(alloc_marks_find(&marks, 1));
	alloc_marks_clear(&marks);
	assert_int_equal(alloc_forget(sp, &gone, 1, NULL), 0);
	assert_int_equal(alloc_marks_read(sp, &marks, NULL), 0);
	assert_int_equal(marks.n, 1);
	assert_false(alloc_order_exists(sp, 10, 1));
	alloc_marks_clear(&marks);
	(void)spec_free(s);
	sp = spool_close(sp);
}

/* An instance that an older version has made has no such directory. */
static void an_older_instance_has_none(void **state)
{
	struct spool *sp = open_spool();
	struct alloc_marks marks;
	char path[PATH_MAX];
	unsigned int n;
	uint64_t id = 1;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/allocs", spool_path_of(sp));
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(alloc_marks_read(sp, &marks, NULL), 0);
	assert_int_equal(alloc_last_order(sp, 1, &n, NULL), 0);
	assert_int_equal(alloc_forget(sp, &id, 1, NULL), 0);
	sp = spool_close(sp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_are_a_table),
		cmocka_unit_test(no_limit_is_none),
		cmocka_unit_test(jobs_that_count),
		cmocka_unit_test(words_are_filled_in),
		cmocka_unit_test(changes_are_read),
		cmocka_unit_test_setup_teardown(orders_are_numbered, spool_setup, spool_teardown),
		cmocka_unit_test_setup_teardown(an_order_that_is_none, spool_setup, spool_teardown),
		cmocka_unit_test_setup_teardown(a_state_is_kept, spool_setup, spool_teardown),
		cmocka_unit_test_setup_teardown(marks_are_found_and_forgotten, spool_setup,
						spool_teardown),
		cmocka_unit_test_setup_teardown(an_older_instance_has_none, spool_setup,
						spool_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
