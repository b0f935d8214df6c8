/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_BURN_RUN_H
#define TENURE_AGENT_BURN_RUN_H

/*
 * A burn from its beginning to its end: a client of the guard, as an agent is, whose policy has the
 * devices burn. It has no spool and no socket. The guard stays in charge: who comes to a device
 * ends its test at once, and tasks of this user's agents go before it. A device that an agent of
 * this user holds is tested as it is held, and goes back to that agent.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/burn/judge.h"
#include "agent/node/config.h"

struct burn_order {
	struct hold_policy policy; /* which devices, how much memory, which load */
	uint64_t for_ms;	   /* each device is tested for so long */
	const char *dev_dir;
	/* Of the engine's job in which this is, as agent/node/config.h has them; NULL, NULL, 0: in
	 * none. */
	const struct engine_here *job;
	const char *given;
	uint32_t n_given;
};

/* How it stands; the devices that were selected, in the order of their slots. */
struct burn_state {
	struct burnt devices[PROTO_DEVICES_MAX];
	uint32_t n;
	uint64_t for_ns;
	bool over;
};

/*
 * Run until each device was tested for its time, was given away, or cannot be tested; or until
 * SIGINT, SIGTERM or SIGHUP. tick is called a few times a second; when it returns false the burn
 * is interrupted as by a signal. At the end nothing is held any more. 0 and *state; -EPERM, -EINVAL
 * or -ENODEV: the guard does not take the policy; -EBUSY: another burn runs; -EIO: there is no
 * guard to be had; -EINTR: it was interrupted before; e says why. What ends it after a device was
 * selected is the trouble of those that were not tested to the end.
 */
int burn_run(const struct burn_order *order, struct burn_state *state,
	     bool (*tick)(void *user, const struct burn_state *state), void *user, struct err *e);

#endif
