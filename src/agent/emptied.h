/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_EMPTIED_H
#define TENURE_AGENT_EMPTIED_H

/* --on-empty: what is done when there has been nothing to run for a while. */

#include "agent/inner.h"
#include "base/strbuf.h"

/* Once a second, and when a task is over. */
void emptied_look(struct agent *a);
/* " When its queue has been empty for 5m, it ends.", or nothing. */
void emptied_describe(const struct view *v, struct strbuf *out);

#endif
