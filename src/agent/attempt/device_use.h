/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_DEVICE_USE_H
#define TENURE_AGENT_ATTEMPT_DEVICE_USE_H

/*
 * What an attempt has used of all its devices, put together from what the guard says of each. A
 * guard that is new counts from nothing; what the one before it said is kept. Pure.
 */

#include "hold/proto.h"

struct use_device {
	int32_t slot;
	uint64_t peak_bytes;
	uint64_t util_ns, busy_ns;	     /* as this guard says */
	uint64_t past_util_ns, past_busy_ns; /* as those before it said */
};

/* For the ledger, times the devices: agent/meter.h. */
struct use_meter {
	uint64_t energy_mj, energy_ns; /* and for how long that is known */
	uint64_t empty_ns, seen_ns; /* without a process, or idle; and for how long it was seen */
};

struct use {
	size_t n;
	struct use_device *devices;
	struct use_meter meter;
};

void use_add(struct use *u, const struct msg_lease_use *m);
/* The peaks of all devices together, and their mean utilisation. */
void use_sum(const struct use *u, uint64_t *ret_peak_bytes, uint32_t *ret_util_permille);
/* The peak on the device that had the highest one; 0: none is known. */
uint64_t use_most(const struct use *u);
void use_clear(struct use *u);

#endif
