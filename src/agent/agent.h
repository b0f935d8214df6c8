/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_AGENT_H
#define TENURE_AGENT_AGENT_H

/*
 * The agent of one instance on this node: it tells the guard what to hold, writes down what
 * happens, and answers on its own socket, whose name is the lock. `hold`, `agent` and `on` are this
 * with a different audience.
 */

#include "agent/node/config.h"

/*
 * Run until told to end (SIGINT, SIGTERM, the off request, the time). Everything but AGENT_ENDED
 * and AGENT_UNREAD sets e. The calling process must have no other libuv loop.
 */
enum agent_end agent_run(const struct agent_config *config, struct err *e);

#endif
