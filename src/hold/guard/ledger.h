/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_LEDGER_H
#define TENURE_HOLD_GUARD_LEDGER_H

/*
 * The ledger as it is read: its entries, and what they say of a device. lease.h has how an entry
 * comes to its next stage. All calls are for the guard's thread.
 */

#include "hold/guard/types.h"

#define GLEASE_EACH(g_, l_)                                                                        \
	for (struct glease *l_ = (g_)->leases; l_ < (g_)->leases + GUARD_LEASES_MAX; l_++)         \
		if (l_->used)

/* The device of l. */
static inline struct gdev *glease_device(struct guard *g, const struct glease *l)
{
	return &g->devs[l->slot];
}

/* l is an entry, and that instance's of that id. */
bool glease_is_of(const struct glease *l, const char *instance, const struct lease_id *id);

/* Leases of that instance, or of all (NULL). */
uint32_t glease_count(const struct guard *g, const char *instance);

/* The lease of d that is furthest in its life; NULL: there is none. */
const struct glease *glease_first(const struct guard *g, const struct gdev *d);

/* Bytes that were promised on d and are not in use yet. */
uint64_t glease_promised(const struct guard *g, const struct gdev *d);

#define GLEASE_TEXT_MAX (LEASE_TEXT_MAX + PROTO_INSTANCE_MAX)

/* Whose l is, for those who read of its device: "task 42", and "task 42 of night" where another
 * instance's policy has the device. Returns buf. */
char *glease_text(struct guard *g, const struct glease *l, char buf[GLEASE_TEXT_MAX]);

/* Who is there, for people: "taken by PID 77 (uid 1000, python)". Returns buf. */
char *glease_taken_text(const struct gdev *d, char *buf, size_t size);

#endif
