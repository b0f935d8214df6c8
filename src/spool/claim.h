/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_CLAIM_H
#define TENURE_SPOOL_CLAIM_H

/*
 * The right to run a task once. A single task is claimed by renaming its file into running/ to a
 * name that holds the claimer and the epoch, an element by creating running/ID.ELEMENT,eEPOCH
 * exclusively (batch.h). The claimer's PID, start time and boot are recorded in the file.
 *
 *	claim_task() -> start the shim -> claim_started() -> transit_end() or transit_requeue()
 */

#include "spool/record.h"

/* Another claimer has the task, or it has changed, or is paused: look at the queue again. */
#define CLAIM_LOST 1
/* The file is no task: it is in bad/ now, and e says why. */
#define CLAIM_REFUSED 2

struct claim {
	struct task_name name; /* of the file in running/ */
	char path[SPOOL_PATH_MAX];
	struct claimer who;
	bool started;	      /* who.proc is its shim */
	bool stopped;	      /* its owner wants it ended, for good: claim_stopped() */
	unsigned int attempt; /* from 1 */
	uint64_t claimed_ns;  /* wall */
	size_t record_bytes;  /* of a single task: what was behind it when it was claimed */
};

/* The claimer's name of a command that does an agent's work: "stop-HOST". It differs from node to
 * node, because each claimer has a journal of its name. */
void claimer_tool_name(const char *tool, const char *host, char ret[SPEC_NAME_MAX + 1]);
/* This process as a claimer. */
int claimer_self(const struct spool *sp, const char *agent, struct claimer *ret, struct err *e);

/*
 * n as it is in pending/. 0 with both results (task_file_clear() the file), CLAIM_LOST,
 * CLAIM_REFUSED, or negative: the task is where it was, or, when even that fails, in running/ under
 * this claimer's name, where recovery finds it.
 */
int claim_task(const struct spool *sp, const struct task_name *n, const struct claimer *who,
	       struct task_file *ret_file, struct claim *ret, struct err *e);

/* Makes the claim durable, so that it is known after a power loss. claim_task() does so itself
 * where that matters. */
int claim_keep(const struct spool *sp, const struct claim *c, struct err *e);

/* From now on the claim lives as long as the shim does. The agent calls it before the shim starts
 * anything, and again when the task has other devices. devices: UUIDs, so that an agent that comes
 * later need not guess them; may be NULL. */
int claim_started(const struct spool *sp, struct claim *c, const struct proc_id *shim,
		  const struct text_list *devices, struct err *e);
/* Records where the attempt prints to, because its log could not be made in logs/. */
int claim_log_away(const struct spool *sp, const struct claim *c, const struct log_away *log,
		   struct err *e);
/* What claim_log_away() recorded of an attempt (0: the last one). Only c's path and element are
 * used. 1; 0: the attempt has its log in logs/; negative. */
int claim_find_log(const struct spool *sp, const struct claim *c, unsigned int attempt,
		   struct log_away *ret, struct err *e);
/* Records that the owner wants the task ended: whatever becomes of the node meanwhile, it does not
 * run again. Durable when it returns 0. -ENOENT: the claim is gone. */
int claim_stopped(const struct spool *sp, const struct claim *c, struct err *e);
/* Adds the devices that claim_started() recorded to a list. 0 or -errno. */
int claim_devices(const struct spool *sp, const struct claim *c, struct text_list *ret,
		  struct err *e);

#endif
