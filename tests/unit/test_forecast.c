/* SPDX-License-Identifier: MIT */

/* When a task will start (sched/forecast.h): the planner in virtual time. */

#include <stdlib.h>
#include <time.h>

#include "sched_bench.h"

#include "base/mem.h"
#include "base/str.h"
#include "sched/forecast.h"

#define MIN (60 * MS_PER_S)

/* By rising kinds. Of kind 9 nothing is known. */
static const struct forecast_time known[] = { { 1, 10 * MIN, 20 * MIN },
					      { 2, 1 * MIN, 1 * MIN },
					      { 3, 30 * MIN, 90 * MIN } };
static const struct forecast_times times = { ARRAY_LEN(known), known };

static struct forecast look(const struct bench *b, uint64_t id, uint32_t element)
{
	return sched_forecast(b->q, &b->view, &times, (struct sched_ref){ id, element });
}

static void expect(const struct bench *b, uint64_t id, enum forecast_what what, uint64_t low_min,
		   uint64_t high_min)
{
	struct forecast f = look(b, id, 0);

	if (f.what != what || f.low_ms != low_min * MIN || f.high_ms != high_min * MIN)
		fail_msg("task %llu: what %d, %.3f to %.3f min", (unsigned long long)id, f.what,
			 (double)f.low_ms / MIN, (double)f.high_ms / MIN);
}

/* It runs since then, on its GPU. */
static void runs(struct bench *b, struct sched_task t, unsigned int slot, uint64_t for_min)
{
	struct devset one = { { 0 } };

	devset_add(&one, slot);
	b->d[slot].state = SCHED_DEV_LENT;
	b->d[slot].free_bytes = GIB;
	assert_int_equal(
		sched_adopt(b->q, &t, one, b->view.now_ns - for_min * MIN * NS_PER_MS, NULL), 0);
}

static void plan(struct bench *b)
{
	sched_plan(b->q, &b->view, &b->out);
}

static void open_at(struct bench *b, size_t n)
{
	bench_open(b, n);
	b->view.now_ns = UINT64_C(10000) * MIN * NS_PER_MS;
	b->view.now_wall_ns = UINT64_C(20000) * MIN * NS_PER_MS;
}

static void test_behind_others(void **state)
{
	struct bench *b = xmalloc(sizeof(*b));

	open_at(b, 1);
	runs(b, (struct sched_task){ .id = 1, .gpus = 1, .kind = 1 }, 0, 5);
	bench_add(b, (struct sched_task){ .id = 2, .gpus = 1, .kind = 2 });
	bench_add(b, (struct sched_task){ .id = 3, .gpus = 1, .kind = 3 });
	bench_add(b, (struct sched_task){ .id = 4, .gpus = 1 });
	bench_add(b, (struct sched_task){ .id = 5, .gpus = 0 });
	bench_add(b, (struct sched_task){ .id = 6, .gpus = 1, .paused = true });
	plan(b);
	expect(b, 2, FORECAST_RANGE, 5, 15);
	expect(b, 3, FORECAST_RANGE, 6, 16);
	expect(b, 4, FORECAST_RANGE, 36, 106);
	expect(b, 5, FORECAST_NOTHING, 0, 0); /* it has been started */
	expect(b, 6, FORECAST_NOTHING, 0, 0);
	expect(b, 77, FORECAST_NOTHING, 0, 0);
	/* The queue is as it was. */
	assert_int_equal(sched_count(b->q).waiting, 4);
	assert_int_equal(sched_count(b->q).running, 2);
	bench_close(b);
	free(b);
}

/* One that has taken longer than all of its kind may end now; when at last nobody knows. */
static void test_longer_than_ever(void **state)
{
	struct bench *b = xmalloc(sizeof(*b));

	open_at(b, 1);
	runs(b, (struct sched_task){ .id = 1, .gpus = 1, .kind = 1 }, 0, 25);
	bench_add(b, (struct sched_task){ .id = 2, .gpus = 1, .kind = 2 });
	bench_add(b, (struct sched_task){ .id = 3, .gpus = 1 });
	plan(b);
	expect(b, 2, FORECAST_LEAST, 0, 0);
	expect(b, 3, FORECAST_LEAST, 1, 0);
	assert_int_equal(look(b, 3, 0).unknown.id, 1);
	bench_close(b);
	free(b);
}

/* Without runs to go by there is the time-out, or nothing. */
static void test_unknown(void **state)
{
	struct bench *b = xmalloc(sizeof(*b));

	open_at(b, 2);
	runs(b, (struct sched_task){ .id = 1, .gpus = 1, .kind = 9, .timeout_ms = 60 * MIN }, 0,
	     20);
	runs(b, (struct sched_task){ .id = 2, .gpus = 1, .kind = 9 }, 1, 20);
	bench_add(b, (struct sched_task){ .id = 3, .gpus = 1 });
	bench_add(b, (struct sched_task){ .id = 4, .gpus = 2 });
	plan(b);
	expect(b, 3, FORECAST_RANGE, 0, 40);
	expect(b, 4, FORECAST_UNKNOWN, 0, 0);
	assert_int_equal(look(b, 4, 0).unknown.id, 2);
	bench_close(b);
	free(b);
}

/* A time-out ends what would take longer. */
static void test_timeout_is_a_bound(void **state)
{
	struct bench *b = xmalloc(sizeof(*b));

	open_at(b, 1);
	b->view.policy.grace_ms = MIN;
	runs(b, (struct sched_task){ .id = 1, .gpus = 1, .kind = 3, .timeout_ms = 50 * MIN }, 0,
	     10);
	bench_add(b, (struct sched_task){ .id = 2, .gpus = 1 });
	plan(b);
	expect(b, 2, FORECAST_RANGE, 20, 41);
	bench_close(b);
	free(b);
}

/* Others' devices stay theirs, and what stays so for good is nothing to wait for. */
static void test_other_people(void **state)
{
	struct bench *b = xmalloc(sizeof(*b));

	open_at(b, 2);
	b->d[0].state = SCHED_DEV_BUSY;
	runs(b, (struct sched_task){ .id = 1, .gpus = 1, .kind = 2 }, 1, 0);
	bench_add(b, (struct sched_task){ .id = 2, .gpus = 2 });
	plan(b);
	expect(b, 2, FORECAST_NOTHING, 0, 0);
	bench_close(b);
	free(b);
}

/* Who would wait as well if a run had ended, does not wait for it, however long that takes. */
static void test_no_difference(void **state)
{
	static const struct forecast_after after[] = { { 11, 4 }, { 14, 6 } };
	const struct forecast_times with = { 0, NULL, ARRAY_LEN(after), after };
	static const struct {
		uint64_t id;
		enum forecast_what what;
		uint64_t low_min, unknown;
	} rows[] = {
		{ 9, FORECAST_NOTHING, 0, 0 },	{ 10, FORECAST_NOTHING, 0, 0 },
		{ 11, FORECAST_NOTHING, 0, 0 }, { 12, FORECAST_LEAST, 540, 0 },
		{ 13, FORECAST_UNKNOWN, 0, 7 }, { 14, FORECAST_UNKNOWN, 0, 6 },
		{ 15, FORECAST_UNKNOWN, 0, 7 }, { 16, FORECAST_LEAST, 60, 7 },
	};
	struct bench *b = xmalloc(sizeof(*b));
	uint32_t lane;

	open_at(b, 8);
	lane = sched_lane(b->q, "one");
	b->d[5].state = b->d[6].state = SCHED_DEV_BUSY;
	b->d[7].state = SCHED_DEV_LEFT;
	bench_add(b, (struct sched_task){ .id = 6 });
	bench_add(b, (struct sched_task){ .id = 7, .lane = lane });
	plan(b);
	runs(b, (struct sched_task){ .id = 4, .gpus = 1, .timeout_ms = 480 * MIN }, 0, 0);
	runs(b, (struct sched_task){ .id = 5, .gpus = 1 }, 1, 0);
	bench_add(b, (struct sched_task){ .id = 9, .gpus = 6 });
	bench_add(b,
		  (struct sched_task){
			  .id = 10, .element = 1, .n_elements = 3, .gpus = 4, .array_limit = 1 });
	bench_add(b, (struct sched_task){ .id = 11, .gpus = 1, .dep = SCHED_DEP_WAIT });
	bench_add(b, (struct sched_task){ .id = 12,
					  .gpus = 1,
					  .begin_wall_ns =
						  b->view.now_wall_ns + 540 * MIN * NS_PER_MS });
	/* Behind 13, of which nothing is known either, is behind what runs before it. */
	bench_add(b, (struct sched_task){ .id = 13, .lane = lane });
	bench_add(b, (struct sched_task){ .id = 14, .dep = SCHED_DEP_WAIT });
	bench_add(b, (struct sched_task){ .id = 15, .lane = lane });
	bench_add(b, (struct sched_task){ .id = 16,
					  .lane = lane,
					  .begin_wall_ns =
						  b->view.now_wall_ns + 60 * MIN * NS_PER_MS });
	plan(b);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct forecast f =
			sched_forecast(b->q, &b->view, &with, (struct sched_ref){ rows[i].id, 0 });

		if (f.what != rows[i].what || f.low_ms != rows[i].low_min * MIN ||
		    f.unknown.id != rows[i].unknown)
			fail_msg("task %llu: what %d, %.2f min, after %llu",
				 (unsigned long long)rows[i].id, f.what, (double)f.low_ms / MIN,
				 (unsigned long long)f.unknown.id);
	}
	bench_close(b);
	free(b);
}

/* Memory comes back with who had it. */
static void test_memory(void **state)
{
	struct bench *b = xmalloc(sizeof(*b));

	open_at(b, 1);
	runs(b,
	     (struct sched_task){
		     .id = 1, .gpus = 1, .kind = 1, .shared = true, .mem_bytes = 50 * GIB },
	     0, 0);
	b->d[0].free_bytes = 30 * GIB;
	(void)sched_used(b->q, (struct sched_ref){ 1, 0 }, 0, 50 * GIB);
	bench_add(b,
		  (struct sched_task){
			  .id = 2, .gpus = 1, .kind = 2, .shared = true, .mem_bytes = 20 * GIB });
	bench_add(b,
		  (struct sched_task){
			  .id = 3, .gpus = 1, .kind = 2, .shared = true, .mem_bytes = 40 * GIB });
	plan(b);
	assert_int_equal(b->out.n >= 1 && b->out.actions[0].ref.id == 2, true);
	expect(b, 3, FORECAST_RANGE, 10, 20);
	bench_close(b);
	free(b);
}

/* Begin times, back-offs, lanes and limits of arrays count. */
static void test_what_keeps_it(void **state)
{
	struct bench *b = xmalloc(sizeof(*b));
	uint32_t lane;

	open_at(b, 4);
	lane = sched_lane(b->q, "night");
	bench_add(b, (struct sched_task){ .id = 1,
					  .gpus = 1,
					  .begin_wall_ns =
						  b->view.now_wall_ns + 7 * MIN * NS_PER_MS });
	bench_add(b, (struct sched_task){ .id = 2,
					  .gpus = 1,
					  .not_before_ns = b->view.now_ns + 8 * MIN * NS_PER_MS });
	bench_add(b, (struct sched_task){ .id = 3, .gpus = 1, .lane = lane, .kind = 2 });
	bench_add(b, (struct sched_task){ .id = 4, .gpus = 1, .lane = lane, .kind = 2 });
	bench_add(b, (struct sched_task){ .id = 5, .gpus = 1, .lane = lane, .kind = 2 });
	bench_add(b, (struct sched_task){ .id = 6,
					  .element = 1,
					  .n_elements = 10,
					  .gpus = 1,
					  .array_limit = 2,
					  .kind = 2 });
	plan(b);
	expect(b, 1, FORECAST_RANGE, 7, 7);
	expect(b, 2, FORECAST_RANGE, 8, 8);
	expect(b, 5, FORECAST_RANGE, 2, 2);
	/* Of a batch the next of it, or the one that is meant. */
	expect(b, 6, FORECAST_RANGE, 1, 1);
	assert_int_equal(look(b, 6, 10).high_ms, 4 * MIN);
	sched_lane_pause(b->q, lane, "a pause");
	expect(b, 5, FORECAST_NOTHING, 0, 0);
	bench_close(b);
	free(b);
}

/* What waits for others may come before it, or not at all. */
static void test_dependents(void **state)
{
	struct bench *b = xmalloc(sizeof(*b));

	open_at(b, 1);
	runs(b, (struct sched_task){ .id = 1, .gpus = 1, .kind = 2 }, 0, 0);
	bench_add(b, (struct sched_task){ .id = 2, .gpus = 1, .kind = 1, .dep = SCHED_DEP_WAIT });
	bench_add(b, (struct sched_task){ .id = 3, .gpus = 1 });
	plan(b);
	expect(b, 2, FORECAST_NOTHING, 0, 0);
	expect(b, 3, FORECAST_RANGE, 1, 21);
	bench_close(b);
	free(b);
}

/* Who waits for others comes when all of them have ended, as far as they are in the queue. */
static void test_after(void **state)
{
	static const struct forecast_after after[] = { { 2, 1 }, { 3, 1 },  { 3, 2 },
						       { 4, 6 }, { 5, 77 }, { 7, 2 } };
	const struct forecast_times with = { ARRAY_LEN(known), known, ARRAY_LEN(after), after };
	static const struct {
		uint64_t id;
		enum forecast_what what;
		uint64_t low_min, high_min;
	} rows[] = {
		{ 2, FORECAST_RANGE, 5, 15 },  { 3, FORECAST_RANGE, 6, 16 },
		{ 4, FORECAST_RANGE, 2, 2 },   { 5, FORECAST_NOTHING, 0, 0 },
		{ 7, FORECAST_NOTHING, 0, 0 },
	};
	struct bench *b = xmalloc(sizeof(*b));

	open_at(b, 8);
	runs(b, (struct sched_task){ .id = 1, .gpus = 1, .kind = 1 }, 0, 5);
	for (uint64_t id = 2; id <= 5; id++)
		bench_add(b, (struct sched_task){
				     .id = id, .gpus = 1, .kind = 2, .dep = SCHED_DEP_WAIT });
	/* Of a batch all: two at once of four. */
	bench_add(b, (struct sched_task){ .id = 6,
					  .element = 1,
					  .n_elements = 4,
					  .array_limit = 2,
					  .gpus = 1,
					  .kind = 2 });
	bench_add(b, (struct sched_task){ .id = 7, .gpus = 1, .kind = 2, .dep = SCHED_DEP_NEVER });
	plan(b);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct forecast f =
			sched_forecast(b->q, &b->view, &with, (struct sched_ref){ rows[i].id, 0 });

		if (f.what != rows[i].what || f.low_ms != rows[i].low_min * MIN ||
		    f.high_ms != rows[i].high_min * MIN)
			fail_msg("task %llu: what %d, %.2f to %.2f min",
				 (unsigned long long)rows[i].id, f.what, (double)f.low_ms / MIN,
				 (double)f.high_ms / MIN);
	}
	/* What is paused never ends, so far as is known. */
	struct sched_task six;

	assert_int_equal(sched_get(b->q, (struct sched_ref){ 6, 3 }, &six), 0);
	six.paused = true;
	assert_int_equal(sched_change(b->q, &six, NULL), 0);
	assert_int_equal(sched_forecast(b->q, &b->view, &with, (struct sched_ref){ 4, 0 }).what,
			 FORECAST_NOTHING);
	bench_close(b);
	free(b);
}

/* It is told to make room, and waits again. */
static void test_preempting(void **state)
{
	struct bench *b = xmalloc(sizeof(*b));

	open_at(b, 1);
	runs(b, (struct sched_task){ .id = 1, .gpus = 1, .kind = 3, .preemptible = true }, 0, 0);
	bench_add(b, (struct sched_task){ .id = 2, .gpus = 1, .kind = 2, .preemptible = true });
	bench_add(b, (struct sched_task){ .id = 3, .gpus = 1, .kind = 2 });
	expect(b, 3, FORECAST_RANGE, 0, 0);
	expect(b, 2, FORECAST_RANGE, 31, 91);
	bench_close(b);
	free(b);
}

static void test_too_many(void **state)
{
	struct bench *b = xmalloc(sizeof(*b));

	open_at(b, 1);
	runs(b, (struct sched_task){ .id = 1, .gpus = 1, .kind = 2 }, 0, 0);
	for (uint64_t id = 2; id <= FORECAST_ENTRIES + 10; id++)
		bench_add(b, (struct sched_task){ .id = id, .gpus = 1, .kind = 2 });
	plan(b);
	expect(b, 102, FORECAST_RANGE, 101, 101);
	assert_int_equal(look(b, FORECAST_ENTRIES + 10, 0).what, FORECAST_MANY);
	bench_add(b, (struct sched_task){ .id = 9999,
					  .priority = -1,
					  .element = 1,
					  .n_elements = 30000,
					  .gpus = 1,
					  .kind = 2 });
	plan(b);
	assert_int_equal(look(b, 102, 0).what, FORECAST_MANY);
	bench_close(b);
	free(b);
}

struct seen {
	const struct bench *b;
	size_t n;
};

/* Of all together it is the same as of each alone. */
static void compare(void *user, struct sched_ref ref, const struct forecast *all)
{
	struct seen *s = user;
	struct forecast one = sched_forecast(s->b->q, &s->b->view, &times, ref);

	if (one.what != all->what || one.low_ms != all->low_ms || one.high_ms != all->high_ms ||
	    one.unknown.id != all->unknown.id)
		fail_msg("task %llu.%u: %d, %llu to %llu; alone %d, %llu to %llu",
			 (unsigned long long)ref.id, ref.element, all->what,
			 (unsigned long long)all->low_ms, (unsigned long long)all->high_ms,
			 one.what, (unsigned long long)one.low_ms, (unsigned long long)one.high_ms);
	s->n++;
}

static void test_all(void **state)
{
	struct bench *b = xmalloc(sizeof(*b));
	struct seen s = { .b = b };

	open_at(b, 3);
	runs(b, (struct sched_task){ .id = 1, .gpus = 1, .kind = 1 }, 0, 5);
	for (uint32_t id = 2; id < 40; id++)
		bench_add(b, (struct sched_task){ .id = id,
						  .gpus = 1 + id % 3,
						  .kind = 1 + id % 3,
						  .preemptible = id % 7 == 0,
						  .paused = id == 30,
						  .lane = id % 5 ? 0 : sched_lane(b->q, "night") });
	bench_add(b, (struct sched_task){
			     .id = 50, .element = 1, .n_elements = 9, .gpus = 1, .kind = 2 });
	bench_add(b, (struct sched_task){ .id = 51, .gpus = 1, .kind = 9 });
	bench_add(b, (struct sched_task){ .id = 52, .gpus = 3, .kind = 2 });
	plan(b);
	assert_true(sched_forecast_all(b->q, &b->view, &times, compare, &s));
	assert_int_equal(s.n, sched_count(b->q).entries - 1); /* but for the paused one */
	for (uint64_t id = 100; id < 100 + FORECAST_ENTRIES; id++)
		bench_add(b, (struct sched_task){ .id = id, .gpus = 1 });
	s.n = 0;
	assert_false(sched_forecast_all(b->q, &b->view, &times, compare, &s));
	assert_int_equal(s.n, 0);
	bench_close(b);
	free(b);
}

/* Many that it has never seen: whatever takes the time that it takes is in its range. */
static void test_random(void **state)
{
	struct bench *b = xmalloc(sizeof(*b));

	srand(7);
	for (int round = 0; round < 30; round++) {
		struct forecast f;
		uint64_t start = 0;

		open_at(b, 4);
		for (uint64_t id = 1; id <= 60; id++)
			bench_add(b, (struct sched_task){ .id = id,
							  .gpus = 1,
							  .kind = (uint64_t)(rand() % 3) + 1 });
		plan(b);
		f = look(b, 60, 0);
		assert_int_equal(f.what, FORECAST_RANGE);
		/* As it goes on: each takes a time of its kind's range. */
		uint64_t ends[61] = { 0 };

		for (;;) {
			uint64_t next = UINT64_MAX, who = 0;

			for (size_t i = 0; i < b->out.n; i++)
				if (b->out.actions[i].kind == SCHED_START) {
					struct sched_task t;
					uint64_t id = b->out.actions[i].ref.id;

					(void)sched_get(b->q, b->out.actions[i].ref, &t);
					const struct forecast_time *k = &known[t.kind - 1];

					ends[id] =
						b->view.now_ns +
						(k->low_ms +
						 (uint64_t)rand() % (k->high_ms - k->low_ms + 1)) *
							NS_PER_MS;
					if (id == 60)
						start = b->view.now_ns;
				}
			for (uint64_t id = 1; id <= 60; id++)
				if (ends[id] && ends[id] < next) {
					next = ends[id];
					who = id;
				}
			if (start || !who)
				break;
			ends[who] = 0;
			b->view.now_ns = next;
			(void)sched_end(b->q, (struct sched_ref){ who, 0 });
			plan(b);
		}
		uint64_t after_ms = (start - UINT64_C(10000) * MIN * NS_PER_MS) / NS_PER_MS;

		if (after_ms < f.low_ms || after_ms > f.high_ms)
			fail_msg("round %d: %.1f min is not in %.1f to %.1f", round,
				 (double)after_ms / MIN, (double)f.low_ms / MIN,
				 (double)f.high_ms / MIN);
		bench_close(b);
	}
	free(b);
}

static void test_words(void **state)
{
	static const struct {
		struct forecast f;
		const char *text, *json;
	} rows[] = {
		{ { .what = FORECAST_NOTHING }, "", NULL },
		{ { FORECAST_RANGE, 20 * MIN, 70 * MIN },
		  "starts in about 20m to 1h 10m (estimate)",
		  "{\"what\":\"range\",\"low_s\":1200.0,\"from\":\"1970-01-01T02:20:00.000+01:00\","
		  "\"high_s\":4200.0,\"to\":\"1970-01-01T03:10:00.000+01:00\"}" },
		{ { FORECAST_RANGE, 19 * MIN + 5 * MS_PER_S, 20 * MIN },
		  "starts in about 20m (estimate)",
		  NULL },
		{ { FORECAST_RANGE, 5, 90 * MS_PER_S },
		  "starts within about 1m 30s (estimate)",
		  NULL },
		{ { FORECAST_LEAST, 30 * MS_PER_S, 0, { 7, 3 } },
		  "starts in about 30s at the earliest (estimate)",
		  "{\"what\":\"least\",\"low_s\":30.0,\"from\":\"1970-01-01T02:00:30.000+01:00\","
		  "\"task\":7,\"element\":3}" },
		{ { FORECAST_UNKNOWN, 0, 0, { 7, 0 } }, "", "{\"what\":\"unknown\",\"task\":7}" },
		{ { FORECAST_MANY }, "", "{\"what\":\"too-many\"}" },
	};

	(void)setenv("TZ", "CET-1", 1);
	tzset();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_strbuf struct strbuf text = STRBUF_INIT;
		json_t *o = forecast_json(&rows[i].f, 3600 * NS_PER_S);
		cleanup_free char *json =
			o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;

		forecast_text(&rows[i].f, &text);
		assert_string_equal(strbuf_str(&text), rows[i].text);
		if (rows[i].json)
			assert_string_equal(json, rows[i].json);
		json_decref(o);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_behind_others), cmocka_unit_test(test_longer_than_ever),
		cmocka_unit_test(test_unknown),	      cmocka_unit_test(test_timeout_is_a_bound),
		cmocka_unit_test(test_other_people),  cmocka_unit_test(test_memory),
		cmocka_unit_test(test_what_keeps_it), cmocka_unit_test(test_dependents),
		cmocka_unit_test(test_preempting),    cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_all),	      cmocka_unit_test(test_after),
		cmocka_unit_test(test_random),	      cmocka_unit_test(test_no_difference),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
