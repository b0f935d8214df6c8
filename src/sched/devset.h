/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_DEVSET_H
#define TENURE_SCHED_DEVSET_H

/* A set of device slots, 0 to SCHED_DEVICES_MAX - 1. Copied by value; {} is the empty set. */

#include <stdbool.h>
#include <stdint.h>

#define SCHED_DEVICES_MAX 128 /* as many as gpu/device.h has */

struct devset {
	uint64_t w[SCHED_DEVICES_MAX / 64];
};

static inline bool devset_has(struct devset s, unsigned int slot)
{
	return s.w[slot / 64] >> (slot % 64) & 1;
}

static inline void devset_add(struct devset *s, unsigned int slot)
{
	s->w[slot / 64] |= UINT64_C(1) << (slot % 64);
}

static inline void devset_del(struct devset *s, unsigned int slot)
{
	s->w[slot / 64] &= ~(UINT64_C(1) << (slot % 64));
}

static inline unsigned int devset_count(struct devset s)
{
	return (unsigned int)(__builtin_popcountll(s.w[0]) + __builtin_popcountll(s.w[1]));
}

static inline struct devset devset_and(struct devset a, struct devset b)
{
	return (struct devset){ { a.w[0] & b.w[0], a.w[1] & b.w[1] } };
}

static inline struct devset devset_or(struct devset a, struct devset b)
{
	return (struct devset){ { a.w[0] | b.w[0], a.w[1] | b.w[1] } };
}

/* Those of a that are not in b. */
static inline struct devset devset_without(struct devset a, struct devset b)
{
	return (struct devset){ { a.w[0] & ~b.w[0], a.w[1] & ~b.w[1] } };
}

static inline bool devset_equal(struct devset a, struct devset b)
{
	return a.w[0] == b.w[0] && a.w[1] == b.w[1];
}

/* The first slot at or after `from`; SCHED_DEVICES_MAX when there is none. */
static inline unsigned int devset_next(struct devset s, unsigned int from)
{
	for (; from < SCHED_DEVICES_MAX; from = (from / 64 + 1) * 64) {
		uint64_t rest = s.w[from / 64] >> (from % 64);

		if (rest)
			return from + (unsigned int)__builtin_ctzll(rest);
	}
	return SCHED_DEVICES_MAX;
}

#define devset_each(slot, set)                                                                     \
	for (unsigned int slot = devset_next((set), 0); slot < SCHED_DEVICES_MAX;                  \
	     slot = devset_next((set), slot + 1))

#endif
