/* SPDX-License-Identifier: MIT */
#include "engine/node_sums.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* -------- the list -------- */

struct numbered {
	struct engine_node node;
	size_t i; /* its place in the engine's list */
};

static int compare_types(const char *a, const char *b)
{
	if (!a || !b)
		return (a == NULL) - (b == NULL);
	return strverscmp(a, b);
}

static int by_name(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;
	int r = strverscmp(x->node.name, y->node.name);

	r = r ? r : compare_types(x->node.type, y->node.type);
	return r ? r : (x->i > y->i) - (x->i < y->i);
}

static bool is_again(const struct engine_node *a, const struct engine_node *b)
{
	return strcmp(a->name, b->name) == 0 && compare_types(a->type, b->type) == 0;
}

void node_sums_tidy(struct engine_nodes *nodes)
{
	struct numbered *sorted = xcalloc(nodes->n + 1, sizeof(*sorted));
	size_t n = 0;

	for (size_t i = 0; i < nodes->n; i++)
		sorted[i] = (struct numbered){ nodes->all[i], i };
	if (nodes->n)
		qsort(sorted, nodes->n, sizeof(*sorted), by_name);
	for (size_t i = 0; i < nodes->n; i++) {
		struct engine_node *node = &sorted[i].node;

		if (!n || !is_again(&nodes->all[n - 1], node)) {
			nodes->all[n++] = *node;
			continue;
		}
		free(node->name);
		free(node->type);
		free(node->why);
	}
	nodes->n = n;
	free(sorted);
}

/* -------- sums -------- */

struct node_sum node_sums_row(const struct engine_node *node, unsigned int ours)
{
	unsigned int used = node->used < node->total ? node->used : node->total;
	unsigned int rest = node->total - used;
	unsigned int free_ = node->free < rest ? node->free : rest;
	unsigned int blocked = node->blocked < free_ ? node->blocked : free_;

	if (node->unknown)
		return (struct node_sum){ .nodes = 1,
					  .total = node->total,
					  .unknown = node->total,
					  .ours = ours < node->total ? ours : node->total };
	return (struct node_sum){ .nodes = 1,
				  .total = node->total,
				  .free = free_ - blocked,
				  .blocked = blocked,
				  .allocated = used,
				  .unavailable = rest - free_,
				  .ours = ours < used ? ours : used };
}

static void add(struct node_sum *to, const struct node_sum *s, bool another_node)
{
	to->nodes += another_node;
	to->total += s->total;
	to->free += s->free;
	to->blocked += s->blocked;
	to->allocated += s->allocated;
	to->unavailable += s->unavailable;
	to->unknown += s->unknown;
	to->ours += s->ours;
}

/* A cluster has a handful of types. */
static struct node_sum *sum_of_type(struct node_sums *sums, const char *type)
{
	for (size_t i = 0; i < sums->n_types; i++)
		if (compare_types(sums->types[i].type, type) == 0)
			return &sums->types[i].sum;
	sums->types = xgrow(sums->types, sums->n_types, sizeof(*sums->types));
	sums->types[sums->n_types] = (struct node_type_sum){ .type = type };
	return &sums->types[sums->n_types++].sum;
}

static int by_type(const void *a, const void *b)
{
	return compare_types(((const struct node_type_sum *)a)->type,
			     ((const struct node_type_sum *)b)->type);
}

void node_sums_of(const struct engine_nodes *nodes, const unsigned int *ours, struct node_sums *ret)
{
	*ret = (struct node_sums){ .n_types = 0 };
	for (size_t i = 0; i < nodes->n; i++) {
		const struct engine_node *node = &nodes->all[i];
		struct node_sum row = node_sums_row(node, ours ? ours[i] : 0);

		/* The rows of a node follow one another. */
		add(&ret->all, &row, i == 0 || strcmp(node->name, nodes->all[i - 1].name) != 0);
		add(sum_of_type(ret, node->type), &row, true);
	}
	if (ret->n_types)
		qsort(ret->types, ret->n_types, sizeof(*ret->types), by_type);
}

void node_sums_clear(struct node_sums *sums)
{
	free(take_ptr(sums->types));
	sums->n_types = 0;
}

bool node_sums_same_host(const char *a, const char *b)
{
	size_t n = strcspn(a, ".");

	return n && n == strcspn(b, ".") && strncasecmp(a, b, n) == 0;
}
