/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_ORDERBOX_H
#define TENURE_AGENT_QUEUE_ORDERBOX_H

/*
 * What clients of other nodes order through control/, looked for every two seconds and when the
 * directory changes. An order is taken by a job of the spooler, carried out on the loop by whoever
 * knows how, and answered by another job, after those that write down what came of it.
 */

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "agent/queue/order.h"
#include "agent/queue/spooler.h"
#include "agent/queue/spoolwatch.h"
#include "agent/report/eventlog.h"

struct orderbox_parts {
	struct spooler *spooler;
	struct spoolwatch *spoolwatch;
	struct eventlog *eventlog;
};

struct orderbox_ops {
	/* It is about what may have been submitted just now: the spool is read first. */
	bool (*asks_for_new)(void *user, const struct order *o);
	/* Do it. A new reference to the answer. */
	json_t *(*obey)(void *user, const struct order *o);
	/* What came of it is not known yet: asked again after what the spooler has to do now. */
	bool (*is_open)(void *user, const struct order *o, const json_t *answer);
	/* It is: the answer is completed. */
	void (*settle)(void *user, const struct order *o, json_t *answer);
	/* It lies there. What ends the agent is done now, because nobody would answer it after
	 * that. */
	void (*answered)(void *user, const struct order *o);
};

struct orderbox;

struct orderbox *orderbox_new(uv_loop_t *loop, const struct orderbox_parts *parts,
			      const struct orderbox_ops *ops, void *user);
/* The spool is open: what lies there for an agent of our name before us is forgotten. */
void orderbox_start(struct orderbox *o);
/* A client may have written one. */
void orderbox_look(struct orderbox *o);
void orderbox_stop(struct orderbox *o);
/* Its memory goes with its handles in the loop. */
void orderbox_free(struct orderbox *o);

#endif
