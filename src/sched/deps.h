/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_DEPS_H
#define TENURE_SCHED_DEPS_H

/*
 * Who waits for whom. The agent adds what waits, tells what has ended, and is told whose state has
 * changed; it carries that into the queue with sched_change() and sched_note().
 *
 *   after      everything named has succeeded; one that fails means that the task can never run
 *   after-any  everything named has ended, however
 *
 * A name is a task, an element (42.7), or a whole batch (42), whose end the agent tells when all of
 * its elements have ended. Adding costs the number of names; an end costs the number of waiters.
 */

#include "base/err.h"
#include "sched/types.h"

enum deps_kind { DEPS_AFTER, DEPS_AFTER_ANY };

enum deps_known {
	DEPS_PENDING,	/* it waits or runs */
	DEPS_SUCCEEDED, /* it has ended */
	DEPS_FAILED,	/* failed, cancelled, or can itself never run */
	DEPS_UNKNOWN,	/* no such task: for after it is a failure, for after-any it has ended */
};

struct deps_on {
	struct sched_ref ref;
	enum deps_kind kind;
	enum deps_known known; /* when it is added */
};

struct deps;

struct deps *deps_new(void);
struct deps *deps_free(struct deps *d);

/*
 * The task waits for n others; what it waited for before is forgotten. Returns its state. -ELOOP
 * (negative, nothing changed) when it would wait for itself, with the way round in e.
 */
int deps_set(struct deps *d, struct sched_ref task, const struct deps_on *on, size_t n,
	     struct err *e);
/* It does not wait any more: it started, or was removed. Its waiters go on waiting for it. */
void deps_forget(struct deps *d, struct sched_ref task);

/* Called for each task that left SCHED_DEP_WAIT. It may call deps_forget() for that task only. */
typedef void (*deps_fn)(struct sched_ref task, enum sched_dep now, void *user);
/* A task has ended for good. What can never run because of it is told too, and those behind it. */
void deps_ended(struct deps *d, struct sched_ref task, bool succeeded, deps_fn fn, void *user);

/*
 * Whether a task that waits for `on` would wait for itself: 0, or -ELOOP with "3 -> 7 -> 3" in e.
 */
int deps_check_cycle(const struct deps *d, struct sched_ref task, const struct deps_on *on,
		     size_t n, struct err *e);

#define DEPS_TEXT_MAX 120
/* "waits for task 12 to succeed and 2 more", "task 12, which it needs, failed"; "" when it waits
 * for nothing. buf holds DEPS_TEXT_MAX bytes; returns buf. */
const char *deps_text(const struct deps *d, struct sched_ref task, char *buf);

#endif
