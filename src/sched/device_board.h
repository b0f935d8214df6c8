/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_DEVICE_BOARD_H
#define TENURE_SCHED_DEVICE_BOARD_H

/*
 * The devices as a plan sees them, with our tasks on them: built anew for each plan from the view
 * and from what runs, changed as the plan starts tasks and keeps devices for those that wait.
 */

#include "sched/state.h"

/* Those that have a task of ours. */
struct devset board_used(const struct board *b);

void board_build(struct board *b, const struct sched_queue *q, const struct sched_view *view);
/* A task starts on the device. */
void board_take(struct board *b, unsigned int slot, const struct run *r);
/* The device as it would be without that run on it. */
void board_without(struct fit_dev *d, const struct run *r, unsigned int slot);
/* The devices whose model the shape accepts; remembered in it. */
struct devset board_models(const struct board *b, struct shape *s, const struct sched_view *view);
/* Whether a task of this shape may start there although others wait for it. */
bool board_is_open(const struct board *b, unsigned int slot, const struct shape *s,
		   uint64_t grace_ms);

#endif
