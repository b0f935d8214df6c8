/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_FORECAST_H
#define TENURE_SCHED_FORECAST_H

/*
 * When a task that waits will start: the planner run forward in virtual time, on a copy of the
 * queue, with how long the runs of each kind took. Twice: once as if all took as little as such
 * runs do, and once as if all took as much, so the answer is a range. It is an estimate: nobody
 * knows what will be submitted, what fails, and when other people come and go, so what they have
 * now they are taken to keep.
 *
 * Where it is not known how long a task takes, its time-out says how long at most; without one
 * nothing is said of what waits for its end, but that it does. Of what would wait as well if all
 * our runs had ended (for other people's devices) nothing is said but its own begin time. Pure.
 */

#include <jansson.h>

#include "base/strbuf.h"
#include "sched/queue.h"

/* Of a whole run of a kind: sched_task.kind. */
struct forecast_time {
	uint64_t kind;
	uint64_t low_ms, high_ms;
};

/* The task waits until another one has ended. */
struct forecast_after {
	uint64_t id, on;
};

/* What is known: by rising kinds, and by rising ids of who waits. */
struct forecast_times {
	size_t n;
	const struct forecast_time *all;
	size_t n_after;
	const struct forecast_after *after;
};

enum forecast_what {
	FORECAST_NOTHING, /* it stands aside, runs, or never starts as things are */
	FORECAST_RANGE,	  /* in low_ms to high_ms */
	FORECAST_LEAST,	  /* not before low_ms, and then when `unknown` has ended, if it is set */
	FORECAST_UNKNOWN, /* when `unknown` has ended, of which it is not known when */
	FORECAST_MANY,	  /* too much comes before it */
	FORECAST_WHAT_MAX
};

struct forecast {
	enum forecast_what what;
	uint64_t low_ms, high_ms;
	struct sched_ref unknown; /* FORECAST_LEAST, FORECAST_UNKNOWN; id 0: not a single one */
};

/* More entries than these before it, or starts, are not gone through. */
#define FORECAST_ENTRIES 5000
#define FORECAST_STARTS	 20000

/*
 * ref: a task or element that waits; element 0 of a batch: whichever of it starts first. The cost
 * is that of twice as many plans as there are starts before it; the queue is as it was.
 */
struct forecast sched_forecast(const struct sched_queue *q, const struct sched_view *view,
			       const struct forecast_times *times, struct sched_ref ref);

/*
 * The same of all that wait, a batch by the next of it; fn is called for each of which there is
 * something to say, in no order. False: too many wait, and nothing is said.
 */
typedef void (*forecast_fn)(void *user, struct sched_ref ref, const struct forecast *f);
bool sched_forecast_all(const struct sched_queue *q, const struct sched_view *view,
			const struct forecast_times *times, forecast_fn fn, void *user);

/* "starts in about 20m to 1h 10m (estimate)"; nothing where nothing is known. */
void forecast_text(const struct forecast *f, struct strbuf *out);
/* docs/json.md; NULL for FORECAST_NOTHING. now: what the times count from. New reference. */
json_t *forecast_json(const struct forecast *f, uint64_t now_wall_ns);

#endif
