/* SPDX-License-Identifier: MIT */
#ifndef TENURE_NOTIFY_MISSED_H
#define TENURE_NOTIFY_MISSED_H

/*
 * Events that happened while nobody listened, from the agent's event file and those that it was
 * before (base/log.h), by their ids, START.N.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether a comes before b; "" comes before all. */
bool event_id_before(const char *a, const char *b);
/* Whether nothing can lie between a and b, which comes after it: the same start, and the next
 * number. */
bool event_id_follows(const char *a, const char *b);
/* Each event behind that id, in order; borrowed. */
void missed_events(const char *path, const char *after, void (*take)(void *user, json_t *event),
		   void *user);

#endif
