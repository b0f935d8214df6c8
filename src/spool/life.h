/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_LIFE_H
#define TENURE_SPOOL_LIFE_H

/*
 * Whether what another node runs is alive. Pure: no file, no clock.
 *
 * A watch remembers, for each thing that is looked at, since when its counter has not moved, by the
 * clock of whoever looks. Time in which nobody looked (the observer slept, or was stopped) does not
 * count: what had been quiet for a second before is quiet for a little more than a second after it.
 *
 *	w = life_watch_new(10000);
 *	life_begin(w, now_ns);
 *	    quiet_ms = life_see(w, "agents/node7", count); ...	each thing that is there
 *	life_finish(w);						the others are forgotten
 */

#include <stdbool.h>
#include <stdint.h>

#include "spool/recover.h"

struct life_watch;

/* step_ms: between two looks. */
struct life_watch *life_watch_new(uint64_t step_ms);
struct life_watch *life_watch_free(struct life_watch *w);
void life_begin(struct life_watch *w, uint64_t now_ns);
/* Milliseconds for which its counter has stood still; 0 at the first sight and when it has moved.
 */
uint64_t life_see(struct life_watch *w, const char *key, uint64_t count);
void life_finish(struct life_watch *w);

/* What is known of a claim, or of an agent. */
struct life_facts {
	bool same_node;	  /* its processes are in our list of processes: that decides */
	bool runs;	  /* then: its process is there */
	bool same_kernel; /* a neighbour (a container): it cannot lose the filesystem alone */
	bool local_files; /* the filesystem belongs to one kernel at a time */
	bool gone;	  /* a person said that its node does not exist any more */
	bool tool;	  /* a command's claim: nothing runs under it that could be cut off */
	uint64_t quiet_ms;
	uint64_t promise_ms; /* as it wrote last; 0: none */
	uint64_t expire_ms;  /* ours */
};

/* Unknown: it has been quiet for too long, and promised nothing. */
enum recover_life life_judge(const struct life_facts *f);

#endif
