/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_NODE_GUARDLINK_H
#define TENURE_AGENT_NODE_GUARDLINK_H

/*
 * The agent's end of the line to the guard (hold/proto.h).
 *
 *	link = guardlink_new(loop, config, self, &ops, user);
 *	guardlink_start(link);
 *	guardlink_set_policy(link, &policy);    again whenever it changes
 *	...
 *	guardlink_drop(link);                   -> ops->dropped
 *	guardlink_close(link, closed);          -> closed(user), and link is freed
 *
 *	guardlink_lease(link, &lease);          -> ops->lease, MSG_LEASE_REPLY per device
 *	guardlink_grant(link, &id, &shim);      -> MSG_GRANTED; start the task then, if code is 0
 *	guardlink_unlease(link, &id);           -> MSG_UNLEASED, per device
 *	guardlink_unlease_one(link, &id, uuid); -> MSG_UNLEASED, of that one
 *	guardlink_reserve(link, &id, uuid);     -> MSG_LEASE_REPLY, if id.task is not 0
 *
 * Leases are the guard's to keep and not the link's. After each welcome a MSG_LEASE_STATE tells of
 * every lease that the guard has for the instance, and one with slot -1 that those were all: what
 * was missing is gone, and a task that runs all the same is leased again with its shim in the
 * message. A guard that has just started says so only when it knows the devices, and takes no
 * orders before. What was asked and not answered when the line was lost is never answered: ask
 * again after that.
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

#include "agent/node/config.h"
#include "base/proc.h"
#include "hold/proto.h"

struct guardlink;

struct guardlink_ops {
	/* Connected; all slots of DEVICE messages start anew. started: this agent started it. */
	void (*welcome)(void *user, const struct msg_guard *guard, bool started);
	/* The guard took the policy (code 0) or did not, and why. */
	void (*policy_reply)(void *user, int code, const char *text);
	void (*device)(void *user, uint32_t slot, const struct dev_status *dev);
	void (*health)(void *user, uint32_t slot, const struct gpu_health *health);
	/* What a burn of this instance has found; NULL: it has none. */
	void (*burn)(void *user, uint32_t slot, const struct burn_report *found);
	void (*event)(void *user, const struct guard_event *event);
	void (*guard)(void *user, const struct msg_guard *guard);
	/* All that this instance held is free. */
	void (*dropped)(void *user);
	/*
	 * A word on leases, by its type; NULL: there are none.
	 * MSG_LEASE_REPLY: code 0, or a negative errno with its reason in text.
	 * MSG_GRANTED: the same for all devices of the task, or none; slot is -1.
	 * MSG_LEASE_TAKEN: somebody foreign came first; the lease stays until it is given back.
	 * MSG_UNLEASED: free, and NVML agrees. slot -1: there was no such lease.
	 * MSG_LEASE_USE: what a task uses of a device.
	 * MSG_LEASE_STATE: one lease that the guard has. slot -1: those were all.
	 */
	void (*lease)(void *user, const struct msg_head *m);
	/* The line was up and is gone; the next try is on its way. */
	void (*lost)(void *user, const char *why);
	/* A try failed; the next one comes in a while. */
	void (*failed)(void *user, const struct err *why);
};

struct guardlink *guardlink_new(uv_loop_t *loop, const struct agent_config *c,
				const struct node_self *self, const struct guardlink_ops *ops,
				void *user);
void guardlink_start(struct guardlink *link);
/* Also ends a drop that was not confirmed yet. */
void guardlink_set_policy(struct guardlink *link, const struct hold_policy *policy);
/* The next reply is about a policy that was set before. */
bool guardlink_policy_is_open(const struct guardlink *link);
/* Say that we are there, and whether somebody looks at the figures just now; once a second. */
void guardlink_heartbeat(struct guardlink *link, bool watched);
/* Where there is no guard, nothing is held: ops->dropped comes all the same. */
void guardlink_drop(struct guardlink *link);
/*
 * Orders about leases, sent in their order. -ENOTCONN: the line is down, or the guard has not told
 * of its leases yet, and nothing was asked; wait for that MSG_LEASE_STATE. What the guard does not
 * take yet is kept for it, all of it, because nobody asks a second time while the line is up: some
 * for each task that runs.
 */
int guardlink_lease(struct guardlink *link, const struct msg_lease *lease); /* its head is set */
int guardlink_grant(struct guardlink *link, const struct lease_id *id, const struct proc_id *shim);
int guardlink_unlease(struct guardlink *link, const struct lease_id *id);
/* Of one of its devices: the task runs on without it. */
int guardlink_unlease_one(struct guardlink *link, const struct lease_id *id, const char *uuid);
/* id.attempt is 0; id.task 0 ends the reservation of that device. */
int guardlink_reserve(struct guardlink *link, const struct lease_id *id, const char *uuid);
bool guardlink_is_up(const struct guardlink *link);
/* Monotonic ns of the last message from the guard; 0: none yet. */
uint64_t guardlink_heard_ns(const struct guardlink *link);
/* The guard hears no more of us, and another agent of the instance may come; close it later. */
void guardlink_hang_up(struct guardlink *link);
void guardlink_close(struct guardlink *link, void (*closed)(void *user));

#endif
