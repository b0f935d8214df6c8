/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_ENDLOG_H
#define TENURE_SPOOL_ENDLOG_H

/*
 * What makes ends durable in groups: each end and each requeue is a line in
 * events/AGENT.tasks.jsonl, and one fdatasync of that file makes all of them survive a power loss,
 * whatever became of the renames. recover.h reads the files of an earlier boot. One process writes
 * a file.
 *
 * A line is needed until what it stands for (the record in the task's file or the journal of its
 * batch, and the rename) is on the disk by itself. With no_syncfs (spool/own.h) the record is there
 * before its line is added. So that there are never very many:
 *
 *	if (endlog_is_long(ev) && endlog_cut(ev, &part, &e) == 0)
 *		spool_sync_child(), which may take minutes
 *		endlog_drop(ev, part, &e);
 */

#include "spool/record.h"

/* events/AGENT and this: an agent that has one has served the instance. */
#define ENDLOG_SUFFIX ".tasks.jsonl"

struct endlog;

int endlog_open(const struct spool *sp, const char *agent, struct endlog **ret, struct err *e);
struct endlog *endlog_close(struct endlog *ev);

/* element 0: the task itself. Not durable until endlog_sync(). */
int endlog_add_end(struct endlog *ev, uint64_t id, uint64_t element, const struct spool_end *end,
		   struct err *e);
int endlog_add_requeue(struct endlog *ev, uint64_t id, uint64_t element, uint64_t epoch,
		       const struct spool_again *again, struct err *e);
/* 0 at once when nothing was added since the last one. Negative: what was added since then is not
 * safe yet, and another call writes it anew. */
int endlog_sync(struct endlog *ev, struct err *e);
/* Recovery has brought all that lines of before endlog_open() tell to where it belongs; until then
 * nothing is cut off. */
void endlog_recovered(struct endlog *ev);
/* It is time to cut: the file has some MiB, or there are lines of before endlog_open(). */
bool endlog_is_long(const struct endlog *ev);
#define ENDLOG_KEPT 1
/* The file becomes a part, AGENT,PART.tasks.jsonl, that counts as before, and begins anew. 0;
 * ENDLOG_KEPT: there is nothing in it, or it is not recovered; negative: it is as it was. */
int endlog_cut(struct endlog *ev, uint64_t *ret_part, struct err *e);
/* What this part and those before it stand for is on the disk. */
int endlog_drop(struct endlog *ev, uint64_t part, struct err *e);

/* A line of another boot than the running one; its numbers are ones that a name can have. */
struct endlog_line {
	uint64_t id, element;
	bool requeue; /* else an end */
	struct spool_end end;
	uint64_t epoch;	   /* after a requeue */
	uint64_t noted_ns; /* wall, of a requeue */
	struct spool_again again;
};
typedef void (*endlog_line_fn)(void *data, const struct endlog_line *ev);
/* All agents' files, a line at a time. */
int endlog_read_old(const struct spool *sp, endlog_line_fn fn, void *data, struct err *e);

#endif
