/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_HEARD_H
#define TENURE_AGENT_HEARD_H

/* What the guard says, and what it is told to hold. */

#include "agent/inner.h"

/* The user pointer is the struct agent. */
extern const struct guardlink_ops heard_ops;

void heard_tell_policy(struct agent *a);

#endif
