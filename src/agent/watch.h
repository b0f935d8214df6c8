/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_WATCH_H
#define TENURE_AGENT_WATCH_H

/*
 * Programs that look on: each gets a snapshot, and then what changes, as documents in JSON
 * (docs/json.md has them). Nothing is queued for anybody: of devices and the status only the newest
 * state is told, events come out of the ring that the agent keeps anyway (agent/report/eventlog.h),
 * and who falls behind that is told how many it has missed. All of it on the loop.
 */

#include <jansson.h>
#include <stdbool.h>

#include "agent/ctl.h"

#define WATCHERS_MAX 16 /* of the CTL_CLIENTS_MAX that can be served */

struct agent;
struct watch;

struct watch *watch_new(struct agent *a);
/* Its memory goes with its handles in the loop. */
void watch_close(struct agent *a);

/* The whole status; or all but the devices. New reference. */
json_t *watch_status(struct agent *a, bool devices);

/* It watches from now on, or is told why it cannot. */
void watch_add(struct agent *a, struct ctl_client *client);
/* What the socket asks for it, and tells of it (ctl.h). */
char *watch_next(struct agent *a, struct ctl_client *client);
void watch_slow(struct agent *a, struct ctl_client *client);
void watch_forget(struct agent *a, struct ctl_client *client);

/* Somebody watches. */
bool watch_any(const struct agent *a);

/* What has changed; cheap where nobody watches. */
void watch_happened(struct agent *a); /* an event */
void watch_device(struct agent *a, uint32_t slot);
void watch_devices(struct agent *a); /* all of them may have */
void watch_queue(struct agent *a);
/* The agent ends. */
void watch_end(struct agent *a, const char *why);

#endif
