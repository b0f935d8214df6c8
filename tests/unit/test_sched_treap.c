/* SPDX-License-Identifier: MIT */

/* The ordered tree against a plain array, over many random steps. */

#include <stdbool.h>
#include <string.h>

#include "unit.h"

#include "base/hash.h"
#include "base/mem.h"
#include "sched/treap.h"

#define ITEMS 200

struct item {
	struct treap_node node;
	int value;
	uint32_t weight;
	bool in;
};

static int by_value(const struct treap_node *a, const struct treap_node *b)
{
	const struct item *x = (const void *)a, *y = (const void *)b;

	return (x->value > y->value) - (x->value < y->value);
}

static void check_tree(const struct treap *t, const struct item *items)
{
	uint64_t sum = 0;
	const struct treap_node *at = treap_first(t), *last = NULL;

	for (size_t i = 0; i < ITEMS; i++) {
		assert_int_equal(treap_sum_before(t, &items[i].node), sum);
		assert_int_equal(treap_linked(&items[i].node), items[i].in);
		assert_ptr_equal(treap_before(t, &items[i].node), last);
		if (!items[i].in)
			continue;
		assert_ptr_equal(at, &items[i].node);
		at = treap_after(t, &items[i].node);
		last = &items[i].node;
		sum += items[i].weight;
	}
	assert_null(at);
}

static void step(struct treap *t, struct item *it, unsigned int r)
{
	uint32_t weight = r % 7 + 1;

	if (!it->in)
		treap_insert(t, &it->node, weight);
	else
		treap_remove(t, &it->node);
	it->in = treap_linked(&it->node);
	it->weight = it->in ? weight : 0;
}

static void test_tree(void **state)
{
	struct treap t = { .cmp = by_value };
	struct item items[ITEMS] = { 0 };
	uint64_t r = 1;

	for (int i = 0; i < ITEMS; i++)
		items[i].value = i;
	for (int i = 0; i < 5000; i++) {
		r = hash_u64(r, 1);
		step(&t, &items[r % ITEMS], (unsigned int)(r >> 40));
		if (i % 50 == 0)
			check_tree(&t, items);
	}
	check_tree(&t, items);
}

static void test_tree_is_not_deep(void **state)
{
	enum { N = 100000 };
	struct item *items = xcalloc(N, sizeof(*items));
	struct treap t = { .cmp = by_value };
	int depth = 0;

	for (int i = 0; i < N; i++) {
		items[i].value = i;
		treap_insert(&t, &items[i].node, 1);
	}
	for (const struct treap_node *n = t.root; n; n = n->left)
		depth++;
	assert_in_range(depth, 2, 80);
	assert_int_equal(t.root->sum, N);
	free(items);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_tree_is_not_deep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
