/* SPDX-License-Identifier: MIT */

/* Every reason, as the sentence that people read. */

#include <stdlib.h>

#include "sched_bench.h"

#include "sched/state.h"
#include "sched/why.h"

#define T(...) ((struct sched_task){ __VA_ARGS__ })

static struct bench b;
static const char *there[SCHED_DEVICES_MAX]; /* who is on a device */
static const char *wrong[SCHED_DEVICES_MAX]; /* or what is wrong with it */

static bool who(void *user, unsigned int slot, struct strbuf *out)
{
	const char *text = there[slot] ? there[slot] : wrong[slot];

	if (text)
		strbuf_adds(out, text);
	return there[slot];
}

static void comes(unsigned int slot, const char *name)
{
	there[slot] = name;
	b.d[slot].foreign = name;
}

static const struct reason_words words = { .who = who };

/* What sched_why() answers. */
static int find_why(struct sched_ref of, char **ret_text, json_t **ret_json)
{
	static struct reason_device devices[SCHED_DEVICES_MAX];
	struct strbuf text = STRBUF_INIT;
	struct reason r;
	int where = sched_why(b.q, of, &b.view, devices, &r);

	if (where >= 0 && ret_text) {
		reason_text(&r, &words, &text);
		*ret_text = strbuf_take(&text);
	}
	if (where >= 0 && ret_json)
		*ret_json = reason_json(&r, &words);
	return where;
}

static int where_of(uint64_t id)
{
	return find_why(ref(id), NULL, NULL);
}

static void expect_text(struct sched_ref of, const char *text)
{
	char *said = NULL;

	assert_true(find_why(of, &said, NULL) >= 0);
	assert_string_equal(said, text);
	free(said);
}

static void expect_why(uint64_t id, const char *text)
{
	(void)bench_plan(&b);
	expect_text(ref(id), text);
}

/* For programs: compact JSON. */
static void expect_json(uint64_t id, const char *json)
{
	json_t *o = NULL;
	char *text;

	(void)bench_plan(&b);
	assert_true(find_why(ref(id), NULL, &o) >= 0);
	text = json_dumps(o, JSON_COMPACT);
	assert_string_equal(text, json);
	free(text);
	json_decref(o);
}

static void close_bench(void)
{
	bench_close(&b);
	memset(there, 0, sizeof(there));
	memset(wrong, 0, sizeof(wrong));
}

static void test_devices(void **state)
{
	bench_open(&b, 4);
	comes(1, "alice (PID 77)");
	comes(3, "alice (PID 77)");
	bench_add(&b, T(.id = 1, .gpus = 1));
	bench_add(&b, T(.id = 2, .gpus = 2));
	bench_add(&b, T(.id = 3, .gpus = 1));
	expect_why(1, "has run for 0s");
	expect_why(2, "waits for 2 GPUs: 1 of 4 free, GPU 0 used by task 1, GPU 1 and 3 taken by "
		      "alice (PID 77), GPU 2 held for it; 1st in order");
	expect_why(3, "waits for 1 GPU: 0 of 4 free, GPU 0 used by task 1, GPU 1 and 3 taken by "
		      "alice (PID 77), GPU 2 kept for task 2; 2nd in order");
	b.d[2].state = SCHED_DEV_LEFT;
	comes(3, NULL);
	b.d[3].free_bytes = 10 * GIB;
	bench_add(&b, T(.id = 4, .gpus = 1, .shared = true, .mem_bytes = 20 * GIB, .priority = -1));
	b.d[1].free_bytes = 0;
	expect_why(4,
		   "waits for 1 GPU: 0 of 3 free, GPU 0 used by task 1, GPU 1 with only 0.0 GiB to "
		   "give, GPU 2 left for others, GPU 3 with only 10.0 GiB to give; 1st in order");
	bench_add(&b, T(.id = 5, .gpus = 1, .model = "a100"));
	expect_why(5, "cannot run on this node as it is: it needs 1 GPU, 0 of 4 would do, GPU 0, 1 "
		      "and 3 not of its model (NVIDIA H200), GPU 2 left for others; 4th in order");
	bench_add(&b, T(.id = 6, .gpus = 9));
	expect_why(6,
		   "cannot run on this node: it needs 9 GPUs, and there are 4 here; 5th in order");
	/* Others may. */
	assert_int_equal(where_of(6), SCHED_WHY_NOT_HERE);
	assert_int_equal(where_of(5), SCHED_WHY_NOT_HERE);
	assert_int_equal(where_of(3), 0);
	close_bench();
}

/* It may be busy with nobody that is known. */
static void test_busy(void **state)
{
	bench_open(&b, 2);
	b.d[0].state = b.d[1].state = SCHED_DEV_BUSY;
	wrong[0] = "cannot be seen: GPU is lost";
	bench_add(&b, T(.id = 1, .gpus = 1));
	expect_why(1, "waits for 1 GPU: 0 of 2 free, GPU 0 busy: cannot be seen: GPU is lost, "
		      "GPU 1 taken by somebody else; 1st in order");
	close_bench();
}

static void test_other_instances(void **state)
{
	bench_open(&b, 4);
	for (unsigned int i = 0; i < 4; i++)
		b.d[i].state = SCHED_DEV_LENT;
	for (unsigned int i = 0; i < 3; i++)
		b.d[i].lent_instance = "night";
	b.d[0].lent_task = (struct sched_ref){ 7, 3 };
	b.d[1].lent_task = (struct sched_ref){ 8, 0 };
	b.d[1].lent_waits = true;
	bench_add(&b, T(.id = 1, .gpus = 1));
	expect_why(1, "waits for 1 GPU: 0 of 4 free, GPU 0 used by task 7.3 of instance night, "
		      "GPU 1 held for task 8 of instance night, GPU 2 with the workload of "
		      "instance night, GPU 3 lent to another task; 1st in order");
	close_bench();
}

/* Held, and not to be had all the same; but the machine may be as it is. */
static void test_a_test_goes_on(void **state)
{
	bench_open(&b, 2);
	b.d[0].state = SCHED_DEV_HELD;
	b.d[0].tested = true;
	b.d[1].foreign = true;
	bench_add(&b, T(.id = 1, .gpus = 1));
	expect_why(1, "waits for 1 GPU: 0 of 2 free, GPU 0 tested by tenure burn --exclusive, "
		      "GPU 1 taken by somebody else; 1st in order");
	close_bench();
}

static void test_lanes_and_arrays(void **state)
{
	bench_open(&b, 8);

	uint32_t lane = sched_lane(b.q, "train");

	bench_add(&b, T(.id = 1, .gpus = 1, .lane = lane));
	bench_add(&b, T(.id = 2, .gpus = 1, .lane = lane));
	bench_add(&b, T(.id = 3, .element = 1, .n_elements = 5, .gpus = 1, .array_limit = 2));

	uint32_t wide = sched_lane(b.q, "wide");

	sched_lane_width(b.q, wide, 2);
	for (uint64_t i = 11; i <= 13; i++)
		bench_add(&b, T(.id = i, .gpus = 0, .lane = wide));
	expect_why(13,
		   "waits in lane wide until one of it has ended: 2 run, which is its width; 5th "
		   "in order");
	expect_why(2, "waits in lane train until task 1 has ended; 1st in order");
	expect_why(3, "waits until one of its array has ended: 2 run, which is its limit; 2nd in "
		      "order");
	assert_int_equal(sched_requeue(b.q, ref(1), 601 * NS_PER_S, 0, "exit code 1, try 3"), 0);
	expect_why(1, "waits 10m 00s before its next attempt (exit code 1, try 3); 1st in order");
	expect_why(2, "waits in lane train behind task 1; 2nd in order");
	sched_lane_pause(b.q, lane, "3 failures in a row");
	expect_why(
		2,
		"its lane train is paused: 3 failures in a row; `tenure resume train` resumes it; "
		"2nd in order");
	close_bench();
}

/* Of an array without a lane only the first one is looked at, whatever the others ask for. */
static void test_behind_in_an_array(void **state)
{
	struct sched_ref third = { 1, 3 };

	bench_open(&b, 2);
	bench_add(&b, T(.id = 1, .element = 1, .n_elements = 3, .gpus = 1, .array_limit = 2,
			.mem_bytes = 40 * GIB));
	b.d[1].total_bytes = b.d[1].free_bytes = 50 * GIB;
	(void)bench_plan(&b);
	comes(0, "bob (PID 9)");
	b.d[0].free_bytes = 0;
	assert_int_equal(sched_requeue(b.q, (struct sched_ref){ 1, 1 }, 0, 60 * GIB, NULL), 0);
	assert_int_equal(sched_end(b.q, (struct sched_ref){ 1, 2 }), 0);
	(void)bench_plan(&b);
	assert_int_equal(find_why(third, NULL, NULL), 0);
	expect_text(third, "waits behind task 1.1, which comes first in its array; 2nd in order");
	close_bench();
}

/* A lane that was not asked anew when it should have been: to ask why resumes it. */
static void test_lane_that_was_forgotten(void **state)
{
	struct entry *e;

	bench_open(&b, 1);
	bench_add(&b, T(.id = 1, .gpus = 1, .lane = sched_lane(b.q, "train")));
	e = queue_find_entry(b.q, ref(1));
	sched_lane_pause(b.q, e->t.lane, "test");
	free(e->lane->pause);
	e->lane->pause = NULL;
	assert_string_equal(bench_plan(&b), "");
	expect_why(1, "can start, and will with the next plan; 1st in order");
	assert_string_equal(bench_plan(&b), "start 1 0");
	close_bench();
}

static void test_aside(void **state)
{
	bench_open(&b, 1);
	b.view.policy.cpu_slots = 1;
	bench_add(&b, T(.id = 1, .paused = true));
	bench_add(&b, T(.id = 2, .dep = SCHED_DEP_WAIT));
	bench_add(&b, T(.id = 3, .dep = SCHED_DEP_NEVER));
	bench_add(&b, T(.id = 4, .begin_wall_ns = 1785000000 * NS_PER_S));
	bench_add(&b, T(.id = 5));
	bench_add(&b, T(.id = 6));
	bench_add(&b, T(.id = 8, .changing = true));
	bench_add(&b, T(.id = 10, .changing = true, .paused = true)); /* resume would be refused */
	assert_int_equal(sched_note(b.q, ref(2), "waits for task 1 to succeed"), 0);
	expect_why(1, "is paused; `tenure resume 1` resumes it");
	expect_why(8, "is being changed by a command, and waits until that is done; if it was "
		      "interrupted, for a minute");
	expect_why(10, "is being changed by a command, and waits until that is done; if it was "
		       "interrupted, for a minute");
	expect_why(2, "waits for task 1 to succeed");
	expect_why(3, "can never run: a task that it needs has failed");
	expect_why(4, "is not to begin before 2026-07-25 19:20:00");
	expect_why(6, "waits until one of 1 tasks without a GPU has ended; 1st in order");
	assert_int_equal(where_of(9), -ENOENT);
	bench_add(&b, T(.id = 7, .gpus = 1));
	assert_int_equal(where_of(7), 0);
	expect_text(ref(7), "can start, and will with the next plan; 2nd in order");
	close_bench();
}

static void test_taken_by_newcomer(void **state)
{
	bench_open(&b, 1);
	bench_add(&b, T(.id = 1, .gpus = 1));
	(void)bench_plan(&b);
	assert_int_equal(sched_requeue(b.q, ref(1), 0, 0, "bob (PID 9) came before it could start"),
			 0);
	comes(0, "bob (PID 9)");
	expect_why(1, "waits for 1 GPU: 0 of 1 free, GPU 0 taken by bob (PID 9) (bob (PID 9) came "
		      "before it could start); 1st in order");
	close_bench();
}

/* What programs read: the same facts, no sentence to take apart. */
static void test_for_programs(void **state)
{
	uint32_t lane;

	bench_open(&b, 3);
	comes(1, "alice (PID 77)");
	b.d[2].state = SCHED_DEV_FAULTY;
	b.d[2].xid = 79;
	bench_add(&b, T(.id = 1, .gpus = 1));
	bench_add(&b, T(.id = 2, .gpus = 1));
	expect_json(1, "{\"code\":\"runs\",\"seconds\":0.0}");
	expect_json(2, "{\"code\":\"gpus\",\"want\":1,\"free\":0,\"usable\":2,\"devices\":["
		       "{\"gpu\":0,\"cause\":\"task\",\"task\":1,\"text\":\"used by task 1\"},"
		       "{\"gpu\":1,\"cause\":\"foreign\",\"text\":\"taken by alice (PID 77)\"},"
		       "{\"gpu\":2,\"cause\":\"faulty\",\"xid\":79,\"text\":\"with an error (XID "
		       "79)\"}],\"place\":1}");
	lane = sched_lane(b.q, "train");
	bench_add(&b, T(.id = 3, .lane = lane));
	bench_add(&b, T(.id = 4, .lane = lane));
	expect_json(4, "{\"code\":\"lane-task\",\"task\":3,\"lane\":\"train\",\"place\":2}");
	bench_add(&b, T(.id = 5, .paused = true));
	expect_json(5, "{\"code\":\"paused\"}");
	bench_add(&b, T(.id = 6, .begin_wall_ns = 1785000000 * NS_PER_S));
	expect_json(6, "{\"code\":\"begin\",\"time\":\"2026-07-25T19:20:00.000+02:00\"}");
	bench_add(&b, T(.id = 7, .gpus = 5));
	expect_json(7, "{\"code\":\"few-gpus\",\"want\":5,\"total\":3,\"place\":3}");
	close_bench();
}

static void test_another_pool(void **state)
{
	bench_open(&b, 1);
	bench_add(&b, T(.id = 1, .gpus = 1, .elsewhere = true));
	expect_why(1, "waits for another node: by its pool it is not for this one; 1st in order");
	assert_int_equal(where_of(1), SCHED_WHY_NOT_HERE);
	expect_json(1, "{\"code\":\"pool\",\"place\":1}");
	bench_close(&b);
}

static void test_too_late(void **state)
{
	bench_open(&b, 1);
	b.view.now_wall_ns = 1785000000 * NS_PER_S;
	b.view.end_ns = b.view.now_ns + 3600 * NS_PER_S;
	bench_add(&b, T(.id = 1, .gpus = 1, .timeout_ms = 7200000));
	bench_add(&b, T(.id = 2, .timeout_ms = 7200000));
	expect_why(1, "is not started on this node any more: it may run for 2h (timeout), and what "
		      "runs in the job of this agent is stopped at 2026-07-25 20:20:00; 1st in "
		      "order");
	assert_int_equal(where_of(1), SCHED_WHY_NOT_HERE);
	expect_json(2, "{\"code\":\"too-late\",\"seconds\":7200.0,\"time\":"
		       "\"2026-07-25T20:20:00.000+02:00\",\"place\":2}");
	b.view.end_ns = 0;
	expect_why(1, "has run for 0s");
	bench_close(&b);
}

/* Every code has a name and a sentence, whatever its arguments are. */
static void test_every_code(void **state)
{
	for (unsigned int code = 0; code < REASON_MAX; code++) {
		const struct reason r = { .code = code,
					  .task.id = 7,
					  .other.id = 8,
					  .lane = "train",
					  .where = "node2",
					  .text = "as they say",
					  .note = "exit code 1",
					  .place = 3 };
		struct strbuf text = STRBUF_INIT;
		json_t *o = reason_json(&r, NULL);

		reason_text(&r, NULL, &text);
		assert_non_null(strstr(strbuf_str(&text), " (exit code 1); 3rd in order"));
		assert_string_equal(json_string_value(json_object_get(o, "code")),
				    reason_code_name(code));
		for (unsigned int other = 0; other < code; other++)
			assert_string_not_equal(reason_code_name(code), reason_code_name(other));
		json_decref(o);
		strbuf_clear(&text);
	}
	assert_string_equal(reason_code_name(REASON_MAX), "?");
}

static void test_a_note_is_not_said_twice(void **state)
{
	assert_true(reason_repeats("task 1 failed: exit code 1", "exit code 1"));
	assert_false(reason_repeats("3 failures in a row", "exit code 1"));
	assert_false(reason_repeats(NULL, "exit code 1"));
	assert_false(reason_repeats("exit code 1", NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_other_instances),
		cmocka_unit_test(test_a_test_goes_on),
		cmocka_unit_test(test_lanes_and_arrays),
		cmocka_unit_test(test_behind_in_an_array),
		cmocka_unit_test(test_lane_that_was_forgotten),
		cmocka_unit_test(test_aside),
		cmocka_unit_test(test_taken_by_newcomer),
		cmocka_unit_test(test_for_programs),
		cmocka_unit_test(test_another_pool),
		cmocka_unit_test(test_too_late),
		cmocka_unit_test(test_every_code),
		cmocka_unit_test(test_a_note_is_not_said_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
