/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_SILENCE_H
#define TENURE_AGENT_SILENCE_H

/* A guard that is connected and says nothing any more. */

#include "agent/inner.h"

/*
 * Called so often, every interval_ms: tell of it once, and end what the guard holds. Its holders
 * let go by themselves after 2 s without it, so those that are there yet are stopped as well, or
 * hang.
 */
void silence_look(struct agent *a, uint64_t interval_ms);

#endif
