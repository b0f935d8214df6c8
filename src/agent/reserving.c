/* SPDX-License-Identifier: MIT */
#include "agent/reserving.h"

static bool is_same(struct sched_ref a, struct sched_ref b)
{
	return a.id == b.id && a.element == b.element;
}

void reserving_plan(struct reserving *r, const struct sched_action *a)
{
	bool reserve = a->kind == SCHED_RESERVE;

	if (!reserve && a->kind != SCHED_UNRESERVE && a->kind != SCHED_START)
		return;
	devset_each(slot, a->devices) r->slots[slot].want =
		reserve ? a->ref : (struct sched_ref){ 0 };
}

void reserving_tell(struct reserving *r, struct guardlink *link, const struct view *view,
		    struct devset busy)
{
	for (uint32_t i = 0; i < view->n_slots; i++) {
		struct reserving_slot *s = &r->slots[i];
		const struct lease_id id = { .task = s->want.id, .element = s->want.element };

		if (devset_has(busy, i)) {
			s->stale = s->stale || s->told.id;
			continue;
		}
		if (!s->stale && is_same(s->want, s->told))
			continue;
		if (guardlink_reserve(link, &id, view->devices[i].uuid) < 0)
			continue;
		s->told = s->want;
		s->stale = false;
	}
}

void reserving_on_reply(struct reserving *r, const struct msg_lease_reply *m)
{
	struct reserving_slot *s;

	if (m->id.attempt || m->slot < 0 || m->slot >= PROTO_DEVICES_MAX || m->code == 0)
		return;
	s = &r->slots[m->slot];
	if (is_same(s->told, (struct sched_ref){ m->id.task, m->id.element }))
		s->told = (struct sched_ref){ 0 };
}

void reserving_on_left(struct reserving *r, struct devset devices)
{
	devset_each(slot, devices) r->slots[slot].stale = true;
}

void reserving_forget_told(struct reserving *r)
{
	for (size_t i = 0; i < PROTO_DEVICES_MAX; i++) {
		r->slots[i].told = (struct sched_ref){ 0 };
		r->slots[i].stale = false;
	}
}

void reserving_on_state(struct reserving *r, const struct msg_lease_state *m)
{
	if (m->slot < PROTO_DEVICES_MAX)
		r->slots[m->slot].told = (struct sched_ref){ m->id.task, m->id.element };
}

void reserving_clear(struct reserving *r)
{
	for (size_t i = 0; i < PROTO_DEVICES_MAX; i++)
		r->slots[i].want = (struct sched_ref){ 0 };
}
