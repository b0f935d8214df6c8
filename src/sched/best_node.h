/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_BEST_NODE_H
#define TENURE_SCHED_BEST_NODE_H

/*
 * Which node is best for so many GPUs, out of what an engine's inventory lists. Pure; the same list
 * in another order gives the same node.
 *
 * A node can be had if it is usable, not blocked, not excluded, of the wanted type, and has so many
 * free GPUs. Of these the one that leaves the fewest fragments: one that is full then; else one
 * that is in use already, so that whole empty nodes stay whole for who needs one; else an empty
 * one. In each of these three the one on which the fewest free GPUs remain; between equals one that
 * is in use before an empty one, then one on which we have something already, then the first by
 * name.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

struct node_offer {
	const char *name;
	const char *type;     /* of its GPUs, as the engine calls it; NULL or "": not known */
	uint32_t total, free; /* GPUs */
	bool blocked;	      /* GPUs are free, but no CPU or memory is left for a job on them */
	bool usable;	      /* neither down nor draining */
	bool ours;	      /* we have a job or an allocation there */
};

struct node_wish {
	uint32_t gpus;	  /* 1 or more */
	const char *type; /* as the engine calls it, capitals or not, or a pattern with * or ?;
			     several with commas; NULL or "": any */
	const char *const *exclude; /* names */
	size_t n_exclude;
};

/* Why a node is the best, or cannot be had. */
enum node_fit {
	NODE_FILLS,  /* it is full then */
	NODE_IN_USE, /* it is in use already */
	NODE_EMPTY,  /* it is empty, and none that is in use has room */
	NODE_UNUSABLE,
	NODE_EXCLUDED,
	NODE_TYPE,
	NODE_BLOCKED,
	NODE_FULL, /* too few of its GPUs are free */
	NODE_FIT_MAX
};

#define BEST_NODE_NONE SIZE_MAX

struct best_node {
	size_t at;			/* in the list; BEST_NODE_NONE: none can be had */
	enum node_fit fit;		/* with one: FILLS, IN_USE or EMPTY */
	uint32_t remain;		/* free GPUs on it then */
	size_t counts[NODE_FIT_MAX];	/* nodes, by what they are */
	uint32_t most_free, most_total; /* of those that are only too full: on one node */
};

void best_node(const struct node_offer *nodes, size_t n, const struct node_wish *wish,
	       struct best_node *ret);
/* "n7: 2 of its 4 GPUs are free, and it is full then"; "no node can be had: of 11, 8 have too few
 * free GPUs (2 at most), 2 are blocked, 1 is down or draining". */
void best_node_text(const struct best_node *best, const struct node_offer *nodes, size_t n,
		    const struct node_wish *wish, struct strbuf *out);

#endif
