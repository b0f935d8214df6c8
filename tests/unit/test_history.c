/* SPDX-License-Identifier: MIT */

/* What `tenure history` adds up of the records of attempts: by lane, by name, and in hours. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli_world.h"
#include "spool_world.h"
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/instance.h"

/* An attempt of a task: how long it ran until how long ago, and what its record says of it. */
struct ran {
	const char *spec; /* further keys */
	double seconds;
	uint64_t ago_s;
	struct spool_use use;
	enum task_result result;
	unsigned int exit;
};

static void fill_end(struct spool_end *end, const struct ran *ran)
{
	end->result = ran->result;
	end->exit = ran->exit;
	end->ended_ns = clock_wall_ns() - ran->ago_s * NS_PER_S;
	end->begun_ns =
		ran->seconds > 0 ? end->ended_ns - (uint64_t)(ran->seconds * (double)NS_PER_S) : 0;
	end->use = ran->use;
}

static uint64_t run(const struct spool *sp, const struct ran *ran)
{
	struct claimer me = self(sp, "n1");
	cleanup_free char *json =
		xasprintf("{\"argv\":[\"true\"]%s%s}", ran->spec[0] ? "," : "", ran->spec);
	uint64_t id = submit(sp, json);
	struct claim c = claim(sp, id, &me);
	struct spool_end end = done(&c);

	fill_end(&end, ran);
	assert_int_equal(transit_end(sp, NULL, &c, &end, NULL), 0);
	return id;
}

static json_t *history_json(const char *options)
{
	cleanup_free char *line = xasprintf("--json %s", options);
	struct said s = cli(&cmd_history, line);
	json_t *doc = json_loads(s.out, 0, NULL);

	if (s.code != 0 || !doc || s.err[0])
		fail_msg("history %s: %d, %s%s", line, s.code, s.err, s.out);
	said_clear(&s);
	return doc;
}

static void assert_hours(const json_t *doc, const char *key, const char *of, double want)
{
	const json_t *sums = json_object_get(doc, key), *hours = json_object_get(sums, of);

	if (!json_is_real(hours) || fabs(json_real_value(hours) - want) > 1e-6)
		fail_msg("%s of %s: %f instead of %f", key, of, json_number_value(hours), want);
}

static const json_t *task(const json_t *doc, size_t i)
{
	return json_array_get(json_object_get(doc, "tasks"), i);
}

static void hours_are_the_time_times_the_devices(void **state)
{
	static const struct ran all[] = {
		{ "\"name\":\"a\",\"lane\":\"week\"", 3600, 10, { .gpus = 2 }, RESULT_DONE },
		{ "\"name\":\"a\",\"lane\":\"week\"", 1800, 20, { .gpus = 1 }, RESULT_FAILED, 3 },
		{ "\"name\":\"b\",\"gpus\":4",
		  900,
		  30,
		  { 0 },
		  RESULT_DONE }, /* what it asked for */
		{ "\"name\":\"b\",\"gpus\":0", 7200, 40, { 0 }, RESULT_DONE },
		{ "\"name\":\"c\"", 0, 50, { .gpus = 8 }, RESULT_CANCELLED }, /* it never ran */
	};
	static const double hours[] = { 0, 0, 1, 0.5, 2 }; /* in the order of their ends */
	struct spool *sp = open_spool();
	json_t *doc;

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		(void)run(sp, &all[i]);
	doc = history_json("");
	assert_int_equal(json_array_size(json_object_get(doc, "tasks")), ARRAY_LEN(all));
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		const json_t *t = task(doc, i);

		assert_int_equal(json_integer_value(json_object_get(t, "id")), ARRAY_LEN(all) - i);
		assert_true(fabs(json_real_value(json_object_get(t, "gpu_hours")) - hours[i]) <
			    1e-6);
	}
	assert_int_equal(json_object_size(json_object_get(doc, "gpu_hours_by_lane")), 2);
	assert_hours(doc, "gpu_hours_by_lane", "week", 2.5);
	assert_hours(doc, "gpu_hours_by_lane", "-", 1);
	assert_int_equal(json_object_size(json_object_get(doc, "gpu_hours_by_name")), 3);
	assert_hours(doc, "gpu_hours_by_name", "a", 2.5);
	assert_hours(doc, "gpu_hours_by_name", "b", 1);
	assert_hours(doc, "gpu_hours_by_name", "c", 0);
	json_decref(doc);
	(void)spool_close(sp);
}

static void a_task_is_told_of_by_its_members(void **state)
{
	static const struct ran ran = {
		"\"name\":\"a\",\"lane\":\"week\"",
		100,
		0,
		{ .gpus = 2, .gpu_peak_bytes = 3UL << 30, .gpu_util_permille = 725 },
		RESULT_FAILED,
		137
	};
	struct spool *sp = open_spool();
	const char *ended;
	json_t *doc, *want, *t;

	(void)run(sp, &ran);
	doc = history_json("");
	t = json_incref(json_array_get(json_object_get(doc, "tasks"), 0));
	ended = json_string_value(json_object_get(t, "ended"));
	assert_true(ended && strlen(ended) > strlen("2026-11-20T08:00:00"));
	(void)json_object_del(t, "ended");
	assert_true(fabs(json_real_value(json_object_get(t, "ran_s")) - 100) < 1e-3);
	(void)json_object_del(t, "ran_s");
	(void)json_object_del(t, "gpu_hours");
	assert_true(fabs(json_real_value(json_object_get(t, "gpu_utilisation")) - 72.5) < 1e-6);
	(void)json_object_del(t, "gpu_utilisation");
	want = json_pack("{s:i, s:s, s:s, s:s, s:i, s:i, s:i, s:I}", "id", 1, "name", "a", "state",
			 "failed", "lane", "week", "elements", 0, "exit", 137, "gpus", 2,
			 "gpu_peak_bytes", (json_int_t)3 << 30);
	if (!json_equal(t, want))
		fail_msg("%s", json_dumps(t, 0));
	json_decref(want);
	json_decref(t);
	json_decref(doc);
	(void)spool_close(sp);
}

/* One that has grown and shrunk had the most of its GPUs for a part of the time only. */
static void hours_of_one_that_grew(void **state)
{
	static const struct ran ran = {
		"\"name\":\"a\"", 3600, 5, { .gpus = 3, .gpu_ns = 5400 * NS_PER_S }, RESULT_DONE
	};
	struct spool *sp = open_spool();
	json_t *doc;

	(void)run(sp, &ran);
	doc = history_json("");
	assert_hours(doc, "gpu_hours_by_name", "a", 1.5);
	json_decref(doc);
	(void)spool_close(sp);
}

/* Nobody wrote down how many GPUs a node had: that is no zero. */
static void an_unknown_number_is_no_zero(void **state)
{
	static const struct ran unknown = { "\"name\":\"a\",\"gpus\":\"all\"", 3600, 5, { 0 } };
	static const struct ran known = {
		"\"name\":\"b\",\"gpus\":\"all\"", 3600, 1, { .gpus = 8 }
	};
	struct spool *sp = open_spool();
	struct said s;
	json_t *doc;

	(void)run(sp, &unknown);
	(void)run(sp, &known);
	doc = history_json("");
	assert_string_equal(json_string_value(json_object_get(task(doc, 0), "gpus")), "all");
	assert_true(json_is_null(json_object_get(task(doc, 0), "gpu_hours")));
	assert_int_equal(json_integer_value(json_object_get(task(doc, 1), "gpus")), 8);
	assert_hours(doc, "gpu_hours_by_lane", "-", 8);
	json_decref(doc);
	s = cli(&cmd_history, "");
	assert_non_null(strstr(s.out, "\n1 had all GPUs of a node; how many is not recorded"));
	assert_non_null(strstr(s.out, "  all  1h 00m      ?  "));
	assert_non_null(
		strstr(s.out, "\n2 tasks: 2 done, 0 failed, 0 cancelled; 8.00 GPU-hours\n"));
	said_clear(&s);
	(void)spool_close(sp);
}

/* A requeue is an attempt as well; of a batch that is not over, what has ended of it is told. */
static void every_attempt_counts(void **state)
{
	static const struct ran half = { "", 1800, 1, { .gpus = 2 } };
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"],\"name\":\"twice\"}");
	struct claim c = claim(sp, id, &me);
	struct spool_again again = { .attempts = 1,
				     .begun_ns = clock_wall_ns() - 1800 * NS_PER_S,
				     .use = { .gpus = 2 } };
	struct spool_end end;
	struct batch *b;
	json_t *doc;

	assert_int_equal(transit_requeue(sp, NULL, &c, &again, NULL), 0);
	c = claim(sp, id, &me);
	end = done(&c);
	fill_end(&end, &half);
	assert_int_equal(transit_end(sp, NULL, &c, &end, NULL), 0);

	id = submit(sp, "{\"argv\":[\"true\"],\"name\":\"many\",\"array\":\"0-2\"}");
	b = open_batch(sp, id, "n1");
	assert_int_equal(batch_claim(b, 2, &me, &c, NULL), 0);
	end = done(&c);
	fill_end(&end, &half);
	assert_int_equal(batch_end(b, NULL, &c, &end, NULL), 0);
	assert_int_equal(batch_sync(b, NULL), 0);
	(void)batch_close(b);
	(void)submit(sp, "{\"argv\":[\"true\"],\"name\":\"none\",\"array\":\"0-2\"}");

	doc = history_json("");
	assert_int_equal(json_array_size(json_object_get(doc, "tasks")), 2);
	assert_hours(doc, "gpu_hours_by_name", "twice", 2);
	assert_hours(doc, "gpu_hours_by_name", "many", 1);
	assert_string_equal(json_string_value(json_object_get(task(doc, 1), "state")), "pending");
	json_decref(doc);
	(void)spool_close(sp);
}

static void only_what_is_meant_is_told(void **state)
{
	static const struct ran all[] = {
		{ "\"name\":\"train_1\",\"lane\":\"week\"", 36, 7200, { .gpus = 1 } },
		{ "\"name\":\"train_2\"", 36, 60, { .gpus = 1 } },
		{ "\"name\":\"eval\",\"lane\":\"week\"", 36, 60, { .gpus = 1 } },
		{ "\"name\":\"old\"", 36, 3 * 86400, { .gpus = 1 } },
	};
	static const struct {
		const char *options;
		size_t n;
	} cases[] = {
		{ "", 3 },
		{ "--since 7d", 4 },
		{ "--since 1h", 2 },
		{ "--since 1970-01-02", 4 },
		{ "--since '1970-01-02 08:00'", 4 },
		{ "-l week", 2 },
		{ "-l wee", 0 },
		{ "-n train", 2 },
		{ "-n train_2", 1 },
		{ "-n rain", 0 },
		{ "-l week -n train --since 1h", 0 },
	};
	struct spool *sp = open_spool();
	struct said s;

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		(void)run(sp, &all[i]);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		json_t *doc = history_json(cases[i].options);
		size_t n = json_array_size(json_object_get(doc, "tasks"));

		if (n != cases[i].n)
			fail_msg("%s: %zu", cases[i].options, n);
		json_decref(doc);
	}
	s = cli(&cmd_history, "-n rain");
	assert_string_equal(s.out,
			    "Nothing of instance \"default\" that is meant has ended in that "
			    "time.\n");
	said_clear(&s);
	(void)spool_close(sp);
}

/* Two digits that say something, of seconds as well as of days. */
static void hours_are_shown_with_digits_that_say_something(void **state)
{
	static const struct {
		const char *name;
		double seconds;
		const char *shown;
	} cases[] = {
		{ "none", 0, "0" },	      { "tiny", 0.2, "<0.0001" },
		{ "split", 0.72, "0.00020" }, { "second", 7.2, "0.0020" },
		{ "minute", 72, "0.020" },    { "hour", 720, "0.20" },
		{ "days", 360000, "100.00" },
	};
	struct spool *sp = open_spool();

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *spec = xasprintf("\"name\":\"%s\"", cases[i].name);
		cleanup_free char *only = xasprintf("-n %s", cases[i].name);
		cleanup_free char *want = xasprintf("; %s GPU-hours\n", cases[i].shown);
		struct said s;

		(void)run(sp, &(struct ran){ spec, cases[i].seconds, 1, { .gpus = 1 } });
		s = cli(&cmd_history, only);
		if (!strstr(s.out, want))
			fail_msg("%s: %s", cases[i].name, s.out);
		said_clear(&s);
	}
	(void)spool_close(sp);
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

/* More than that is no overview: the last tasks, the largest sums, kinds of names. */
static void very_many_are_put_together(void **state)
{
	struct spool *sp = open_spool();
	struct said s;

	for (unsigned int i = 0; i < 103; i++) {
		cleanup_free char *spec =
			xasprintf("\"name\":\"seed_%u_lr0.%u\",\"lane\":\"l%u\"", i, i, i % 23);

		(void)run(sp, &(struct ran){ spec, 360, 200 - i, { .gpus = 1 } });
	}
	s = cli(&cmd_history, "");
	assert_int_equal(count(s.out, " done "), 100);
	assert_null(strstr(s.out, " seed_2_lr0.2 "));
	assert_non_null(strstr(s.out, " seed_3_lr0.3 "));
	assert_non_null(
		strstr(s.out, "GPU-H  TASKS  NAME (* a number)\n10.30    103  seed_*_lr*.*\n"));
	assert_non_null(strstr(s.out, "(3 others)\n"));
	assert_non_null(strstr(s.out, "\n3 that ended earlier are not shown one by one;"));
	said_clear(&s);

	s = cli(&cmd_history, "--all");
	assert_int_equal(count(s.out, " done "), 103);
	assert_null(strstr(s.out, "others)"));
	assert_null(strstr(s.out, "not shown"));
	assert_non_null(strstr(s.out, "TASKS  NAME\n"));
	said_clear(&s);
	(void)spool_close(sp);
}

static void a_time_that_is_none_is_refused(void **state)
{
	static const struct {
		const char *since, *error;
	} cases[] = {
		{ "soon", "--since: \"soon\" is not a time; write it like 7d, 12h" },
		{ "7", "--since: \"7\" is not a time" },
		{ "2099-01-01", "--since: \"2099-01-01\" is yet to come" },
		{ "''", "--since: \"\" is not a time" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *line = xasprintf("--since %s", cases[i].since);
		struct said s = cli(&cmd_history, line);

		if (s.code != CMD_USAGE || s.out[0] || !strstr(s.err, cases[i].error))
			fail_msg("%s: %d, %s", line, s.code, s.err);
		said_clear(&s);
	}
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, cli_setup, cli_teardown)
	const struct CMUnitTest tests[] = {
		IN_A_SPOOL(hours_are_the_time_times_the_devices),
		IN_A_SPOOL(a_task_is_told_of_by_its_members),
		IN_A_SPOOL(hours_of_one_that_grew),
		IN_A_SPOOL(an_unknown_number_is_no_zero),
		IN_A_SPOOL(every_attempt_counts),
		IN_A_SPOOL(only_what_is_meant_is_told),
		IN_A_SPOOL(hours_are_shown_with_digits_that_say_something),
		IN_A_SPOOL(very_many_are_put_together),
		IN_A_SPOOL(a_time_that_is_none_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
