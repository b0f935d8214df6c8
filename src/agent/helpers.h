/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_HELPERS_H
#define TENURE_AGENT_HELPERS_H

/*
 * Programs that the agent starts beside itself: who tells people (tenure-notify), who serves HTTP
 * (tenure-serve). It starts them again when they have ended, each time after a longer pause, and
 * tells what they print. It waits for nothing of them: one that hangs, is stopped or is killed
 * changes nothing for agent, guard and tasks. Their standard input ends with the agent, and they do
 * then. What they print is trouble, but for lines with LOG_INFO_MARK (base/log.h).
 *
 * Which ones, says `helpers` of the document that the agent goes by (agent/reload.h), an array of
 *
 *	name		its argv[0], and what it is called here
 *	program		its path; null: it cannot run, and the status tells
 *	trouble		why
 *	settings	keys of the settings that it is given as options
 *	argv		what follows them
 *	watches		whether it is told of the agent's socket (--socket) and events (--events)
 *	tells_free	whether it is to tell when GPUs are free
 */

#include <jansson.h>

#define HELPER_TELLS_FREE "tells_free"

struct agent;
struct helpers;

/* given: the document; NULL: there are none. */
struct helpers *helpers_start(struct agent *a, const json_t *given);
/* Another document: those that are not in it end, those that are others start anew. */
void helpers_change(struct helpers *h, const json_t *given);
/* For the status (docs/json.md). A new reference; h may be NULL. */
json_t *helpers_report(const struct helpers *h);
/* Its memory goes with its handles in the loop. */
void helpers_close(struct helpers *h);

#endif
