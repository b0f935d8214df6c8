/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_CHOOSE_H
#define TENURE_SCHED_CHOOSE_H

/*
 * Which of the devices on which a task fits it gets.
 *
 * Alone: devices that NVLink joins stay together. All from the smallest group that has enough, so
 * that larger groups stay whole; where none has enough, from the largest on. Within a group those
 * that are linked to what was taken and least to what stays, that nobody else uses, with the least
 * memory in all, held ones first (there is no gap in which somebody could slip in), lower slots
 * first.
 *
 * Shared: where our shared tasks are already and the least room is left behind; without a declared
 * memory where the fewest are.
 */

#include "sched/device_board.h"

/* n of the candidates, of which there are at least n. */
struct devset choose_devices(const struct board *b, const struct shape *s, struct devset candidates,
			     unsigned int n);
/* One of them, which are not none, beside those that its task has: linked to these by the most. */
unsigned int choose_one_more(const struct board *b, const struct shape *s, struct devset candidates,
			     struct devset beside);

#endif
