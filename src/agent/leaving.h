/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_LEAVING_H
#define TENURE_AGENT_LEAVING_H

/*
 * The agent has nothing more to do here: it starts no more tasks and holds nothing more, waits
 * until those that run have ended, by themselves or because they are stopped, and then ends. Once
 * begun it goes on by itself, whoever asked for it may be gone.
 */

#include "agent/inner.h"

/* why: a sentence without its end. Begun already: only from draining to stopping. */
void leaving_begin(struct agent *a, enum leaving how, const char *why);
/* Somebody on another node said so. */
void leaving_order(struct agent *a, enum order_how how);
/* A task is over, or a second. */
void leaving_look(struct agent *a);

#endif
