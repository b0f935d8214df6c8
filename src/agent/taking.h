/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_TAKING_H
#define TENURE_AGENT_TAKING_H

/* A task that the plan starts is claimed in the spool and its log is opened: one job off the loop's
 * thread. */

#include "agent/spooler.h"
#include "sched/types.h"

struct taking {
	struct sched_ref ref;
	/* What came of it; the caller's, where code is 0. */
	struct claim claim;
	struct spool_spec *spec;
	unsigned int tries; /* failures that count, before this attempt */
	int log_fd;
	char log_path[SPOOL_PATH_MAX]; /* in the spool */
	struct err e;
	int code; /* 0; > 0: it is not ours to run any more, or in bad/; negative */
};

void taking_work(struct taking *t, struct spool_place *place);

#endif
