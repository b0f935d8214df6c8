/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_DEPS_H
#define TENURE_SCHED_DEPS_H

/*
 * Who waits for whom. Pure. It is told what each waiting task waits for, and how each task that is
 * waited for stands, and tells whose own state that has changed.
 *
 *	after		everything named has ended well; what has not, or can itself never run,
 *			means that the task can never run
 *	after-any	everything named has ended, however
 *
 * Tasks are meant whole, of a batch all elements. Nothing is final: what has failed may be asked
 * for again, and what somebody waits for may be edited. A task that waits for itself, be it over
 * others, can never run.
 *
 * To set costs the number of names, to tell the number of those that wait. A way round is looked
 * for only where the task is waited for itself.
 */

#include "base/strbuf.h"
#include "sched/types.h"

enum deps_kind { DEPS_AFTER, DEPS_AFTER_ANY };

/* Of a task that is waited for. */
enum deps_state {
	DEPS_OPEN, /* it waits or runs; also what nobody has told about */
	DEPS_GOOD,
	DEPS_BAD,  /* failed or cancelled */
	DEPS_NONE, /* there is no such task: never, for both kinds */
};

struct deps_on {
	uint64_t id;
	enum deps_kind kind;
};

struct deps;

/* Called for each task whose state has changed, also for the one that is being set; the tasks
 * that it waits for may have changed while its state is the same. It must not call anything
 * here. */
typedef void (*deps_fn)(void *user, uint64_t id, enum sched_dep now);

struct deps *deps_new(deps_fn fn, void *user);
struct deps *deps_free(struct deps *d);

/* The task waits for these n others, and no longer for those before. n 0: for none, because it
 * has started or is gone; others go on waiting for it. */
void deps_set(struct deps *d, uint64_t id, const struct deps_on *on, size_t n);
/* How a task stands. Where nobody waits for it nothing is remembered. */
void deps_tell(struct deps *d, uint64_t id, enum deps_state state);
bool deps_is_waited_for(const struct deps *d, uint64_t id);
/* As deps_tell() was last called, OPEN where it was not. */
enum deps_state deps_told(const struct deps *d, uint64_t id);
/* Another task waits for it, and deps_tell() has not said yet how it stands. */
bool deps_is_unknown(const struct deps *d, uint64_t id);
/* READY where it waits for nothing. */
enum sched_dep deps_state(const struct deps *d, uint64_t id);

/* For people, what it waits for or why it can never run: "waits until task 12 has ended well, and
 * for 2 more", "task 12, which it needs, has not ended well"; nothing where it is ready. */
void deps_text(const struct deps *d, uint64_t id, struct strbuf *out);

#endif
