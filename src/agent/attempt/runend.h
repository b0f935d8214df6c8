/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_RUNEND_H
#define TENURE_AGENT_ATTEMPT_RUNEND_H

/* The end of a run, from the tree's end until it is in the spool. For the files of a run alone. */

#include "agent/attempt/machine.h"

/* The tree is gone, this way. */
void runend_take(struct run *r, const struct task_end *end);
/* It never ran. */
void runend_not_started(struct run *r, const char *why);
/* Goes on with the end where what it waited for has come. */
void runend_settle(struct run *r);

#endif
