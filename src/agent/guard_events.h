/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_GUARD_EVENTS_H
#define TENURE_AGENT_GUARD_EVENTS_H

/* What the guard says; and the watchdog, for one that says nothing. */

#include <stdint.h>

#include "agent/node/guardlink.h"

struct agent;
struct watchdog;

/* The user pointer is the struct agent. */
extern const struct guardlink_ops guard_events_ops;

/* The caller frees it. */
struct watchdog *watchdog_new(void);
/*
 * Once in interval_ms. A guard that does not speak for 10 s is told about, and its holders, of
 * which nobody could ask anything, are ended; where nobody sees who comes, the workload goes. After
 * a gap of more than two intervals nothing is judged: we were stopped, and what it said waits to be
 * read.
 */
void watchdog_look(struct agent *a, uint64_t interval_ms);

#endif
