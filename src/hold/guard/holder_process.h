/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_HOLDER_PROCESS_H
#define TENURE_HOLD_GUARD_HOLDER_PROCESS_H

/* The guard's side of a holder: starting, telling and ending the process of one device. */

#include "hold/guard/types.h"
#include "hold/holder_proto.h"

/* Start a holder for d with its owner's policy. 0, or -errno; d->holder is filled on success. */
int holder_start(struct guard *g, struct device *d, struct err *e);

/* Have the one that was kept hold again, with its context as it is. */
void holder_again(struct guard *g, struct device *d);

/* Tell it something. A holder that cannot be told is killed: its memory must not depend on it. */
void holder_tell(struct device *d, enum holder_type type);

/* Tell it the load that p, its owner's policy, wants now, if that is news: kind is p's, or
 * LOAD_NONE while it rests. */
void holder_tell_load(struct device *d, const struct hold_policy *p, enum load_kind kind);

/* Tell it to hold another amount from now on. */
void holder_tell_amount(struct device *d, const struct mem_amount *amount);

/* If it burns, have it compare what is left, tell its last word and stop, before it does anything
 * that it is told next: where nobody waits for the memory. */
void holder_close_burn(struct device *d);

/* Tell it of the windows of all devices. */
void holder_tell_peers(struct device *d, const struct burn_peers *all);

/* Ask it whether it is there, twice a second. Never kills: what is not answered is counted. */
void holder_heartbeat(struct device *d, uint64_t now_ns);

/* SIGKILL; the process is ours until it was waited for. */
void holder_kill(struct device *d);

/* It has ended and says nothing more than what is in its socket; it is still to be reaped. */
bool holder_has_ended(const struct device *d);

/* Wait for it without blocking. True when it has ended: d->holder is empty then, *ret_status as
 * from waitpid(). */
bool holder_reap(struct device *d, int *ret_status);

#endif
