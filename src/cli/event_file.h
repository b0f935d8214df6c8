/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_EVENT_FILE_H
#define TENURE_CLI_EVENT_FILE_H

/*
 * What a command has to tell to programs, where no agent may be there to tell it: one line of
 * <state dir>/<instance>/events/<host>.commands.jsonl, in the form of the agents' own event files
 * beside it (agent/report/agentlog.h, docs/json.md). Commands write one at a time, and it rotates
 * as those do.
 */

#include <jansson.h>

#include "base/log.h"
#include "cli/cmd.h"

/* The kinds that commands alone tell, and no agent; ends with NULL. */
extern const char *const event_file_kinds[];

/* An event of that kind, with members of its own, whose reference is taken over, and its sentence.
 * What cannot be written is warned of, and no failure of the command. */
void event_file_add(const struct cmd_ctx *ctx, enum log_level level, const char *kind, json_t *more,
		    const char *text);

/* "2026-11-25T20:31:05.123+01:00" of an event, wall; 0: it is no time. */
uint64_t event_file_time(const json_t *event);

#endif
