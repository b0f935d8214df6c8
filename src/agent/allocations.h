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

/*
 * Whoever waits for GPUs of this node is told when so many are free (gpu_available_threshold): the
 * event `free`, once when they have become so many, and again only after there were fewer. Each
 * second, and with fewer when a device has changed, which only says that there are fewer; what is
 * not known for now is not looked at.
 */
struct agent;
void allocations_look_free(struct agent *a, bool fewer);

#define FREE_LOOKS 2 /* in a row: between two tasks a device is free for a moment */

/* One look: true when it is to be told. looks: 0 at first. Pure. */
bool allocations_step_free(unsigned int *looks, unsigned int free, unsigned int threshold);

#endif
