/* SPDX-License-Identifier: MIT */
#include "spool/capacity.h"

#include <stdlib.h>
#include <string.h>

#define TOLD_MAX 4

static bool may_have(const struct capacity_node *node, uint64_t want)
{
	return !node->devices || node->devices >= want;
}

enum capacity capacity_judge(const struct capacity_node *nodes, size_t n, uint64_t want)
{
	bool somebody = false, hope = false;

	for (size_t i = 0; i < n; i++) {
		if (nodes[i].lives && may_have(&nodes[i], want))
			return CAPACITY_ENOUGH;
		somebody = somebody || nodes[i].lives;
		hope = hope || may_have(&nodes[i], want);
	}
	return !somebody ? CAPACITY_ENOUGH : hope ? CAPACITY_PERHAPS : CAPACITY_NONE;
}

void capacity_count(const struct capacity_node *nodes, size_t n, uint64_t want, size_t *ret_live,
		    size_t *ret_silent)
{
	*ret_live = *ret_silent = 0;
	for (size_t i = 0; i < n; i++) {
		*ret_live += nodes[i].lives && may_have(&nodes[i], want);
		*ret_silent += !nodes[i].lives && may_have(&nodes[i], want);
	}
}

static int largest_first(const void *a, const void *b)
{
	const struct capacity_node *x = a, *y = b;

	if (x->lives != y->lives)
		return x->lives ? -1 : 1;
	if (x->devices != y->devices)
		return x->devices > y->devices ? -1 : 1;
	return strcmp(x->agent, y->agent);
}

void capacity_tell(struct capacity_node *nodes, size_t n, struct strbuf *b)
{
	size_t lives = 0, told;

	for (size_t i = 0; i < n; i++)
		lives += nodes[i].lives;
	if (n)
		qsort(nodes, n, sizeof(*nodes), largest_first);
	/* Where one name would be left over it is told as well. */
	told = lives <= TOLD_MAX + 1 ? lives : TOLD_MAX;
	for (size_t i = 0; i < told; i++)
		strbuf_addf(b, "%s%s %s%u",
			    !i		     ? ""
			    : i + 1 == lives ? " and "
					     : ", ",
			    nodes[i].agent, i ? "" : "has ", nodes[i].devices);
	if (told < lives)
		strbuf_addf(b, " and %zu others no more than that", lives - told);
}

void capacity_tell_hope(const struct capacity_node *nodes, size_t n, uint64_t want,
			struct strbuf *b)
{
	const struct capacity_node *best = NULL;

	for (size_t i = 0; i < n; i++)
		if (!nodes[i].lives && may_have(&nodes[i], want) &&
		    (!best || nodes[i].devices > best->devices))
			best = &nodes[i];
	if (best && best->devices)
		strbuf_addf(b, "%s, which is silent, had %u", best->agent, best->devices);
	else if (best)
		strbuf_addf(b, "%s, which served it before, may have so many", best->agent);
}
