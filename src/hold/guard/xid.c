/* SPDX-License-Identifier: MIT */
#include "hold/guard/xid.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "hold/guard/device.h"
#include "hold/guard/event_ring.h"
#include "hold/guard/lend.h"
#include "hold/guard/timings.h"

static const char *const advice[XID_KIND_MAX] = {
	[XID_TROUBLE] = ("not used until it was reset, or tenure off and on say otherwise; a reset "
			 "needs tenure off --stop-tasks of every user of this machine first"),
	[XID_PROGRAM] = "the doing of a program on it; the GPU goes on",
	[XID_NOTICE] = "for information",
};

/* Note that xid is told now; false: it was just told. The oldest makes room for one that is new. */
static bool note_told(struct device *d, uint32_t xid, uint64_t now)
{
	struct xid_told *place = &d->seen.xids_told[0];

	for (size_t i = 0; i < ARRAY_LEN(d->seen.xids_told); i++) {
		struct xid_told *t = &d->seen.xids_told[i];

		if (t->xid == xid && now - t->ns < XID_AGAIN_NS)
			return false;
		if (t->xid == xid || (place->xid != xid && t->ns < place->ns))
			place = t;
	}
	*place = (struct xid_told){ .xid = xid, .ns = now };
	return true;
}

/* The last place is that of all for which there is no other. */
static void count(struct device *d, const struct eyes_error *err)
{
	struct xid_count *c = d->seen.xids, *last = c + ARRAY_LEN(d->seen.xids) - 1;

	while (c < last && c->n && c->xid != err->xid)
		c++;
	c->xid = c < last ? err->xid : 0;
	c->n += err->n;
	d->dirty = true;
}

static void tell(struct guard *g, struct device *d, const struct eyes_error *err,
		 enum xid_kind kind)
{
	char text[XID_TEXT_MAX], times[32] = "";

	if (!note_told(d, err->xid, clock_mono_ns()))
		return;
	if (err->n > 1)
		(void)str_print(times, sizeof(times), ", %u times", err->n);
	(void)event_add(g, d, EVENT_NOTE, "%s%s: %s", xid_text(err->xid, text), times,
			advice[kind]);
}

static void on_trouble(struct guard *g, struct device *d, uint32_t xid)
{
	char text[XID_TEXT_MAX];

	if (d->seen.xid == xid)
		return;
	d->seen.xid = xid;
	d->seen.room = ROOM_NONE;
	d->dirty = true;
	(void)xid_text(xid, text);
	if (device_holds(d))
		device_unwant(g, d, text);
	else if (d->seen.failing_ns)
		device_say(d, "cannot be seen: %s; %s", d->sample.trouble, text);
	else if (d->state == DEV_IDLE || d->state == DEV_BUSY)
		device_say(d, "%s", text);
	else if (d->state == DEV_LENT)
		lend_say(g, d);
	if (d->state == DEV_IDLE)
		(void)device_step(g, d, EV_FOREIGN);
	eyes_look_now(g->eyes, d->slot);
}

/* The card that it is of, or an instance of that. */
static bool concerns(const struct guard *g, const struct device *d, const struct eyes_error *err)
{
	return (uint32_t)err->slot == d->slot ||
	       (d->id.mig >= 0 && d->id.index == g->devs[err->slot].id.index);
}

void xid_guard_on_error(struct guard *g, const struct eyes_error *err)
{
	enum xid_kind kind = xid_kind(err->xid);
	char text[XID_TEXT_MAX];

	if (err->slot < 0 || (uint32_t)err->slot >= g->n_devs) {
		(void)event_add(g, NULL, EVENT_NOTE, "%s of a GPU that is not known here",
				xid_text(err->xid, text));
		return;
	}
	count(&g->devs[err->slot], err);
	tell(g, &g->devs[err->slot], err, kind);
	for (uint32_t i = 0; kind == XID_TROUBLE && i < g->n_devs; i++)
		if (concerns(g, &g->devs[i], err))
			on_trouble(g, &g->devs[i], err->xid);
}

void xid_guard_take(struct guard *g)
{
	struct eyes_error err;

	while (eyes_next_error(g->eyes, &err))
		xid_guard_on_error(g, &err);
}

void xid_guard_forget(struct guard *g, struct device *d, const char *why)
{
	char text[XID_TEXT_MAX];

	if (!d->seen.xid)
		return;
	(void)event_add(g, d, EVENT_NOTE, "%s counts no more: %s", xid_text(d->seen.xid, text),
			why);
	d->seen.xid = 0;
	(void)memset(d->seen.xids_told, 0, sizeof(d->seen.xids_told));
	if (d->state == DEV_BUSY)
		device_say(d, "%s", why);
	else if (d->state == DEV_LENT)
		lend_say(g, d);
	d->dirty = true;
	eyes_look_now(g->eyes, d->slot);
}
