/* SPDX-License-Identifier: MIT */
#include "hold/guard/event_ring.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/sock.h"
#include "base/str.h"

struct guard_event *event_add(struct guard *g, const struct device *d, enum event_kind kind,
			      const char *fmt, ...)
{
	uint64_t seq = ++g->last_event;
	struct guard_event *ev = &g->events[seq % EVENT_RING];
	va_list ap;

	*ev = (struct guard_event){ .seq = seq,
				    .wall_ns = clock_wall_ns(),
				    .kind = kind,
				    .slot = -1,
				    .reason.uid = DEV_REASON_NO_UID,
				    .uid = DEV_REASON_NO_UID };
	va_start(ap, fmt);
	(void)vsnprintf(ev->reason.text, sizeof(ev->reason.text), fmt, ap);
	va_end(ap);
	if (!d)
		return ev;

	struct client *owner = device_owner(g, d);

	ev->slot = (int32_t)d->slot;
	ev->index = d->id.index;
	ev->state = d->state;
	(void)str_copy(ev->uuid, sizeof(ev->uuid), d->id.uuid);
	if (owner)
		(void)str_copy(ev->instance, sizeof(ev->instance), owner->instance);
	return ev;
}

struct guard_event *event_add_reason(struct guard *g, const struct device *d, enum event_kind kind,
				     const char *lead)
{
	struct guard_event *ev = event_add(g, d, kind, "%s", "");

	ev->reason = d->said.reason;
	dev_reason_lead(&ev->reason, "%s", lead);
	return ev;
}

void event_share(struct guard *g, const struct guard_event *ev, const char *instance)
{
	const struct guard_event told = *ev;
	uint64_t seq;
	struct guard_event *other;

	/* All hear of it, or who is meant does; or whose task it was is not known. */
	if (!told.instance[0] || !instance[0] || strcmp(told.instance, instance) == 0)
		return;
	seq = ++g->last_event;
	other = &g->events[seq % EVENT_RING];
	*other = told;
	other->seq = seq;
	(void)str_copy(other->instance, sizeof(other->instance), instance);
}

void event_add_state(struct guard *g, const struct device *d)
{
	uint32_t flags =
		(d->id.mig_parent ? DEVICE_MIG_CARD : 0) | (d->id.unseen ? DEVICE_UNSEEN : 0);
	char lead[sizeof(d->said.reason.lead)];

	(void)event_add_reason(
		g, d, EVENT_STATE,
		str_print(lead, sizeof(lead), "%s: ", dev_state_shown(d->state, flags)));
}

void event_tell(struct guard *g, struct client *c)
{
	/* An agent that was away for longer than the ring is long misses the oldest. */
	if (g->last_event >= EVENT_RING && c->next_event <= g->last_event - EVENT_RING)
		c->next_event = g->last_event - EVENT_RING + 1;
	while (c->fd >= 0 && c->next_event <= g->last_event) {
		struct msg_event m = { .head = PROTO_HEAD(MSG_EVENT, struct msg_event),
				       .event = g->events[c->next_event % EVENT_RING] };

		if (sock_send(c->fd, &m, sizeof(m)) < 0)
			return;
		c->next_event++;
	}
}

void event_guard_changed(struct guard *g)
{
	/* Who has not said HELLO waits for WELCOME, which says all that. */
	CLIENTS_EACH(g, c)
		c->guard_dirty = c->instance[0];
}
