/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_HOLDER_ASKING_H
#define TENURE_HOLD_HOLDER_ASKING_H

/*
 * How late a host is with what it asks a stream for between two events. The device waits for it
 * meanwhile, and the time between the events is that much longer, whatever the device can do.
 *
 *	asking_begin(&a);
 *	record the first event; launch; asking_next(&a); launch; asking_next(&a); ...
 *	asking_end(&a, whether the device has come to the first event);
 *	record the second event; asking_next(&a);
 *	asking_was_late(&a, the time between them)
 *
 * One that is taken from the processor between two launches may be late by as long as that takes,
 * unless there is something queued before them, so the longest time between two is what counts.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define ASKING_SHARE 32U /* of the time between the events: as much as that is late */

struct asking {
	uint64_t at_ns, longest_ns;
};

static inline void asking_begin(struct asking *a)
{
	a->at_ns = clock_mono_ns();
	a->longest_ns = 0;
}

static inline void asking_next(struct asking *a)
{
	const uint64_t now = clock_mono_ns();

	if (now - a->at_ns > a->longest_ns)
		a->longest_ns = now - a->at_ns;
	a->at_ns = now;
}

/* What comes is the second event. begun: the device has come to the first one. Where it has not,
 * all that was asked for until now has come in time. */
static inline void asking_end(struct asking *a, bool begun)
{
	if (!begun)
		a->longest_ns = 0;
}

static inline bool asking_was_late(const struct asking *a, uint64_t elapsed_ns)
{
	return a->longest_ns > elapsed_ns / ASKING_SHARE;
}

#endif
