/* SPDX-License-Identifier: MIT */

/* What nodes add up to, however an engine lists them. */

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "engine/node_sums.h"
#include "engine/slurm_text.h"

static void add(struct engine_nodes *nodes, const char *name, const char *type, unsigned int total,
		unsigned int used, unsigned int free_, unsigned int blocked, const char *why)
{
	struct engine_node *n = engine_nodes_add(nodes);

	n->name = xstrdup(name);
	n->type = type ? xstrdup(type) : NULL;
	n->why = why ? xstrdup(why) : NULL;
	n->total = total;
	n->used = used;
	n->free = free_;
	n->blocked = blocked;
	n->usable = !why;
}

static void assert_sum(const struct node_sum *s, unsigned int nodes, unsigned int total,
		       unsigned int free_, unsigned int blocked, unsigned int allocated,
		       unsigned int unavailable)
{
	assert_int_equal(s->nodes, nodes);
	assert_int_equal(s->total, total);
	assert_int_equal(s->free, free_);
	assert_int_equal(s->blocked, blocked);
	assert_int_equal(s->allocated, allocated);
	assert_int_equal(s->unavailable, unavailable);
	assert_int_equal(s->free + s->blocked + s->allocated + s->unavailable + s->unknown,
			 s->total);
}

/* resource-manager.md's own figures: 11 nodes, 44 GPUs, 2 free, 42 allocated. */
static void the_sums_of_a_cluster(void **state)
{
	struct engine_nodes nodes = { .n = 0 };
	struct node_sums sums;
	char name[32];

	(void)state;
	for (int i = 0; i < 11; i++) {
		(void)snprintf(name, sizeof(name), "qa-a10-%03d", 23 + i);
		add(&nodes, name, "a10", 4, i == 1 || i == 2 ? 3 : 4, i == 1 || i == 2, 0, NULL);
	}
	node_sums_tidy(&nodes);
	node_sums_of(&nodes, NULL, &sums);
	assert_sum(&sums.all, 11, 44, 2, 0, 42, 0);
	assert_int_equal(sums.n_types, 1);
	assert_string_equal(sums.types[0].type, "a10");
	assert_sum(&sums.types[0].sum, 11, 44, 2, 0, 42, 0);
	node_sums_clear(&sums);
	engine_nodes_clear(&nodes);
}

static void a_node_that_is_listed_twice_counts_once(void **state)
{
	struct engine_nodes nodes = { .n = 0 };
	struct node_sums sums;

	(void)state;
	add(&nodes, "n1", "a10", 4, 1, 3, 0, NULL);
	add(&nodes, "n2", NULL, 8, 8, 0, 0, NULL);
	add(&nodes, "n1", "a10", 4, 2, 2, 0, NULL); /* what it says the second time is left out */
	add(&nodes, "n2", NULL, 8, 8, 0, 0, NULL);
	node_sums_tidy(&nodes);
	assert_int_equal(nodes.n, 2);
	node_sums_of(&nodes, NULL, &sums);
	assert_sum(&sums.all, 2, 12, 3, 0, 9, 0);
	assert_int_equal(sums.n_types, 2);
	assert_null(sums.types[1].type);
	node_sums_clear(&sums);
	engine_nodes_clear(&nodes);
}

static void a_node_with_two_types_is_one_node_and_counts_for_both(void **state)
{
	struct engine_nodes nodes = { .n = 0 };
	struct node_sums sums;

	(void)state;
	add(&nodes, "n1", "t4", 2, 0, 2, 0, NULL);
	add(&nodes, "n2", "a10", 4, 4, 0, 0, NULL);
	add(&nodes, "n1", "a10", 2, 1, 1, 0, NULL);
	node_sums_tidy(&nodes);
	assert_int_equal(nodes.n, 3);
	node_sums_of(&nodes, NULL, &sums);
	assert_sum(&sums.all, 2, 8, 3, 0, 5, 0);
	assert_int_equal(sums.n_types, 2);
	assert_string_equal(sums.types[0].type, "a10");
	assert_sum(&sums.types[0].sum, 2, 6, 1, 0, 5, 0);
	assert_sum(&sums.types[1].sum, 1, 2, 2, 0, 0, 0);
	node_sums_clear(&sums);
	engine_nodes_clear(&nodes);
}

/* As sinfo -N prints it, a line for each of three partitions. */
static void a_node_in_three_partitions_counts_once(void **state)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT;
	struct engine_nodes nodes;
	struct node_sums sums;

	(void)state;
	for (int partition = 0; partition < 3; partition++)
		strbuf_adds(&text,
			    "n1|mixed|1/15/0/16|100|16000|gpu:a10:4|gpu:a10:1(IDX:0)|none|\n"
			    "n2|draining|1/15/0/16|100|16000|gpu:a10:4|gpu:a10:3(IDX:0-2)|"
			    "fan|\n"
			    "n3|mixed|16/0/0/16|100|16000|gpu:a10:4|gpu:a10:1(IDX:0)|none|\n");
	assert_int_equal(slurm_read_nodes(strbuf_str(&text), &nodes, NULL), 0);
	node_sums_tidy(&nodes);
	node_sums_of(&nodes, NULL, &sums);
	assert_sum(&sums.all, 3, 12, 3, 3, 5, 1);
	node_sums_clear(&sums);
	engine_nodes_clear(&nodes);
}

static void what_an_engine_says_and_cannot_be_is_made_to_add_up(void **state)
{
	static const struct engine_node odd[] = {
		{ .name = NULL, .total = 4, .used = 6, .free = 2, .blocked = 3, .usable = true },
		{ .name = NULL, .total = 4, .used = 1, .free = 9, .blocked = 1, .usable = true },
		{ .name = NULL, .total = 0, .used = 1, .free = 1, .blocked = 1, .usable = true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		struct node_sum s = node_sums_row(&odd[i], 9);

		assert_int_equal(s.free + s.blocked + s.allocated + s.unavailable, odd[i].total);
		assert_true(s.ours <= s.allocated);
	}
}

/* Kubernetes, where other people's pods may not be seen. */
static void what_may_not_be_seen_is_unknown_and_not_free(void **state)
{
	static const unsigned int ours[] = { 2, 9 };
	struct engine_nodes nodes = { .n = 0 };
	struct node_sums sums;

	(void)state;
	add(&nodes, "n1", "a10", 4, 1, 2, 1, NULL);
	add(&nodes, "n2", "a10", 4, 0, 0, 0, "unknown: you may not list the pods");
	nodes.all[1].unknown = true;
	node_sums_of(&nodes, ours, &sums);
	assert_sum(&sums.all, 2, 8, 1, 1, 1, 1);
	assert_int_equal(sums.all.unknown, 4);
	assert_int_equal(sums.all.ours, 1 + 4);
	node_sums_clear(&sums);
	engine_nodes_clear(&nodes);
}

static void ours_are_among_the_allocated_ones(void **state)
{
	static const unsigned int ours[] = { 2, 5, 0 };
	struct engine_nodes nodes = { .n = 0 };
	struct node_sums sums;

	(void)state;
	add(&nodes, "n1", "a10", 4, 3, 1, 0, NULL);
	add(&nodes, "n2", "h200", 8, 4, 0, 0, "down");
	add(&nodes, "n3", "a10", 4, 0, 4, 4, NULL);
	node_sums_of(&nodes, ours, &sums);
	assert_sum(&sums.all, 3, 16, 1, 4, 7, 4);
	assert_int_equal(sums.all.ours, 6);
	assert_int_equal(sums.types[0].sum.ours, 2);
	assert_int_equal(sums.types[1].sum.ours, 4);
	node_sums_clear(&sums);
	engine_nodes_clear(&nodes);
}

static void names_stand_in_the_order_of_their_numbers(void **state)
{
	static const char *const order[] = { "n2", "n10", "n10b", "qa-a10-9", "qa-a10-10" };
	struct engine_nodes nodes = { .n = 0 };

	(void)state;
	for (size_t i = ARRAY_LEN(order); i-- > 0;)
		add(&nodes, order[i], NULL, 1, 0, 1, 0, NULL);
	node_sums_tidy(&nodes);
	assert_int_equal(nodes.n, ARRAY_LEN(order));
	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		assert_string_equal(nodes.all[i].name, order[i]);
	engine_nodes_clear(&nodes);
	node_sums_tidy(&nodes); /* of none */
	assert_int_equal(nodes.n, 0);
}

static void a_host_is_the_same_with_its_domain(void **state)
{
	(void)state;
	assert_true(node_sums_same_host("qa-a10-023", "qa-a10-023.crc.nd.edu"));
	assert_true(node_sums_same_host("QA-a10-023", "qa-a10-023"));
	assert_false(node_sums_same_host("qa-a10-02", "qa-a10-023"));
	assert_false(node_sums_same_host("", ""));
	assert_false(node_sums_same_host(".a", ".b"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sums_of_a_cluster),
		cmocka_unit_test(a_node_that_is_listed_twice_counts_once),
		cmocka_unit_test(a_node_with_two_types_is_one_node_and_counts_for_both),
		cmocka_unit_test(a_node_in_three_partitions_counts_once),
		cmocka_unit_test(what_an_engine_says_and_cannot_be_is_made_to_add_up),
		cmocka_unit_test(what_may_not_be_seen_is_unknown_and_not_free),
		cmocka_unit_test(ours_are_among_the_allocated_ones),
		cmocka_unit_test(names_stand_in_the_order_of_their_numbers),
		cmocka_unit_test(a_host_is_the_same_with_its_domain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
