/* SPDX-License-Identifier: MIT */

/*
 * Which node is the best. A list of nodes is a text: "n1:2/4" has two of four GPUs free; behind it
 * @TYPE, and letters: b blocked, d down, o ours.
 */

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "sched/best_node.h"

#define NODES_MAX 16

struct list {
	char text[512];
	struct node_offer nodes[NODES_MAX];
	size_t n;
};

static void parse(struct list *l, const char *text)
{
	char *rest = l->text, *word;

	*l = (struct list){ .n = 0 };
	(void)str_copy(l->text, sizeof(l->text), text);
	while ((word = strsep(&rest, " "))) {
		struct node_offer *node = &l->nodes[l->n];
		char *numbers = strchr(word, ':');
		char *type, *end;

		if (!*word)
			continue;
		assert_non_null(numbers);
		*numbers++ = '\0';
		*node = (struct node_offer){ .name = word, .usable = true };
		node->free = (uint32_t)strtoul(numbers, &end, 10);
		node->total = (uint32_t)strtoul(end + 1, &end, 10);
		for (; *end && *end != '@'; end++) {
			node->blocked |= *end == 'b';
			node->usable &= *end != 'd';
			node->ours |= *end == 'o';
		}
		type = *end ? end + 1 : NULL;
		*end = '\0';
		node->type = type;
		l->n++;
	}
}

static void the_table(void **state)
{
	static const struct {
		const char *nodes;
		uint32_t gpus;
		const char *type, *exclude;
		const char *text; /* begins with the node's name */
	} cases[] = {
		/* Best fit. */
		{ "n1:4/4 n2:1/4 n3:3/4", 1, NULL, NULL,
		  "n2: 1 of its 4 GPUs is free, and it is full then" },
		{ "n1:4/4 n2:1/4 n3:3/4", 2, NULL, NULL,
		  "n3: 3 of its 4 GPUs are free, of which 1 remains" },
		{ "n1:4/4 n2:1/4 n3:3/4", 4, NULL, NULL,
		  "n1: all of its 4 GPUs are free, and it is full then" },
		{ "n1:6/8 n2:4/8 n3:5/8", 2, NULL, NULL,
		  "n2: 4 of its 8 GPUs are free, of which 2 remain" },
		/* Whole empty nodes are kept. */
		{ "n1:2/2 n2:7/8", 1, NULL, NULL,
		  "n2: 7 of its 8 GPUs are free, of which 6 remain" },
		{ "n1:2/2 n2:2/4", 2, NULL, NULL,
		  "n2: 2 of its 4 GPUs are free, and it is full then" },
		{ "n1:8/8 n2:4/4", 1, NULL, NULL,
		  "n2: all of its 4 GPUs are free, of which 3 remain; no node in use has room" },
		{ "n1:8/8 n2:1/4", 2, NULL, NULL,
		  "n1: all of its 8 GPUs are free, of which 6 remain; no node in use has room" },
		/* But one that is full then leaves nothing. */
		{ "n1:5/8 n2:4/4", 4, NULL, NULL,
		  "n2: all of its 4 GPUs are free, and it is full then" },
		/* Between equals. */
		{ "n2:3/4 n1:3/4", 1, NULL, NULL,
		  "n1: 3 of its 4 GPUs are free, of which 2 remain" },
		{ "n1:3/4 n2:3/4o", 1, NULL, NULL,
		  "n2: 3 of its 4 GPUs are free, of which 2 remain" },
		{ "n1:3/4 n2:2/4 n3:3/4o", 1, NULL, NULL,
		  "n2: 2 of its 4 GPUs are free, of which 1 remains" },
		/* An engine that lists a node twice. */
		{ "n1:3/4 n1:3/4", 1, NULL, NULL,
		  "n1: 3 of its 4 GPUs are free, of which 2 remain" },
		/* Types. */
		{ "n1:4/4@a100 n2:4/4@a10", 1, "a10", NULL,
		  "n2: all of its 4 GPUs are free, of which 3 remain; no node in use has room" },
		{ "n1:4/4@a100 n2:4/4@A10", 4, "a10", NULL,
		  "n2: all of its 4 GPUs are free, and it is full then" },
		{ "n1:1/4@a100 n2:4/4@h100", 1, "*h100*", NULL,
		  "n2: all of its 4 GPUs are free, of which 3 remain; no node in use has room" },
		{ "n1:1/4@v100 n2:4/4@h100 n3:4/4@a10", 4, "a10, h100", NULL,
		  "n2: all of its 4 GPUs are free, and it is full then" },
		{ "n1:1/4", 1, "a10", NULL,
		  "no node can be had for 1 GPU: of 1, 1 is of another type" },
		{ "n1:1/4", 1, "", NULL, "n1: 1 of its 4 GPUs is free, and it is full then" },
		{ "n1:1/4@a10", 1, " , ", NULL,
		  "no node can be had for 1 GPU: of 1, 1 is of another type" },
		/* What cannot be had. */
		{ "n1:1/4b n2:3/4", 1, NULL, NULL,
		  "n2: 3 of its 4 GPUs are free, of which 2 remain" },
		{ "n1:1/4d n2:3/4", 1, NULL, NULL,
		  "n2: 3 of its 4 GPUs are free, of which 2 remain" },
		{ "n1:1/4 n2:3/4", 1, NULL, "n1",
		  "n2: 3 of its 4 GPUs are free, of which 2 remain" },
		{ "n1:1/4 n2:3/4", 1, NULL, "n",
		  "n1: 1 of its 4 GPUs is free, and it is full then" },
		{ "", 1, NULL, NULL, "no node can be had: none is listed" },
		{ "n1:0/4 n2:1/4 n3:2/4b n4:4/4d n5:4/4@x", 2, NULL, NULL,
		  "n5: all of its 4 GPUs are free, of which 2 remain; no node in use has room" },
		{ "n1:0/4@a n2:1/4@a n3:2/4b@a n4:4/4d n5:4/4@x n6:4/4@a", 2, "a", "n6",
		  "no node can be had for 2 GPUs: of 6, 2 have too few free GPUs (1 at most), "
		  "1 is blocked (free GPUs, but no CPU or memory left), 1 is of another type, "
		  "1 is excluded, 1 is down or draining" },
		{ "n1:4/4 n2:0/4", 8, NULL, NULL,
		  "no node can be had for 8 GPUs: of 2, 2 have too few free GPUs (no node has more "
		  "than 4)" },
		/* A list that contradicts itself. */
		{ "n1:9/4 n2:5/4", 2, NULL, NULL,
		  "n2: all of its 4 GPUs are free, of which 3 remain; no node in use has room" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *exclude[] = { cases[i].exclude };
		const struct node_wish wish = { .gpus = cases[i].gpus,
						.type = cases[i].type,
						.exclude = exclude,
						.n_exclude = cases[i].exclude != NULL };
		cleanup_strbuf struct strbuf b = STRBUF_INIT;
		struct best_node best;
		struct list l;

		parse(&l, cases[i].nodes);
		best_node(l.nodes, l.n, &wish, &best);
		best_node_text(&best, l.nodes, l.n, &wish, &b);
		if (strcmp(strbuf_str(&b), cases[i].text) != 0)
			fail_msg("%u of %s: %s", cases[i].gpus, cases[i].nodes, strbuf_str(&b));
	}
}

/* Whatever the order of the list. */
static void the_order_does_not_matter(void **state)
{
	uint64_t r = 5;

	for (unsigned int round = 0; round < 2000; round++) {
		struct node_offer nodes[6], turned[6];
		char names[6][8];
		struct node_wish wish;
		struct best_node a, b;

		for (unsigned int i = 0; i < 6; i++) {
			r = hash_u64(r, i);
			(void)str_print(names[i], sizeof(names[i]), "n%u", i);
			nodes[i] = (struct node_offer){ .name = names[i],
							.total = 4,
							.free = (uint32_t)(r % 5),
							.blocked = r / 5 % 7 == 0,
							.usable = r / 35 % 7 != 0,
							.ours = r / 245 % 2 };
		}
		wish = (struct node_wish){ .gpus = 1 + (uint32_t)(r / 490 % 4) };
		for (unsigned int i = 0; i < 6; i++)
			turned[(i + round) % 6] = nodes[i];
		best_node(nodes, 6, &wish, &a);
		best_node(turned, 6, &wish, &b);
		assert_int_equal(a.at == BEST_NODE_NONE, b.at == BEST_NODE_NONE);
		if (a.at == BEST_NODE_NONE)
			continue;
		assert_string_equal(nodes[a.at].name, turned[b.at].name);
		assert_true(nodes[a.at].usable && !nodes[a.at].blocked &&
			    nodes[a.at].free >= wish.gpus);
		assert_int_equal(a.remain, nodes[a.at].free - wish.gpus);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_table),
		cmocka_unit_test(the_order_does_not_matter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
