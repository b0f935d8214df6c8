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

/* A node whose agent lives. */
struct demand_node {
	unsigned int gpus; /* of one of the pool's all that its job has; else those that are free,
			      for tasks that name no pool */
	bool ours;
};

struct demand {
	unsigned int nodes;	 /* of the pool that would have something to do: */
	unsigned int more;	 /* of these, so many more than there are */
	uint64_t ready, running; /* tasks, as far as they were counted */
	uint64_t unfit; /* ready ones that ask for more than the pool has: GPUs of a node, time,
			   nodes */
};

/* Whose a node of that name (in the spool) is. */
enum demand_owner {
	DEMAND_OTHERS,
	DEMAND_OURS,
	DEMAND_OURS_LOST /* its agent lives no more: what it ran waits for another node */
};

typedef enum demand_owner (*demand_ours_fn)(void *data, const char *agent);

/*
 * Tasks are put on nodes, the largest first: what runs on the pool's stays there; what is ready
 * goes where GPUs are free, on the pool's nodes or on others, and asks for one more where no node
 * has as many together. The ranks of a task on several nodes are put on a node each. It stops to
 * count when more are asked for than the pool may have.
 */
int demand_read(const struct spool *sp, const struct pool *pool, uint64_t now_wall_ns,
		demand_ours_fn ours, void *data, const struct demand_node *nodes, size_t n_nodes,
		struct demand *ret, struct err *e);

#endif
