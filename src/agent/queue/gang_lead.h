/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_GANG_LEAD_H
#define TENURE_AGENT_QUEUE_GANG_LEAD_H

/*
 * A look at the gangs of an instance, in a spooler's job: what this agent answers for its own ranks
 * is written, and, if this agent is the leader, what the others have answered leads to the next
 * step of each gang (sched/gang.h). All agents look; only the leader, the one with the lowest name
 * of those that live and know gangs, decides.
 */

#include "agent/queue/node_watch.h"
#include "agent/queue/spool_place.h"
#include "base/strbuf.h"
#include "sched/gang.h"
#include "spool/gang.h"

/* What the looks of one agent remember; belongs to the look that is under way. */
struct gang_lead;

/* status_ms: how often the others' status is read. */
struct gang_lead *gang_lead_new(const struct gang_limits *limits, uint64_t status_ms);
struct gang_lead *gang_lead_free(struct gang_lead *m);

/* What this agent answers for a rank of its own; the generation that its call was of. */
struct gang_own {
	uint64_t id, generation;
	size_t rank;
	struct gang_reply reply;
};

/* Why a gang does not run, or what it does. */
struct gang_why {
	uint64_t id;
	char *text;
};

struct gang_look {
	/* In; all of it is the look's, gang_look_clear(). */
	const char *agent;
	bool known; /* what waits has been read: without that nobody leads */
	size_t n_peers;
	struct node_peer *peers;
	size_t n_waiting;
	uint64_t *waiting; /* gangs that nothing keeps from being called, in the queue's order */
	size_t n_own;
	struct gang_own *own;
	/* Out. */
	struct gangs_read gangs; /* as they are after it */
	size_t n_whys;
	struct gang_why *whys;
	struct strbuf notes; /* lines to be told */
	bool under_way;	     /* something is to be expected soon */
	struct err e;
	int code;
};

void gang_look_work(struct gang_lead *m, struct gang_look *l, struct spool_place *place);
void gang_look_clear(struct gang_look *l);

#endif
