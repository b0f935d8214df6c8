/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_NODE_DEADLINE_H
#define TENURE_AGENT_NODE_DEADLINE_H

/* When an agent ends by itself (--lifetime), as its view says. */

#include "agent/node/view.h"

/* What is left of its lifetime. */
uint64_t deadline_left_ms(const struct view *v);
/* When that is over by the wall clock, as it is set now; 0: never. */
uint64_t deadline_end_wall_ns(const struct view *v);

#endif
