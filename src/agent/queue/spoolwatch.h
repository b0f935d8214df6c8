/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_SPOOLWATCH_H
#define TENURE_AGENT_QUEUE_SPOOLWATCH_H

/*
 * When the spool is read, and what of it could be: a doorbell, inotify on pending/, and every few
 * seconds, since inotify does not see what other nodes write. One reading at a time
 * (agent/queue/index.h); what is wanted meanwhile is read by the next one. And those who wait until
 * what is in the spool now has been read.
 */

#include <stdbool.h>
#include <uv.h>

#include "agent/queue/dirwatch.h"
#include "agent/queue/index.h"
#include "agent/queue/spooler.h"
#include "agent/report/eventlog.h"
#include "sched/types.h"

/* How much is known of what waits. It only grows. */
enum queue_state {
	QUEUE_CLOSED, /* there is no queue */
	QUEUE_OPEN,   /* spoolwatch_open(): what ran before is known */
	QUEUE_LISTED, /* the directories have been read, and which lanes are paused */
	QUEUE_KNOWN,  /* all that waits has been looked at once */
};

struct spoolwatch_ops {
	/* Everything is going to be read. */
	void (*rescan)(void *user);
	/* A reading, in the state that it has led to. first: that is QUEUE_KNOWN since this. */
	void (*read)(void *user, struct index_reading *b, bool first);
	/* It has been dealt with, and another one may begin. */
	void (*after)(void *user);
	/* A file of that task has changed: by ourselves. */
	bool (*owns)(void *user, struct sched_ref ref);
};

struct spoolwatch;

struct spoolwatch *spoolwatch_new(uv_loop_t *loop, struct spooler *spooler,
				  struct eventlog *eventlog, const struct spoolwatch_ops *ops,
				  void *user);
/* The spool is open; a rescan is due. */
void spoolwatch_open(struct spoolwatch *w);
/* Read all. */
void spoolwatch_rescan(struct spoolwatch *w);
/* The same, and what waits of elements that only an agent which is gone knew. */
void spoolwatch_rescan_batches(struct spoolwatch *w);
/* Tasks have ended that others may wait for. */
void spoolwatch_settle(struct spoolwatch *w);
/* That one, too, with the next reading; now: which begins now. */
void spoolwatch_look_at(struct spoolwatch *w, uint64_t id, bool now);

enum queue_state spoolwatch_state(const struct spoolwatch *w);
/* Why there is no queue, or why it cannot be read; NULL: nothing is wrong. */
const char *spoolwatch_trouble(const struct spoolwatch *w);
/* True: it was not so before. */
bool spoolwatch_set_trouble(struct spoolwatch *w, const char *why);
/* Files that could not be read, of the last reading that looked at such. */
const struct index_unread *spoolwatch_unread(const struct spoolwatch *w, size_t *ret_n);
/* By the last reading of all there are bare files that are to become tasks. */
bool spoolwatch_raw_waits(const struct spoolwatch *w);
/* Of pending/, for whoever opens the spool. */
const struct dirwatch *spoolwatch_dirwatch(const struct spoolwatch *w);

/*
 * What is in the spool now has been read, or cannot be. Once, on the loop, as soon as that is so; r
 * belongs to the watch until then, or until it is forgotten. -EAGAIN: there is no queue.
 */
struct spool_reader {
	void (*read)(struct spool_reader *r);
	uint64_t at;
	struct spool_reader *next;
};
int spoolwatch_when_read(struct spoolwatch *w, struct spool_reader *r);
void spoolwatch_forget_reader(struct spoolwatch *w, const struct spool_reader *r);

/* Nothing more is read: who waits for it is told so. */
void spoolwatch_stop(struct spoolwatch *w);
/* The spooler is idle. Its memory goes with its handles in the loop. */
void spoolwatch_free(struct spoolwatch *w);

#endif
