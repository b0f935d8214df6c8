/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_GUARDLINK_H
#define TENURE_AGENT_GUARDLINK_H

/*
 * The agent's end of the line to the guard (hold/proto.h).
 *
 *	link = guardlink_new(loop, &config, &ops, user);
 *	guardlink_start(link);
 *	guardlink_set_policy(link, &policy);    again whenever it changes
 *	...
 *	guardlink_drop(link);                   -> ops->dropped
 *	guardlink_close(link, closed);          -> closed(user), and link is freed
 *
 * The link keeps itself up: where nobody listens it starts a guard, where the guard dies it starts
 * the next one and tells it the policy again. What goes wrong is told through ops->failed and tried
 * again for ever; the owner closes the link when that is not what it wants.
 *
 * The ops are called from the loop, never from within a guardlink_*() call. The messages passed to
 * them have been checked, their strings are terminated, and they live until the op returns.
 */

#include <stdbool.h>
#include <uv.h>

#include "hold/proto.h"

struct guardlink;

struct guardlink_config {
	const char *instance;
	const char *dev_dir;
	int program_fd; /* guardspawn_copy_self(); stays the caller's */
};

struct guardlink_ops {
	/* Connected; all slots of DEVICE messages start anew. started: this agent started it. */
	void (*welcome)(void *user, const struct msg_guard *guard, bool started);
	/* The guard took the policy (code 0) or did not, and why. */
	void (*policy_reply)(void *user, int code, const char *text);
	void (*device)(void *user, uint32_t slot, const struct dev_status *dev);
	void (*event)(void *user, const struct guard_event *event);
	void (*guard)(void *user, const struct msg_guard *guard);
	/* All that this instance held is free. */
	void (*dropped)(void *user);
	/* The line was up and is gone; the next try is on its way. */
	void (*lost)(void *user, const char *why);
	/* A try failed; the next one comes in a while. */
	void (*failed)(void *user, const struct err *why);
};

/* Strings of config are copied. */
struct guardlink *guardlink_new(uv_loop_t *loop, const struct guardlink_config *config,
				const struct guardlink_ops *ops, void *user);
void guardlink_start(struct guardlink *link);
/* Also ends a drop that was not confirmed yet. */
void guardlink_set_policy(struct guardlink *link, const struct hold_policy *policy);
/* Say that we are there; once a second. */
void guardlink_beat(struct guardlink *link);
/* Where there is no guard, nothing is held: ops->dropped comes all the same. */
void guardlink_drop(struct guardlink *link);
bool guardlink_is_up(const struct guardlink *link);
/* Monotonic ns of the last message from the guard; 0: none yet. */
uint64_t guardlink_heard_ns(const struct guardlink *link);
void guardlink_close(struct guardlink *link, void (*closed)(void *user));

#endif
