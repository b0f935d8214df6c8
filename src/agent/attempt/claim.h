/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_CLAIM_H
#define TENURE_AGENT_ATTEMPT_CLAIM_H

/* A task that the plan starts is claimed in the spool and its log is opened: one job off the loop's
 * thread. */

#include "agent/queue/lanes.h"
#include "agent/queue/spooler.h"
#include "sched/types.h"

/* Another agent starts the tasks of its lane or array. */
#define CLAIM_ELSEWHERE 100

struct claiming {
	struct spool_job job; /* claiming_work() */
	struct sched_ref ref;
	uint64_t edits;		   /* of the version that was planned */
	uint64_t end_ns;	   /* by clock_boot_ns(): what runs is stopped then; 0: never */
	const char *key, *run_dir; /* as of struct attempt_place */
	uint64_t began_ns;	   /* clock_boot_ns() before it was claimed */
	/* What came of it; the caller's, where code is 0. */
	struct claim claim;
	struct task_spec *spec;
	unsigned int tries; /* failures that count, before this attempt */
	int log_fd;
	char log_path[SPOOL_PATH_MAX]; /* in the spool */
	struct log_away away;	       /* error is "" where it is there */
	struct lanes_met lanes;	       /* known in any case */
	struct err e;
	/* 0; CLAIM_ELSEWHERE; > 0: it is not ours to run any more, or in bad/; negative. */
	int code;
};

void claiming_work(struct spool_job *claiming, struct spool_place *place);

#endif
