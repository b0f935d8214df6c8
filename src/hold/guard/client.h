/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_CLIENT_H
#define TENURE_HOLD_GUARD_CLIENT_H

/* The guard's clients: agents, one per instance. See proto.h. */

#include "hold/guard/types.h"

/* Take in a new connection. */
void client_accept(struct guard *g);

/* A client's socket is readable or ended; where c->full, it has room again or ended. */
void client_on_readable(struct guard *g, struct client *c);

/* The guard has become ready: take the policies that came before. */
void client_on_ready(struct guard *g);

/* Checks by the refresh clocks, ripe holds, agents not awaited any more, DROPPED. */
void client_on_time(struct guard *g, struct client *c, uint64_t now_ns);

/* A check of one of c's devices was seen: hold what is ripe once all of them were. */
void client_consider(struct guard *g, struct client *c);

/* Some client, connected or awaited, is there. */
bool client_any(const struct guard *g);

#endif
