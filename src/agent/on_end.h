/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ON_END_H
#define TENURE_AGENT_ON_END_H

/*
 * The commands that follow the ends of tasks (spool/on_end.h): a few at once, each a process of its
 * own (task/on_end_run.h), while the queue goes on. What is due is on the disk alone; a job of the
 * spooler begins the next one whenever there is room.
 */

#include "agent/dispatch_state.h"

struct on_end *on_end_new(struct dispatch *q);
/* Something is due, or may be; now, and in a moment again: others may be about to file it. */
void on_end_look(struct on_end *o);
/* The queue was recovered: from now on what others have left is looked for as well. */
void on_end_start(struct on_end *o);
/* Something is run, or is to be by us. */
bool on_end_is_busy(const struct on_end *o);
/* The agent ends: nothing more is begun. */
void on_end_stop(struct on_end *o);
/* With the spooler idle. What runs runs on. Its memory goes with its handle in the loop. */
void on_end_free(struct on_end *o);

#endif
