/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_RUNEND_H
#define TENURE_AGENT_ATTEMPT_RUNEND_H

/* The end of a run, from the tree's end until it is in the spool. For the files of a run alone. */

#include "agent/attempt/machine.h"

/* The tree is gone, this way. */
void attempt_ended(struct attempt *r, const struct task_end *end);
/* It never ran. */
void attempt_not_started(struct attempt *r, const char *why);
/* Goes on with the end where what it waited for has come. */
void attempt_settle(struct attempt *r);

#endif
