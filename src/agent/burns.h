/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_BURNS_H
#define TENURE_AGENT_BURNS_H

/*
 * This node's part of a burn of all nodes (agent/burn/part.h), which somebody has ordered through
 * the spool: `tenure burn-part`, a process of its own. It is no task: it has no number, nobody is
 * told of it, and it starts at once. The devices are those that the agent selects. It ends with the
 * agent, and by itself when who asked for it has gone.
 */

#include <jansson.h>

#include "agent/queue/order.h"

#define BURN_PART_VERB "burn-part"

struct agent;

/* The answer, a new reference. */
json_t *burns_begin(struct agent *a, const struct order *o);
/* The agent ends: so does what burns, which is not waited for. */
void burns_end(struct agent *a);
void burns_close(struct agent *a);

#endif
