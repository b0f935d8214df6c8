/* SPDX-License-Identifier: MIT */
#include "agent/node/stuck.h"

#include <string.h>

#include "base/clock.h"
#include "hold/device_state.h"

static bool looks_stuck(const struct dev_status *d, const char *own)
{
	uint32_t needed = KNOWN_UTIL | KNOWN_POWER | KNOWN_POWER_LIMIT;

	return (d->known & needed) == needed && d->state == DEV_LENT &&
	       strcmp(d->lease_instance, own) == 0 && d->n_lease_procs && d->util >= STUCK_UTIL &&
	       (uint64_t)d->power_mw * STUCK_POWER_PART < d->power_limit_mw;
}

bool stuck_look(struct stuck *s, const struct dev_status *d, const char *own, uint64_t after_ms)
{
	bool other = s->task.task != d->lease.task || s->task.element != d->lease.element;

	if (!after_ms || !looks_stuck(d, own)) {
		*s = (struct stuck){ .since_ns = 0 };
		return false;
	}
	if (!s->since_ns || other || d->looked_ns > s->looked_ns + STUCK_GAP_MS * NS_PER_MS)
		*s = (struct stuck){ .task = d->lease, .since_ns = d->looked_ns };
	s->looked_ns = d->looked_ns;
	if (s->told || d->looked_ns < s->since_ns + after_ms * NS_PER_MS)
		return false;
	s->told = true;
	return true;
}
