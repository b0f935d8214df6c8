/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_OPENING_H
#define TENURE_AGENT_OPENING_H

/*
 * The spool is opened, what an earlier agent of this name left is recovered, and what still runs is
 * found: one job off the loop's thread, whose findings the loop then takes.
 *
 *	opening_work(&o, place)		in a spooler job; fills in place
 *	for (i ...) o.all[i]		on the loop; take_ptr() the spec, take the devices
 *	opening_clear(&o)
 */

#include "agent/queue/adoptee.h"
#include "agent/queue/spooler.h"
#include "base/strbuf.h"
#include "spool/instance.h"

#define OPENING_KEY_MAX (SPEC_NAME_MAX + 64)

struct opening {
	/* The caller's, as long as the job runs. */
	const char *root, *instance, *agent, *run_dir;
	const struct spool_trust *trust;
	int watch_fd; /* dirwatch_add(), for pending/ */
	bool again;   /* it was told before what cannot be told */
	/* Found. */
	char key[OPENING_KEY_MAX]; /* of the spool, for names_token() */
	size_t n;
	struct adoptee *all;	  /* what an earlier agent started */
	struct text_list unknown; /* claims that cannot be told now, or could not be brought on */
	size_t n_unsure;
	struct task_name *unsure; /* their names; of an element with what its batch's name says */
	struct text_list lanes;	  /* that are this agent's */
	struct strbuf notes;	  /* lines to be told */
	char *cgroup;		  /* to make tasks' own ones in; NULL: none is delegated */
	struct err e;		  /* with code: there is no queue */
	int code;
};

/* After an error the place is as before, and it may be tried again. */
void opening_work(struct opening *o, struct spool_place *place);
/* Later: claims (their paths) of other agents of which the holders are dead, or that were `unknown`
 * before, wait again; those that run, or of which the end is known, are among all[]. The caller
 * sets run_dir and key; nothing is watched. */
void opening_reclaim(struct opening *o, struct spool_place *place, const struct text_list *dead);
void opening_clear(struct opening *o);
/* Of a claim in `unknown`. */
bool opening_claim_name(const char *unknown, struct task_name *ret);

#endif
