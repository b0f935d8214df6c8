/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_REQUESTS_H
#define TENURE_HOLD_GUARD_REQUESTS_H

/*
 * What agents ask of the ledger (lease.h), and its answers: may this device be promised, may that
 * task start now, it is over. All calls are for the guard's thread.
 */

#include "hold/guard/types.h"

/* Messages of a client that has introduced itself. */
void request_lease(struct guard *g, struct client *c, struct msg_lease *m);
void request_grant(struct guard *g, struct client *c, const struct msg_grant *m);
void request_unlease(struct guard *g, struct client *c, const struct msg_unlease *m);
void request_reserve(struct guard *g, struct client *c, struct msg_reserve *m);

#endif
