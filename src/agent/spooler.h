/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_SPOOLER_H
#define TENURE_AGENT_SPOOLER_H

/*
 * Work on the spool, which may hang with its filesystem, off the loop's thread: jobs that are run
 * one after another in the order in which they were given, and then told on the loop.
 *
 *	struct my_job { struct spool_job job; ... };
 *	spooler_do(s, &mine->job);	-> mine->job.work(job, place)	on the spooler's thread
 *					-> mine->job.done(job)		on the loop; frees it
 *
 * The place (the spool with what belongs to it) belongs to the jobs alone: nobody else may use it.
 */

#include <stdbool.h>
#include <uv.h>

#include "spool/batch.h"
#include "spool/claim.h"
#include "spool/events.h"
#include "spool/scan.h"
#include "spool/spool.h"

/* A batch of which elements are started here; kept open, because claiming one reads its journals.
 */
struct place_batch {
	struct place_batch *next;
	struct batch *batch;
	struct spool_spec *spec;
	uint64_t id;
	uint64_t returned; /* batch_returned() when the planner was told last what waits of it */
	uint32_t round;	   /* of the looks at the journals, backlog.c */
};

struct place_todo;    /* backlog.c */
struct place_depends; /* depends.c */
struct place_lane;    /* lanes.c */

struct spool_place {
	struct place_todo *todo;
	struct place_depends *depends;
	struct place_tools *tools;
	struct place_lane *lanes;
	struct place_batch *batches;
	uint32_t round; /* of the looks at them */
	struct place_undo *undo;
	struct text_list undone; /* of batches that are not known any more: batch_take_undone() */
	struct spool *spool;
	struct scan *scan;
	struct events *events;
	struct claimer self;
};

struct spool_job {
	void (*work)(struct spool_job *job, struct spool_place *place);
	void (*done)(struct spool_job *job);
	void *user;
	struct spool_job *next;
};

struct spooler;

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

/* The place is closed with the spooler, the spooler's memory goes with its handles in the loop. */
struct spooler *spooler_new(uv_loop_t *loop, const struct spool_place *place);
void spooler_do(struct spooler *s, struct spool_job *job);
/* The same, but it may wait some milliseconds for another job to go with. */
void spooler_do_later(struct spooler *s, struct spool_job *job);
/* True: it is the caller's again, and will not be done. False: it is with the thread, or is done.
 */
bool spooler_take_back(struct spooler *s, struct spool_job *job);
bool spooler_is_idle(const struct spooler *s);
/* The thread closes fd, after the jobs that it was given before: the end of a file may be a write
 * that waits for its server. Nothing where it is negative. Returns -1. */
int spooler_close_fd(struct spooler *s, int fd);
/* -EBUSY: a job hangs, or the end of a file does; nothing is freed, the process is expected to end.
 * The thread does first what it was given since it was idle, and half a second is waited for it. */
int spooler_free(struct spooler *s);

#endif
