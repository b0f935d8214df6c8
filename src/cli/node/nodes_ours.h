/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_NODE_NODES_OURS_H
#define TENURE_CLI_NODE_NODES_OURS_H

/*
 * What of a cluster is this user's, as the files of his queues say: the jobs that his pools have,
 * and the agents that live. No engine is asked, so what a job is doing is as old as its record.
 */

#include <stdbool.h>
#include <stdint.h>

#include "cli/cmd.h"
#include "cli/pools.h"
#include "engine/engine.h"

/* An agent that is in no job of a pool. */
struct ours_agent {
	char node[64], engine[16]; /* engine "": it is in no job */
	unsigned int gpus; /* of its job; else those that it holds, or that its tasks have */
};

struct ours {
	const char *instance; /* the settings' */
	size_t n_instances;   /* below the same root */
	uint64_t running;     /* tasks of the settings' instance */
	bool running_known;
	struct pools_shown pools; /* of all instances */
	size_t n_agents;
	struct ours_agent *agents;
};

/* What cannot be read is left out. ctx must outlive it. */
void ours_read(const struct cmd_ctx *ctx, struct ours *ret);
void ours_clear(struct ours *o);

/* It has a node, or is about to; else it waits. Of one that has not ended. */
bool ours_job_runs(const struct pool_job *job);
/* Its engine, which records of older versions do not say. */
const char *ours_job_engine(const struct pool_shown *pool, const struct pool_job *job);

struct ours_count {
	unsigned int running, pending, running_gpus, pending_gpus;
};

/* The jobs of a pool that have not ended. */
struct ours_count ours_count(const struct pool_shown *pool);

/* For each row of a tidy list of that engine (engine/node_sums.h) how many of its GPUs are ours;
 * of a node with several types those that it has in use are taken in their order. The caller frees
 * it. */
unsigned int *ours_on(const struct ours *o, const char *engine, const struct engine_nodes *nodes);

#endif
