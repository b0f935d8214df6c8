/* SPDX-License-Identifier: MIT */
#ifndef TENURE_POOL_PLAN_H
#define TENURE_POOL_PLAN_H

/*
 * What a pool does next, as a pure function of what it wants, what it has and what waits. No file,
 * no clock, no engine.
 *
 * Up: nodes are asked for while fewer are there or on their way than the queue needs, one at a time
 * (POOL_BACKLOG), and those that `up` itself asked for at once. Refusals make it wait 1, 5, 15 and
 * 60 minutes, and so do jobs, from the second in a row on, whose agent left within a minute and
 * under whom no task has ended; three in a row whose agent never reported pause it, with the
 * reason. What waits and is of another shape than the pool asks for now is cancelled, and asked for
 * anew. Down: an agent that has nothing to do leaves by itself. What still waits and is not needed
 * any more is cancelled, the youngest first, but not before it has waited for POOL_SETTLE_S, so
 * that a queue that changes its mind costs nobody his place. What runs is never cancelled here, but
 * where its agent has not reported in time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/job.h"
#include "pool/pool.h"

#define POOL_BACKLOG   1
#define POOL_LOST_MOST 3
#define POOL_VAIN_S    60
#define POOL_SETTLE_S  120
#define POOL_RELAY_S                                                                               \
	600 /* before the end of one, its successor is asked for, where that cannot wait in the    \
	       queue */
#define POOL_TICK_JOBS 8 /* submitted in one tick at most */

struct pool_view {
	const struct pool *pool;
	const struct pool_jobs *jobs;
	const bool *live;     /* by job: its agent has reported, and sends heartbeats */
	unsigned int more;    /* of these, so many more than there are with an agent */
	unsigned int needed;  /* nodes that would be busy, by what is ready or runs on them */
	bool follows;	      /* a job of the engine can be queued behind another one */
	unsigned int strange; /* jobs of our name that the engine lists and no record knows */
	uint64_t now_s;	      /* by the file server's clock */
};

struct pool_decision {
	unsigned int submit;
	unsigned int first; /* of these, those that `up` asked for */
	size_t n_follow;
	size_t follow[POOL_JOBS_MAX]; /* jobs for which a successor is submitted */
	size_t n_cancel;
	size_t cancel[POOL_JOBS_MAX]; /* indices of jobs; their reasons: */
	const char *why[POOL_JOBS_MAX];
};

/* st: as the last tick left it; the counts are set. */
void pool_plan(const struct pool_view *v, struct pool_state *st, struct pool_decision *ret);
/* Nodes that are kept whatever waits; for so long as holding is wanted, where it is. */
unsigned int pool_kept(const struct pool *p, uint64_t now_s);
/* By the jobs as they are: which agents are those that are kept. Those that were stay so; then
 * those that have come up, the oldest first. Those whose record changes are told. */
void pool_plan_stay(struct pool_jobs *jobs, unsigned int kept,
		    void (*changed)(void *user, struct pool_job *job), void *user);
/* st->next, for people, by the counts as they are after all was done. */
void pool_say_next(const struct pool_view *v, struct pool_state *st);

/* A job has ended, or an agent has reported: what that says of the jobs in a row that were lost. */
void pool_note_lost(struct pool_state *st, const struct pool_job *job, const char *tail);
void pool_note_reported(struct pool_state *st);
/* Its agent has left, and it was of no use: no task has ended under it, and it was there for less
 * than POOL_VAIN_S. And the contrary. */
void pool_note_vain(struct pool_state *st, const struct pool_job *job, const char *tail,
		    uint64_t now_s);
void pool_note_useful(struct pool_state *st);
void pool_note_refused(struct pool_state *st, uint64_t now_s);
void pool_note_submitted(struct pool_state *st);

/* Seconds until the next try; 0: now. */
uint64_t pool_backoff_s(const struct pool_state *st, uint64_t now_s);

#endif
