/* SPDX-License-Identifier: MIT */

/* The files of gangs, as several agents of one spool write and read them. */

#include "unit.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "spool/gang.h"
#include "spool/instance.h"
#include "spool_world.h"

static struct spool *sp;

static struct gang call_of(uint64_t id, uint64_t generation, struct gang_rank ranks[2])
{
	(void)str_copy(ranks[0].agent, sizeof(ranks[0].agent), "alpha");
	(void)str_copy(ranks[1].agent, sizeof(ranks[1].agent), "beta");
	return (struct gang){
		.id = id, .generation = generation, .epoch = 2, .edits = 5, .n = 2, .ranks = ranks
	};
}

static const struct gang *read_one(struct gangs_read *all, uint64_t id)
{
	assert_int_equal(gang_read_all(sp, all, NULL), 0);
	return gang_find(all, id);
}

static void from_the_call_to_the_end(void **state)
{
	struct gang_rank ranks[2] = { { .epoch = 0 }, { .epoch = 3 } };
	struct gang g = call_of(42, 1, ranks);
	struct gang_reply reply = { .answer = GANG_READY, .address = "10.0.0.1", .port = 23456 };
	const struct gang *found;
	struct gangs_read all;

	assert_int_equal(gang_call(sp, &g, NULL), 0);
	found = read_one(&all, 42);
	assert_non_null(found);
	assert_int_equal(found->n, 2);
	assert_string_equal(found->ranks[1].agent, "beta");
	assert_int_equal(found->ranks[1].epoch, 3);
	assert_int_equal(found->epoch, 2);
	assert_int_equal(found->edits, 5);
	assert_int_equal(gang_rank_of(found, "beta"), 1);
	assert_int_equal(gang_rank_of(found, "gamma"), -1);
	assert_true(gang_stands(found) && !found->decided);
	assert_int_equal(found->ranks[0].reply.answer, GANG_SILENT);
	gang_clear(&all);

	assert_int_equal(gang_answer(sp, &g, 0, &reply, NULL), 0);
	reply = (struct gang_reply){ .answer = GANG_REFUSES, .reason = "it drains" };
	assert_int_equal(gang_answer(sp, &g, 1, &reply, NULL), 0);
	found = read_one(&all, 42);
	assert_int_equal(found->ranks[0].reply.answer, GANG_READY);
	assert_string_equal(found->ranks[0].reply.address, "10.0.0.1");
	assert_int_equal(found->ranks[0].reply.port, 23456);
	assert_int_equal(found->ranks[1].reply.answer, GANG_REFUSES);
	assert_string_equal(found->ranks[1].reply.reason, "it drains");
	gang_clear(&all);

	(void)str_copy(g.address, sizeof(g.address), "10.0.0.1");
	g.port = 23456;
	assert_int_equal(gang_say(sp, &g, true, NULL), 0);
	(void)str_copy(g.reason, sizeof(g.reason), "rank 1 failed");
	assert_int_equal(gang_end(sp, &g, true, NULL), 0);
	found = read_one(&all, 42);
	assert_true(found->decided && found->go && found->ended && found->again);
	assert_string_equal(found->address, "10.0.0.1");
	assert_int_equal(found->port, 23456);
	assert_string_equal(found->reason, "rank 1 failed");
	assert_false(gang_stands(found));
	gang_clear(&all);

	assert_int_equal(gang_remove(sp, 42, UINT64_MAX, NULL), 0);
	assert_int_equal(count_files(sp, "gangs"), 0);
}

/* Two that take themselves for the leader. */
static void the_first_word_counts(void **state)
{
	struct gang_rank ranks[2] = { { .epoch = 0 }, { .epoch = 0 } }, others[2] = { 0 };
	struct gang g = call_of(7, 1, ranks), other = call_of(7, 1, others);
	const struct gang *found;
	struct gangs_read all;

	(void)str_copy(others[0].agent, sizeof(others[0].agent), "gamma");
	assert_int_equal(gang_call(sp, &g, NULL), 0);
	assert_int_equal(gang_call(sp, &other, NULL), 0);
	(void)str_copy(g.reason, sizeof(g.reason), "too late");
	assert_int_equal(gang_say(sp, &g, false, NULL), 0);
	(void)str_copy(g.address, sizeof(g.address), "::1");
	g.port = 1;
	assert_int_equal(gang_say(sp, &g, true, NULL), 0);
	found = read_one(&all, 7);
	assert_string_equal(found->ranks[0].agent, "alpha");
	assert_true(found->decided && !found->go);
	assert_string_equal(found->reason, "too late");
	gang_clear(&all);
	assert_int_equal(gang_remove(sp, 7, UINT64_MAX, NULL), 0);
}

/* What is said of an earlier one means nothing. */
static void the_highest_generation_counts(void **state)
{
	struct gang_rank ranks[2] = { { .epoch = 0 }, { .epoch = 0 } };
	struct gang old = call_of(8, 9, ranks), now = call_of(8, 10, ranks);
	const struct gang *found;
	struct gangs_read all;

	assert_int_equal(gang_call(sp, &old, NULL), 0);
	assert_int_equal(gang_call(sp, &now, NULL), 0);
	assert_int_equal(gang_end(sp, &old, false, NULL), 0);
	found = read_one(&all, 8);
	assert_int_equal(found->generation, 10);
	assert_true(gang_stands(found));
	gang_clear(&all);
	assert_int_equal(gang_remove(sp, 8, 10, NULL), 0);
	assert_int_equal(count_files(sp, "gangs"), 1);
	assert_int_equal(gang_remove(sp, 8, UINT64_MAX, NULL), 0);
}

/* Names that nobody of us gives a file. */
static void odd_files_are_passed_over(void **state)
{
	static const char *const odd[] = { "42",	  "42,g",    "42,g0",	"0,g1",
					   "42,g01",	  "42,g1,",  "42,g1,r", "42,g1,r01",
					   "42,g1,r9999", "42,g1,x", "x,g1",	"42,g1,word,r1" };
	enum gang_file kind;
	uint64_t id, generation;
	struct gangs_read all;
	size_t rank;

	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		char path[SPOOL_PATH_MAX];

		if (gang_file_parse(odd[i], &id, &generation, &kind, &rank))
			fail_msg("%s is taken for a file of a gang", odd[i]);
		put(sp, spool_path(SPOOL_GANGS, odd[i], path), "{}");
	}
	assert_int_equal(gang_read_all(sp, &all, NULL), 0);
	assert_int_equal(all.n, 0);
	assert_true(gang_file_parse("42,g7,r3", &id, &generation, &kind, &rank));
	assert_int_equal(id, 42);
	assert_int_equal(generation, 7);
	assert_int_equal(kind, GANG_FILE_ANSWER);
	assert_int_equal(rank, 3);
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		char path[SPOOL_PATH_MAX];

		assert_int_equal(spool_unlink(sp, spool_path(SPOOL_GANGS, odd[i], path), NULL), 0);
	}
}

/* A call that cannot be read has no ranks, a word is no go, and an end is one. */
static void what_cannot_be_read_starts_nothing(void **state)
{
	static const char *const calls[] = { "",
					     "[]",
					     "{\"ranks\":[]}",
					     "{\"ranks\":[{\"epoch\":1}]}",
					     "{\"ranks\":[{\"agent\":\"../x\",\"epoch\":1}]}",
					     "{\"ranks\":[{\"agent\":\"a\"},7]}" };
	static const char *const words[] = { "{", "{\"go\":true}", "{\"go\":1}",
					     "{\"go\":true,\"address\":\"a\",\"port\":65536}" };
	struct gangs_read all;
	const struct gang *found;

	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		put(sp, "gangs/5,g1", calls[i]);
		found = read_one(&all, 5);
		assert_non_null(found);
		assert_int_equal(found->n, 0);
		assert_false(gang_stands(found));
		gang_clear(&all);
	}
	put(sp, "gangs/5,g1", "{\"ranks\":[{\"agent\":\"a\",\"epoch\":0}]}");
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		put(sp, "gangs/5,g1,word", words[i]);
		found = read_one(&all, 5);
		assert_int_equal(found->n, 1);
		assert_true(found->decided && !found->go);
		gang_clear(&all);
	}
	put(sp, "gangs/5,g1,word", "{\"go\":true,\"address\":\"a\",\"port\":80}");
	put(sp, "gangs/5,g1,r0", "{\"answer\":\"sings\"}");
	put(sp, "gangs/5,g1,end", "no");
	found = read_one(&all, 5);
	assert_true(found->go && found->ended && found->again);
	assert_int_equal(found->ranks[0].reply.answer, GANG_SILENT);
	gang_clear(&all);
	assert_int_equal(gang_remove(sp, 5, UINT64_MAX, NULL), 0);
}

/* As the journals tell it, whoever has written it. */
static void how_a_rank_ended_is_found(void **state)
{
	uint64_t id = submit(sp, "{\"script\":\"x\",\"nodes\":2}");
	const struct claimer who = self(sp, "alpha");
	struct batch *b = open_batch(sp, id, "alpha");
	struct spool_again again = { .attempts = 0,
				     .outside = true,
				     .reason = "its node was lost" };
	struct spool_end end = { .result = RESULT_FAILED, .exit = 3, .reason = "exit code 3" };
	struct gang_ending found;
	struct claim c;

	assert_int_equal(batch_counts(b).waiting, 2);
	assert_int_equal(batch_claim(b, 1, &who, &c, NULL), 0);
	assert_false(gang_how_it_ended(sp, id, 1, 0, &found));
	assert_int_equal(batch_requeue(b, NULL, &c, &again, NULL), 0);
	assert_true(gang_how_it_ended(sp, id, 1, 0, &found));
	assert_true(found.requeued && found.outside);
	assert_string_equal(found.end.reason, "its node was lost");
	assert_false(gang_how_it_ended(sp, id, 1, 1, &found));
	assert_int_equal(batch_claim(b, 2, &who, &c, NULL), 0);
	end.attempt = c.attempt;
	assert_int_equal(batch_end(b, NULL, &c, &end, NULL), 0);
	assert_true(gang_how_it_ended(sp, id, 2, 0, &found));
	assert_false(found.requeued || found.outside);
	assert_string_equal(found.agent, "alpha");
	assert_int_equal(found.end.exit, 3);
	b = batch_close(b);
}

static int set_up(void **state)
{
	if (spool_setup(state) != 0)
		return -1;
	sp = open_spool();
	return 0;
}

static int tear_down(void **state)
{
	sp = spool_close(sp);
	return spool_teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(from_the_call_to_the_end),
		cmocka_unit_test(the_first_word_counts),
		cmocka_unit_test(the_highest_generation_counts),
		cmocka_unit_test(odd_files_are_passed_over),
		cmocka_unit_test(what_cannot_be_read_starts_nothing),
		cmocka_unit_test(how_a_rank_ended_is_found),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
