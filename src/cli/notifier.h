/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_NOTIFIER_H
#define TENURE_CLI_NOTIFIER_H

/* How tenure-notify (src/notify), which tells people, is called by `tenure notify` and by an agent.
 */

#include <stdbool.h>

#include "base/textlist.h"
#include "cli/cmd.h"

/* What it needs that not every machine has. */
#define NOTIFIER_PROGRAM "tenure-notify"
#define NOTIFIER_NEEDS	 "libcurl (libcurl4-openssl-dev)"

/* "--config=..", "--outbox=..", "--instance=..": which configs may say whom to tell, the one that
 * counts first, and what waits. */
void notifier_add_options(const struct cmd_ctx *ctx, const char *state_dir, struct text_list *argv);
/* What an agent is to start (agent/helpers.h), where a config says whom to tell; a new reference.
 * NULL: nobody is to be told. That there is no such program is warned of. */
json_t *notifier_spec(const struct cmd_ctx *ctx, const char *state_dir);
/*
 * Become the notifier, which mails the event to that address, by the first channel for mail of the
 * config, or by sendmail. Takes the reference. Returns only where it cannot: negative with e.
 */
int notifier_mail(const struct cmd_ctx *ctx, const char *state_dir, const char *email,
		  json_t *event, struct err *e);

#endif
