/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_VERBS_H
#define TENURE_AGENT_VERBS_H

/*
 * What an agent can be asked to tell or to do: one table, behind its socket (agent/ctl.h), control/
 * (agent/queue/orderbox.h) and control.json. They differ in who waits, and how long.
 */

#include "agent/ctl.h"
#include "agent/queue/order.h"
#include "agent/queue/orderbox.h"
#include "spool/control.h"

struct agent;

/* The user pointer of all of them is the struct agent. */
extern const struct ctl_ops verbs_socket;
extern const struct orderbox_ops verbs_orders;
void verbs_file_order(void *user, const struct control_order *o);

struct verbs *verbs_new(struct agent *a);
/* Its memory goes with its handle in the loop. */
void verbs_close(struct agent *a);

#endif
