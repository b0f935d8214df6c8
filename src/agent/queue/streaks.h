/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_STREAKS_H
#define TENURE_AGENT_QUEUE_STREAKS_H

/* Failures in a row, remembered per lane, and per task where it has none. Not kept over a restart:
 * who starts the agent again wants the queue to go on. */

#include <stdint.h>

#include "sched/retry.h"

struct streaks {
	struct streak *first;
};

/* Made if need be, and valid until it is dropped. lane NULL or "": the task's own. */
struct retry_streak *streaks_get(struct streaks *s, const char *lane, uint64_t id);
/* A task without a lane has ended for good. */
void streaks_drop(struct streaks *s, uint64_t id);
void streaks_clear(struct streaks *s);

#endif
