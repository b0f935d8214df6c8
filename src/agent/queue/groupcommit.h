/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_GROUPCOMMIT_H
#define TENURE_AGENT_QUEUE_GROUPCOMMIT_H

/*
 * Ends of tasks are made safe from a power loss in groups, with one fdatasync of the agent's events
 * (spool/endlog.h). When there are many of those, everything that they stand for is written to the
 * disk and they are dropped.
 *
 *	d = groupcommit_new(loop, spooler, news, synced, user);
 *	groupcommit_soon(d);	something has ended, or the spool has just been recovered
 */

#include <uv.h>

#include "agent/queue/spooler.h"
#include "agent/report/eventlog.h"

struct groupcommit;

/* synced: after each group, on the loop, when it is on the disk. A group that could not be written
 * is tried again, later each time. */
struct groupcommit *groupcommit_new(uv_loop_t *loop, struct spooler *spooler,
				    struct eventlog *eventlog, void (*synced)(void *user),
				    void *user);
void groupcommit_soon(struct groupcommit *d);
/* The agent ends: nothing more is begun. */
void groupcommit_stop(struct groupcommit *d);
/* With the spooler idle. Its memory goes with its handles in the loop. */
void groupcommit_free(struct groupcommit *d);

#endif
