/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_STARTUP_H
#define TENURE_AGENT_STARTUP_H

/* The start, as those see it who wait for it: what the agent does, in a sentence, when the guard
 * has taken the policy; what somebody should look at; and the devices, as soon as all of them have
 * been looked at. */

#include <stdint.h>

struct agent;

struct startup *startup_new(struct agent *a);
/* Its memory goes with its handles in the loop. */
void startup_close(struct agent *a);

/* The policy goes to the guard: only what is looked at after this counts. */
void startup_policy_told(struct agent *a);
/* The guard has taken it. */
void startup_announce(struct agent *a);
/* The view of a device has changed. */
void startup_on_device(struct agent *a, uint32_t slot);
/* The name of a user was found: the table that is due may be whole. */
void startup_look(struct agent *a);
/* It is ending: the table is not worth a wait any more. */
void startup_end(struct agent *a);

#endif
