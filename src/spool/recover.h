/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_RECOVER_H
#define TENURE_SPOOL_RECOVER_H

/*
 * After a crash, a kill -9, a reboot or a power loss: brings every task to where its records say
 * that it is. An agent calls it when it starts, and whenever another agent's claims have expired.
 * It may be interrupted and run at once by several.
 *
 * What it does: ends that the events of an earlier boot tell are filed; a claim with an end in it
 * is filed; a claim whose holder is dead goes back to pending/ with the next epoch, or to failed/
 * with no_requeue; a holder that lives is told to the caller; imports of bare files that were
 * interrupted are finished; forgotten edits and temporary files are cleared away.
 */

#include "spool/claim.h"
#include "spool/endlog.h"
#include "spool/heartbeat.h"

struct recover_calls {
	/* Whether the holder of a claim lives. Where who.agent is "", its file is empty: somebody
	 * died before it was written, or is just writing it. A NULL slot: recover_life_here(). */
	enum liveness (*life)(void *data, const struct claim *c);
	/* A claim whose holder lives; spec is NULL for an element. May be NULL. */
	void (*adopt)(void *data, const struct claim *c, const struct task_spec *spec);
	/* The claim at path could not be brought on, also where it could not even be read: it is as
	 * it was, or taken over already, and the caller is to ask for it again. May be NULL. */
	void (*failed)(void *data, const char *path);
	/* It is about to file an end that nobody has told before: of what was lost and is not run
	 * again, or was stopped. c is of its epoch; of an element its batch's spec. May be NULL. */
	void (*ends)(void *data, const struct claim *c, const struct task_spec *spec,
		     const struct spool_end *end);
	/* One sentence about what was done or could not be. May be NULL. */
	void (*tell)(void *data, const char *text);
	void *data;
};

struct recover_counts {
	unsigned int filed, requeued, failed, adopted, unknown, problems;
};

/* Whether a recovery of the agent self took that claim from a dead agent and was interrupted, by an
 * error or its own end, before it brought it on: that agent stays judged dead, and no other
 * recovery takes the claim. */
bool recover_taken_over(const struct claim *c, const char *self);

/* PID and start time where the claim is of this boot; of others it is unknown. */
enum liveness recover_life_here(const struct spool *sp, const struct claimer *c);

/*
 * self: the caller as a claimer. ev: where what is done is noted, may be NULL. One task that cannot
 * be brought on (disk full) does not stop the others: it is told and counted in problems.
 */
int recover_run(const struct spool *sp, const struct claimer *self, struct endlog *ev,
		const struct recover_calls *calls, struct recover_counts *ret, struct err *e);

/* The same for the claims alone, while the agent runs: life is asked for each of them, also for its
 * own. */
int recover_claims(const struct spool *sp, const struct claimer *self, struct endlog *ev,
		   const struct recover_calls *calls, struct recover_counts *ret, struct err *e);

#endif
