/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_LIFETIME_H
#define TENURE_AGENT_LIFETIME_H

/*
 * --lifetime: an agent that nobody ends does so by itself. Told at its start, in the status, and
 * some time before the end; then it leaves (agent/leaving.h). It counts from the start of the agent
 * by a clock that no step changes and that goes on while the machine is suspended: whoever is
 * promised the GPUs after a day does not care that we slept.
 */

#include "agent/inner.h"
#include "base/strbuf.h"

/* It begins with the agent. */
void lifetime_begin(struct agent *a);
/* The guard has taken the policy: announce the end, and wait for it. */
void lifetime_announce(struct agent *a);
/* " Auto-shutdown at ... (24h): ...", or nothing. */
void lifetime_describe(const struct view *v, struct strbuf *out);

#endif
