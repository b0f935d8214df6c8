/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TESTS_GDEV_WORLD_H
#define TENURE_TESTS_GDEV_WORLD_H

/*
 * A guard with one device and no driver: looks are made up, the holder is a child that waits and
 * the other end of its socket is the test's.
 *
 * All of it happens while the wall clock jumps about: no state, wait or back-off may depend on it.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "hold/guard/types.h"
#include "hold/holder_proto.h"

#define GIBS	(1ULL << 30)
#define STRANGE 4100000 /* above the kernel's limit of PIDs, plausible to a driver */

struct world {
	struct guard *g;
	struct device *d;
	int far; /* the holder's end */
	pid_t holder;
};

/* For cmocka: *state is a struct world, whose device is its only client's and not held. */
int world_setup(void **state);
int world_teardown(void **state);

/* The eyes have seen used bytes and the PIDs, the last n_graphics of them graphics processes. */
void see(struct world *w, uint64_t used, const pid_t *pids, uint32_t n, uint32_t n_graphics);
/* Nobody but the holder. */
void see_holder(struct world *w, uint64_t used);

/* What the holder was told next but whether it is there; 0: nothing. */
uint16_t told(struct world *w);
void says(struct world *w, enum holder_type type, uint64_t bytes);

/* As hold_begin() leaves it, with a child that does nothing in the holder's place. */
void start_holder(struct world *w);
/* The same, and it has 70 GiB of 80; its context is one more. */
void hold(struct world *w);
/* As if the time for it had passed since the hold. */
void settle(struct world *w);

/* As people read it; until the next call. */
const char *sentence(const struct dev_reason *r);
const struct guard_event *last_event(const struct world *w);

#endif
