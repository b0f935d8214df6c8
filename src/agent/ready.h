/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_READY_H
#define TENURE_AGENT_READY_H

/* The start, as those see it who wait for it: the guard has to see, then to take the policy; then
 * the devices are shown as they are. */

#include "agent/inner.h"

/* The guard is to say in SEE_LIMIT_MS whether it sees devices. */
void ready_wait(struct agent *a);
/* It has taken the policy. */
void ready_become(struct agent *a);
/* The devices have changed, or the name of a user was found: the table that is due may be whole. */
void ready_look(struct agent *a);
/* It is ending: the table is not worth a wait any more. */
void ready_show_none(struct agent *a);

#endif
