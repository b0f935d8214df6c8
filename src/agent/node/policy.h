/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_NODE_POLICY_H
#define TENURE_AGENT_NODE_POLICY_H

/* From the settings to what the guard is told, and that in words. */

#include "agent/node/view.h"
#include "base/settings.h"
#include "base/strbuf.h"
#include "hold/policy.h"

/* 0, or -EINVAL with the reason. hold: whether to hold, or only to watch. */
int policy_from_settings(const struct settings *s, bool hold, struct hold_policy *ret,
			 struct err *e);

/*
 * What this policy does, in one or two sentences for people: "Holding 88% of the free memory of
 * all GPUs, each once it has been idle for 5m (under 1.0 GiB used, nobody's process). Load: ..."
 * v, which may be NULL, knows the indices of devices that are named by UUID.
 */
void policy_describe(const struct hold_policy *p, const struct view *v, struct strbuf *out);
/* " It ends at 18:30:00.", with the day if that is not today; nothing for 0. */
void policy_describe_end(uint64_t until_wall_ns, struct strbuf *out);

/* " When its queue has been empty for 5m, it ends.", or nothing. */
void policy_describe_empty(const struct agent_config *c, struct strbuf *out);

/*
 * What this policy, on a node with so many devices, will most likely not do as it was meant: one
 * sentence per line, nothing when all is well.
 */
void policy_warn(const struct hold_policy *p, uint32_t n_devices, struct strbuf *out);

/* "light load, 75 %", "no load". */
void policy_describe_load(const struct hold_policy *p, struct strbuf *out);

#endif
