/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_EVENT_RING_H
#define TENURE_HOLD_GUARD_EVENT_RING_H

/* The guard's events: numbered, kept in a ring, told to every client from the one it saw last. */

#include "hold/guard/types.h"

/* A new event about d (NULL: the node); the text is set by format. The caller fills in the rest.
 * Never NULL. */
struct guard_event *event_add(struct guard *g, const struct device *d, enum event_kind kind,
			      const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The same with the reason of d as the sentence, behind lead ("busy: ", or ""). */
struct guard_event *event_add_reason(struct guard *g, const struct device *d, enum event_kind kind,
				     const char *lead);
/* An agent tells what is of its own instance or of none: ev once more, for an instance whose task
 * it is about where another one has the device. ev is one of the ring, and complete. */
void event_share(struct guard *g, const struct guard_event *ev, const char *instance);
/* EVENT_STATE: "busy: PID 77 (..)". */
void event_add_state(struct guard *g, const struct device *d);

/* Send what c has not seen, as far as its socket takes it. */
void event_tell(struct guard *g, struct client *c);

/* What is true of the whole node changed: every client is told, soon. */
void event_guard_changed(struct guard *g);

#endif
