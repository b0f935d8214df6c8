/* SPDX-License-Identifier: MIT */
#ifndef TENURE_NOTIFY_DAEMON_H
#define TENURE_NOTIFY_DAEMON_H

/*
 * The helper of an agent: it watches it, puts what the rules want into the outbox, and tells the
 * channels, each at its own pace. It ends with its agent, and what it has not told yet is told by
 * the next one.
 */

#include "base/err.h"

struct daemon_config {
	const char *socket; /* the agent's name (hold/endpoint_names.h) */
	const char *events; /* its event file */
	const char *outbox;
	const char *files; /* configs that may have the block, as notify_config_read() */
};

/* 0 when its agent has ended; negative with e. What people should know goes to standard error. */
int daemon_run(const struct daemon_config *c, struct err *e);

#endif
