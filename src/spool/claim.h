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

/* Somebody else has it, or it has changed, or is paused: look at the queue again. */
#define CLAIM_LOST 1
/* What the file says is no task: it is in bad/ now, e says why. */
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

/* What a command is called that does an agent's work, "stop-HOST": no two nodes' are called the
 * same, since each has a journal of that name. */
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

/* That it was made is known after a power loss. claim_task() does so itself where it matters. */
int claim_keep(const struct spool *sp, const struct claim *c, struct err *e);

/* From now on the claim lives as long as that process (the shim). To be called before it starts
 * anything. devices: UUIDs, so that nobody who comes later has to guess them; may be NULL. */
int claim_started(const struct spool *sp, struct claim *c, const struct proc_id *shim,
		  const struct text_list *devices, struct err *e);
/* Its log could not be made. */
int claim_log_away(const struct spool *sp, const struct claim *c, const struct log_away *log,
		   struct err *e);
/* What that was told of an attempt; 0: of the last one. Of c path and element are used. 1; 0: it
 * has its log in logs/; negative. */
int claim_find_log(const struct spool *sp, const struct claim *c, unsigned int attempt,
		   struct log_away *ret, struct err *e);
/* Its owner wants it ended, and it has been told so: whatever becomes of the node meanwhile, it
 * does not run again. Durable when it returns 0. -ENOENT: the claim is gone. */
int claim_stopped(const struct spool *sp, const struct claim *c, struct err *e);
/* What claim_started() was told, added to a list. 0 or -errno. */
int claim_devices(const struct spool *sp, const struct claim *c, struct text_list *ret,
		  struct err *e);

#endif
