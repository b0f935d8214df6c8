/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ASKED_H
#define TENURE_AGENT_ASKED_H

/* What clients ask on the agent's socket. */

#include "agent/inner.h"

/* The user pointer is the struct agent. */
extern const struct ctl_ops asked_ops;

#endif
