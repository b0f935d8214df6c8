/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_WHY_H
#define TENURE_CLI_TASK_WHY_H

#include <jansson.h>

#include "base/strbuf.h"
#include "cli/task/select.h"

/*
 * Why a task waits, or what has become of it, in a sentence without its name: "waits for 2 GPUs:
 * ..". The agent here is asked, and those of other nodes where they may know more. 0 or negative.
 */
int why_of(const struct cmd_ctx *ctx, const struct spool *sp, const struct task_place *p,
	   struct strbuf *b, struct err *e);
/*
 * Of a task that waits, what the spool alone says, which would keep it from starting even if there
 * were an agent; nothing where it is ready. reasons (a list of sched/reason.h) may be NULL.
 */
void why_known(const struct spool *sp, const struct task_place *p, struct strbuf *b,
	       json_t *reasons);

#endif
