/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_CAPACITY_H
#define TENURE_SPOOL_CAPACITY_H

/*
 * Whether some node has as many devices as a task asks for, by what is known of the nodes of an
 * instance. Pure: no file, no clock.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "spool/name.h"

struct capacity_node {
	char agent[NAME_AGENT_MAX + 1];
	bool lives;	      /* else it has served the instance, and is silent now */
	unsigned int devices; /* 0: not known */
};

enum capacity {
	CAPACITY_ENOUGH,  /* a node that lives has so many, or may; or none lives, and nobody knows
			   */
	CAPACITY_PERHAPS, /* none that lives has; one that is silent has, or may */
	CAPACITY_NONE,	  /* every node that is known has fewer */
	CAPACITY_MAX
};

enum capacity capacity_judge(const struct capacity_node *nodes, size_t n, uint64_t want);

/* How many nodes have so many devices, or may: that live, and that are silent. */
void capacity_count(const struct capacity_node *nodes, size_t n, uint64_t want, size_t *ret_live,
		    size_t *ret_silent);

/*
 * "alpha has 2, beta 4 and 3 others fewer" of those that live, the largest first; nodes are sorted.
 */
void capacity_tell(struct capacity_node *nodes, size_t n, struct strbuf *b);
/* "gamma, which is silent, had 16": the one that capacity_judge() hopes for. */
void capacity_tell_hope(const struct capacity_node *nodes, size_t n, uint64_t want,
			struct strbuf *b);

#endif
