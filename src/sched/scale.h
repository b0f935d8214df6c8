/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_SCALE_H
#define TENURE_SCHED_SCALE_H

/*
 * Whether a running task gets one device more or gives one back, by the mean utilisation of its
 * devices over a window. Pure: whoever calls has the clock, the devices, and does what is decided.
 *
 *	scale_begin(&s, now)			it has started
 *	scale_sample(&s, &rule, now, util)	about once a second
 *	verdict = scale_decide(&s, &rule, &at)
 *	scale_begin(&s, now)			a GROW or a SHRINK was carried out
 *	scale_vain(&s, &rule, now)		after a SHRINK_UNUSED
 *
 * Rules. Above up_permille: one more, while there is one and it has fewer than max. Below
 * down_permille: one back, while it has more than min; never because another task waits. Nothing
 * happens before the cool-down is over and the window has filled since the start and since each
 * change, because a program that loads its data, or begins again with other devices, is not idle.
 * Nor where the change would undo itself: the same work on n + 1 devices keeps each busy for
 * n/(n + 1) of the time, and that has to lie above down_permille, as the same on n - 1 below
 * up_permille, both by an eighth of what is between the two, because figures are noisy.
 *
 * What is not known is not idle: time without a figure is no part of the mean, and where more than
 * a quarter of the window is without one nothing is decided.
 *
 * Utilisation is in permille, times are nanoseconds of CLOCK_MONOTONIC unless a name says ms.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "sched/types.h"

#define SCALE_UNKNOWN UINT32_MAX /* a utilisation that nobody knows */
#define SCALE_SLOTS   64

struct scale_rule {
	uint32_t min, max; /* devices */
	uint32_t up_permille, down_permille;
	uint64_t window_ms, cooldown_ms;
};

/* Samples of a part of the window. */
struct scale_slot {
	uint64_t begin_ns, end_ns;
	uint64_t known_ns; /* of which the utilisation is known */
	uint64_t busy;	   /* permille times ns */
};

struct scale {
	uint64_t since_ns;	/* the start or the last change */
	uint64_t sampled_ns;	/* the last sample, or since_ns */
	uint64_t grow_after_ns; /* it does not grow before; 0: at any time */
	unsigned int in_vain;	/* devices that it did not come to, in a row */
	unsigned int last;	/* the newest of the slots */
	struct scale_slot slots[SCALE_SLOTS];
};

/* Whether there is one more for it. */
enum scale_room {
	SCALE_ROOM_FREE,
	SCALE_ROOM_NONE,	/* no other device here is free for it */
	SCALE_ROOM_WANTED,	/* a task that waits comes first */
	SCALE_ROOM_LIMIT,	/* max_devices allows no more */
	SCALE_ROOM_ALLOCATIONS, /* it is an allocation, and max_total_gpus allows no more */
	SCALE_ROOM_MAX
};

/* What is so now. */
struct scale_at {
	uint64_t now_ns;
	uint32_t n; /* devices that it has, 1 or more */
	enum scale_room room;
	struct sched_ref wanted_by; /* SCALE_ROOM_WANTED */
	uint64_t left_ms;	    /* until it is stopped with its node; UINT64_MAX: never */
	bool draining;		    /* its node is: nothing is begun */
	bool blind;		    /* nobody could see that it leaves a device */
	bool unused; /* none of its processes has been on the device that it got last */
};

enum scale_verdict {
	SCALE_GROW,
	SCALE_SHRINK,
	SCALE_SHRINK_UNUSED, /* it has not come to the device that it got last */
	/* It stays as it is: */
	SCALE_WITHIN, /* it is neither busy nor idle */
	SCALE_DRAINING,
	SCALE_ENDING,  /* its node stops it soon */
	SCALE_COOLING, /* it has just started, or changed */
	SCALE_FILLING, /* the window has not filled since then */
	SCALE_UNSEEN,  /* its utilisation is not known */
	/* It is busy, and: */
	SCALE_AT_MAX,
	SCALE_WOULD_SHRINK, /* with one more it would be idle */
	SCALE_IN_VAIN,	    /* it did not come to the last one */
	SCALE_NO_ROOM,
	SCALE_WANTED,
	SCALE_LIMIT,
	SCALE_ALLOCATIONS,
	/* It is idle, and: */
	SCALE_AT_MIN,
	SCALE_WOULD_GROW, /* with one less it would be busy */
	SCALE_BLIND,
	SCALE_VERDICT_MAX
};

/* No window, no cool-down and no past: it has started, or has other devices, now. */
void scale_begin(struct scale *s, uint64_t now_ns);
/* The mean of its devices since the last sample; SCALE_UNKNOWN, also where one of them is not
 * known. */
void scale_sample(struct scale *s, const struct scale_rule *rule, uint64_t now_ns,
		  uint32_t util_permille);
/* It has given back a device that it never came to: the next one is tried after twice the time. */
void scale_vain(struct scale *s, const struct scale_rule *rule, uint64_t now_ns);
/* It has come to the device that it got last. */
void scale_used(struct scale *s);
/* None is tried before then: whoever was asked for it has refused. */
void scale_wait(struct scale *s, uint64_t until_ns);

enum scale_verdict scale_decide(const struct scale *s, const struct scale_rule *rule,
				const struct scale_at *at);
/* Over the window; SCALE_UNKNOWN where too little of it is known. */
uint32_t scale_mean(const struct scale *s, const struct scale_rule *rule, uint64_t now_ns);

/* "busy": for programs. "?" where it is none. */
const char *scale_verdict_name(enum scale_verdict verdict);
/* Why, as a clause: "its GPUs are busy 93% of 1m, more than 80%". */
void scale_text(const struct scale *s, const struct scale_rule *rule, const struct scale_at *at,
		enum scale_verdict verdict, struct strbuf *out);

#endif
