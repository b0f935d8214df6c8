/* SPDX-License-Identifier: MIT */
#include "agent/attempt/device_use.h"

#include <stdlib.h>

#include "base/mem.h"

static struct use_device *device_of(struct use *u, int32_t slot)
{
	for (size_t i = 0; i < u->n; i++)
		if (u->devices[i].slot == slot)
			return &u->devices[i];
	u->devices = xrealloc(u->devices, u->n + 1, sizeof(*u->devices));
	u->devices[u->n] = (struct use_device){ .slot = slot };
	return &u->devices[u->n++];
}

void use_add(struct use *u, const struct msg_lease_use *m)
{
	struct use_device *d = device_of(u, m->slot);

	if (m->util_ns < d->util_ns) { /* a new guard */
		d->past_util_ns += d->util_ns;
		d->past_busy_ns += d->busy_ns;
	}
	d->util_ns = m->util_ns;
	d->busy_ns = m->util_ns / 1000 * m->util_permille;
	if (m->peak_bytes > d->peak_bytes)
		d->peak_bytes = m->peak_bytes;
}

void use_sum(const struct use *u, uint64_t *ret_peak_bytes, uint32_t *ret_util_permille)
{
	uint64_t peak = 0;
	double busy = 0, all = 0;

	for (size_t i = 0; i < u->n; i++) {
		const struct use_device *d = &u->devices[i];

		peak += d->peak_bytes;
		busy += (double)(d->past_busy_ns + d->busy_ns);
		all += (double)(d->past_util_ns + d->util_ns);
	}
	*ret_peak_bytes = peak;
	*ret_util_permille = all > 0 ? (uint32_t)(busy * 1000 / all + 0.5) : 0;
}

uint64_t use_most(const struct use *u)
{
	uint64_t most = 0;

	for (size_t i = 0; i < u->n; i++)
		most = u->devices[i].peak_bytes > most ? u->devices[i].peak_bytes : most;
	return most;
}

void use_clear(struct use *u)
{
	free(u->devices);
	*u = (struct use){ .n = 0 };
}
