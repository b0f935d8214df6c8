/* SPDX-License-Identifier: MIT */
#include "sched/treap.h"

static uint64_t sum_of(const struct treap_node *n)
{
	return n ? n->sum : 0;
}

static void update(struct treap_node *n)
{
	n->sum = n->weight + sum_of(n->left) + sum_of(n->right);
}

/* splitmix64, of which the upper half is used. */
static uint32_t next_rank(struct treap *t)
{
	uint64_t z = t->seed += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (uint32_t)(z >> 32) | 1;
}

/* What is before key goes to *l, the rest to *r. */
static void split(const struct treap *t, struct treap_node *n, const struct treap_node *key,
		  struct treap_node **l, struct treap_node **r)
{
	if (!n) {
		*l = *r = NULL;
	} else if (t->cmp(n, key) < 0) {
		split(t, n->right, key, &n->right, r);
		*l = n;
		update(n);
	} else {
		split(t, n->left, key, l, &n->left);
		*r = n;
		update(n);
	}
}

static struct treap_node *merge(struct treap_node *l, struct treap_node *r)
{
	if (!l || !r)
		return l ? l : r;
	if (l->rank > r->rank) {
		l->right = merge(l->right, r);
		update(l);
		return l;
	}
	r->left = merge(l, r->left);
	update(r);
	return r;
}

void treap_insert(struct treap *t, struct treap_node *n, uint32_t weight)
{
	struct treap_node **at = &t->root;

	n->rank = next_rank(t);
	n->weight = weight;
	while (*at && (*at)->rank >= n->rank) {
		(*at)->sum += weight;
		at = t->cmp(n, *at) < 0 ? &(*at)->left : &(*at)->right;
	}
	split(t, *at, n, &n->left, &n->right);
	*at = n;
	update(n);
}

void treap_remove(struct treap *t, struct treap_node *n)
{
	struct treap_node **at = &t->root;

	while (*at != n) {
		(*at)->sum -= n->weight;
		at = t->cmp(n, *at) < 0 ? &(*at)->left : &(*at)->right;
	}
	*at = merge(n->left, n->right);
	*n = (struct treap_node){ 0 };
}

struct treap_node *treap_first(const struct treap *t)
{
	struct treap_node *n = t->root;

	while (n && n->left)
		n = n->left;
	return n;
}

struct treap_node *treap_after(const struct treap *t, const struct treap_node *key)
{
	struct treap_node *best = NULL;

	for (struct treap_node *n = t->root; n;) {
		if (t->cmp(n, key) > 0) {
			best = n;
			n = n->left;
		} else {
			n = n->right;
		}
	}
	return best;
}

struct treap_node *treap_before(const struct treap *t, const struct treap_node *key)
{
	struct treap_node *best = NULL;

	for (struct treap_node *n = t->root; n;) {
		if (t->cmp(n, key) < 0) {
			best = n;
			n = n->right;
		} else {
			n = n->left;
		}
	}
	return best;
}

uint64_t treap_sum_before(const struct treap *t, const struct treap_node *key)
{
	uint64_t sum = 0;

	for (struct treap_node *n = t->root; n;) {
		if (t->cmp(n, key) < 0) {
			sum += n->weight + sum_of(n->left);
			n = n->right;
		} else {
			n = n->left;
		}
	}
	return sum;
}
