/* SPDX-License-Identifier: MIT */

/* Whether some node has as many GPUs as a task asks for. */

#include "unit.h"

#include "base/mem.h"
#include "spool/capacity.h"

#define LIVES(name, n)                                                                             \
	{                                                                                          \
		.agent = name, .lives = true, .devices = (n)                                       \
	}
#define KNOWN(name, n)                                                                             \
	{                                                                                          \
		.agent = name, .devices = (n)                                                      \
	}
#define NODES_MAX 8

static void test_judging(void **state)
{
	static const struct {
		const char *what;
		struct capacity_node nodes[NODES_MAX];
		size_t n;
		uint64_t want;
		enum capacity room;
	} rows[] = {
		{ "nobody serves it yet", { { .agent = "" } }, 0, 9, CAPACITY_ENOUGH },
		{ "the only node has so many", { LIVES("a", 2) }, 1, 2, CAPACITY_ENOUGH },
		{ "the only node has fewer", { LIVES("a", 2) }, 1, 3, CAPACITY_NONE },
		{ "one of two has so many",
		  { LIVES("a", 2), LIVES("b", 4) },
		  2,
		  4,
		  CAPACITY_ENOUGH },
		{ "both have fewer", { LIVES("a", 2), LIVES("b", 4) }, 2, 6, CAPACITY_NONE },
		{ "one has not told yet", { LIVES("a", 2), LIVES("b", 0) }, 2, 6, CAPACITY_ENOUGH },
		{ "one that has ended had so many",
		  { LIVES("a", 2), KNOWN("b", 6) },
		  2,
		  6,
		  CAPACITY_PERHAPS },
		{ "one that has ended had fewer, too",
		  { LIVES("a", 2), KNOWN("b", 5) },
		  2,
		  6,
		  CAPACITY_NONE },
		{ "one served it once", { LIVES("a", 2), KNOWN("b", 0) }, 2, 6, CAPACITY_PERHAPS },
		{ "nobody serves it now", { KNOWN("b", 2) }, 1, 6, CAPACITY_ENOUGH },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (capacity_judge(rows[i].nodes, rows[i].n, rows[i].want) != rows[i].room)
			fail_msg("%s: %d", rows[i].what,
				 capacity_judge(rows[i].nodes, rows[i].n, rows[i].want));
}

static void test_telling(void **state)
{
	struct capacity_node nodes[NODES_MAX] = { LIVES("b", 2), KNOWN("old", 16), LIVES("c", 2),
						  LIVES("a", 4) };
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	capacity_tell(nodes, 1, &b);
	assert_string_equal(strbuf_str(&b), "b has 2");
	strbuf_reset(&b);
	capacity_tell(nodes, 4, &b);
	assert_string_equal(strbuf_str(&b), "a has 4, b 2 and c 2");
	strbuf_reset(&b);
	capacity_tell_hope(nodes, 4, 8, &b);
	assert_string_equal(strbuf_str(&b), "old, which is silent, had 16");
	strbuf_reset(&b);
	for (size_t i = 0; i < NODES_MAX; i++)
		nodes[i] = (struct capacity_node){ .agent = { (char)('a' + i) },
						   .lives = true,
						   .devices = 8 };
	capacity_tell(nodes, NODES_MAX, &b);
	assert_string_equal(strbuf_str(&b),
			    "a has 8, b 8, c 8, d 8 and 4 others no more than that");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_judging),
		cmocka_unit_test(test_telling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
