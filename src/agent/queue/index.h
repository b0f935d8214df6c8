/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_INDEX_H
#define TENURE_AGENT_QUEUE_INDEX_H

/*
 * What has changed in the spool, read off the loop's thread in one job and applied on the loop:
 * tasks that came, changed or went, bare files that became tasks, dependencies that are settled,
 * orders of other tools.
 *
 *	b->want = ...			what to look at
 *	index_work(b, place)		in a spooler job
 *	for (i ...) index_apply(plan, eventlog, &b->changes[i])		on the loop
 *	index_clear(b)
 */

#include "agent/queue/order.h"
#include "agent/queue/spooler.h"
#include "agent/report/eventlog.h"
#include "base/strbuf.h"
#include "sched/forecast.h"
#include "sched/queue.h"
#include "sched/types.h"
#include "spool/control.h"

/* An element that was tried before and waits for itself. */
struct index_again {
	uint32_t element;
	uint64_t not_before_ns; /* monotonic; 0: at once */
	uint64_t mem_bytes;	/* 0: as its batch */
	char *reason;
};

struct index_change {
	bool waits;		/* false: it does not wait any more; only id and n_elements count */
	bool dep_only;		/* only id, n_elements and task.dep count */
	struct sched_task task; /* but for lane, which is a name here */
	char *model;
	char lane[SPEC_NAME_MAX + 1];
	char *note;		/* or NULL */
	struct uint_list after; /* tasks that it waits for, in whatever way */
	/* Of a batch: elements that do not wait, ended or running. */
	size_t n_out;
	uint32_t *out;
	size_t n_again; /* those are among n_out, too */
	struct index_again *again;
};

/* A task of which the file could not be read: it is read again, later each time. */
struct index_unread {
	uint64_t id;
	bool bad;  /* it was read, and is none: only somebody who changes it can mend that */
	char *why; /* NULL: there are very many of them */
};

struct index_want {
	bool all;		/* read the directories anew */
	bool batches;		/* another agent is gone: elements that only it knew to wait */
	bool settle;		/* tasks have ended that others may depend on */
	struct text_list names; /* files of pending/ that inotify told */
	struct uint_list ids;	/* tasks of which a claim was lost: they may wait all the same */
};

struct index_reading {
	struct index_want want;
	uint64_t read_ns; /* how long the directories took, where they were read */
	bool filed;	  /* a batch: who waits for it is told when that is safe on the disk */
	bool more;	  /* that is not all: the next job reads on, in the order of starting */
	size_t n_changes;
	struct index_change *changes;
	bool ordered; /* by control.json: */
	struct control_order order;
	struct strbuf notes; /* lines to be told */
	bool times_known;    /* how long runs of each kind take, for sched/forecast.h: */
	size_t n_times;
	struct forecast_time *times;
	bool unread_known; /* unread is what there is now; else nothing of it was looked at */
	size_t n_unread;
	struct index_unread *unread;
	bool raw_known, raw_waits; /* whether there are bare files that are to become tasks */
	bool lanes_read;
	struct text_list lanes, reasons; /* of those that are paused, where lanes_read */
	struct err e;			 /* with code: the spool could not be read */
	int code;
	uint64_t now_ns, now_wall_ns;
};

void index_work(struct index_reading *b, struct spool_place *place);
/* Its file is not read before the task is claimed. */
bool index_name_says_all(const struct spool_place *place, const struct task_name *n);
/* On the loop: the planner is told. c's task gets the strings and the lane that it has there. */
void index_apply(struct sched_queue *plan, struct eventlog *eventlog, struct index_change *c);
void index_clear(struct index_reading *b);
void index_unread_clear(struct index_unread *all, size_t n);
/* What the place remembers for it. */
void index_forget(struct spool_place *place);

#endif
