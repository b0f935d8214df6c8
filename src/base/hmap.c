/* SPDX-License-Identifier: MIT */
#include "base/hmap.h"

#include "base/mem.h"

#define FIRST_BUCKETS 64

static size_t bucket_of(const struct hmap *m, uint64_t hash)
{
	return (size_t)hash & (m->n_buckets - 1);
}

static void push(struct hmap *m, struct hnode *node)
{
	struct hnode **at = &m->buckets[bucket_of(m, node->hash)];

	node->next = *at;
	*at = node;
}

static void grow(struct hmap *m)
{
	struct hmap bigger = { .n_buckets = m->n_buckets ? m->n_buckets * 2 : FIRST_BUCKETS };

	bigger.buckets = xcalloc(bigger.n_buckets, sizeof(struct hnode *));
	for (size_t i = 0; i < m->n_buckets; i++) {
		for (struct hnode *n = m->buckets[i], *next; n; n = next) {
			next = n->next;
			push(&bigger, n);
		}
	}
	free(m->buckets);
	m->buckets = bigger.buckets;
	m->n_buckets = bigger.n_buckets;
}

void hmap_insert(struct hmap *m, struct hnode *node, uint64_t hash)
{
	if (m->n >= m->n_buckets)
		grow(m);
	node->hash = hash;
	push(m, node);
	m->n++;
}

void hmap_remove(struct hmap *m, struct hnode *node)
{
	struct hnode **at = &m->buckets[bucket_of(m, node->hash)];

	while (*at != node)
		at = &(*at)->next;
	*at = node->next;
	node->next = NULL;
	m->n--;
}

static struct hnode *with_hash(struct hnode *n, uint64_t hash)
{
	while (n && n->hash != hash)
		n = n->next;
	return n;
}

struct hnode *hmap_find(const struct hmap *m, uint64_t hash)
{
	return m->n_buckets ? with_hash(m->buckets[bucket_of(m, hash)], hash) : NULL;
}

struct hnode *hmap_same(const struct hnode *n)
{
	return with_hash(n->next, n->hash);
}

struct hnode *hmap_next(const struct hmap *m, const struct hnode *node)
{
	if (node && node->next)
		return node->next;
	for (size_t i = node ? bucket_of(m, node->hash) + 1 : 0; i < m->n_buckets; i++)
		if (m->buckets[i])
			return m->buckets[i];
	return NULL;
}

void hmap_clear(struct hmap *m)
{
	free(m->buckets);
	*m = (struct hmap){ 0 };
}
