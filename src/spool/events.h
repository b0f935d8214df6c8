/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_EVENTS_H
#define TENURE_SPOOL_EVENTS_H

/*
 * What makes ends durable in groups: each end and each requeue is a line in
 * events/AGENT.tasks.jsonl, and one fdatasync of that file makes all of them survive a power loss,
 * whatever became of the renames. recover.h reads the files of an earlier boot. One process writes
 * a file.
 *
 * A line is needed until what it stands for (the record in the task's file or the journal of its
 * batch, and the rename) is on the disk by itself. So that there are never very many:
 *
 *	if (events_are_many(ev) && events_cut(ev, &part, &e) == 0)
 *		syncfs() of the spool's filesystem, which may take minutes, by another process
 *		events_drop(ev, part, &e);
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
/* 0 at once when nothing was added since the last one. Negative: what was added since then is not
 * safe yet, and another call writes it anew. */
int events_sync(struct events *ev, struct err *e);
/* Recovery has brought all that lines of before events_open() tell to where it belongs; until then
 * nothing is cut off. */
void events_recovered(struct events *ev);
/* It is time to cut: the file has some MiB, or there are lines of before events_open(). */
bool events_are_many(const struct events *ev);
#define EVENTS_KEPT 1
/* The file becomes a part, AGENT,PART.tasks.jsonl, that counts as before, and begins anew. 0;
 * EVENTS_KEPT: there is nothing in it, or it is not recovered; negative: it is as it was. */
int events_cut(struct events *ev, uint64_t *ret_part, struct err *e);
/* What this part and those before it stand for is on the disk. */
int events_drop(struct events *ev, uint64_t part, struct err *e);

/* A line of another boot than the running one; its numbers are ones that a name can have. */
struct event {
	uint64_t id, element;
	bool requeue; /* else an end */
	struct spool_end end;
	uint64_t epoch;	   /* after a requeue */
	uint64_t noted_ns; /* wall, of a requeue */
	struct spool_again again;
};
typedef void (*event_fn)(void *data, const struct event *ev);
/* All agents' files, a line at a time. */
int events_read_old(const struct spool *sp, event_fn fn, void *data, struct err *e);

#endif
