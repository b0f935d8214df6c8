/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_ORPHANS_H
#define TENURE_AGENT_ATTEMPT_ORPHANS_H

/*
 * What is left of a task whose shim was killed: its processes, which are told to end and killed
 * after the grace.
 *
 *	m = remains_end(loop, token, grace_ms, done, user)
 *	... done(user) on the loop: nothing of it runs; m is gone
 *	remains_hurry(m, grace_ms), remains_forget(m) before that
 *
 * It reads environments, which may wait for the memory of a process that hangs: one look after the
 * other in a thread of the pool, nothing in between. A look that fails says nothing; it is repeated
 * like the others.
 */

#include <uv.h>

#include "task/adopt.h"

struct remains;

struct remains *remains_end(uv_loop_t *loop, const char *token, uint32_t grace_ms,
			    void (*done)(void *user), void *user);
/* So much is left of the grace at most; UINT32_MAX changes nothing. NULL is nobody. */
void remains_hurry(struct remains *m, uint32_t grace_ms);
/* done will not be called. NULL is nobody. */
struct remains *remains_forget(struct remains *m);

#endif
