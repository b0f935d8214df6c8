/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_TRANSIT_H
#define TENURE_SPOOL_TRANSIT_H

/*
 * The transitions of a single task after its claim, and what clients change while it waits. Each is
 * a record in the file followed by a rename; when it is interrupted between them, recovery resumes.
 * On error the call can be repeated. The renames are durable when the caller has synced the
 * directories, once for all of them: spool_sync_dirs().
 */

#include "spool/claim.h"
#include "spool/endlog.h"

/* The task is not there any more: it was started, has ended or was changed meanwhile. Look at the
 * queue again. */
#define TRANSIT_GONE 1
/* Another client is changing it at this moment (the flag h). */
#define TRANSIT_HELD 2

/* ---- by who has the claim ---- */

/* To done/, failed/ or cancelled/. ev may be NULL: then the end is not made durable later. */
int transit_end(const struct spool *sp, struct endlog *ev, const struct claim *c,
		const struct spool_end *end, struct err *e);
/* Back to pending/ with the next epoch. */
int transit_requeue(const struct spool *sp, struct endlog *ev, const struct claim *c,
		    const struct spool_again *again, struct err *e);

/*
 * -ENOENT of the calls above: the claim was taken back meanwhile. The record is put behind those of
 * the task, wherever it lies now; its epoch is a lower one, so it changes nothing. 0, or
 * TRANSIT_GONE: no task of that id has a later epoch.
 */
int transit_supersede(const struct spool *sp, const struct claim *c, const struct spool_end *end,
		      struct err *e);

/*
 * ---- by clients, on a task in pending/; *n is changed with the name. 0, TRANSIT_GONE, or
 * negative.
 *
 * A name with the flag h is its holder's: for all but transit_cancel() such a task is gone. Wait
 * for it first.
 */

/* Until nobody holds it, for at most so long; a hold that is a minute old was forgotten and is
 * ended. 0: *n is free; TRANSIT_GONE; TRANSIT_HELD; or negative. */
int transit_await(const struct spool *sp, struct task_name *n, unsigned int limit_ms,
		  struct err *e);

int transit_cancel(const struct spool *sp, const struct task_name *n, const char *reason,
		   struct err *e);
int transit_priority(const struct spool *sp, struct task_name *n, uint64_t priority, struct err *e);
int transit_pause(const struct spool *sp, struct task_name *n, bool paused, struct err *e);
/* Not before then, seconds; 0: at once. */
int transit_begin(const struct spool *sp, struct task_name *n, uint64_t begin_s, struct err *e);
/* Ends the task's back-off, if it is in one; a begin time that its owner has asked for stays. */
int transit_skip_backoff(const struct spool *sp, struct task_name *n, struct err *e);

/* An edit: all of it, or nothing. */
struct transit_edit {
	json_t *set; /* keys of the spec, but those that only the name decides; NULL: none */
	/* Completes it from the task as it is, while nobody else can change that. NULL: it is
	 * whole. */
	int (*complete)(void *data, const struct task_spec *now, json_t *set, struct err *e);
	void *data;
	/* What the name says; NULL: it stays. */
	const uint64_t *priority, *begin_s;
	const bool *paused;
};

/* -EINVAL: the task would not be one, or a key is one that only the name decides. */
int transit_edit(const struct spool *sp, struct task_name *n, const struct transit_edit *edit,
		 struct err *e);

/* An ended task waits again, with the next epoch; dir as scan_dir() told it. durable: the record of
 * that is on the disk, too, when the call returns; else the caller has to see to that. */
int transit_retry(const struct spool *sp, struct task_name *n, const char *dir, bool durable,
		  struct err *e);

/* The file is this process's, in pending/ and with the next epoch, until transit_free_edit(); dir
 * as scan_dir() told it, or "pending". */
int transit_hold(const struct spool *sp, struct task_name *n, const char *dir, struct err *e);

/* After transit_hold(), where no more came of it than r, an error: the file goes back to dir, and
 * *n to its name there. Where that fails the task waits like others. TRANSIT_GONE for -ENOENT,
 * since another process has taken it away then, else r. */
int transit_undo_hold(const struct spool *sp, struct task_name *n, const struct task_name *was,
		      const char *dir, int r);

/* ---- shared with batch.c and recover.c ---- */

/* Ends an edit that was interrupted. */
int transit_free_edit(const struct spool *sp, struct task_name *n, struct err *e);
/* The same if it was forgotten, as the file's time of change tells: TRANSIT_HELD if not. */
int transit_free_forgotten(const struct spool *sp, struct task_name *n, struct err *e);
/* So old is one that was forgotten: an edit takes ms, one of a million elements seconds. */
#define TRANSIT_HOLD_S 60
/* The time in its name is that of a back-off, and not one that was asked for. */
bool transit_backs_off(const struct task_name *n, const struct task_history *h);
/* What a requeue makes of the name of a claim. */
void transit_requeued_name(struct task_name *n, uint64_t not_before_ns);
/* The record of a requeue of c, which is released, behind those of its file; where these are many
 * they become one at that. Where the claim was taken back it is appended, or -ENOENT. For tests. */
int transit_append_requeue(const struct spool *sp, const struct claim *c, json_t *requeue,
			   struct err *e);
/* Moves a file to where its result belongs; *n is its name without claimer. */
int transit_commit(const struct spool *sp, const char *from, struct task_name *n,
		   enum task_result result, uint64_t ended_ns, unsigned int exit, struct err *e);

#endif
