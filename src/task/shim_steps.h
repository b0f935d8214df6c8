/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_SHIM_STEPS_H
#define TENURE_TASK_SHIM_STEPS_H

/*
 * A shim's life as one table [state][event] -> { next state, action }, its actions, and what it
 * says of itself. An event that a state has no row for does nothing.
 */

#include "task/shim_state.h"

void shim_event(struct shim *sh, enum shim_event ev);
/* EV_STOP with all that belongs to it. sig: 0: the task's own. While it is being stopped the first
 * signal and scope stay. */
void shim_stop(struct shim *sh, enum task_cause why, int32_t sig, uint32_t scope,
	       uint32_t grace_ms);

/* Nothing of it has run. e: why; NULL. */
void shim_end_not_run(struct shim *sh, enum task_outcome outcome, const struct err *e);

/* To all connections. */
void shim_tell_status(struct shim *sh, uint16_t type);
void shim_tell_ended(struct shim *sh);
/* To one that asks. */
void shim_answer(const struct shim *sh, int fd);

#endif
