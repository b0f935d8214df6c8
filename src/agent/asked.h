/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ASKED_H
#define TENURE_AGENT_ASKED_H

/* What clients ask on the agent's socket. */

#include "agent/ctl.h"

struct agent;

/* The user pointer is the struct agent. */
extern const struct ctl_ops asked_ops;

struct asked *asked_new(struct agent *a);
/* Its memory goes with its handle in the loop. */
void asked_close(struct agent *a);

#endif
