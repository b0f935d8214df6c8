/* SPDX-License-Identifier: MIT */
#ifndef TENURE_POOL_DEMAND_H
#define TENURE_POOL_DEMAND_H

/*
 * How many nodes of a pool would have something to do: what is ready, as far as it fits a node of
 * the pool, and what runs there. Read from the queue's files, by whoever ticks; a task that no node
 * of the pool can run asks for none.
 */

#include "base/err.h"
#include "pool/pool.h"
#include "spool/scan.h"

struct demand {
	unsigned int nodes;	 /* ready and running */
	uint64_t ready, running; /* tasks, as far as they were counted */
	uint64_t
		unfit; /* ready ones that ask for more than a node of the pool has: GPUs, or time */
};

/* Tells whether a node of that name (in the spool) is the pool's. */
typedef bool (*demand_ours_fn)(void *data, const char *agent);

/*
 * elsewhere: GPUs of agents that are not the pool's and may take tasks now; what they can take asks
 * for nothing here. It stops to count when more nodes are asked for than the pool may have.
 */
int demand_read(const struct spool *sp, const struct pool *pool, uint64_t now_wall_ns,
		demand_ours_fn ours, void *data, unsigned int elsewhere, struct demand *ret,
		struct err *e);

#endif
