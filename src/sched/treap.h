/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_TREAP_H
#define TENURE_SCHED_TREAP_H

/*
 * An ordered tree of nodes that live inside other structs, which also answers "how much comes
 * before this one". Everything is O(log n) expected; nothing is allocated.
 *
 * A node is in at most one tree; a zeroed one is in none. What cmp() looks at must not change while
 * the node is in a tree, and no two nodes of a tree may compare as equal. The shape of the tree is
 * the same in every run: its random numbers are counted from the tree's own seed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct treap_node {
	struct treap_node *left, *right;
	uint64_t sum;	 /* weight of the whole subtree */
	uint32_t rank;	 /* heap order; 0 = in no tree */
	uint32_t weight; /* of this node */
};

typedef int (*treap_cmp)(const struct treap_node *a, const struct treap_node *b);

struct treap {
	struct treap_node *root;
	treap_cmp cmp;
	uint64_t seed;
};

static inline bool treap_linked(const struct treap_node *n)
{
	return n->rank != 0;
}

void treap_insert(struct treap *t, struct treap_node *n, uint32_t weight);
/* n is in t. */
void treap_remove(struct treap *t, struct treap_node *n);
struct treap_node *treap_first(const struct treap *t);
/* The nearest node after or before key, which need not be in the tree; NULL when there is none. */
struct treap_node *treap_after(const struct treap *t, const struct treap_node *key);
struct treap_node *treap_before(const struct treap *t, const struct treap_node *key);
/* The weight of all nodes before key. */
uint64_t treap_sum_before(const struct treap *t, const struct treap_node *key);

/* The struct that the node is in; of a const node one that may be written, as in memchr(). */
#define treap_item(node, type, member) ((type *)((uintptr_t)(node)-offsetof(type, member)))

#endif
