/* SPDX-License-Identifier: MIT */
#ifndef TENURE_ALLOC_BASE_H
#define TENURE_ALLOC_BASE_H

/*
 * The automatic base: so many GPUs are kept allocated by themselves whenever some are free, one for
 * each allocation, so that who allocates by hand has them at once: tasks of the base are the last
 * in the order and preemptible, so that every other task of the queue pushes them aside.
 *
 * Pure: one step at a time, and whoever takes it looks again before the next one.
 */

#include <stdbool.h>

struct base_at {
	unsigned int wanted;	 /* base_gpus */
	unsigned int has, waits; /* GPUs of its allocations that have them, and that wait */
	unsigned int free;	 /* GPUs that a task could have now */
	unsigned int room;	 /* that max_total_gpus leaves to allocations */
	bool others_wait;	 /* a task that is not of the base does, for GPUs */
};

enum base_step {
	BASE_REST,
	BASE_ADD,      /* one GPU more */
	BASE_WITHDRAW, /* one that waits: there is nothing for it, or others come first */
	BASE_GIVE,     /* one that has its GPU: there are more than are wanted */
	BASE_STEP_MAX
};

enum base_step base_decide(const struct base_at *at);

#endif
