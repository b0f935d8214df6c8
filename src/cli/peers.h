/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_PEERS_H
#define TENURE_CLI_PEERS_H

/*
 * The agents that serve an instance, as their signs of life in agents/ tell one who looks once. How
 * old a sign is is told by two clocks, that of this node and that of who keeps the file: good
 * enough for people, never for taking anything over (spool/heartbeat.h).
 */

#include <jansson.h>

#include "cli/cmd.h"
#include "spool/heartbeat.h"

enum peer_state {
	PEER_ALIVE,
	PEER_UNKNOWN, /* silent for longer than `expire`, and it may run on, cut off */
	PEER_GONE,    /* its process is not there, or it is taken for dead */
	PEER_OFF,     /* it has ended; what it started may run on */
	PEER_STATE_MAX
};

struct peer {
	char agent[NAME_AGENT_MAX + 1];
	struct beat beat; /* of a file that cannot be read only the name is known */
	enum peer_state state;
	bool here;	     /* its processes are among those of this node */
	bool said_gone;	     /* by a person */
	uint64_t written_ns; /* wall, of whoever keeps the file; 0: not known */
	uint64_t age_ms;     /* since then; 0: by our clock it is still to come */
};

struct peers {
	size_t n;
	struct peer *all; /* by their names */
};

/* 0 or negative; peers_clear() in each case. */
int peers_read(const struct cmd_ctx *ctx, const struct spool *sp, struct peers *ret, struct err *e);
void peers_clear(struct peers *p);
/* An agent of the instance lives: that of this node answers, or one of another gives signs of life.
 */
bool peers_one_serves(const struct cmd_ctx *ctx, const struct spool *sp);

const struct peer *peers_find(const struct peers *p, const char *agent);

/* "alive", "unknown", "gone", "off" */
const char *peer_state_name(enum peer_state state);
/* "its last sign of life was 3m 20s ago" or what else is to be said of one that does not answer.
 * The caller frees it. p may be NULL: it has left no sign at all. */
char *peer_sign(const struct peer *p);
/* A new reference. */
json_t *peer_json(const struct peer *p);

#endif
