/* SPDX-License-Identifier: MIT */
#ifndef TENURE_POOL_TICK_H
#define TENURE_POOL_TICK_H

/*
 * One bounded step of a pool: who has reported, what the engine says (at most once a minute, one
 * command for all), what the queue needs, and what follows of that: jobs are submitted or
 * cancelled. Whoever has a reason calls it: `up` and `down`, a `submit` whose task no node that is
 * there can run, every agent of the instance once a minute and once more at its end. One at a time
 * does anything (pool/owner.h); all of it can be interrupted anywhere and goes on with the next
 * one.
 *
 * It runs commands of the engine and waits for them: on a thread that may wait, with a spool that
 * no other thread uses.
 */

#include "base/err.h"
#include "base/strbuf.h"
#include "pool/pool.h"
#include "spool/instance.h"

struct pool_report {
	bool elsewhere; /* the pool is of another machine, and nothing was done */
	bool busy;	/* somebody else ticks it now: nothing was done */
	bool begun;	/* who is busy has begun meanwhile, and sees what there was before */
	unsigned int submitted, cancelled, refused;
	struct strbuf said; /* a sentence per line of what was done */
	struct pool_state state;
};

/* 0, also where the engine refuses or does not answer: report->state.error says so. -ENOENT: there
 * is no such pool; -EINVAL: its file is none; -errno. pool_report_clear() in each case. */
int pool_tick(const struct spool *sp, const char *name, const struct pool_caller *caller,
	      struct pool_report *ret, struct err *e);
void pool_report_clear(struct pool_report *report);

/* One that is down, with the records of its jobs. 0; POOL_BUSY: somebody ticks it now, who would
 * write what came of that behind us; -errno. */
int pool_forget(const struct spool *sp, const char *name, struct err *e);

/* Every pool of the instance, for who has no eye on what comes of it: errors are in their states.
 */
void pool_tick_all(const struct spool *sp, const struct pool_caller *caller);

#endif
