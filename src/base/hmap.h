/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_HMAP_H
#define TENURE_BASE_HMAP_H

/*
 * A hash table of nodes that live inside other structs. The caller computes the hash and compares
 * what has the same one:
 *
 *	for (struct hnode *n = hmap_find(m, h); n; n = hmap_same(n))
 *
 * Zeroed = empty; hmap_clear() frees the buckets, the nodes are the caller's.
 */

#include <stddef.h>
#include <stdint.h>

struct hnode {
	struct hnode *next;
	uint64_t hash;
};

struct hmap {
	struct hnode **buckets;
	size_t n_buckets; /* a power of two, or 0 */
	size_t n;
};

void hmap_insert(struct hmap *m, struct hnode *node, uint64_t hash);
/* node is in m. */
void hmap_remove(struct hmap *m, struct hnode *node);
struct hnode *hmap_find(const struct hmap *m, uint64_t hash);
struct hnode *hmap_same(const struct hnode *n);
/* All of them, in no order: node NULL for the first. NULL at the end. */
struct hnode *hmap_next(const struct hmap *m, const struct hnode *node);
void hmap_clear(struct hmap *m);

#endif
