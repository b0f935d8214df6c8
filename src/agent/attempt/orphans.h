/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_ORPHANS_H
#define TENURE_AGENT_ATTEMPT_ORPHANS_H

/*
 * What is left of a task whose shim was killed: its processes, which are stopped, and killed
 * after the grace.
 *
 *	m = orphan_ender_start(loop, token, grace_ms, done, user)
 *	... done(user) on the loop: nothing of it runs; m is gone
 *	orphan_ender_hurry(m, grace_ms), orphan_ender_forget(m) before that
 *
 * It reads environments, which may wait for the memory of a process that hangs: one look after the
 * other in a thread of the pool, nothing in between. A look that fails says nothing; it is repeated
 * like the others.
 */

#include <stdint.h>
#include <uv.h>

struct orphan_ender;

struct orphan_ender *orphan_ender_start(uv_loop_t *loop, const char *token, uint32_t grace_ms,
					void (*done)(void *user), void *user);
/* So much is left of the grace at most; UINT32_MAX changes nothing. NULL is nobody. */
void orphan_ender_hurry(struct orphan_ender *m, uint32_t grace_ms);
/* done will not be called. NULL is nobody. */
struct orphan_ender *orphan_ender_forget(struct orphan_ender *m);

#endif
