/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ASKS_H
#define TENURE_AGENT_ASKS_H

/*
 * Other users of this machine ask for a device that a task of ours has (`tenure ask`), and our user
 * answers (`tenure answer`). The only part of an agent that speaks to other users: it takes one
 * request of fixed size from each, within a second, of few at a time and of each user few a second,
 * and what it keeps of them is bounded. Nothing happens by an ask but that our user is told.
 *
 * A device that was given is left alone until who asked has come to it, or for ten minutes.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct agent;
struct asks;

/* Listens, where there is a queue. What keeps it from that is said, and tried again. */
struct asks *asks_new(struct agent *a);
/* Once a second: what is over ends. */
void asks_look(struct agent *a);
/* A device has changed: who asked may have come to it. */
void asks_on_device(struct agent *a);
/* Those that are open. A new reference. */
json_t *asks_report(const struct agent *a);
/*
 * Our user's answer, of CTL_ANSWER: {ask, yes, stop, message}, where the ask 0 is the only one that
 * is open. {code, error}, or {code, gpu}, and by yes `requeued` and `stop`: lists of {task,
 * element}, of which our user is to stop the latter.
 */
json_t *asks_answer(struct agent *a, const char *text);
void asks_close(struct agent *a);

#endif
