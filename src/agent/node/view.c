/* SPDX-License-Identifier: MIT */
#include "agent/node/view.h"

#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"

json_t *view_label_json(const struct dev_status *d)
{
	return d->mig < 0 ? json_integer(d->index)
			  : json_sprintf("%u/%d", (unsigned int)d->index, (int)d->mig);
}

bool view_is_mig_card(const struct view *v, uint32_t slot)
{
	for (uint32_t i = 0; v->devices[slot].mig < 0 && i < v->n_slots; i++)
		if (v->seen[i] && v->devices[i].mig >= 0 &&
		    v->devices[i].index == v->devices[slot].index)
			return true;
	return false;
}

/* By its index, or by its UUID or the beginning of it, as gpu_find() does. */
static bool is_named(const struct dev_status *dev, const char *name)
{
	uint64_t index;

	if (str_to_u64(name, &index) == 0)
		return index == dev->index;
	return strncasecmp(dev->uuid, name, strlen(name)) == 0;
}

bool view_is_selected(const struct view *v, uint32_t slot)
{
	const struct dev_status *dev = &v->devices[slot];

	for (uint32_t i = 0; !v->policy.all && i < v->n_slots; i++) {
		bool same =
			i == slot || (v->devices[i].index == dev->index && v->devices[i].mig < 0);

		for (uint32_t j = 0; same && v->seen[i] && j < v->policy.n_gpus; j++)
			if (is_named(&v->devices[i], v->policy.gpus[j]))
				return true;
	}
	return v->policy.all;
}

int view_index_of(const struct view *v, const char *name)
{
	int found = -1;

	for (uint32_t i = 0; i < v->n_slots; i++) {
		if (!v->seen[i] || !is_named(&v->devices[i], name))
			continue;
		if (found >= 0)
			return -1;
		found = (int)v->devices[i].index;
	}
	return found;
}

uint32_t view_seen(const struct view *v)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < v->n_slots; i++)
		n += v->seen[i];
	return n;
}

unsigned int view_devices(const struct view *v)
{
	unsigned int n = v->guard.n_devices;

	for (uint32_t i = 0; i < v->n_slots; i++)
		n -= n && v->seen[i] && view_is_mig_card(v, i);
	return n;
}

bool view_is_behind(const struct view *v)
{
	for (uint32_t i = 0; i < v->n_slots; i++)
		if (v->awaited[i] && v->seen[i])
			return true;
	return false;
}

bool view_is_anothers(const struct view *v, uint32_t slot)
{
	const struct dev_status *dev = &v->devices[slot];
	bool hold =
		dev->state == DEV_HOLDING || dev->state == DEV_HELD || dev->state == DEV_YIELDING;

	return hold && dev->instance[0] && strcmp(dev->instance, v->c->instance) != 0;
}

static bool is_held(const struct dev_status *d)
{
	return d->state == DEV_HOLDING || d->state == DEV_HELD;
}

const struct view_left *view_left_of(const struct view *v, const char *uuid)
{
	for (size_t i = 0; v->spared && i < v->spared->n; i++)
		if (!strcmp(v->spared->all[i].uuid, uuid))
			return &v->spared->all[i];
	return NULL;
}

enum view_use view_use_of(const struct dev_status *d)
{
	if (!d->n_leases || d->lease.task == LEASE_WORKLOAD)
		return VIEW_UNUSED;
	if (d->lease_stage == LEASE_OVER)
		return VIEW_JUST_FREED;
	return d->lease_stage >= LEASE_GRANTED && !is_held(d) ? VIEW_BY_TASK : VIEW_RESERVED;
}

void view_tally(const struct view *v, struct tally *ret)
{
	*ret = (struct tally){ 0 };
	for (uint32_t i = 0; i < v->n_slots; i++) {
		const struct dev_status *d = &v->devices[i];
		enum view_use use = view_use_of(d);
		bool card = view_is_mig_card(v, i);

		ret->workloads += v->workloads && v->workloads[i].runs;
		if (!v->seen[i])
			continue;
		if (view_is_anothers(v, i)) {
			ret->held_by_others += !card;
			continue;
		}
		ret->uses[use]++;
		ret->held_bytes[use] += d->held_bytes;
		if (card || d->state >= DEV_STATE_MAX)
			continue;
		if (d->flags & DEVICE_UNSEEN && d->state != DEV_LENT) {
			ret->unseen++;
			continue;
		}
		ret->states[d->state]++;
		ret->unused[d->state] += use == VIEW_UNUSED;
	}
}

bool view_is_ready(const struct view *v)
{
	return v->life.phase == LIFE_SERVING || v->life.phase == LIFE_DRAINING;
}

bool view_is_ending(const struct view *v)
{
	return v->life.phase >= LIFE_CLEARING;
}

bool view_would_hold(const struct view *v)
{
	return v->c->policy.hold && !v->life.how && !v->life.released;
}

enum phase view_phase(const struct view *v)
{
	struct tally n;

	if (view_is_ending(v))
		return PHASE_RELEASING;
	if (v->life.how)
		return PHASE_DRAINING;
	if (!v->guard_up || !view_is_ready(v))
		return PHASE_STARTING;
	if (!(v->guard.flags & GUARD_SEES))
		return PHASE_BLIND;
	view_tally(v, &n);
	if (v->c->workload && !v->life.released)
		return n.workloads ? PHASE_HOLDING : PHASE_WAITING;
	if (!v->policy.hold)
		return PHASE_WATCHING;
	return n.states[DEV_HELD] + n.states[DEV_HOLDING] ? PHASE_HOLDING : PHASE_WAITING;
}

static const char *const phase_names[] = {
	[PHASE_STARTING] = "starting",	 [PHASE_BLIND] = "blind",
	[PHASE_WATCHING] = "watching",	 [PHASE_WAITING] = "waiting",
	[PHASE_DRAINING] = "draining",	 [PHASE_HOLDING] = "holding",
	[PHASE_RELEASING] = "releasing",
};
_Static_assert(ARRAY_LEN(phase_names) == PHASE_MAX, "a name for every phase");

const char *phase_name(unsigned int phase)
{
	return phase < PHASE_MAX ? phase_names[phase] : "?";
}

static const char *const on_empty_names[] = {
	[EMPTY_HOLD] = "hold", [EMPTY_RELEASE] = "release", [EMPTY_EXIT] = "exit"
};
_Static_assert(ARRAY_LEN(on_empty_names) == EMPTY_MAX, "a name for each");

const char *on_empty_name(unsigned int on_empty)
{
	return on_empty < EMPTY_MAX ? on_empty_names[on_empty] : "?";
}
