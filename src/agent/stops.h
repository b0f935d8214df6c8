/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_STOPS_H
#define TENURE_AGENT_STOPS_H

/*
 * A task that is stopped by its owner, from the order until it is known what came of it. Its
 * attempt is told, and that its owner wants it so is written down, or it would run again if this
 * node failed before it has ended. Both may come to nothing: it may be another node's, or the
 * spool not answer.
 *
 *	stops_order(q, ...)	its attempts here are told, and it is given to the spooler
 *	stops_settled(q, ...)	after a reading that began later
 *	stops_unwritten(q, ...)
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "sched/types.h"

struct attempt;
struct stops;
struct dispatch;

/* The caller frees it; the spooler is idle then. */
struct stops *stops_new(void);

/* End a running task, or element; element 0: all of it. 0; or with e -ENOENT, or -EAGAIN: what ran
 * before is not known yet, and it may be of that. */
int stops_order(struct dispatch *q, uint64_t id, uint32_t element, bool now, unsigned int sweep,
		struct err *e);
/* What came of it. 0: it is being stopped; stops_unwritten(). -ENOENT: what was stopped does not
 * have the task, which may run elsewhere. Not known yet, to be asked again after another reading:
 * -EBUSY, whose it is; -EAGAIN, whether it could be written down. */
int stops_settled(const struct dispatch *q, uint64_t id, uint32_t element, struct err *e);
/* Why that could not be written down of something that runs on for now; NULL: it was. */
const char *stops_unwritten(const struct dispatch *q, uint64_t id, uint32_t element);

/* That its owner wants it ended is written into its claim. */
void stops_write(struct dispatch *q, const struct attempt *r);
/* The same where it was requeued: that is taken back. */
void stops_write_by_name(struct dispatch *q, struct sched_ref ref);
/* It does not run here any more, and something of its stop came to nothing. */
void stops_keep_vain(struct dispatch *q, struct sched_ref ref, bool elsewhere, const char *why);
/* As view.life.how says, which is one that stops tasks. */
void stops_for_drain(struct dispatch *q, struct attempt *r);

#endif
