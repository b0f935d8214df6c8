/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_POOL_TICKS_H
#define TENURE_AGENT_POOL_TICKS_H

/*
 * Where the instance has pools (pool/pool.h), its agents see to them: once a minute each starts
 * `tenure tick`, of which one at a time does anything, and the first soon after its own start, so
 * that its job is known to have an agent. It is a process of its own, since engines may not answer.
 * Of its own job an agent reads there whether it is one of those that stay whatever waits.
 */

#include <stdbool.h>

struct dispatch;

struct pool_ticks *pool_ticks_new(struct dispatch *q);
/* An agent of a pool that has nothing to do is not one of those that stay. False also where that
 * was not looked at lately: then it is looked at, and the caller asks again. */
bool pool_ticks_may_leave(struct pool_ticks *t);
/* No more of them; one that runs goes on. */
void pool_ticks_stop(struct pool_ticks *t);
/* Its memory goes with its handles in the loop. */
void pool_ticks_free(struct pool_ticks *t);

#endif
