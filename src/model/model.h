/* SPDX-License-Identifier: MIT */
#ifndef TENURE_MODEL_MODEL_H
#define TENURE_MODEL_MODEL_H

/*
 * What a program that looks on knows of an instance: what its agent on this node tells (devices,
 * events, the status), and what the spool says (tasks, agents of all nodes, pools), with or without
 * an agent. A thread of its own waits for the one and reads the other, because a spool can hang:
 * who draws or answers never stands in a file system. It publishes snapshots that do not change.
 *
 *	r = model_new(ctx, MODEL_ENDED, &m, &e);
 *	poll(model_fd(m));		there is something new
 *	s = model_get(m);
 *	.. row_add_json(&s->rows, &s->rows.all[i], clock_mono_ns(), &text) ..
 *	s = model_put(s);
 *	m = model_free(m);
 *
 * All calls from any thread, but for model_new() and model_free().
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/cmd.h"
#include "cli/task/rows.h"

#define MODEL_ENDED_MAX 20000 /* tasks that have ended: the last ones; all of them: history */
#define MODEL_EVENTS	1024  /* events that are kept */

#define MODEL_ENDED (1U << 0) /* tasks that have ended are wanted, too */
#define MODEL_JSON                                                                                 \
	(1U << 1) /* rows are asked for as JSON: it is kept, ROWS_JSON_MAX at most of each list */

struct model_snapshot {
	uint64_t version; /* of two, the later one has the higher */
	uint64_t made_ns; /* CLOCK_MONOTONIC */

	/* The agent of this node. */
	bool connected;		    /* it tells what it does, as of now */
	char trouble[ERR_TEXT_MAX]; /* why not; "" */
	json_t *status; /* as `tenure status --json` has it; NULL: none was told yet, or it
			   has gone */

	/* The queue. */
	bool read;			  /* it could be read, at read_ns */
	uint64_t read_ns;		  /* CLOCK_MONOTONIC; 0: never */
	uint64_t read_from_ns;		  /* when that was begun */
	char queue_trouble[ERR_TEXT_MAX]; /* why it cannot be read now; "" */
	struct rows rows;		  /* of what waits and runs, in the planner's order */
	bool answered;			  /* they have what the agent says of them */
	struct rows ended;		  /* the last one first */
	json_t *nodes; /* as `nodes` of `tenure instances --json`, and of each `gpus`, its devices
			  as it told of them gpus_age_s before (cli/node_agents.h); as they
			  were read, at nodes_ns: model_nodes() */
	uint64_t nodes_ns; /* CLOCK_MONOTONIC */
	json_t *pools;	   /* as `pools` there */

	uint64_t n_events; /* that were told, also those from before that the agent remembered:
			      model_event() */
	uint64_t n_old;	   /* of them, the first ones: they had happened before model_new() */
};

/* The place of an event among those of its agent: its id is START.N. */
struct model_id {
	uint64_t start, n;
};

struct model_mark {
	struct model_id id;
	uint64_t lost; /* so many before it, behind the one that is kept before it, were not heard
			  of */
};

struct model;

/* ctx outlives it. 0, or -errno where there can be no thread. */
int model_new(const struct cmd_ctx *ctx, unsigned int flags, struct model **ret, struct err *e);
/* Waits for its thread a second at most: one that hangs in a file system is left behind, with what
 * it uses. Returns NULL. */
struct model *model_free(struct model *m);

/* Readable when there is another snapshot; model_get() makes it quiet. For poll() alone. */
int model_fd(const struct model *m);
/* Never NULL. */
const struct model_snapshot *model_get(struct model *m);
const struct model_snapshot *model_put(const struct model_snapshot *s);
/* The i-th event, from 0, in JSON as in the event file; the caller frees it. NULL: it is not kept
 * any more, or has not happened. ret (may be NULL) is its mark. */
char *model_event(struct model *m, uint64_t i, struct model_mark *ret);
/* False: that is no id. */
bool model_read_id(const char *text, struct model_id *ret);
/* Told of the same agent, and not after that one. */
bool model_id_is_by(const struct model_id *id, const struct model_id *that);
/* The queue is to be read at once: something was done to it. */
void model_look(struct model *m);

/* The nodes, of which each heartbeat is as old as it is now: one that is not heard of grows older
 * also while nothing of the queue can be read. A new reference. */
json_t *model_nodes(const struct model_snapshot *s);
/* The row of a task, or of an element of it that runs; NULL: there is none. */
const struct row *model_find(const struct model_snapshot *s, uint64_t id, uint64_t element);

#endif
