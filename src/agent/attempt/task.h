/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_TASK_H
#define TENURE_AGENT_ATTEMPT_TASK_H

/* Attempts of the spool's tasks: claimed before anything else, and committed at the end. */

#include "agent/attempt/attempt.h"
#include "agent/queue/recovery.h"

/* All as the plan says: edits is the version of the task that it knows, and another one is not
 * started. The slots of devices are those of the view. */
struct attempt *attempt_start(struct attempt_place *place, struct sched_ref ref, uint64_t edits,
			      struct devset devices);
/* What an earlier agent started, as recovery tells. The spec and the devices in t are the attempt's
 * from now on; devices: those of them that the view shows. */
struct attempt *attempt_adopt(struct attempt_place *place, struct adoptee *t,
			      struct devset devices);
/* NULL: there is none. */
struct attempt *attempt_by_ref(const struct attempt_place *place, struct sched_ref ref);
/* Of the status: docs/json.md. */
json_t *attempt_report(const struct attempt *a);

#endif
