/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TUI_TREND_H
#define TENURE_TUI_TREND_H

/*
 * Utilisation of devices over the last hour: means of ten seconds, each at its time, as the agent
 * keeps them (docs/json.md, `tenure devices --history`). What it has kept is there from the start,
 * and what is seen meanwhile is added. Pure but for the clock that is handed in, which is wall
 * time.
 */

#include <jansson.h>
#include <stdint.h>

#define TREND_STEP_S  10
#define TREND_STEPS   360
#define TREND_DEVICES 128
#define TREND_UNKNOWN 255

struct trend {
	char uuid[96];
	uint32_t at[TREND_STEPS];	 /* its time in steps, at [time % TREND_STEPS]; 0: none */
	unsigned char util[TREND_STEPS]; /* per cent */
	uint32_t sum, n;		 /* of the looks of the step that is not over */
	uint32_t now;			 /* which that is */
};

/* Zeroed: none. */
struct trends {
	size_t n;
	struct trend *all;
};

void trends_clear(struct trends *t);
/* NULL: nothing is known of it. */
const struct trend *trends_find(const struct trends *t, const char *uuid);
/* One more look at each device of a status. */
void trends_sample(struct trends *t, const json_t *devices, uint64_t now_ns);
/* What the agent has kept, its answer to CTL_HISTORY. What was seen here stays. */
void trends_take(struct trends *t, const json_t *history);
/* Per cent so many steps before now; TREND_UNKNOWN. */
unsigned int trend_before(const struct trend *t, uint64_t now_ns, size_t steps);

#endif
