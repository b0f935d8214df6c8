/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_TASKSTOP_H
#define TENURE_CLI_TASK_TASKSTOP_H

/* What `stop` and `run` do to end tasks. */

#include <jansson.h>

#include "cli/cmd.h"
#include "cli/task/outcome.h"

struct remote_stop;

struct taskstop {
	const struct cmd_ctx *ctx;
	const struct spool *sp;
	const json_t *here; /* sp NULL, where the queue does not answer: agent_tasks() */
	bool now;	    /* without grace */
	bool sweep_gpus;    /* the agent ends what else of ours is on its GPUs */
	bool quiet;	    /* nothing is told */
	uint64_t remote_ms; /* so long agents of other nodes are waited for, and in all the one */
	uint64_t until_ns;  /* here, until it knows what runs; mono; 0: it was not waited for yet */
	bool changed;	    /* something that waited was taken away: the agent should look */
	struct outcome said;
	struct err unsynced; /* the first that came of making it durable; code 0: nothing */
	struct err silent;   /* why the agent here is not asked any more; code 0: it answers */
	/* What runs under agents of other nodes; they are asked by taskstop_finish(). */
	size_t n_remote;
	struct remote_stop *remote;
};

/*
 * What the word means (ID, ID.ELEMENT, NAME, LANE, all) is ended: taken out of the queue where it
 * waits, told to end where it runs. 0, or negative where that may not be all of it.
 */
int taskstop_word(struct taskstop *s, const char *word, struct err *e);

/*
 * To be called once after all words, whatever came of them: what was ended is made durable and told
 * on the standard output, unless quiet; those who have to end something on other nodes are asked
 * and waited for, a few seconds. Who does not answer is told in e, with what to do.
 */
int taskstop_finish(struct taskstop *s, struct err *e);

#endif
