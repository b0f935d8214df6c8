/* SPDX-License-Identifier: MIT */

/* What runs of a name have needed (spool/learned.h). */

#include "unit.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "spool/instance.h"
#include "spool/learned.h"
#include "spool/task_spec.h"
#include "spool_world.h"

#define NAME "train.sh"

/* In the order in which they ended. */
struct row {
	enum learned_how how;
	uint64_t gpus, peak, asked, room; /* GiB */
};

static const struct {
	const char *label;
	struct row rows[4];
	unsigned int well_after; /* so many more that ended well with 1 GiB, on one GPU */
	uint64_t gpus;		 /* of the next one */
	uint64_t mib;		 /* that it asks for */
	const char *text;
} cases[] = {
	{ "nothing is known",
	  { { 0 } },
	  0,
	  1,
	  0,
	  "not known yet, and so whole GPUs: no run named train.sh has ended well and told its memory" },
	{ "one run",
	  { { LEARNED_DONE, 1, 10 } },
	  0,
	  1,
	  11264,
	  "11.0 GiB: 10 % above the peak of the one run named train.sh" },
	{ "the highest counts, not the last",
	  { { LEARNED_DONE, 1, 20 }, { LEARNED_DONE, 1, 10 } },
	  0,
	  1,
	  22528,
	  "22.0 GiB: 10 % above the peak of 2 runs named train.sh" },
	{ "another number of GPUs says nothing", { { LEARNED_DONE, 2, 20 } }, 0, 1, 0, NULL },
	{ "nor do all",
	  { { LEARNED_DONE, 1, 20 } },
	  0,
	  SPEC_ALL,
	  0,
	  "not known yet, and so whole GPUs: no run named train.sh on all GPUs has ended well and told its memory" },
	{ "the same number of GPUs",
	  { { LEARNED_DONE, 1, 20 }, { LEARNED_DONE, 2, 10 } },
	  0,
	  2,
	  11264,
	  "11.0 GiB: 10 % above the peak of the one run named train.sh on 2 GPUs" },
	{ "all, as before", { { LEARNED_DONE, SPEC_ALL, 10 } }, 0, SPEC_ALL, 11264, NULL },
	{ "no GPU, no memory", { { LEARNED_DONE, 0, 10 } }, 0, 0, 0, NULL },
	{ "one whose peak nobody saw", { { LEARNED_DONE, 1, 0 } }, 0, 1, 0, NULL },
	{ "more than it had been given",
	  { { LEARNED_DONE, 1, 10 }, { LEARNED_OOM, 1, 3, 11 } },
	  0,
	  1,
	  14080,
	  "13.8 GiB: a run named train.sh ran out of memory with 11.0 GiB, and it gets a quarter more" },
	{ "more than it used, where it had a whole GPU of unknown size",
	  { { LEARNED_OOM, 1, 40 } },
	  0,
	  1,
	  51200,
	  NULL },
	{ "all that a GPU has, where that was not enough",
	  { { LEARNED_OOM, 1, 70, 0, 80 } },
	  0,
	  1,
	  81920,
	  "80.0 GiB, all that a GPU has: a run named train.sh ran out of memory with 80.0 GiB, and it gets what there is" },
	{ "an old one that is below what runs have used since",
	  { { LEARNED_OOM, 1, 0, 8 }, { LEARNED_DONE, 1, 20 } },
	  0,
	  1,
	  22528,
	  NULL },
	{ "nine that ended well do not make it forgotten",
	  { { LEARNED_OOM, 1, 0, 8 } },
	  9,
	  1,
	  10240,
	  NULL },
	{ "ten do", { { LEARNED_OOM, 1, 0, 8 } }, 10, 1, 1127, NULL },
	{ "not more than a GPU has, or it would wait for ever",
	  { { LEARNED_DONE, 1, 78, 0, 80 } },
	  0,
	  1,
	  81920,
	  "80.0 GiB, all that a GPU has: 10 % above the peak of the one run named train.sh, 78.0 GiB, would be more" },
};

static struct learned_run run_of(const struct row *r, uint64_t id)
{
	return (struct learned_run){ .id = id,
				     .ended_ns = (1000 + id) * NS_PER_S,
				     .how = r->how,
				     .gpus = r->gpus,
				     .peak_bytes = r->peak * GIB,
				     .asked_bytes = r->asked * GIB,
				     .room_bytes = r->room * GIB,
				     .ran_ms = 1000 };
}

static bool is_row(const struct row *r)
{
	return r->gpus || r->peak || r->asked;
}

static void test_memory(void **state)
{
	const struct row well = { LEARNED_DONE, 1, 1 };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_strbuf struct strbuf text = STRBUF_INIT;
		struct learned *l = learned_new();
		struct learned_memory m;
		uint64_t id = 0;

		for (size_t k = 0; k < ARRAY_LEN(cases[i].rows) && is_row(&cases[i].rows[k]); k++) {
			struct learned_run run = run_of(&cases[i].rows[k], ++id);

			learned_add(l, NAME, &run);
		}
		for (unsigned int k = 0; k < cases[i].well_after; k++) {
			struct learned_run run = run_of(&well, ++id);

			learned_add(l, NAME, &run);
		}
		learned_add(l, "another",
			    &(struct learned_run){ .id = 99,
						   .ended_ns = NS_PER_S,
						   .gpus = cases[i].gpus,
						   .peak_bytes = 50 * GIB });
		m = learned_memory(l, NAME, cases[i].gpus);
		learned_memory_text(&m, NAME, cases[i].gpus, &text);
		if (m.bytes != cases[i].mib * MIB)
			fail_msg("%s: %llu MiB", cases[i].label,
				 (unsigned long long)(m.bytes / MIB));
		if (cases[i].text && strcmp(strbuf_str(&text), cases[i].text) != 0)
			fail_msg("%s: %s", cases[i].label, strbuf_str(&text));
		learned_free(l);
	}
}

static void ran(struct learned *l, uint64_t id, enum learned_how how, uint64_t ms)
{
	learned_add(l, NAME,
		    &(struct learned_run){ .id = id,
					   .ended_ns = (1000 + id) * NS_PER_S,
					   .how = how,
					   .gpus = 1,
					   .ran_ms = ms });
}

static void count_time(void *data, const char *name, uint64_t gpus, const struct learned_time *t)
{
	size_t *n = data;

	assert_string_equal(name, NAME);
	assert_int_equal(t->runs, gpus ? 10 : 1);
	++*n;
}

static void test_time(void **state)
{
	struct learned *l = learned_new();
	struct learned_time t;

	assert_false(learned_time(l, NAME, 1, &t));
	ran(l, 1, LEARNED_OOM, 5);
	assert_false(learned_time(l, NAME, 1, &t));
	ran(l, 2, LEARNED_DONE, 100000);
	assert_true(learned_time(l, NAME, 1, &t) && t.runs == 1);
	assert_int_equal(t.low_ms, 75000);
	assert_int_equal(t.high_ms, 126000);
	assert_false(learned_time(l, NAME, 2, &t));
	/* Of many one in ten at each end does not count. */
	for (uint64_t id = 3; id <= 11; id++)
		ran(l, id, LEARNED_DONE, (id - 1) * 100000);
	assert_true(learned_time(l, NAME, 1, &t) && t.runs == 10);
	assert_int_equal(t.low_ms, 180000);
	assert_int_equal(t.high_ms, 991000);
	/* All of them, once for each number of GPUs. */
	learned_add(l, NAME,
		    &(struct learned_run){ .id = 70, .ended_ns = NS_PER_S, .ran_ms = 400 });
	learned_add(l, "b",
		    &(struct learned_run){ .id = 71, .ended_ns = NS_PER_S, .how = LEARNED_OOM });
	size_t n = 0;

	learned_each_time(l, count_time, &n);
	assert_int_equal(n, 2);
	learned_free(l);
}

/* The newest are kept, of a name and of all. */
static void test_bounds(void **state)
{
	struct learned *l = learned_new();
	char name[32];

	for (uint64_t id = 1; id <= LEARNED_RUNS + 10; id++) {
		struct learned_run run = run_of(&(struct row){ LEARNED_DONE, 1, id }, id);

		learned_add(l, NAME, &run);
		run.peak_bytes = 500 * GIB;
		learned_add(l, NAME, &run); /* the same attempt */
	}
	assert_int_equal(learned_memory(l, NAME, 1).runs, LEARNED_RUNS);
	assert_int_equal(learned_memory(l, NAME, 1).peak_bytes, (LEARNED_RUNS + 10) * GIB);
	learned_add(l, NAME, &(struct learned_run){ .id = 500, .ended_ns = NS_PER_S, .gpus = 1 });
	assert_int_equal(learned_memory(l, NAME, 1).runs, LEARNED_RUNS);
	for (uint64_t id = 1000; id < 1000 + LEARNED_ALL; id++) {
		struct learned_run run = run_of(&(struct row){ LEARNED_DONE, 1, 7 }, id);

		(void)str_print(name, sizeof(name), "n%llu", (unsigned long long)id);
		learned_add(l, name, &run);
	}
	assert_int_equal(learned_memory(l, NAME, 1).runs, 0); /* nothing of it ran for longest */
	assert_int_equal(learned_memory(l, name, 1).runs, 1);
	learned_free(l);
}

static void test_text(void **state)
{
	static const char *const rows[] = {
		"{\"name\":\"a\",\"runs\":[{\"id\":1,\"gpus\":2,\"peak\":1024,\"asked\":7,\"room\":9,"
		"\"time\":50,\"ran_s\":1.5},{\"id\":2,\"element\":3,\"epoch\":4,\"time\":60,\"gpus\":\"all\","
		"\"how\":\"oom\"}]}\n",
		"",
	};
	static const char bad[] =
		"x\n{}\n[1]\n{\"name\":5,\"runs\":[]}\n{\"name\":\"b\",\"runs\":7}\n"
		"{\"name\":\"b\",\"runs\":[{\"id\":0,\"time\":5},{\"id\":1},7,"
		"{\"id\":1,\"time\":5,\"how\":\"otherwise\"}]}\n{\"name\":\"b\"";

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct learned *l = learned_new();

		learned_parse(l, rows[i], strlen(rows[i]));
		learned_parse(l, bad, sizeof(bad)); /* and its NUL */

		cleanup_free char *text = learned_text(l);

		assert_string_equal(text, rows[i]);
		learned_free(l);
	}
}

static void add(struct learned *l, uint64_t id, uint64_t peak)
{
	struct learned_run run = run_of(&(struct row){ LEARNED_DONE, 1, peak }, id);

	learned_add(l, NAME, &run);
}

static unsigned int runs_in(const struct spool *sp)
{
	struct learned *l = learned_new();
	unsigned int n;

	assert_int_equal(learned_load(l, sp, NULL), 0);
	n = learned_memory(l, NAME, 1).runs;
	learned_free(l);
	return n;
}

/* Two agents that write at the same time: one of the files wins, and nothing is lost. */
static void test_two_agents(void **state)
{
	struct spool *sp = open_spool();
	struct learned *a = learned_new(), *b = learned_new();
	uint64_t version;

	assert_int_equal(runs_in(sp), 0);
	add(a, 1, 10);
	assert_int_equal(learned_sync(a, sp, NULL), 0);
	add(b, 2, 20);
	assert_int_equal(learned_sync(b, sp, NULL), 0);
	assert_int_equal(runs_in(sp), 2);
	assert_int_equal(learned_memory(b, NAME, 1).runs, 2);
	version = learned_version(a);
	assert_int_equal(learned_sync(a, sp, NULL), 0);
	assert_int_equal(learned_memory(a, NAME, 1).peak_bytes, 20 * GIB);
	assert_true(learned_version(a) != version);
	/* b had read the file before a wrote its third, and writes over it. */
	cleanup_free char *of_b = learned_text(b);

	add(a, 3, 30);
	assert_int_equal(learned_sync(a, sp, NULL), 0);
	assert_int_equal(runs_in(sp), 3);
	assert_int_equal(spool_replace(sp, LEARNED_FILE, of_b, strlen(of_b), NULL), 0);
	assert_int_equal(runs_in(sp), 2);
	assert_int_equal(learned_sync(a, sp, NULL), 0);
	assert_int_equal(runs_in(sp), 3);
	/* Where nothing is new nothing is written. */
	struct stat was, is;

	assert_int_equal(spool_stat(sp, LEARNED_FILE, &was), 0);
	assert_int_equal(learned_sync(a, sp, NULL), 0);
	assert_int_equal(spool_stat(sp, LEARNED_FILE, &is), 0);
	assert_int_equal(was.st_ino, is.st_ino);
	learned_free(a);
	learned_free(b);
	(void)spool_close(sp);
}

/* Where an agent of before has kept nothing, what has ended tells. */
static void test_history(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1");
	struct learned *l = learned_new(), *few = learned_new();
	struct learned_time t;

	for (unsigned int i = 1; i <= 3; i++) {
		uint64_t id = submit(sp, "{\"argv\":[\"true\"],\"gpus\":2,\"name\":\"train.sh\"}");
		struct claim c = claim(sp, id, &me);
		struct spool_end end = done(&c);

		end.begun_ns = 5000 * NS_PER_S;
		end.ended_ns = (5010 + i) * NS_PER_S;
		end.use = (struct spool_use){ .gpus = 2, .gpu_peak_bytes = 2 * i * GIB };
		end.result = i == 2 ? RESULT_FAILED : RESULT_DONE;
		assert_int_equal(transit_end(sp, NULL, &c, &end, NULL), 0);
	}
	assert_int_equal(learned_load(l, sp, NULL), 0);
	assert_true(learned_is_new(l));
	assert_int_equal(learned_from_history(l, sp, 100, UINT64_MAX, NULL), 0);
	assert_int_equal(learned_memory(l, NAME, 2).runs, 2);
	assert_int_equal(learned_memory(l, NAME, 2).peak_bytes, 3 * GIB);
	assert_int_equal(learned_memory(l, NAME, 1).runs, 0);
	assert_true(learned_time(l, NAME, 2, &t));
	assert_int_equal(t.low_ms, 11000 - 11000 / 100 * 25);
	/* The last ones first, and in time. */
	assert_int_equal(learned_from_history(few, sp, 1, UINT64_MAX, NULL), 0);
	assert_int_equal(learned_memory(few, NAME, 2).peak_bytes, 3 * GIB);
	assert_int_equal(learned_memory(few, NAME, 2).runs, 1);
	few = learned_free(few);
	few = learned_new();
	assert_int_equal(learned_from_history(few, sp, 100, 0, NULL), 0);
	assert_int_equal(learned_memory(few, NAME, 2).runs, 0);
	assert_int_equal(learned_sync(l, sp, NULL), 0);
	assert_false(learned_is_new(l));
	learned_free(few);
	learned_free(l);
	(void)spool_close(sp);
}

/* Whatever lies there stops nothing. */
static void test_bad_file(void **state)
{
	struct spool *sp = open_spool();
	struct learned *l = learned_new();

	assert_int_equal(spool_mkdirat(sp, LEARNED_FILE, NULL), 0);
	add(l, 1, 10);
	assert_int_equal(learned_sync(l, sp, NULL), 0);
	assert_int_equal(runs_in(sp), 1);
	put(sp, LEARNED_FILE, "not what it was\n");
	assert_int_equal(learned_sync(l, sp, NULL), 0);
	assert_int_equal(runs_in(sp), 1);
	learned_free(l);
	(void)spool_close(sp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_time),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_text),
		cmocka_unit_test_setup_teardown(test_two_agents, spool_setup, spool_teardown),
		cmocka_unit_test_setup_teardown(test_history, spool_setup, spool_teardown),
		cmocka_unit_test_setup_teardown(test_bad_file, spool_setup, spool_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
