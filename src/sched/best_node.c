/* SPDX-License-Identifier: MIT */
#include "sched/best_node.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"

#define TYPE_MAX 256

static bool is_excluded(const struct node_offer *node, const struct node_wish *wish)
{
	for (size_t i = 0; i < wish->n_exclude; i++)
		if (strcmp(wish->exclude[i], node->name) == 0)
			return true;
	return false;
}

/* "a10" is no "a100": the engine's own word, or a pattern. */
static bool is_of_type(const struct node_offer *node, const char *types)
{
	char one[TYPE_MAX];

	if (!types || !*types)
		return true;
	for (const char *p = types; p; p = strchr(p, ',')) {
		p += *p == ',';
		p += strspn(p, " ");

		size_t len = strcspn(p, ",");

		while (len && p[len - 1] == ' ')
			len--;
		if (!len || len >= sizeof(one))
			continue;
		(void)str_print(one, sizeof(one), "%.*s", (int)len, p);
		if (fnmatch(one, node->type ? node->type : "", FNM_CASEFOLD) == 0)
			return true;
	}
	return false;
}

/* In this order: the first that is so is what people are told of it. */
static enum node_fit fit_of(const struct node_offer *node, const struct node_wish *wish)
{
	if (!node->usable)
		return NODE_UNUSABLE;
	if (is_excluded(node, wish))
		return NODE_EXCLUDED;
	if (!is_of_type(node, wish->type))
		return NODE_TYPE;
	if (node->free < wish->gpus)
		return NODE_FULL;
	if (node->blocked)
		return NODE_BLOCKED;
	if (node->free == wish->gpus)
		return NODE_FILLS;
	return node->free >= node->total ? NODE_EMPTY : NODE_IN_USE;
}

static bool is_empty(const struct node_offer *node)
{
	return node->free >= node->total;
}

/* Both can be had. */
static bool is_better(const struct node_offer *a, enum node_fit fit_a, const struct node_offer *b,
		      enum node_fit fit_b)
{
	if (fit_a != fit_b)
		return fit_a < fit_b;
	if (a->free != b->free)
		return a->free < b->free;
	if (is_empty(a) != is_empty(b))
		return is_empty(b);
	if (a->ours != b->ours)
		return a->ours;
	return strcmp(a->name, b->name) < 0;
}

void best_node(const struct node_offer *nodes, size_t n, const struct node_wish *wish,
	       struct best_node *ret)
{
	*ret = (struct best_node){ .at = BEST_NODE_NONE };
	for (size_t i = 0; i < n; i++) {
		enum node_fit fit = fit_of(&nodes[i], wish);

		ret->counts[fit]++;
		if (fit == NODE_FULL) {
			ret->most_free =
				nodes[i].free > ret->most_free ? nodes[i].free : ret->most_free;
			ret->most_total =
				nodes[i].total > ret->most_total ? nodes[i].total : ret->most_total;
		}
		if (fit > NODE_EMPTY || (ret->at != BEST_NODE_NONE &&
					 !is_better(&nodes[i], fit, &nodes[ret->at], ret->fit)))
			continue;
		ret->at = i;
		ret->fit = fit;
		ret->remain = nodes[i].free - wish->gpus;
	}
}

static void tell_best(const struct best_node *best, const struct node_offer *node,
		      struct strbuf *out)
{
	strbuf_addf(out, "%s: ", node->name);
	if (is_empty(node))
		strbuf_addf(out, "all of its %" PRIu32 " GPUs are free", node->total);
	else
		strbuf_addf(out, "%" PRIu32 " of its %" PRIu32 " GPUs %s free", node->free,
			    node->total, node->free == 1 ? "is" : "are");
	if (best->fit == NODE_FILLS)
		strbuf_adds(out, ", and it is full then");
	else
		strbuf_addf(out, ", of which %" PRIu32 " remain%s%s", best->remain,
			    best->remain == 1 ? "s" : "",
			    best->fit == NODE_EMPTY ? "; no node in use has room" : "");
}

static void tell_none(const struct best_node *best, size_t n, const struct node_wish *wish,
		      struct strbuf *out)
{
	static const struct {
		enum node_fit fit;
		const char *one, *many;
	} words[] = {
		{ NODE_FULL, "has too few free GPUs", "have too few free GPUs" },
		{ NODE_BLOCKED, "is blocked (free GPUs, but no CPU or memory left)",
		  "are blocked (free GPUs, but no CPU or memory left)" },
		{ NODE_TYPE, "is of another type", "are of another type" },
		{ NODE_EXCLUDED, "is excluded", "are excluded" },
		{ NODE_UNUSABLE, "is down or draining", "are down or draining" },
	};
	bool begun = false;

	if (!n) {
		strbuf_adds(out, "no node can be had: none is listed");
		return;
	}
	strbuf_addf(out, "no node can be had for %" PRIu32 " GPU%s: of %zu,", wish->gpus,
		    wish->gpus == 1 ? "" : "s", n);
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		size_t count = best->counts[words[i].fit];

		if (!count)
			continue;
		strbuf_addf(out, "%s %zu %s", begun ? "," : "", count,
			    count == 1 ? words[i].one : words[i].many);
		if (words[i].fit == NODE_FULL && best->most_total < wish->gpus)
			strbuf_addf(out, " (no node has more than %" PRIu32 ")", best->most_total);
		else if (words[i].fit == NODE_FULL)
			strbuf_addf(out, " (%" PRIu32 " at most)", best->most_free);
		begun = true;
	}
}

void best_node_text(const struct best_node *best, const struct node_offer *nodes, size_t n,
		    const struct node_wish *wish, struct strbuf *out)
{
	if (best->at == BEST_NODE_NONE)
		tell_none(best, n, wish, out);
	else
		tell_best(best, &nodes[best->at], out);
}
