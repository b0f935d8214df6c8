/* SPDX-License-Identifier: MIT */
#include "agent/view.h"

#include "base/mem.h"
#include "hold/state.h"

unsigned int view_count(const struct view *v, unsigned int state)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < v->n_slots; i++)
		n += v->seen[i] && v->devices[i].state == state;
	return n;
}

uint64_t view_held_bytes(const struct view *v)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < v->n_slots; i++)
		if (v->seen[i])
			bytes += v->devices[i].held_bytes;
	return bytes;
}

enum phase view_phase(const struct view *v)
{
	if (v->stopping)
		return PHASE_RELEASING;
	if (!v->guard_up || !v->ready)
		return PHASE_STARTING;
	if (!(v->guard.flags & GUARD_SEES))
		return PHASE_BLIND;
	if (!v->policy.hold)
		return PHASE_WATCHING;
	return view_count(v, DEV_HELD) + view_count(v, DEV_HOLDING) ? PHASE_HOLDING : PHASE_WAITING;
}

static const char *const phase_names[] = {
	[PHASE_STARTING] = "starting", [PHASE_BLIND] = "blind",	    [PHASE_WATCHING] = "watching",
	[PHASE_WAITING] = "waiting",   [PHASE_HOLDING] = "holding", [PHASE_RELEASING] = "releasing",
};
_Static_assert(ARRAY_LEN(phase_names) == PHASE_MAX, "a name for every phase");

const char *phase_name(unsigned int phase)
{
	return phase < PHASE_MAX ? phase_names[phase] : "?";
}
