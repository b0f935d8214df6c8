/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_WHY_H
#define TENURE_SCHED_WHY_H

/*
 * Why a task does not run, in one sentence: what it waits for, what would let it start, its place.
 *
 *	waits for 2 GPUs: 1 of 4 free, GPU 1 and 3 taken by alice (PID 77); 5th in order
 *
 * Devices are described as the last plan left them; the view gives the times and the texts, and has
 * the same devices.
 */

#include "sched/queue.h"

#define SCHED_WHY_MAX 600

/* This node, as it is, can never run it; another one may. */
#define SCHED_WHY_NOT_HERE 1
/* Another node starts what is of its lane or array. */
#define SCHED_WHY_ELSEWHERE 2

/*
 * 0 or one of these, and the sentence in buf, which holds SCHED_WHY_MAX bytes; -ENOENT when
 * ref is not in the queue. Where nothing is in the way of a task its lane looks again who is next,
 * so that "with the next plan" is true whatever was forgotten.
 */
int sched_why(struct sched_queue *q, struct sched_ref ref, const struct sched_view *view,
	      char *buf);

#endif
