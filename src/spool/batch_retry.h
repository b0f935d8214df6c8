/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_BATCH_RETRY_H
#define TENURE_SPOOL_BATCH_RETRY_H

/*
 * Elements of a batch that have ended are run again, as their owner asks, whether the batch is over
 * or others of it wait or run still. What never ran of a batch that was stopped waits again with
 * them. Where this is interrupted the batch is as it was, or some of the elements wait; where it
 * fails the batch is back where it was, and those elements wait only if it waits itself.
 */

#include "spool/batch.h"

/* Whether an element that has ended is to run again. */
typedef bool (*batch_retry_fn)(void *data, uint64_t element, enum batch_state state);

/*
 * n: the batch's name in dir ("failed", "done/2026-11-21", "pending"), which is changed with it.
 * who: a name that no other process writes under. 0, TRANSIT_GONE: it is not there any more, or
 * negative; *ret_n: how many wait that had ended or were stopped.
 */
int batch_retry_ended(const struct spool *sp, struct task_name *n, const char *dir, const char *who,
		      batch_retry_fn pick, void *data, uint64_t *ret_n, struct err *e);

/*
 * What of a batch in pending/ waits in a back-off may start at once; what is claimed is in none,
 * whatever the journals and our clock say. 0; BATCH_RETRY_NONE: nothing does; TRANSIT_GONE, or
 * negative.
 */
#define BATCH_RETRY_NONE 2
int batch_retry_waiting(const struct spool *sp, struct task_name *n, const char *who,
			struct err *e);

#endif
