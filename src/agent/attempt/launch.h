/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_LAUNCH_H
#define TENURE_AGENT_ATTEMPT_LAUNCH_H

/*
 * From a task as it was submitted, and the devices that it got, to what its shim is told: command,
 * environment, log. No I/O.
 */

#include <stdint.h>

#include "agent/attempt/login.h"
#include "agent/attempt/rendezvous.h"
#include "base/err.h"
#include "spool/claim.h"
#include "spool/instance.h"
#include "task/end_record.h"
#include "task/launch_spec.h"

/* What this attempt got. The texts are the caller's. */
struct launch_with {
	const char *instance, *node, *run_dir; /* node: the host, whose processes they are */
	const char *node_name;		       /* as people call it */
	const struct login *login;	       /* NULL: the spec has all that is needed */
	const char *job;		       /* the key of the agent's job; NULL: it is in none */
	const char *visible;	/* for CUDA_VISIBLE_DEVICES; "" where the task has none */
	bool by_index;		/* they are indices, so CUDA is to number them as we do */
	const char *gpus_file;	/* that lists them as they change; NULL: they do not */
	uint64_t id, element;	/* element 0: no element */
	unsigned int attempt;	/* from 1 */
	uint64_t memory;	/* bytes per GPU that it asked for; 0: not said */
	struct rank_place rank; /* where it is among the nodes of its program; nodes 0: said with
				   GO, or it is no such program */
	uint64_t log_limit;	/* bytes; 0: none */
	/* How the shim keeps the claim alive: task/claim_heartbeat.h. */
	const char *spool_dir, *agent;
	const char *root;		 /* of the spool, and ... */
	const struct spool_trust *trust; /* ... whose it may be: for an allocation's keeper */
	const char *libraries; /* LD_LIBRARY_PATH, by which that finds what it needs; NULL */
	const struct claim *claim;
	uint64_t heartbeat_ms, fence_timeout_ms;
	const char *cgroup;   /* delegated, to make its own in; or NULL */
	bool idle_workload;   /* no task: id is not looked at, and it lives as long as an agent */
	bool go;	      /* start at once: there is no lease to wait for */
	uint64_t go_until_ns; /* with it: launch_spec.go_until_ns */
};

struct launch;

/*
 * token: names_token(). 0 and *ret, or -EINVAL: the spec cannot be run (which `submit` would have
 * refused).
 */
int launch_make(const struct task_spec *spec, const char *token, const struct launch_with *with,
		struct launch **ret, struct err *e);
struct launch *launch_free(struct launch *j);
/* Valid as long as j. */
const struct launch_spec *launch_get(const struct launch *j);

#endif
