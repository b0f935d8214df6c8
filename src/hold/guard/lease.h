/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_LEASE_H
#define TENURE_HOLD_GUARD_LEASE_H

/*
 * The life of an entry of the ledger: which device is promised or lent to which task (requests.h
 * has who asks, ledger.h what the entries say of a device). The ledger is the only truth on a node:
 * no device ever has two leases unless all of them are shared.
 *
 *	promised --GRANT--> asked --look--> granted --listed--> used --UNLEASE, shim gone--> over
 *	    ^                  |                                                             |
 *	    +---- refused -----+                       NVML lists none of its processes: no entry
 *
 * Entries belong to an instance and not to a connection: agents come and go. All calls are for the
 * guard's thread. Device states are the business of device.c, and what the ledger means for them is
 * counted in d->ledger.n_leases and the like.
 */

#include "hold/guard/types.h"
#include "hold/guard/verdict.h"

/* An entry of d has changed: count anew what the ledger says of the device. */
void lease_recount(struct guard *g, struct device *d);

/* Its task is over; the entry ends when NVML agrees. unleased: the agent said so. */
void lease_set_over(struct guard *g, struct lease *l, bool unleased);

/*
 * Whether a task may have d as the last look shows it; 0, or a negative errno with the reason: was
 * it seen at all, is it without an error of its own, is nobody foreign there (who is there is named
 * for the text), and are so many bytes free that were not promised?
 */
int lease_check_sample(const struct device *d, struct dev_reason *why);
int lease_check_errors(const struct device *d, struct dev_reason *why);
int lease_check_test(const struct guard *g, const struct device *d, struct dev_reason *why);
int lease_check_foreign(struct guard *g, struct device *d, uint32_t flags, struct dev_reason *why);
int lease_check_memory(const struct guard *g, const struct device *d, uint64_t bytes,
		       struct dev_reason *why);

/* l, which has its shim, is to be granted: by what is known, or by a look that begins now. */
void lease_ask(struct guard *g, struct lease *l);
/* Answer for the task of l when all its devices are decided: all are granted, or none. */
void lease_conclude(struct guard *g, struct lease *l);
/* Back to a mere promise. */
void lease_ungrant(struct guard *g, struct lease *l);

/* Out of the ledger at once; the agent is not told. */
void lease_end(struct guard *g, struct lease *l);

void lease_close_shim(struct lease *l);

/*
 * d, which has leases, was looked at, and this is the verdict. Whose processes are listed, what was
 * asked and is decided by this look, who came before the task, and which leases end with it.
 */
void lease_on_sample(struct guard *g, struct device *d, enum verdict v);

/* A look at d, which has leases, failed: who asked for it hears that. */
void lease_on_failed_look(struct guard *g, struct device *d);

/* d has been away for for_ns: what is over there ends without a look once that is long enough. */
void lease_on_lost(struct guard *g, struct device *d, uint64_t for_ns);

/* All looks at d have failed for for_ns: what is over there ends without one once that is long
 * enough and nothing of ours is alive that was seen on it. */
void lease_on_failing(struct guard *g, struct device *d, uint64_t for_ns);

/* The pidfd of l's shim is readable: the shim has ended. */
void lease_on_shim(struct guard *g, struct lease *l);

/* Shims that have no pidfd, for want of such or of descriptors: have they ended? */
void lease_look_at_shims(struct guard *g);

/* Tell c what it is to know of its leases and was not told yet, as far as its socket takes it. */
void lease_tell(struct guard *g, struct client *c);

/* c has just been welcomed: tell it of all leases that its instance has. */
void lease_tell_all(struct guard *g, struct client *c);

/* c answers no more, or again, or its agent ends: what is held for its promises follows. */
void lease_client_changed(struct guard *g, const struct client *c);

/* Its agent is gone: what it could not be told of the ends of leases is not kept for the next one,
 * which is not told of them. */
void lease_end_untold(struct guard *g, const char *instance);
/* c is there and does not answer: what is only promised or reserved stands in the way of others for
 * as long as that lasts. It finds out with its next word about it. */
void lease_drop_silent(struct guard *g, struct client *c);
/* Nobody speaks for this instance any more, or its agent lets go of everything: what was only
 * promised to it is not. An agent that is there hears that of what it has asked for. */
void lease_drop_promises(struct guard *g, const char *instance);

#endif
