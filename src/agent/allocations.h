/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ALLOCATIONS_H
#define TENURE_AGENT_ALLOCATIONS_H

/* What is told of allocations (alloc/alloc.h) beside what is told of any task. */

#include "agent/attempt/attempt.h"
#include "agent/dispatch_state.h"

/* The attempt has its devices, or has been ended and they are free; nothing of one that is no
 * allocation, or that an earlier agent has told of. */
void allocations_on_started(struct dispatch *q, const struct attempt *r);
void allocations_on_over(struct dispatch *q, const struct attempt *r);

#endif
