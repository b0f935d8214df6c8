/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_HISTORY_H
#define TENURE_SERVE_HISTORY_H

/*
 * The last day: of devices as the agent remembers it (CTL_HISTORY, docs/json.md), and as the agents
 * of other nodes have told of it in the queue, and the yields as the event files have them. To
 * write a day of sixteen devices down costs the agent some milliseconds, so it is asked by one
 * worker at a time, and then left alone for twice as long as the answer took: however many ask,
 * that is a third of its time at most. Who asks the same within HISTORY_FRESH_MS gets the same
 * answer.
 */

#include "serve/request.h"

#define HISTORY_FRESH_MS 2000

struct history_seat;

/* For as long as the program runs. */
struct history_seat *history_seat_new(void);

/* Of all devices, or of the one that the path names. */
void history_answer(struct serve *s, struct request *r);
/* Of a node that serves the instance, as it has told of it in the queue. */
void history_of_node(struct serve *s, struct request *r);
void history_yields(struct serve *s, struct request *r);

#endif
