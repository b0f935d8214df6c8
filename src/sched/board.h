/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_BOARD_H
#define TENURE_SCHED_BOARD_H

/*
 * The devices as a plan sees them, with our tasks on them: built anew for each plan from the view
 * and from what runs, changed as the plan starts tasks and keeps devices for those that wait.
 */

#include "sched/fit.h"
#include "sched/types.h"

struct board_dev {
	struct fit_dev now;
	struct fit_dev calm;	/* without our preemptible tasks */
	struct fit_dev empty;	/* without any of our tasks */
	uint64_t busy_until_ns; /* the last of our tasks ends at the latest; UINT64_MAX = unknown */
	uint64_t open_until_ns; /* who is not gone by then may not start: UINT64_MAX = anybody may,
				   0 = kept for an earlier task */
	struct sched_ref keeper; /* the first task that it is kept for; id 0 = none */
	bool collected;		 /* it is free, and the keeper waits for others: hold it */
	bool held;		 /* by our holder, now */
	unsigned int group;	 /* devices that NVLink joins have one number */
	struct devset peers;
};

struct board {
	unsigned int n;
	uint64_t models_hash; /* of all models: what shapes keep about them is valid for it */
	uint64_t now_ns;
	struct board_dev d[SCHED_DEVICES_MAX];
};

/* Those that have a task of ours. */
struct devset board_used(const struct board *b);

struct sched_queue;
struct run;
struct shape;

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
