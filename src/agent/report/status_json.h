/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_REPORT_STATUS_JSON_H
#define TENURE_AGENT_REPORT_STATUS_JSON_H

/* The status as JSON, which is what `tenure status --json` prints (docs/json.md). Pure but for the
 * clocks. */

#include <jansson.h>

#include "agent/node/view.h"
#include "agent/report/agentlog.h"
#include "agent/report/eventlog.h"

#define STATUS_FORMAT 1

/* New reference. */
json_t *status_json(const struct view *v, struct agentlog *j, struct eventlog *names);
json_t *status_json_but_devices(const struct view *v, struct agentlog *j, struct eventlog *names);
/* One device, as in the status; now_ns is CLOCK_MONOTONIC. */
json_t *status_device_at(const struct view *v, uint32_t slot, struct eventlog *names,
			 uint64_t now_ns);
/* The same, without the workload and the quarantine that an agent puts on it. */
json_t *status_device(const struct view *v, const struct dev_status *d, struct eventlog *names,
		      uint64_t now_ns);
/* "in use by task 2", "reserved: task 2", "just freed by task 2", " of INSTANCE" behind it where it
 * is not ours, in buf; NULL: no task has it or is to have it. */
#define STATUS_USE_MAX (LEASE_TEXT_MAX + PROTO_INSTANCE_MAX + 32)
char *status_device_use(const struct view *v, const struct dev_status *d, char buf[STATUS_USE_MAX]);
/* Who speaks: the instance, its agent and where it writes. */
json_t *status_agent(const struct view *v);
/* What `on` and a second `on` want to know at once. */
json_t *status_ping(const struct view *v);

#endif
