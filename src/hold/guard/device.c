/* SPDX-License-Identifier: MIT */
/*
 * One device in the guard: what is seen of it and what the policies want. hold.c has the hold, and
 * lend.c the way to a task and back.
 *
 * Everything that happens to it becomes an event of the state table (state.c); gstep() does what
 * the table says. The yield path is: gdev_on_sight() -> gjudge() -> gstep(EV_FOREIGN) -> RELEASE is
 * on its way to the holder. Nothing else is done before that: no look-up of names, no record, no
 * socket but the holder's. What there is to tell is told when the memory is free.
 */
#include "hold/guard/device.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "hold/guard/client.h"
#include "hold/guard/events.h"
#include "hold/guard/gstep.h"
#include "hold/guard/hold.h"
#include "hold/guard/holder_process.h"
#include "hold/guard/lease.h"
#include "hold/guard/lend.h"
#include "hold/guard/load_control.h"
#include "hold/guard/ownership.h"
#include "hold/guard/verdict.h"
#include "hold/guard/xid.h"

/*
 * Anybody can take the name of a device and keep it. So it is heeded for as long as another user's
 * tenure takes to be seen on the device; after that whoever has it is not there.
 */
#define NAME_HEEDED_NS (30 * NS_PER_S)
#define TURN_AWAY_MOST 16 /* at a time */

void gdev_say(struct gdev *d, const char *fmt, ...)
{
	char text[PROTO_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!strcmp(text, d->reason))
		return;
	(void)str_copy(d->reason, sizeof(d->reason), text);
	d->reason_pid = 0;
	d->dirty = true;
}

void gdev_reset_idle(struct gdev *d, uint64_t now_ns)
{
	d->idle_since_ns = now_ns;
	d->dirty = true;
}

void gdev_unlock(struct gdev *d)
{
	if (!d->holder.pid && !d->n_leases)
		d->lock_fd = fd_close(d->lock_fd);
}

bool gdev_lock(struct gdev *d, struct err *e)
{
	struct err other = ERR_INIT;
	char name[108];
	struct ucred who;

	if (d->lock_fd >= 0)
		return true;
	(void)str_print(name, sizeof(name), "tenure/dev/%s", d->id.uuid);
	d->lock_fd = sock_listen(name, &other);
	if (d->lock_fd >= 0)
		return true;
	d->lock_fd = -1;
	if (sock_listener(name, &who) < 0)
		(void)err_set(e, -EBUSY, "tenure of another user has it");
	else if (who.pid != getpid())
		(void)err_set(e, -EBUSY, "tenure of uid %u has it", (unsigned int)who.uid);
	else
		return true; /* a child of ours, which has not come to its exec: gone in a moment */
	return false;
}

bool gdev_may_hold(struct gdev *d, struct err *e)
{
	uint64_t heeded_until = d->idle_since_ns + d->wait_ns + NAME_HEEDED_NS;

	return gdev_lock(d, e) || clock_mono_ns() >= heeded_until;
}

void gdev_turn_away(struct gdev *d)
{
	for (int i = 0; d->lock_fd >= 0 && i < TURN_AWAY_MOST; i++) {
		int fd = sock_accept(d->lock_fd, NULL);

		if (fd < 0 && fd != -EPERM) /* that one was another user's, and is gone already */
			return;
		(void)fd_close(fd);
	}
}

/* --- what is seen --- */

static void on_foreign(struct guard *g, struct gdev *d, enum verdict v, const struct gpu_proc *who)
{
	enum event_kind kind = v == SEEN_UNFIT ? EVENT_RELEASE : EVENT_YIELD;

	if (d->state == DEV_HOLDING || d->state == DEV_HELD) {
		gstep_act(d, ACT_RELEASE); /* first of all */
		gstep_record(d, kind, d->sight.look.end_ns);
		if (v == SEEN_FOREIGN) {
			d->yields++;
			d->yielded = true;
			d->unlisted_yield = !who;
			d->unlisted_ns = d->sight.look.end_ns;
		}
	}
	if (who)
		gjudge_name(g, d, who);
	else
		d->who_pid = 0;
	if (!who && v == SEEN_FOREIGN)
		d->reason_pid = -1;
	if (d->state == DEV_HOLDING || d->state == DEV_HELD)
		gstep_enter(g, d, DEV_YIELDING);
	else
		(void)gstep(g, d, EV_FOREIGN);
}

/* Until the refresh clock turns the device stays busy; its reason must not. */
static void say_gone(struct gdev *d)
{
	if (d->reason_pid > 0)
		gdev_say(d, "PID %d is gone", (int)d->reason_pid);
	else if (d->reason_pid < 0)
		gdev_say(d, "who used its memory is gone");
	d->who_pid = 0;
}

static void on_clear(struct guard *g, struct gdev *d)
{
	struct gclient *owner = gdev_owner(g, d);

	if (d->state == DEV_HELD) {
		own_learn(g, d, &d->sight.look);
		ghold_note_settled(g, d);
	}
	if (d->state == DEV_BUSY && !d->check)
		say_gone(d);
	/* The idle clock starts at a check; a rise is seen at any look. */
	if (d->state == DEV_BUSY && d->check) {
		d->who_pid = 0;
		(void)gstep(g, d, EV_CLEAR);
		if (owner && !owner->policy.hold)
			gdev_say(d, "nothing foreign; watched only");
	}
}

static void control_load(struct guard *g, struct gdev *d)
{
	const struct hold_policy *p = &gdev_owner(g, d)->policy;

	uint64_t now = clock_mono_ns(), begun = d->since_ns;

	/* The figure trails: what it says just after a rest is still about the rest. */
	if (d->load.phase_ns > begun)
		begun = d->load.phase_ns;
	if (d->state != DEV_HELD || !d->sight.complete || d->load.resting || p->load == LOAD_NONE ||
	    !(d->sight.look.valid & GPU_VALID_UTIL) || now - begun < 3 * NS_PER_S)
		return;
	d->load.duty_permille = loadctl_step(d->load.duty_permille, d->sight.look.util, p->util_low,
					     p->util, p->util_high);
	gholder_tell_load(d, (enum load_kind)p->load, d->load.duty_permille);
}

static void on_verdict(struct guard *g, struct gdev *d, enum verdict v, const struct gpu_proc *who)
{
	if (v == SEEN_OURS)
		glend_on_ours(g, d, who);
	else if (v == SEEN_CLEAR)
		on_clear(g, d);
	else if (d->state == DEV_LENDING || d->state == DEV_LENT)
		glend_on_neighbour(g, d, who);
	else
		on_foreign(g, d, v, who);
}

/* What is never held may have room for a task. Who is there instead is what people are shown. */
static void look_for_tasks(struct guard *g, struct gdev *d)
{
	const struct gpu_proc *who;

	d->vacant = gjudge_foreign(g, d, &who) == SEEN_CLEAR;
	if (who)
		gjudge_name(g, d, who);
}

void gdev_on_sight(struct guard *g, struct gdev *d)
{
	const struct gpu_proc *who;

	if (d->sight.code < 0) {
		if (!d->failing) {
			(void)gevent_add(g, d, EVENT_LOST, "cannot see it: %s", d->sight.trouble);
			d->failing_ns = clock_mono_ns();
		}
		d->failing = true;
		d->lost = d->lost || d->sight.code == -ENODEV;
		gdev_blind(g, d, d->sight.trouble);
		if (d->n_leases)
			glease_on_failed_look(g, d);
		return;
	}
	if (d->failing)
		(void)gevent_add(g, d, EVENT_BACK, "can be seen again");
	d->failing = false;
	if (d->lost)
		gxid_forget(g, d, "it was away and is back");
	d->lost = false;
	if (d->state == DEV_LEFT && !d->n_leases) {
		d->dirty = true;
		return;
	}

	/* What was seen while its last holder lived is about that: the memory, too. */
	if (d->gone_ns && d->sight.look.begin_ns <= d->gone_ns && !d->holder.pid) {
		d->dirty = true;
		return;
	}

	enum verdict v = gjudge(g, d, &who);

	g->assign_due = g->assign_due || !gdev_occupied(d);
	d->clear = v == SEEN_CLEAR;
	d->vacant = !d->xid && (v == SEEN_CLEAR || v == SEEN_OURS);
	on_verdict(g, d, v, who);
	if (v == SEEN_UNFIT && !d->xid)
		look_for_tasks(g, d);
	gjudge_note_hidden(g, d, v, who);
	if (d->n_leases)
		glease_on_sight(g, d, v);
	if (d->state != DEV_LENT && d->n_running)
		glend_begin(g, d);
	else if (d->state == DEV_LENT && glend_on_sight(g, d, v, who) && d->owner >= 0)
		gclient_consider(g, gdev_owner(g, d));
	if (!d->announced && d->state == DEV_BUSY && v != SEEN_CLEAR) {
		d->announced = true;
		(void)gevent_add(g, d, EVENT_STATE, "busy: %s", d->reason);
	}
	if (d->owner >= 0)
		control_load(g, d);
	d->dirty = true;
}

void gdev_blind(struct guard *g, struct gdev *d, const char *reason)
{
	char xid[XID_TEXT_MAX + 2];

	d->vacant = d->clear = false;
	if (d->state == DEV_HOLDING || d->state == DEV_HELD)
		gstep_record(d, EVENT_BLIND, clock_mono_ns());
	if (d->holder.kept && !d->holder.end_at_ns)
		d->holder.end_at_ns = clock_mono_ns();
	if (d->state == DEV_LEFT)
		return;
	d->yielded = d->yielded || gdev_occupied(d);
	d->who_pid = 0;
	gdev_say(d, "cannot be seen: %s%s", reason, gxid_suffix(d, xid));
	if (d->state == DEV_IDLE || gdev_occupied(d))
		(void)gstep(g, d, EV_BLIND);
}

/* --- what the policies want --- */

static void turn_cycle(struct guard *g, struct gdev *d, uint64_t now)
{
	const struct hold_policy *p = &gdev_owner(g, d)->policy;

	if (d->state != DEV_HELD)
		return;
	if (p->rest_ms) {
		uint64_t phase_ms = d->load.resting ? p->rest_ms : p->work_ms;

		if (now - d->load.phase_ns >= phase_ms * NS_PER_MS) {
			d->load.resting = !d->load.resting;
			d->load.phase_ns = now;
		}
	} else {
		d->load.resting = false;
	}
	gholder_tell_load(d, d->load.resting ? LOAD_NONE : (enum load_kind)p->load,
			  d->load.duty_permille);
}

void gdev_adapt(struct guard *g, struct gdev *d, const struct hold_policy *before)
{
	const struct hold_policy *p = &gdev_owner(g, d)->policy;

	if (p->util != before->util)
		d->load.duty_permille = p->util * 10U;
	if (p->load != before->load || p->util != before->util)
		d->load.phase_ns = clock_mono_ns();
	if (!p->rest_ms)
		d->load.resting = false;
	if (memcmp(&p->memory, &before->memory, sizeof(p->memory)) != 0) {
		d->settled_used = 0;
		d->settle_at_ns = 0;
		d->steady_ns = 0;
		gholder_tell_amount(d, &p->memory);
	}
	turn_cycle(g, d, clock_mono_ns());
}

void gdev_unwant(struct guard *g, struct gdev *d, const char *reason)
{
	if (d->state != DEV_HOLDING && d->state != DEV_HELD)
		return;
	gstep_record(d, EVENT_RELEASE, clock_mono_ns());
	gdev_say(d, "%s", reason);
	(void)gstep(g, d, EV_UNWANTED);
}

static void describe_left(const struct guard *g, const struct gdev *d, char *buf, size_t size)
{
	const struct gclient *c = d->leaver >= 0 ? &g->clients[d->leaver] : NULL;

	if (c)
		(void)str_print(buf, size, "left for others by %s (leave %u)", c->instance,
				c->policy.leave);
	else
		(void)str_copy(buf, size, "not selected");
}

/* Let go of it if need be, and then leave it alone; called again until that is done. */
static void leave(struct guard *g, struct gdev *d)
{
	char why[PROTO_TEXT_MAX];

	if ((d->hold_while && d->leaver < 0) || d->state == DEV_LENDING || d->state == DEV_LENT)
		return;
	describe_left(g, d, why, sizeof(why));
	gdev_unwant(g, d, why);
	if (gdev_occupied(d))
		return;
	gdev_say(d, "%s", why);
	if (d->state != DEV_LEFT)
		(void)gstep(g, d, EV_LEAVE);
}

void gdev_take(struct guard *g, struct gdev *d)
{
	const char *unfit = gpu_unfit(&d->id, &d->sight.look);

	if (d->state != DEV_LEFT)
		return;
	d->announced = false;
	gdev_say(d, "%s",
		 unfit		 ? unfit
		 : d->holder.pid ? "its last hold is on its way out"
				 : "not looked at yet");
	(void)gstep(g, d, EV_TAKE);
}

void gdev_assign(struct guard *g, struct gdev *d, int owner, int leaver)
{
	bool left = owner < 0 || leaver >= 0;
	bool changed = d->owner != owner;

	if (changed) {
		d->owner = owner;
		d->yielded = d->yielded && owner >= 0; /* and then that one's rule for it counts */
		d->dirty = true;
	}
	d->left = left;
	d->leaver = leaver;
	if (left)
		leave(g, d);
	if (!left)
		gdev_take(g, d);
	if (d->state == DEV_IDLE)
		gstep_set_wait(g, d);
}

/* --- what time brings --- */

/* Looks that wait for a moment and not for news: a figure to take, a rise that has lasted. */
static void look_when_due(struct guard *g, struct gdev *d, uint64_t now)
{
	if (d->settle_at_ns && now >= d->settle_at_ns && !d->settle_asked) {
		d->settle_asked = true;
		eyes_look_now(g->eyes, d->slot);
	}
	/* The eyes look at what moves every 2 ms and tell what is new: that nothing is has no news.
	 */
	if (d->state == DEV_HELD && now >= gjudge_rise_due(g, d)) {
		if (eyes_sight(g->eyes, d->slot, 0, &d->sight))
			gdev_on_sight(g, d);
		if (d->state == DEV_HELD && d->rise_since_ns)
			eyes_look_now(g->eyes, d->slot); /* or they do not look so often any more */
	}
}

/* A card that is gone, or fails on and on, has no looks, which end leases otherwise. */
static void note_lost(struct guard *g, struct gdev *d, uint64_t now_ns)
{
	if (!d->lost)
		d->lost_ns = 0;
	else if (!d->lost_ns)
		d->lost_ns = now_ns;
	if (d->n_over && d->lost)
		glease_on_lost(g, d, now_ns - d->lost_ns);
	else if (d->n_over && d->failing && now_ns > d->failing_ns)
		glease_on_failing(g, d, now_ns - d->failing_ns);
	if (d->state == DEV_LENT && !d->n_leases && (d->lost || d->failing))
		(void)gstep(g, d, EV_AWAY);
}

void gdev_on_time(struct guard *g, struct gdev *d, uint64_t now_ns)
{
	/* A newcomer's quiet start is not worth more than an agent that was told to end at once. */
	if (d->holder.end_at_ns > now_ns && d->owner >= 0 && gdev_owner(g, d)->dropping)
		d->holder.end_at_ns = now_ns;
	if (d->holder.pid && d->holder.end_at_ns && now_ns >= d->holder.end_at_ns &&
	    !d->holder.ending)
		gholder_tell(d, HOLDER_END);
	if (d->holder.pid) {
		gholder_beat(d, now_ns);
		ghold_check_limits(g, d, now_ns);
	}
	d->turn_ns = now_ns;
	look_when_due(g, d, now_ns);
	note_lost(g, d, now_ns);
	ghold_while(g, d, now_ns);
	if (d->left)
		leave(g, d);
	if (d->state == DEV_LENT || d->state == DEV_IDLE)
		glend_drop_placeholder(g, d);
	if (d->owner >= 0) {
		turn_cycle(g, d, now_ns);
		ghold_grow(g, d, now_ns);
	}
}
