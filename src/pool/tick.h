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

struct pool_caller {
	const char *const *environ; /* of whoever asks */
	const char *root;	    /* absolute, as its nodes see it, too */
	uint64_t patience_ms;	    /* somebody else's tick is waited for so long */
	bool by_agent;	    /* where the engine's commands are not there it leaves all to others */
	const char *token;  /* of an agent that has just left: its job is over; NULL */
	uint64_t n_ended;   /* tasks that ended under it */
	uint64_t expire_ms; /* an agent that has been silent for longer is not alive */
	/* The engine is asked for the job of one that has been silent for so long, or was killed on
	 * this node, and where it has it no more, that is over: for a person who waits for a node,
	 * and so every few seconds, if need be. One that was killed is no place for a task. 0: only
	 * when it has expired. */
	uint64_t silent_ms;
};

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

/* The script of the next job, as --dry-run shows it; its instance need not be there yet. 0,
 * -EINVAL, -errno. */
int pool_script(const char *instance, const struct pool *pool, const struct pool_caller *caller,
		struct strbuf *script, struct err *e);

/* When such a job would start, as engine.when() says it of one that is not there. */
int pool_when(const char *instance, const struct pool *pool, const struct pool_caller *caller,
	      uint64_t *ret_ns, struct strbuf *words, struct err *e);

#endif
