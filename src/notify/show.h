/* SPDX-License-Identifier: MIT */
#ifndef TENURE_NOTIFY_SHOW_H
#define TENURE_NOTIFY_SHOW_H

/* What `tenure notify` shows: the channels, what waits for each and how the last attempts went,
 * without anything secret. */

#include <jansson.h>

#include "base/strbuf.h"
#include "notify/config.h"
#include "notify/outbox.h"

/* docs/json.md has the members; agent is one of them, or NULL. New reference. */
json_t *show_json(const struct notify_config *c, const char *file, const char *agent,
		  const struct outbox *o);
/* The same for people. instance: that the agent is of; NULL: not known. */
void show_text(const json_t *doc, const char *instance, struct strbuf *out);

#endif
