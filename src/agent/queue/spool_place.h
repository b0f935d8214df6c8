/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_SPOOL_PLACE_H
#define TENURE_AGENT_QUEUE_SPOOL_PLACE_H

/*
 * The spool as the spooler's thread has it open: what was read of it, the batches of which elements
 * are started here, claims that are still to be undone. For jobs of the spooler alone
 * (agent/queue/spooler.h); each of what is kept in it is known to one file.
 */

#include "spool/batch.h"
#include "spool/claim.h"
#include "spool/endlog.h"
#include "spool/files.h"
#include "spool/on_end.h"
#include "spool/scan.h"

/* A batch of which elements are started here; kept open, since claiming reads its journals. */
struct place_batch {
	struct place_batch *next;
	struct batch *batch;
	struct task_spec *spec;
	uint64_t id;
	uint64_t returned; /* batch_returned() when the planner was told last what waits of it */
	uint32_t round;	   /* of the looks at the journals, index.c */
};

struct place_todo;     /* index.c */
struct place_depends;  /* depends.c */
struct place_tools;    /* foreign.c */
struct place_lane;     /* lanes.c */
struct place_learning; /* learning.c */
struct place_undo;

struct spool_place {
	struct place_todo *todo;
	struct place_depends *depends;
	struct place_tools *tools;
	struct place_lane *lanes;
	struct place_learning *learning;
	struct place_batch *batches;
	uint32_t round; /* of the looks at them */
	struct place_undo *undo;
	struct text_list undone; /* of batches that are not known any more: batch_take_undone() */
	struct spool *spool;
	struct scan *scan;
	struct endlog *events;
	struct claimer self;
	struct on_end_by on_end; /* but for its limit, which may change */
	const char *pool;	 /* of which this node is; NULL: of none */
	bool pool_only;		 /* nothing runs here that does not name it */
	struct uint_list timed;	 /* rising: place_note_timeout() */
};

/* The batch that waits under this id, opened if need be. NULL with e: it is not there, or cannot be
 * read. For jobs. */
struct place_batch *place_batch(struct spool_place *place, uint64_t id, struct err *e);
/* It is over, or gone. */
void place_forget_batch(struct spool_place *place, uint64_t id);

/*
 * A task that was claimed and could not be given back lies in running/, and nobody runs it: that is
 * tried again with place_undo_again(), until it has happened, or the task is claimed anew.
 */
void place_undo_claim(struct spool_place *place, const struct task_name *waiting);
void place_undo_again(struct spool_place *place);
void place_undo_forget(struct spool_place *place, uint64_t id);

/*
 * Tasks of which the name says all but that they have a timeout, which does not fit into what is
 * left of the agent's job: their files are read, though that of others like them is not before they
 * are claimed.
 */
void place_note_timeout(struct spool_place *place, uint64_t id);
bool place_has_timeout(const struct spool_place *place, uint64_t id);

/* A task that names that pool (NULL: none) is not for this node. */
bool place_is_elsewhere(const struct spool_place *place, const char *pool);

/* What is kept here and the spool itself; what other files keep in it they have freed. */
void place_close(struct spool_place *place);

#endif
