/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_GANGS_H
#define TENURE_AGENT_GANGS_H

/*
 * Tasks on several nodes, as far as this agent has to do with them. It looks at the gangs' files
 * (agent/queue/gang_lead.h) as long as there are any: what was called here takes part in the plan;
 * an attempt that has all it needs is answered for, and is told GO with where its ranks meet, or to
 * end. All of it is on the loop; a look's files are a job of the spooler.
 *
 *	g = gangs_new(q, dispatch_why)
 *	gangs_start(g)		the queue is open, and what ran before is known
 *	gangs_soon(g)		something of ours has changed
 *	gangs_after_reading(g)	the plan was told of what waits, and has forgotten what was called
 */

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"
#include "sched/types.h"

struct dispatch;
struct gangs;

/* As dispatch_why(). */
typedef int (*gangs_why_fn)(struct dispatch *q, uint64_t id, uint32_t element, json_t **ret,
			    struct err *e);

struct gangs *gangs_new(struct dispatch *q, gangs_why_fn why);
void gangs_start(struct gangs *g);
void gangs_soon(struct gangs *g);
void gangs_after_reading(struct gangs *g);
/* Another claim, or another generation, has that rank: it is not tried again at once. */
void gangs_claim_lost(struct gangs *g, struct sched_ref ref);
/* What the ranks of that task wait for; NULL: nothing is known of it. Valid until the next turn of
 * the loop. */
const char *gangs_why(const struct gangs *g, uint64_t id);
/* Nothing is called, answered or ended any more. */
void gangs_stop(struct gangs *g);
/* The spooler is idle. Its memory goes with its handle in the loop. */
void gangs_free(struct gangs *g);

#endif
