/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_HISTORY_H
#define TENURE_AGENT_HISTORY_H

/*
 * The last day of each device (agent/report/samples.h): looked at once a second, kept in memory,
 * and written to a file of each device and instance on a disk of this node, so that the next agent
 * has it. Files are read and written by one job at a time in the thread pool. A disk that is full,
 * or hangs, costs samples in the file and nothing else; they are counted, and told once.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct agent;
struct history;

struct history *history_new(struct agent *a);
/* Once a second. */
void history_look(struct agent *a);
/* The last seconds (0: all there is) in steps of step_s (0: as fine as fits). New reference. */
json_t *history_report(const struct agent *a, uint64_t seconds, uint64_t step_s);
/*
 * The same of the whole day in steps of AGENT_HISTORY_STEP_S, for who asks with each heartbeat and
 * writes it where other nodes find it: when the devices of before are known, when there are others,
 * every ten minutes, and at the end (last). NULL: not now. New reference.
 */
json_t *history_to_share(struct agent *a, bool last);
/* No further job is started. */
void history_close(struct agent *a);
/* 0 and it is freed; -EBUSY: a job hangs on the disk, and needs its memory. */
int history_free(struct history *h);

#endif
