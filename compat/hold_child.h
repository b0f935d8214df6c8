/* SPDX-License-Identifier: MIT */
#ifndef TENURE_COMPAT_HOLD_CHILD_H
#define TENURE_COMPAT_HOLD_CHILD_H

/*
 * `tenure hold --json` as a child, its lines as calls.
 *
 *	struct hold_child *h = hold_child_new("occupy", &e);
 *	code = hold_child_run(h, args, &ops, user, &e);
 *	hold_child_free(h);
 *
 * The child ends with its parent, however that ends, and then nothing stays held. One thread, and
 * no other children; SIGINT, SIGTERM and SIGHUP are taken over while it runs.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct hold_child;

/* All may be NULL. */
struct hold_child_ops {
	/* One event: its kind ("held", "yield", ...), its sentence and all of it. */
	void (*event)(void *user, const char *kind, const char *text, const json_t *event);
	/* One line that is no event, as tenure prints when it cannot begin. */
	void (*line)(void *user, const char *line);
	/* The time of hold_child_tick_in() has come. */
	void (*tick)(void *user);
	/* Told to end; everything is let go of from here on. */
	void (*stop)(void *user);
	bool ignore_hangup;
};

/* Finds the executable and reads the settings of the instance. NULL with the reason. */
struct hold_child *hold_child_new(const char *instance, struct err *e);
struct hold_child *hold_child_free(struct hold_child *h);

/*
 * Run it with these options, a vector that ends with NULL, until it ends or a signal comes. 0: told
 * to end, and everything is free; its exit code; -errno with the reason. One that is killed by
 * somebody else is started again.
 */
int hold_child_run(struct hold_child *h, char *const *options, const struct hold_child_ops *ops,
		   void *user, struct err *e);

/* Call tick in so many ms, once. */
void hold_child_tick_in(struct hold_child *h, uint64_t ms);

/* The status of the instance's agent, whoever runs it: a new reference, or NULL. */
json_t *hold_child_status(const struct hold_child *h);

#endif
