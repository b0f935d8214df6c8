/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_SWEEP_H
#define TENURE_AGENT_ATTEMPT_SWEEP_H

/*
 * What else of its owner's is ended with a task (task/sweep.h). `tenure sweep` does it, as a
 * process of its own (agent/report/subcommand.h): it loads NVML, and reads what processes that hang
 * may keep waiting. What it ends is told as news.
 */

#include "agent/report/subcommand.h"
#include "spool/task_spec.h"

struct sweep_place {
	const struct agent_config *c;
	struct subcommand_place run;
};

/* SWEEP_BIT()s. */
unsigned int sweep_of_clean(enum spec_clean clean);

/* what: SWEEP_BIT()s; gpus: UUIDs with commas, for SWEEP_GPU. NULL: there is nothing to do, or it
 * cannot be done (which is told), and done is not called. */
struct subcommand *sweep_start(const struct sweep_place *place, unsigned int what, const char *gpus,
			       void (*done)(void *user), void *user);

#endif
