/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_EVENTS_H
#define TENURE_SPOOL_EVENTS_H

/*
 * What makes ends durable in groups: each end and each requeue is a line in
 * events/AGENT.tasks.jsonl, and one fdatasync of that file makes all of them survive a power loss,
 * whatever became of the renames. recover.h reads the files of an earlier boot. One process writes
 * a file.
 */

#include "spool/record.h"

struct events;

int events_open(const struct spool *sp, const char *agent, struct events **ret, struct err *e);
struct events *events_close(struct events *ev);

/* element 0: the task itself. Not durable until events_sync(). */
int events_add_end(struct events *ev, uint64_t id, uint64_t element, const struct spool_end *end,
		   struct err *e);
int events_add_requeue(struct events *ev, uint64_t id, uint64_t element, uint64_t epoch,
		       const struct spool_again *again, struct err *e);
/* 0 at once when nothing was added since the last one. */
int events_sync(struct events *ev, struct err *e);
/* Makes what the lines stand for durable (syncfs) and begins the file anew; after a recovery, and
 * when the file has grown. May take long. */
int events_checkpoint(struct events *ev, struct err *e);

/* A line of another boot than the running one. */
struct event {
	uint64_t id, element;
	bool requeue; /* else an end */
	struct spool_end end;
	uint64_t epoch; /* after a requeue */
	struct spool_again again;
};
typedef void (*event_fn)(void *data, const struct event *ev);
/* All agents' files. */
int events_read_old(const struct spool *sp, event_fn fn, void *data, struct err *e);

#endif
