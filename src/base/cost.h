/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_COST_H
#define TENURE_BASE_COST_H

/*
 * What something costs that is done again and again, and how long to rest between two times, so
 * that it takes no more than its share of the time. The cost is the least of the last three times
 * that it took: one that took longer than the others met a machine or a file server that stood
 * still for a moment, which is no reason to do it seldom.
 */

#include <stdint.h>

#define COST_LAST_NS 10000000000ULL

struct cost {
	uint64_t took_ns[3]; /* the last first; 0: none yet. All of it 0: nothing is known */
};

void cost_add(struct cost *c, uint64_t took_ns);
/* 0 until it has been done three times. */
uint64_t cost_ns(const struct cost *c);
/* share times as long as it takes; no more than most_ns or once as long as it takes, whichever is
 * more. Not less than least_ns, and than the last time took: so it takes half of the time at most
 * before its cost is known, but for what takes longer than COST_LAST_NS, after which that is all.
 */
uint64_t cost_rest_ns(const struct cost *c, uint64_t share, uint64_t least_ns, uint64_t most_ns);

/*
 * How long something takes that another thread does, by our own turns: where all of us stood still,
 * as in a virtual machine that was paused, so did that. Zeroed; times are monotonic.
 */
struct cost_turns {
	uint64_t began_ns; /* of what is going on; 0: nothing is */
	uint64_t last_ns;  /* our last turn */
	uint64_t took_ns;
};

/* In each turn: it began then (0: nothing goes on). A turn counts most_ns at most: what is longer
 * was none. Returns how long it has taken. */
uint64_t cost_turn(struct cost_turns *t, uint64_t began_ns, uint64_t now_ns, uint64_t most_ns);

#endif
