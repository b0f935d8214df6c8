/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_HOLDING_DEVICE_HISTORY_H
#define TENURE_CLI_HOLDING_DEVICE_HISTORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/report/samples.h"
#include "cli/cmd.h"

/* `tenure devices --history [DURATION]`: what each GPU was used for, as the agent has seen it. A
 * command's exit code. */
int show_device_history(const struct cmd_ctx *ctx, const char *duration, bool json, struct err *e);

/* What --history was given, in seconds; NULL is a day. 0, or negative with e. */
int device_history_span(const char *duration, uint64_t *ret_s, struct err *e);
/* What a step was; a word that is not known, as of a later version, is SAMPLE_GAP. */
enum sample_state device_history_state(const json_t *text);
/* A strip for each device of such a document, no wider than the terminal, with what its signs mean.
 */
void device_history_print(const json_t *doc);

#endif
