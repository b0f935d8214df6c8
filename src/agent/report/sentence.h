/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_REPORT_SENTENCE_H
#define TENURE_AGENT_REPORT_SENTENCE_H

/*
 * Events and devices in one line for people. The log, the command line and the status show the
 * same text. Pure; names has those of users (NULL: numbers).
 */

#include <jansson.h>

#include "base/strbuf.h"
#include "hold/proto.h"

/* "gpu 2  held 117.3 GiB in 0.46 s (light load, 75 %)". policy: of the instance that holds. */
void sentence_event(const struct guard_event *ev, int32_t mig, const struct hold_policy *policy,
		    const struct user_names *names, struct strbuf *out);

/* "gpu 1  busy: PID 4242, alice, python train.py, 0.5 GiB". now_ns is CLOCK_MONOTONIC. */
void sentence_device(const struct dev_status *dev, const char *own, uint64_t now_ns,
		     const struct user_names *names, struct strbuf *out);

/* The event for programs; line is the sentence. New reference. */
json_t *sentence_event_json(const struct guard_event *ev, int32_t mig, int32_t guard_pid,
			    const struct user_names *names, const char *line);

/* Events that matter to people; the others are for the debug level. */
bool sentence_is_news(uint32_t kind);

#endif
