/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_LEDGER_H
#define TENURE_CLI_TASK_LEDGER_H

/*
 * `tenure history --ledger`: what GPUs were there for, and what energy that took. It stands on what
 * is written down alone: the records of tasks' ends (spool/usage.h), and the agents' events of the
 * kind `meter` (agent/meter.h). What is not known is said as that, and is in no sum.
 *
 *	l = ledger_new(ctx, since_ns, until_ns);
 *	ledger_add(l, id, name, lane, user, &used);	for each task
 *	r = ledger_read_meters(l, &e);			where holds are meant, too
 *	ledger_print(l);
 *	l = ledger_free(l);
 */

#include "cli/cmd.h"
#include "spool/usage.h"

struct ledger;

/* Wall clock; until_ns is when it is asked for, or before. */
struct ledger *ledger_new(const struct cmd_ctx *ctx, uint64_t since_ns, uint64_t until_ns);
struct ledger *ledger_free(struct ledger *l);
/* All texts are copied. lane "": none. */
void ledger_add(struct ledger *l, uint64_t id, const char *name, const char *lane, const char *user,
		const struct usage *used);
/* What this user's agents of the instance held. 0, or a negative errno. */
int ledger_read_meters(struct ledger *l, struct err *e);
/* As text, or as --csv or --json say. */
void ledger_print(const struct ledger *l);

#endif
