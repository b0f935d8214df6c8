/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_METER_H
#define TENURE_AGENT_METER_H

/*
 * For whom devices were there, and what energy that took: for the ledger (`tenure history
 * --ledger`). What tasks had goes into their attempts (struct use), and from there into the records
 * of their ends; what was held, and what was yielded and is not held again yet, is an event of the
 * kind `meter`, every METER_S seconds and at the end of the agent. All of it on the loop.
 *
 * Time is counted from look to look, and a look comes with each change of a device and once a
 * second. Energy is the card's counter, which is read every ten seconds, and its power meanwhile;
 * where the counter is not known, or several tasks share the device, it is not known.
 */

#include "agent/attempt/attempt.h"
#include "agent/parts.h"
#include "hold/event.h"

#define METER_S 600

struct meter *meter_new(void);
struct meter *meter_free(struct meter *m);
/* Once a second, and where attempts begin or change their devices. */
void meter_look(struct agent *a);
/* The device in that slot is another than it was. */
void meter_on_device(struct agent *a, uint32_t slot);
/* A device was let go of for somebody. */
void meter_on_yield(struct agent *a, const struct guard_event *ev);
/* What the attempt has used is about to be written down. */
void meter_close_attempt(struct agent *a, struct attempt *r);
/* What the next such event would say now: `for_s` and `gpus`. */
json_t *meter_report(struct agent *a);
/* Nothing is held any more. */
void meter_end(struct agent *a);

#endif
