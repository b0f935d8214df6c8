/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_ADOPTEE_H
#define TENURE_AGENT_QUEUE_ADOPTEE_H

/*
 * A task of which the shim lives still, or left the record of its end, while nobody was there: what
 * the spool says of it. It is adopted whatever is known of it, because its devices are its own as
 * long as it runs. For jobs of the spooler.
 */

#include "spool/claim.h"
#include "spool/scan.h"

struct adoptee {
	struct claim claim;
	struct spool_spec *spec;
	struct text_list devices; /* UUIDs; empty: it has none, or they were not written down */
	unsigned int tries;
	bool elsewhere; /* it ran on another node, or on this one before that was started anew */
};

/*
 * Fills in what is missing. s: what waits and runs now. An element's spec is its batch's, wherever
 * that is by now; where it is nowhere, the spec is as good as it can be guessed. 0, or -errno: what
 * is there cannot be read now.
 */
int adoptee_fill(struct adoptee *a, const struct spool *sp, const struct scan *s, struct err *e);
void adoptee_clear(struct adoptee *a);

#endif
