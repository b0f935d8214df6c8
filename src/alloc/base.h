/* SPDX-License-Identifier: MIT */
#ifndef TENURE_ALLOC_BASE_H
#define TENURE_ALLOC_BASE_H

/*
 * The automatic base: so many GPUs are kept allocated by themselves whenever some are free, one for
 * each allocation, so that who allocates by hand has them at once: tasks of the base are the last
 * in the order and preemptible, so that every other task of the queue pushes them aside.
 *
 * Several may look after it, agents and managers: each says how many it wants, for a while, and
 * says it again before that is over. One adds what it wants itself, and takes back what nobody
 * wants any more, so that two with other wishes do not undo each other's work, and nothing stays
 * of one that was killed.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "spool/files.h"

/* ---- one step of it: pure, and whoever takes it looks again before the next one ---- */

struct base_at {
	unsigned int wanted;	 /* by who looks; 0: he sees that nobody has too many, no more */
	unsigned int kept;	 /* the most that anybody else wants */
	unsigned int has, waits; /* GPUs of its allocations that have them, and that wait */
	unsigned int
		young;	   /* of those that wait: their engine's job was asked for just now, or is
			      about to have an agent, and is not cancelled before it had its time */
	unsigned int free; /* GPUs that a task could have now */
	unsigned int room; /* that max_total_gpus leaves to allocations */
	bool others_wait;  /* a task that is not of the base does, for GPUs */
	bool apart;	   /* its GPUs are jobs of an engine: no planner gives them to others */
};

enum base_step {
	BASE_REST,
	BASE_ADD,      /* one GPU more */
	BASE_WITHDRAW, /* one that waits: there is nothing for it, or others come first */
	BASE_GIVE,     /* one that has its GPU: there are more than are wanted, or others wait */
	BASE_STEP_MAX
};

enum base_step base_decide(const struct base_at *at);

/* ---- who wants how many: a file allocs/base,WHO of each ---- */

/* WHO, a name, wants so many for so long from now on; 0: none any more. 0 or -errno. */
int base_want(const struct spool *sp, const char *who, unsigned int gpus, unsigned int for_s,
	      struct err *e);
/* The most that anybody wants; what is over is removed. 0 or -errno. */
int base_wanted(const struct spool *sp, unsigned int *ret, struct err *e);
/* Whether anybody has said something: then somebody has to look, also when it is over. */
bool base_is_known(const struct spool *sp);

#endif
