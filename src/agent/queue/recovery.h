/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_RECOVERY_H
#define TENURE_AGENT_QUEUE_RECOVERY_H

/*
 * What ran before. The spool is opened; what an earlier agent of this name left is filed, waits
 * again, or is adopted, if it runs; and later the same is done with the claims of agents that have
 * died. Jobs of the spooler find it, and what they found is taken on the loop.
 *
 * Claims of which it cannot be told what they are are looked at again. What they are for is not
 * settled until then, and may run: it counts as running in the plan, or what comes after it in its
 * lane, or beside it under its array's limit, would be started too early.
 *
 *	recovery_start(r);	opens the spool; where it cannot be, that is tried again
 *		ops->no_queue	each time that it cannot be
 *		ops->opened, ops->adopt for each that runs, ops->recovered
 *	recovery_reclaim(r, &dead);	heartbeat's finding
 *		ops->adopt, ops->reclaimed
 */

#include <stdbool.h>
#include <uv.h>

#include "agent/node/config.h"
#include "agent/queue/dirwatch.h"
#include "agent/queue/node_watch.h"
#include "agent/queue/spooler.h"
#include "agent/report/eventlog.h"
#include "sched/queue.h"

/*
 * A task of which the shim lives still, or left the record of its end, while nobody was there: what
 * the spool says of it. It is adopted whatever is known of it, because its devices are its own as
 * long as it runs. For jobs of the spooler.
 */

#include "spool/claim.h"
#include "spool/scan.h"

struct adoptee {
	struct claim claim;
	struct task_spec *spec;
	struct text_list devices; /* UUIDs; empty: it has none, or they were not written down */
	unsigned int tries;
	bool elsewhere; /* it ran on another node, or on this one before that was started anew */
};

/*
 * Fills in what is missing. s: what waits and runs now. An element's spec is its batch's, wherever
 * that is by now; where it is nowhere, the spec is as good as it can be guessed. 0, or -errno: what
 * is there cannot be read now.
 */
int adoptee_fill(struct adoptee *a, const struct spool *sp, const struct scan *s, struct err *e);
void adoptee_clear(struct adoptee *a);

/* What it works with; all of it outlives the recovery. */
struct recovery_parts {
	const struct agent_config *c;
	const char *agent;   /* our name in the spool */
	const char *run_dir; /* where shims leave their records; read in jobs of the spooler */
	struct spooler *spooler;
	struct sched_queue *plan;
	struct eventlog *eventlog;
	const struct dirwatch *watch; /* of pending/ */
};

struct recovery_ops {
	/* The spool cannot be opened now. */
	void (*no_queue)(void *user, const char *why);
	/* It is open. cgroup: to make tasks' own ones in, as long as the recovery lives; NULL: none
	 * is delegated. */
	void (*opened)(void *user, const char *cgroup);
	/* What ran has been told. lanes: that are this agent's, by their keys. */
	void (*recovered)(void *user, const struct text_list *lanes);
	/* Claims of others have been taken over, or ours looked at again. */
	void (*reclaimed)(void *user);
	/* Whether an attempt of ours has it. */
	bool (*owns)(void *user, struct sched_ref ref);
	/* It runs, or has left its end, and no attempt of ours has it. Its spec and devices may be
	 * taken. */
	void (*adopt)(void *user, struct adoptee *a);
	/* It was in the plan as not settled and is so no more: where it waits, it has to be read
	 * again, since what was told of it meanwhile was told of what runs. */
	void (*settled)(void *user, uint64_t id);
};

struct recovery;

struct recovery *recovery_new(uv_loop_t *loop, const struct recovery_parts *parts,
			      const struct recovery_ops *ops, void *user);
void recovery_start(struct recovery *r);
void recovery_reclaim(struct recovery *r, const struct dead_claims *claims);
/* Of the spool, for names_token(): "" until it is open; valid as long as r. */
const char *recovery_key(const struct recovery *r);
/* Whether something that is not settled may run of that lane, as sched_lane() names it; 0: of that
 * array. */
bool recovery_may_run(const struct recovery *r, uint32_t lane, uint64_t array);
/* Whether a claim of that task may turn out to be ours. */
bool recovery_may_have(const struct recovery *r, uint64_t id);
/* Nothing is being looked at, or will be again. */
bool recovery_is_settled(const struct recovery *r);
/* Nothing more is begun. */
void recovery_stop(struct recovery *r);
/* The spooler is idle. Its memory goes with its handle in the loop. */
void recovery_free(struct recovery *r);

#endif
