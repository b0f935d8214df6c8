/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_LEDGER_H
#define TENURE_HOLD_GUARD_LEDGER_H

/*
 * The ledger as it is read: its entries, and what they say of a device. lease.h has how an entry
 * comes to its next stage. All calls are for the guard's thread.
 */

#include "hold/guard/types.h"

/* Each entry; each one of a device. */
#define LEASES_EACH(g_, l_)                                                                        \
	for (__typeof__(&(g_)->leases[0]) l_ = (g_)->leases; l_ < (g_)->leases + GUARD_LEASES_MAX; \
	     l_++)                                                                                 \
		if (!l_->used) {                                                                   \
		} else
#define LEASES_OF(g_, d_, l_)                                                                      \
	LEASES_EACH(g_, l_)                                                                        \
		if (l_->slot != (d_)->slot) {                                                      \
		} else

/* The device of l. */
static inline struct device *lease_device(struct guard *g, const struct lease *l)
{
	return &g->devs[l->slot];
}

/* l is an entry, and that instance's of that id. */
bool ledger_is_of(const struct lease *l, const char *instance, const struct lease_id *id);

/* Leases of that instance, or of all (NULL). */
uint32_t ledger_count(const struct guard *g, const char *instance);

/* The lease of d that is furthest in its life; NULL: there is none. */
const struct lease *ledger_first(const struct guard *g, const struct device *d);

/* Bytes that were promised on d and are not in use yet. */
uint64_t ledger_promised(const struct guard *g, const struct device *d);

#define LEDGER_TEXT_MAX (LEASE_TEXT_MAX + PROTO_INSTANCE_MAX)

/* Whose l is, for those who read of its device: "task 42", and "task 42 of night" where another
 * instance's policy has the device. Returns buf. */
char *ledger_text(struct guard *g, const struct lease *l, char buf[LEDGER_TEXT_MAX]);

/* Who is there: "taken by PID 77 (alice, python)". */
struct dev_reason ledger_why_taken(const struct device *d);

#endif
