/* SPDX-License-Identifier: MIT */
#include "agent/node/deadline.h"

#include "base/clock.h"

uint64_t deadline_left_ms(const struct view *v)
{
	uint64_t now = clock_boot_ns();

	return v->lifetime_end_ns > now ? (v->lifetime_end_ns - now + NS_PER_MS - 1) / NS_PER_MS
					: 0;
}

uint64_t deadline_end_wall_ns(const struct view *v)
{
	uint64_t now = clock_boot_ns();

	if (!v->c->lifetime_ms)
		return 0;
	return clock_wall_ns() + v->lifetime_end_ns - now;
}
