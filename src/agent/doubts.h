/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_DOUBTS_H
#define TENURE_AGENT_DOUBTS_H

/*
 * Claims that are looked at again, because it could not be told what they are: what they are for
 * may run. Until that is known it counts as running in the plan, or what comes after it in its
 * lane, or beside it under its array's limit, would be started too early.
 *
 *	doubts_end(q, found)	on the loop: those that are known by now, before they are adopted
 *	doubts_begin(q, found)	those that are not
 */

#include <stdbool.h>
#include <stdint.h>

struct opening;
struct tasks;

void doubts_end(struct tasks *q, const struct opening *found);
void doubts_begin(struct tasks *q, const struct opening *found);
/* Whether there is one of that lane, as sched_lane() names it; 0: of that array. */
bool doubts_use(const struct tasks *q, uint32_t lane, uint64_t array);
void doubts_clear(struct tasks *q);

#endif
