/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_WATCH_H
#define TENURE_CLI_TASK_WATCH_H

/*
 * Whether a task, or an element, has ended, asked again and again: as long as its file is where it
 * was a look costs one system call, whatever else is in the queue.
 *
 *	r = taskwatch_open(sp, &place, &w, e);
 *	while ((r = taskwatch_look(w, e)) == 0)
 *		taskwatch_pause(w);
 *	code = taskwatch_exit_code(w);
 */

#include "cli/task/taskstate.h"

struct taskwatch;

/* place as of select_one(); sp must outlive w. 0 or negative. */
int taskwatch_open(const struct spool *sp, const struct task_place *place, struct taskwatch **ret,
		   struct err *e);
struct taskwatch *taskwatch_close(struct taskwatch *w);

/* 0: it waits or runs; 1: it has ended; negative. */
int taskwatch_look(struct taskwatch *w, struct err *e);
/* Sleep a little; longer when it was asked often. Signals end the sleep. */
void taskwatch_pause(struct taskwatch *w);

/* With its end: that of the task (128 + the signal); 1 when it was cancelled or never ran. */
int taskwatch_exit_code(const struct taskwatch *w);
/* As of the last look. */
enum taskstate taskwatch_state(const struct taskwatch *w);
/* The same of one look at a place. 0 or negative. */
int taskwatch_state_of(const struct spool *sp, const struct task_place *place, enum taskstate *ret,
		       struct err *e);
const struct task_place *taskwatch_place(const struct taskwatch *w);

#endif
