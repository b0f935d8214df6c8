/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_STOPPING_H
#define TENURE_CLI_STOPPING_H

/* What `stop` and `run` do to end tasks. */

#include "cli/cmd.h"
#include "cli/queue.h"

struct stopping {
	const struct cmd_ctx *ctx;
	const struct spool *sp;
	bool now;	 /* without grace */
	bool sweep_gpus; /* the agent ends what else of ours is on its GPUs */
	bool quiet;	 /* nothing is told */
	bool changed;	 /* something that waited was taken away: the agent should look */
};

/*
 * What the word means (ID, ID.ELEMENT, NAME, LANE, all) is ended: taken out of the queue where it
 * waits, told to end where it runs; each is told on the standard output, unless quiet. 0 or
 * negative.
 */
int stop_word(struct stopping *s, const char *word, struct err *e);

#endif
