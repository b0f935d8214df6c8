/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_NODE_AGENTS_H
#define TENURE_CLI_NODE_AGENTS_H

/*
 * The agents that serve an instance, as their heartbeats in agents/ tell one who looks once. How
 * old a sign is is told by two clocks, that of this node and that of who keeps the file: good
 * enough for people, never for taking anything over (spool/heartbeat.h).
 */

#include <jansson.h>

#include "cli/cmd.h"
#include "spool/agent_status.h"
#include "spool/heartbeat.h"

enum node_agent_state {
	NODE_AGENT_ALIVE,
	NODE_AGENT_UNKNOWN, /* silent for longer than `expire`, and it may run on, cut off */
	NODE_AGENT_GONE,    /* its process is not there, or it is taken for dead */
	NODE_AGENT_OFF,	    /* it has ended; what it started may run on */
	NODE_AGENT_STATE_MAX
};

struct node_agent {
	char agent[NAME_AGENT_MAX + 1];
	struct heartbeat heartbeat; /* of a file that cannot be read only the name is known */
	enum node_agent_state state;
	bool here;		     /* its processes are among those of this node */
	bool declared_dead;	     /* by a person */
	uint64_t written_ns;	     /* wall, of whoever keeps the file; 0: not known */
	uint64_t age_ms;	     /* since then; by that clock */
	struct agent_status *status; /* NULL: it has left none that can be read */
	uint64_t told_ms; /* since that was written, by that clock; where it has figures of devices
			   */
};

struct node_agents {
	size_t n;
	struct node_agent *all; /* by their names */
};

/* 0 or negative; node_agents_clear() in each case. */
int node_agents_read(const struct cmd_ctx *ctx, const struct spool *sp, struct node_agents *ret,
		     struct err *e);
/* Those alone, in the order of names; one that has left no sign is unknown. */
void node_agents_read_named(const struct cmd_ctx *ctx, const struct spool *sp,
			    const struct text_list *names, struct node_agents *ret);
void node_agents_clear(struct node_agents *p);
/* An agent of the instance lives: this node's answers, or another node's sends heartbeats. */
bool node_agents_one_serves(const struct cmd_ctx *ctx, const struct spool *sp);
/* The same of other nodes alone, where it is known that none answers here. */
bool node_agents_another_serves(const struct cmd_ctx *ctx, const struct spool *sp);

const struct node_agent *node_agents_find(const struct node_agents *p, const char *agent);

/* "slurm 123" in buf, which it returns; NULL: it is in no job. */
#define NODE_AGENT_JOB_MAX (AGENT_STATUS_ENGINE_MAX + AGENT_STATUS_JOB_MAX + 2)
const char *node_agent_job(const struct node_agent *p, char buf[NODE_AGENT_JOB_MAX]);
/* "alive", "unknown", "gone", "off" */
const char *node_agent_state_name(enum node_agent_state state);
/* "its last heartbeat was 3m 20s ago" or what else is to be said of one that does not answer.
 * The caller frees it. p may be NULL: it has left no sign at all. */
char *node_agent_sign(const struct node_agent *p);
/* "does not answer (its last ..). If that node hangs or ..": of one of another node, with what to
 * do about it. The caller frees it. */
char *node_agent_silence(const struct node_agent *p);
/* A new reference. */
json_t *node_agent_json(const struct node_agent *p);
/* Its devices, as the status beside its heartbeat tells of them: members as in `tenure status
 * --json`, null where it tells nothing. A new reference. */
json_t *node_agent_devices_json(const struct node_agent *p);
/* For so long they have been as they are told: seconds, or null where that is not known. */
json_t *node_agent_told_json(const struct node_agent *p);

#endif
