/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_NODE_WATCH_H
#define TENURE_AGENT_QUEUE_NODE_WATCH_H

/*
 * The agents of an instance on other nodes: every heartbeat this agent writes its own heartbeat,
 * with its status where that has changed (spool/agent_status.h) and now and then the last day of
 * its devices (spool/agent_history.h), and looks at those of the others (spool/heartbeat.h), off
 * the loop's thread and apart from the spooler, whose jobs may take long. What is found is told on
 * the loop.
 *
 * First of all it makes sure that nobody else has its name: until then `named` has not been called,
 * and nothing is written.
 */

#include <jansson.h>
#include <uv.h>

#include "agent/node/config.h"
#include "agent/report/eventlog.h"
#include "spool/capacity.h"
#include "spool/heartbeat.h"
#include "spool/instance.h"

/* How it is known of a claim in running/ that nobody has it any more. */
enum dead_how {
	HOLDER_DEAD,	     /* who held it is dead, or has left the record of its end there */
	CLAIM_NEVER_WRITTEN, /* nobody has written down for long whose it is */
	OWN_UNJUDGED, /* it is this agent's own and has been there for long: it is forgotten, unless
		       * an attempt has it */
};

struct dead_claims {
	size_t n;
	struct dead_claim {
		char *path;
		enum dead_how how;
	} * all;
};

void dead_claims_add(struct dead_claims *d, const char *path, enum dead_how how);
void dead_claims_clear(struct dead_claims *d);

struct node_watch;

struct node_watch_ops {
	/* What the next heartbeat tells: devices, running, draining. */
	void (*fill)(void *user, struct heartbeat *b);
	/* The text of the status beside it (agent_status_text()), which is written when it is
	 * another one than at the last heartbeat. The caller frees it. NULL: there is none. */
	char *(*status)(void *user);
	/* The text of the file about the last day of its devices, where it is due to be written
	 * (agent_history_text()); last: by this look or never. The caller frees it. NULL: not now.
	 */
	char *(*history)(void *user, bool last);
	/* The name is ours. Once. */
	void (*named)(void *user);
	/* The spool cannot be opened, so it is not known yet whose the name is. */
	void (*no_spool)(void *user, const struct err *e);
	/* Somebody else has it; what to do about it is in e. Nothing more is written. It was never
	 * ours: told at each look, and `named` comes when that one has ended. It was: once. */
	void (*clash)(void *user, const struct err *e);
	/* Claims that nobody has any more. Told at every look, as long as they are there. */
	void (*dead)(void *user, const struct dead_claims *claims);
	/* An agent that was alive is so no more. */
	void (*left)(void *user);
};

struct node_watch *node_watch_new(uv_loop_t *loop, const struct agent_config *c,
				  const struct node_self *self, struct eventlog *eventlog,
				  const struct node_watch_ops *ops, void *user);
void node_watch_start(struct node_watch *b);
/* What the heartbeat tells has changed: the next look is due at once. */
void node_watch_soon(struct node_watch *b);
/* The last one. runs_on: what it has started does, so that its name is kept. */
void node_watch_end(struct node_watch *b, bool runs_on);
bool node_watch_are_quiet(const struct node_watch *b);
/* After how long without a heartbeat our claims are taken over: what shims promise. */
uint64_t node_watch_fence_timeout_ms(const struct node_watch *b);
/* Those that are alive and have not ended, with their devices. The caller frees the array. */
size_t node_watch_nodes(const struct node_watch *b, struct capacity_node **ret);
/* The other agents that are alive and have not ended. The caller frees the array. */
struct node_peer {
	char agent[NAME_AGENT_MAX + 1];
	bool draining;
	bool quiet; /* its heartbeat has not moved for some time: nothing is asked of it */
};
size_t node_watch_peers(const struct node_watch *b, struct node_peer **ret);
/* An array of the other agents, for the status. */
json_t *node_watch_report(const struct node_watch *b);
/* -EBUSY: a file hangs; nothing is freed, the process is expected to end. */
int node_watch_free(struct node_watch *b);

#endif
