/* SPDX-License-Identifier: MIT */
/*
 * One device in the guard: what is said of it, its name, its steps through the state table
 * (device_state.c) and what the policies want of it. look.c has what is seen of it, hold.c the
 * hold, and lend.c the way to a task and back.
 */
#include "hold/guard/device.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "hold/guard/event_ring.h"
#include "hold/guard/holder_process.h"
#include "hold/guard/timings.h"

#define TURN_AWAY_MOST 16 /* at a time */

void device_say(struct device *d, const char *fmt, ...)
{
	struct dev_reason r = { .code = DEV_REASON_TEXT, .uid = DEV_REASON_NO_UID };
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(r.text, sizeof(r.text), fmt, ap);
	va_end(ap);
	device_say_reason(d, &r);
}

void device_say_reason(struct device *d, const struct dev_reason *r)
{
	if (!memcmp(&d->said.reason, r, sizeof(*r)))
		return;
	d->said.reason = *r;
	d->dirty = true;
}

char *device_xid_suffix(const struct device *d, char buf[XID_TEXT_MAX + 2])
{
	char text[XID_TEXT_MAX];

	buf[0] = '\0';
	return d->seen.xid ? str_print(buf, XID_TEXT_MAX + 2, "; %s", xid_text(d->seen.xid, text))
			   : buf;
}

void device_reset_idle(struct device *d, uint64_t now_ns)
{
	d->hold.idle_since_ns = now_ns;
	d->dirty = true;
}

void device_unlock(struct device *d)
{
	if (!d->holder.pid && !d->ledger.n_leases)
		d->hold.lock_fd = fd_close(d->hold.lock_fd);
}

bool device_lock(struct device *d, struct dev_reason *why)
{
	struct err other = ERR_INIT;
	char name[108];
	struct ucred who;

	if (d->hold.lock_fd >= 0 || d->id.unseen) /* which has no name of its own */
		return true;
	(void)str_print(name, sizeof(name), "tenure/dev/%s", d->id.uuid);
	d->hold.lock_fd = sock_listen(name, &other);
	if (d->hold.lock_fd >= 0)
		return true;
	d->hold.lock_fd = -1;
	if (sock_listener(name, &who) < 0)
		who.uid = DEV_REASON_NO_UID;
	else if (who.pid == getpid())
		return true; /* a child of ours, which has not come to its exec: gone in a moment */
	if (why)
		*why = (struct dev_reason){ .code = DEV_REASON_LOCKED, .uid = who.uid };
	return false;
}

bool device_may_hold(struct device *d, struct dev_reason *why)
{
	uint64_t heeded_until = d->hold.idle_since_ns + d->hold.wait_ns + NAME_HEEDED_NS;

	return device_lock(d, why) || clock_mono_ns() >= heeded_until;
}

void device_turn_away(struct device *d)
{
	for (int i = 0; d->hold.lock_fd >= 0 && i < TURN_AWAY_MOST; i++) {
		int fd = sock_accept(d->hold.lock_fd, NULL);

		if (fd < 0 && fd != -EPERM) /* that one was another user's, and is gone already */
			return;
		(void)fd_close(fd);
	}
}

/* --- one step through the table --- */

static void draw_jitter(struct device *d)
{
	if (getrandom(&d->hold.jitter, sizeof(d->hold.jitter), GRND_NONBLOCK) !=
	    sizeof(d->hold.jitter))
		d->hold.jitter = (uint16_t)clock_mono_ns();
}

uint64_t device_wait_by(const struct hold_policy *p, const struct device *d)
{
	/* Up to a quarter more, so that two of us never answer each other in step. */
	if (d->hold.yielded)
		return (p->rehold_ms + p->rehold_ms * d->hold.jitter / (4 * UINT16_MAX)) *
		       NS_PER_MS;
	if (d->owner < 0 || d->ledger.came_home || d->ledger.promise.wanted)
		return 0;
	return p->idle_for_ms * NS_PER_MS;
}

uint64_t device_wait(const struct guard *g, const struct device *d)
{
	return device_wait_by(device_policy(g, d), d);
}

void device_set_wait(struct guard *g, struct device *d)
{
	d->hold.wait_ns = device_wait(g, d);
}

void device_enter(struct guard *g, struct device *d, enum dev_state next)
{
	uint64_t now = clock_mono_ns();

	if (next == d->state)
		return;

	/* What nobody selects is nobody's news. */
	bool quiet = d->state == DEV_LEFT || (next == DEV_LEFT && d->owner < 0) ||
		     (d->state == DEV_YIELDING && d->hold.letting_go.kind == EVENT_RELEASE) ||
		     (d->state == DEV_LENT && next == DEV_IDLE);

	d->state = next;
	d->since_ns = now;
	d->dirty = true;
	g->assign_due = true;
	d->ledger.came_home = d->ledger.came_home && next == DEV_IDLE;
	if (!d->ledger.came_home)
		d->ledger.chain_until_ns = 0;
	if (next == DEV_BUSY)
		draw_jitter(d);
	/* A context that was kept for the next task, or hold, is not left beside a stranger. */
	if ((next == DEV_BUSY || next == DEV_LEFT) && d->holder.kept && !d->holder.end_at_ns)
		d->holder.end_at_ns = now + LINGER_NS;
	if (next == DEV_IDLE) {
		d->announced = true;
		d->said.who_pid = 0;
		d->hold.idle_since_ns = now;
		device_set_wait(g, d);
		if (now < d->hold.blocked_until_ns)
			device_say(d, "%s", d->hold.blocked_why);
		else
			device_say(d, "no other processes");
	}
	if ((next == DEV_IDLE || next == DEV_BUSY || next == DEV_LEFT) && !quiet)
		event_add_state(g, d);
}

void device_act(struct device *d, enum dev_action action)
{
	uint64_t now = clock_mono_ns();

	switch (action) {
	case ACT_RELEASE:
		if (d->hold.letting_go.kind == EVENT_RELEASE)
			holder_close_burn(d);
		holder_tell(d, HOLDER_RELEASE);
		d->holder.asked_ns = now;
		d->holder.freeing_ns = 0;
		d->holder.peeked_ns = 0;
		figure_off(&d->figure);
		break;
	case ACT_SETTLE:
		/* A newcomer's start would wait for our context's end; nobody's does otherwise. */
		d->holder.end_at_ns =
			now + (d->hold.letting_go.kind == EVENT_YIELD ? LINGER_NS : 0);
		break;
	case ACT_KEEP:
		d->holder.kept = true;
		break;
	case ACT_KILL:
		holder_kill(d);
		break;
	case ACT_START:
	case ACT_NONE:
	case ACT_MAX:
		break;
	}
}

bool device_step(struct guard *g, struct device *d, enum dev_event event)
{
	enum dev_state before = d->state;
	struct dev_step s = dev_state_step(d->state, event);

	device_act(d, s.action);
	device_enter(g, d, s.next);
	return s.next != before || s.action != ACT_NONE;
}

void device_record(struct device *d, enum event_kind kind, uint64_t verdict_ns)
{
	d->hold.letting_go = (struct guard_event){ .kind = kind };
	d->hold.verdict_ns = verdict_ns;
}

/* --- what the policies want --- */

static void unwant(struct guard *g, struct device *d, const struct dev_reason *why)
{
	if (d->state != DEV_HOLDING && d->state != DEV_HELD)
		return;
	device_record(d, EVENT_RELEASE, clock_mono_ns());
	device_say_reason(d, why);
	(void)device_step(g, d, EV_UNWANTED);
}

void device_unwant(struct guard *g, struct device *d, const char *reason)
{
	struct dev_reason why;

	(void)dev_reason_set(&why, 0, "%s", reason);
	unwant(g, d, &why);
}

static struct dev_reason why_left(const struct guard *g, const struct device *d)
{
	const struct client *c = d->leaver >= 0 ? &g->clients[d->leaver] : NULL;
	struct dev_reason r = { .code = c ? DEV_REASON_LEFT : DEV_REASON_NOT_SELECTED,
				.uid = DEV_REASON_NO_UID };

	if (c)
		(void)str_print(r.text, sizeof(r.text), "%s (leave %u)", c->instance,
				c->policy.leave);
	return r;
}

void device_leave(struct guard *g, struct device *d)
{
	struct dev_reason why = why_left(g, d);

	if ((d->ledger.promise.wanted && d->leaver < 0) || d->state == DEV_LENDING ||
	    d->state == DEV_LENT)
		return;
	unwant(g, d, &why);
	if (device_occupied(d))
		return;
	device_say_reason(d, &why);
	if (d->state != DEV_LEFT)
		(void)device_step(g, d, EV_LEAVE);
}

void device_take(struct guard *g, struct device *d)
{
	const char *unfit = gpu_unfit(&d->id, &d->sample.look);

	if (d->state != DEV_LEFT)
		return;
	d->announced = false;
	device_say(d, "%s",
		   unfit	   ? unfit
		   : d->holder.pid ? "its last hold is on its way out"
				   : "not looked at yet");
	(void)device_step(g, d, EV_TAKE);
}

void device_assign(struct guard *g, struct device *d, int owner, int leaver)
{
	if (d->owner != owner) {
		d->owner = owner;
		/* Of a new owner its own rule for the wait after a yield counts. */
		d->hold.yielded = d->hold.yielded && owner >= 0;
		d->dirty = true;
	}
	d->leaver = leaver;
	if (device_is_left(d))
		device_leave(g, d);
	else
		device_take(g, d);
	if (d->state == DEV_IDLE)
		device_set_wait(g, d);
}
