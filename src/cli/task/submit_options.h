/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_SUBMIT_OPTIONS_H
#define TENURE_CLI_TASK_SUBMIT_OPTIONS_H

/* From the options of `submit`, which are those of `run`, too, to a task in the queue. */

#include "cli/cmd.h"
#include "cli/task/lines.h"
#include "spool/task_spec.h"

/* For the rows of commands (cli/cmd.h). */
void submit_add_opts(struct opts *o);

extern const struct cmd_variable submit_variables[];

/* What is to run, of the arguments from the first-th on (nothing where there is none), with the
 * directory and the environment, and what options of a task's keys the command has: cwd and no-env
 * at the least. 0 or negative: wrong usage. */
int submit_take_run(const struct cmd_ctx *ctx, size_t first, struct task_spec *s, struct err *e);

#define SUBMIT_ARGS "SCRIPT|- [ARG..] | -- COMMAND.."

struct submitted {
	uint64_t id; /* of the first one, ... */
	struct task_spec *spec;
	size_t n; /* ... and how many are in the queue, also after an error */
	uint64_t *ids;
	struct spec_list specs;
	struct spool *sp; /* in which they are; NULL: there is none */
};

/* One task. 0, CMD_USAGE with e, or negative. submitted_clear() in each case. The agent of this
 * node is told; whether pools have to see to it is for the caller (pools_tick_after_submit()), when
 * it has said what is in the queue: that may take some seconds. */
int submit_from_options(const struct cmd_ctx *ctx, struct submitted *ret, struct err *e);
/* The same; lines of --from that say more than what to run are tasks of their own. */
int submit_all_from_options(const struct cmd_ctx *ctx, struct submitted *ret, struct err *e);
void submitted_clear(struct submitted *s);

#endif
