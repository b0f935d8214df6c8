/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_NODE_STUCK_H
#define TENURE_AGENT_NODE_STUCK_H

/*
 * A task that computes nothing while its GPU is at 100 %: one of its ranks is gone, and the others
 * spin in a kernel that waits for it. Utilisation cannot tell that, the watts do: a kernel that
 * only spins draws little more than an idle card. Pure; a state per device, which begins as zeroes.
 */

#include <stdbool.h>
#include <stdint.h>

#include "hold/proto.h"

#define STUCK_UTIL 99 /* per cent, at least */
#define STUCK_POWER_PART                                                                           \
	5		    /* less than a fifth of the card's power limit: a judgement, by cards  \
			       that idle at a tenth of it or so */
#define STUCK_GAP_MS 180000 /* without figures for so long, nothing is known */

struct stuck {
	struct lease_id task;
	uint64_t since_ns;  /* it looks so; 0: it does not */
	uint64_t looked_ns; /* the last figures */
	bool told;
};

/*
 * The device as it is now, of the instance `own`; after_ms: so long it has to look so. True once,
 * for each time that it does: it is to be told.
 */
bool stuck_look(struct stuck *s, const struct dev_status *d, const char *own, uint64_t after_ms);

#endif
