/* SPDX-License-Identifier: MIT */
/*
 * The yield path is: look_on_sample() -> verdict_of() -> RELEASE is on its way to the holder.
 * Nothing else is done before that: no look-up of names, no record, no socket but the holder's.
 * What there is to tell is told when the memory is free.
 */
#include "hold/guard/look.h"

#include <errno.h>

#include "base/clock.h"
#include "hold/guard/client.h"
#include "hold/guard/device.h"
#include "hold/guard/event_ring.h"
#include "hold/guard/hold.h"
#include "hold/guard/holder_process.h"
#include "hold/guard/lease.h"
#include "hold/guard/lend.h"
#include "hold/guard/load_control.h"
#include "hold/guard/ownership.h"
#include "hold/guard/verdict.h"
#include "hold/guard/xid.h"

/* --- what is seen --- */

static void on_foreign(struct guard *g, struct device *d, enum verdict v,
		       const struct gpu_proc *who)
{
	enum event_kind kind = v == SEEN_UNFIT ? EVENT_RELEASE : EVENT_YIELD;

	if (d->state == DEV_HOLDING || d->state == DEV_HELD) {
		device_act(d, ACT_RELEASE); /* first of all */
		device_record(d, kind, d->sample.look.end_ns);
		if (v == SEEN_FOREIGN) {
			d->hold.yields++;
			d->hold.yielded = true;
			d->seen.unlisted_yield = !who;
			d->seen.unlisted_ns = d->sample.look.end_ns;
		}
	}
	if (who)
		verdict_name(g, d, who);
	else
		d->said.who_pid = 0;
	if (d->state == DEV_HOLDING || d->state == DEV_HELD)
		device_enter(g, d, DEV_YIELDING);
	else
		(void)device_step(g, d, EV_FOREIGN);
}

/* Until the refresh clock turns the device stays busy; its reason must not. */
static void say_gone(struct device *d)
{
	if (d->said.reason.pid)
		device_say(d, "PID %d is gone", (int)d->said.reason.pid);
	else if (d->said.reason.code == DEV_REASON_MEMORY)
		device_say(d, "who used its memory is gone");
	d->said.who_pid = 0;
}

static void on_clear(struct guard *g, struct device *d)
{
	struct client *owner = device_owner(g, d);

	if (d->state == DEV_HELD) {
		own_learn(g, d, &d->sample.look);
		hold_note_settled(g, d);
	}
	if (d->state == DEV_BUSY && !d->hold.check)
		say_gone(d);
	/* The idle clock starts at a check; a rise is seen at any look. */
	if (d->state == DEV_BUSY && d->hold.check) {
		d->said.who_pid = 0;
		(void)device_step(g, d, EV_CLEAR);
		if (owner && !owner->policy.hold)
			device_say(d, "no other processes; watched only");
	}
}

static void on_verdict(struct guard *g, struct device *d, enum verdict v,
		       const struct gpu_proc *who)
{
	if (v == SEEN_OURS)
		lend_on_ours(g, d, who);
	else if (v == SEEN_CLEAR)
		on_clear(g, d);
	else if (d->state == DEV_LENDING || d->state == DEV_LENT)
		lend_on_neighbour(g, d, who);
	else
		on_foreign(g, d, v, who);
}

static enum room room_of(const struct device *d, enum verdict v)
{
	if (d->seen.xid) /* a task of ours may run on there, and that is all */
		return ROOM_NONE;
	return v == SEEN_CLEAR ? ROOM_HOLD : v == SEEN_OURS ? ROOM_TASK : ROOM_NONE;
}

/* What is never held may have room for a task. Who is there instead is what people are shown. */
static void look_for_tasks(struct guard *g, struct device *d)
{
	const struct gpu_proc *who;

	if (verdict_foreign(g, d, &who) == SEEN_CLEAR)
		d->seen.room = ROOM_TASK;
	if (who)
		verdict_name(g, d, who);
}

void look_on_sample(struct guard *g, struct device *d)
{
	const struct gpu_proc *who;

	if (d->sample.code < 0) {
		if (!d->seen.failing_ns) {
			(void)event_add(g, d, EVENT_LOST, "cannot see it: %s", d->sample.trouble);
			d->seen.failing_ns = clock_mono_ns();
		}
		d->seen.lost = d->seen.lost || d->sample.code == -ENODEV;
		look_blind(g, d, d->sample.trouble);
		if (d->ledger.n_leases)
			lease_on_failed_look(g, d);
		return;
	}
	if (d->seen.failing_ns)
		(void)event_add(g, d, EVENT_BACK, "can be seen again");
	d->seen.failing_ns = 0;
	if (d->seen.lost)
		xid_guard_forget(g, d, "it was away and is back");
	d->seen.lost = false;
	if (d->state == DEV_LEFT && !d->ledger.n_leases) {
		d->dirty = true;
		return;
	}

	/* What was seen while its last holder lived is about that: the memory, too. */
	if (d->hold.gone_ns && d->sample.look.begin_ns <= d->hold.gone_ns && !d->holder.pid) {
		d->dirty = true;
		return;
	}

	enum verdict v = verdict_of(g, d, &who);

	g->assign_due = g->assign_due || !device_occupied(d);
	d->seen.room = room_of(d, v);
	on_verdict(g, d, v, who);
	/* Whoever is on an instance is listed, and counted, for its card as well. */
	if (v == SEEN_UNFIT && !d->seen.xid && !d->id.mig_parent)
		look_for_tasks(g, d);
	verdict_note_hidden(g, d, v, who);
	if (d->ledger.n_leases)
		lease_on_sample(g, d, v);
	if (d->state != DEV_LENT && d->ledger.n_running)
		lend_begin(g, d);
	else if (d->state == DEV_LENT && lend_on_sample(g, d, v, who) && d->owner >= 0)
		client_consider(g, device_owner(g, d));
	if (!d->announced && d->state == DEV_BUSY && v != SEEN_CLEAR) {
		d->announced = true;
		event_add_state(g, d);
	}
	if (d->owner >= 0)
		load_control_on_look(d, &device_owner(g, d)->policy);
	d->dirty = true;
}

void look_blind(struct guard *g, struct device *d, const char *reason)
{
	char xid[XID_TEXT_MAX + 2];

	d->seen.room = ROOM_NONE;
	if (d->state == DEV_HOLDING || d->state == DEV_HELD)
		device_record(d, EVENT_BLIND, clock_mono_ns());
	if (d->holder.kept && !d->holder.end_at_ns)
		d->holder.end_at_ns = clock_mono_ns();
	if (d->state == DEV_LEFT)
		return;
	d->hold.yielded = d->hold.yielded || device_occupied(d);
	d->said.who_pid = 0;
	device_say(d, "cannot be seen: %s%s", reason, device_xid_suffix(d, xid));
	if (d->state == DEV_IDLE || device_occupied(d))
		(void)device_step(g, d, EV_BLIND);
}

/* --- what time brings --- */

/* Looks that wait for a moment and not for news: a figure to take, a rise that has lasted. */
static void look_when_due(struct guard *g, struct device *d, uint64_t now)
{
	if (d->figure.is == FIGURE_DUE && now >= d->figure.at_ns) {
		d->figure.is = FIGURE_ASKED;
		eyes_look_now(g->eyes, d->slot);
	}
	/* The eyes look at what moves every 2 ms and tell what is new; no news is not told. */
	if (d->state == DEV_HELD && now >= verdict_rise_due(g, d)) {
		if (eyes_sample(g->eyes, d->slot, 0, &d->sample))
			look_on_sample(g, d);
		if (d->state == DEV_HELD && d->seen.rise_since_ns)
			eyes_look_now(g->eyes, d->slot); /* or they do not look so often any more */
	}
}

/* A card that is gone, or fails on and on, has no looks, which end leases otherwise. */
static void note_lost(struct guard *g, struct device *d, uint64_t now_ns)
{
	if (!d->seen.lost)
		d->seen.lost_ns = 0;
	else if (!d->seen.lost_ns)
		d->seen.lost_ns = now_ns;
	if (d->ledger.n_over && d->seen.lost)
		lease_on_lost(g, d, now_ns - d->seen.lost_ns);
	else if (d->ledger.n_over && d->seen.failing_ns && now_ns > d->seen.failing_ns)
		lease_on_failing(g, d, now_ns - d->seen.failing_ns);
	if (d->state == DEV_LENT && !d->ledger.n_leases && (d->seen.lost || d->seen.failing_ns))
		(void)device_step(g, d, EV_AWAY);
}

void look_on_time(struct guard *g, struct device *d, uint64_t now_ns)
{
	/* A newcomer's quiet start is not worth more than an agent that was told to end at once. */
	if (d->holder.end_at_ns > now_ns && d->owner >= 0 && device_owner(g, d)->dropping)
		d->holder.end_at_ns = now_ns;
	if (d->holder.pid && d->holder.end_at_ns && now_ns >= d->holder.end_at_ns &&
	    !d->holder.ending)
		holder_tell(d, HOLDER_END);
	if (d->holder.pid) {
		holder_heartbeat(d, now_ns);
		hold_check_limits(g, d, now_ns);
	}
	d->hold.turn_ns = now_ns;
	look_when_due(g, d, now_ns);
	note_lost(g, d, now_ns);
	hold_promised(g, d, now_ns);
	if (device_is_left(d))
		device_leave(g, d);
	if (d->state == DEV_LENT || d->state == DEV_IDLE)
		lend_drop_placeholder(g, d);
	if (d->owner >= 0) {
		load_control_on_time(d, &device_owner(g, d)->policy, now_ns);
		hold_grow(g, d, now_ns);
	}
}
