/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_SPOOLER_H
#define TENURE_AGENT_QUEUE_SPOOLER_H

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

#include "agent/queue/spool_place.h"

struct spool_job {
	void (*work)(struct spool_job *job, struct spool_place *place);
	void (*done)(struct spool_job *job);
	void *user;
	struct spool_job *next;
};

struct spooler;

/* The place begins empty. It is closed with the spooler, on the thread, after clear() has freed
 * what others keep in it. The spooler's memory goes with its handles in the loop. */
struct spooler *spooler_new(uv_loop_t *loop, void (*clear)(struct spool_place *place));
void spooler_do(struct spooler *s, struct spool_job *job);
/* The same, but it may wait some milliseconds for another job to go with. */
void spooler_do_later(struct spooler *s, struct spool_job *job);
/* True: it is the caller's again, and will not be done. False: the thread has it, or had it. */
bool spooler_take_back(struct spooler *s, struct spool_job *job);
bool spooler_is_idle(const struct spooler *s);
/* The thread closes fd, after the jobs that it was given before: the end of a file may be a write
 * that waits for its server. Nothing where it is negative. Returns -1. */
int spooler_close_fd(struct spooler *s, int fd);
/* -EBUSY: a job hangs, or the end of a file does; nothing is freed, the process is expected to end.
 * The thread does first what it was given since it was idle, and half a second is waited for it. */
int spooler_free(struct spooler *s);

#endif
