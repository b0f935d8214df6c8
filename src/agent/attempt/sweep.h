/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_SWEEP_H
#define TENURE_AGENT_ATTEMPT_SWEEP_H

/*
 * What else of its owner's is ended with a task (task/sweep.h). `tenure sweep` does it, as a
 * process of its own: it loads NVML, and reads what processes that hang may keep waiting. What it
 * ends is told as news. Where it takes so long that it must hang, it is killed and waited for no
 * more: done is called then.
 */

#include <uv.h>

#include "agent/node/config.h"
#include "agent/report/eventlog.h"
#include "spool/task_spec.h"

struct sweep_place {
	const struct agent_config *c;
	const struct node_self *self;
	uv_loop_t *loop;
	struct eventlog *eventlog;
};

struct sweep_process;

/* SWEEP_BIT()s. */
unsigned int sweep_of_clean(enum spec_clean clean);

/*
 * what: SWEEP_BIT()s; gpus: UUIDs with commas, for SWEEP_GPU. done is called from the loop, once,
 * and then it is gone. NULL: there is nothing to do, or it cannot be done (which is told), and done
 * is not called.
 */
struct sweep_process *sweep_start(const struct sweep_place *place, unsigned int what,
				  const char *gpus, void (*done)(void *user), void *user);
/* It goes on, and nobody is called. Returns NULL. */
struct sweep_process *sweep_forget(struct sweep_process *s);

#endif
