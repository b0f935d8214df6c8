/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_LEARNING_H
#define TENURE_AGENT_QUEUE_LEARNING_H

/*
 * What the agent knows of spool/learned.h, and for whom: it says how much memory those ask for that
 * say "auto", when they are planned, and once more when they are claimed; it remembers which wait,
 * so that they are planned anew when what is known has changed. A plan itself sees a number, as of
 * every other task. For jobs of the spooler.
 */

#include "agent/queue/spool_place.h"
#include "sched/forecast.h"
#include "sched/types.h"
#include "spool/learned.h"
#include "spool/task_spec.h"

/* Of a task or batch that waits: what it asks for, where it leaves that to us. */
void learning_plan(struct spool_place *p, const struct task_spec *spec, struct sched_task *t);
/* The same of one that has been claimed, or runs: its spec says what it asks for from now on. */
void learning_fill(struct spool_place *p, struct task_spec *spec);
/* Of one that was filled, and waits again: what it asks for now. */
uint64_t learning_again(struct spool_place *p, uint64_t id, const struct task_spec *spec);

/* An attempt of that spec has ended. */
void learning_note(struct spool_place *p, const struct task_spec *spec,
		   const struct learned_run *run);
/* What has come to be known since the last look. */
struct learning_news {
	bool some;
	struct uint_list ids;	     /* that wait, and are to be planned anew */
	size_t n_times;		     /* all that are known, by rising kinds */
	struct forecast_time *times; /* free() */
};

/* What others have learned is read, and what was noted written, once in two seconds at most. */
void learning_look(struct spool_place *p, uint64_t now_ns, struct learning_news *ret);
/* What is not written yet is. */
void learning_free(struct spool_place *p);

#endif
