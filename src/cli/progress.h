/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_PROGRESS_H
#define TENURE_CLI_PROGRESS_H

/*
 * How far work is that takes more than a second, on standard error where that is a terminal, and
 * nothing elsewhere:
 *
 *	submitting  [#########           ]  47%  47000 of 100000, 4s left
 *
 *	struct progress p = progress_begin("submitting", n);
 *	progress_at(&p, i + 1);		after each
 *	progress_end(&p);		nothing is left of it
 */

#include <stdbool.h>
#include <stdint.h>

struct progress {
	const char *what;
	uint64_t total;
	uint64_t begin_ns, next_ns; /* monotonic; UINT64_MAX: it is never shown */
	bool drawn;
};

/* what is not copied. */
struct progress progress_begin(const char *what, uint64_t total);
void progress_at(struct progress *p, uint64_t done);
/* Before anything else is printed there, and at the end. */
void progress_end(struct progress *p);

#endif
