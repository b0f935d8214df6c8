/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_HINTS_H
#define TENURE_HOLD_GUARD_HINTS_H

/*
 * Hints: opens of the device nodes, seen by inotify without any privilege. A CUDA start opens them
 * some 30 times before its process is in any list. A hint is never a verdict: nvidia-smi, DCGM and
 * our own processes open the same nodes.
 *
 * A burst of opens makes a hint that lasts until HINT_TAIL_NS (timings.h) after the last open, or,
 * once as many closes as opens were seen, HINT_BALANCED_NS after it. The kernel merges equal events
 * that nobody has read yet, so the balance is not exact; it shortens a hint, it never ends one at
 * once.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define HINT_OPENS 256U /* opens whose times are remembered */

struct hints {
	int fd;			       /* inotify, or -1: there is none here */
	int n_watches;		       /* nodes that are watched; 0: opens are not seen */
	int errnum;		       /* EMFILE: no instance was left; ENOSPC: no watch; or 0 */
	uint64_t first_ns;	       /* first open of the hint that is on, 0 while none is */
	uint64_t last_ns;	       /* last open */
	uint64_t opens_ns[HINT_OPENS]; /* the last opens, a ring; n_opens is the number of all */
	uint64_t n_opens;
	int64_t balance; /* opens less closes since first_ns */
};

/* Watch the nodes in dir. Never fails: without inotify n_watches stays 0 and e says why. */
void hints_open(struct hints *h, const char *dir, struct err *e);
void hints_close(struct hints *h);

/* Watch nodes that have come since, or could not be watched before; call now and then. */
void hints_rescan(struct hints *h, const char *dir);

/* Take in what happened; call when fd is readable. True when there was an open. */
bool hints_read(struct hints *h, uint64_t now_ns);

/* A hint is on. Ends one that is over. */
bool hints_active(struct hints *h, uint64_t now_ns);

/* The first open at or after since_ns of those that are remembered; 0: there was none. */
uint64_t hints_open_since(const struct hints *h, uint64_t since_ns);

/* What to do where opens are not seen: a sentence. */
const char *hints_advice(const struct hints *h);

/* Pure: count one event. Exposed for the tests. */
void hints_count(struct hints *h, uint32_t mask, uint64_t now_ns);

#endif
