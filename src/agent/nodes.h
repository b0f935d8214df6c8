/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_NODES_H
#define TENURE_AGENT_NODES_H

/* This agent among those of other nodes: what it tells them, and what it does when one is gone. */

#include "agent/tasksin.h"

struct beats *nodes_beats(struct tasks *q, const struct tasks_config *c);

#endif
