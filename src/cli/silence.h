/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_SILENCE_H
#define TENURE_CLI_SILENCE_H

/*
 * What is done where the queue's directory does not answer, because its file server hangs: whoever
 * touches it waits for as long as the server likes. Every command says so; `stop` turns to the
 * agent on this node, which hears all the same.
 *
 *	if (!silence_is_broken(ctx))	before the queue is opened
 *		return silence_stop(ctx, now, sweep, e);
 */

#include "cli/cmd.h"

/*
 * If it takes three seconds from begin to end, a thread notes that the directory is waited for. Its
 * name is not copied. NULL, and no note, where there can be no thread; end takes that too.
 */
struct silence;
struct silence *silence_begin(const char *dir);
struct silence *silence_end(struct silence *s);

/* False: nothing came of a look at the queue in three seconds. A process of its own looks, since
 * one that waits for a file server cannot always be ended. */
bool silence_is_broken(const struct cmd_ctx *ctx);

/*
 * Of what the words on the command line mean (ID, ID.ELEMENT, NAME, all) that which runs on this
 * node is told to end; sweep: SWEEP_BIT()s for the agent. A note says so first. 0, or negative with
 * e where that may not be all of it.
 */
int silence_stop(const struct cmd_ctx *ctx, bool now, unsigned int sweep, struct err *e);

#endif
