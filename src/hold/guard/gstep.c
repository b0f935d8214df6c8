/* SPDX-License-Identifier: MIT */
#include "hold/guard/gstep.h"

#include <sys/random.h>

#include "base/clock.h"
#include "hold/guard/device.h"
#include "hold/guard/events.h"
#include "hold/guard/holder_process.h"

/* Up to a quarter of ms more, so that two of us on two accounts never answer each other in step. */
static uint64_t with_jitter(uint64_t ms, uint16_t random)
{
	return (ms + ms * random / (4 * UINT16_MAX)) * NS_PER_MS;
}

static void draw_jitter(struct gdev *d)
{
	if (getrandom(&d->jitter, sizeof(d->jitter), GRND_NONBLOCK) != sizeof(d->jitter))
		d->jitter = (uint16_t)clock_mono_ns();
}

uint64_t gstep_wait_by(const struct hold_policy *p, const struct gdev *d)
{
	if (d->yielded)
		return with_jitter(p->rehold_ms, d->jitter);
	if (d->owner < 0 || d->came_home || d->hold_while)
		return 0;
	return p->idle_for_ms * NS_PER_MS;
}

uint64_t gstep_wait(const struct guard *g, const struct gdev *d)
{
	return gstep_wait_by(gdev_policy(g, d), d);
}

void gstep_set_wait(struct guard *g, struct gdev *d)
{
	d->wait_ns = gstep_wait(g, d);
}

void gstep_enter(struct guard *g, struct gdev *d, enum dev_state next)
{
	uint64_t now = clock_mono_ns();

	if (next == d->state)
		return;

	/* What nobody selects is nobody's news. */
	bool quiet = d->state == DEV_LEFT || (next == DEV_LEFT && d->owner < 0) ||
		     (d->state == DEV_YIELDING && d->letting_go.kind == EVENT_RELEASE) ||
		     (d->state == DEV_LENT && next == DEV_IDLE);

	d->state = next;
	d->since_ns = now;
	d->dirty = true;
	g->assign_due = true;
	d->came_home = d->came_home && next == DEV_IDLE;
	if (!d->came_home)
		d->chain_until_ns = 0;
	if (next == DEV_BUSY)
		draw_jitter(d);
	/* A context that was kept for the next task, or hold, is not left beside a stranger. */
	if ((next == DEV_BUSY || next == DEV_LEFT) && d->holder.kept && !d->holder.end_at_ns)
		d->holder.end_at_ns = now + GSTEP_LINGER_NS;
	if (next == DEV_IDLE) {
		d->announced = true;
		d->who_pid = 0;
		d->idle_since_ns = now;
		gstep_set_wait(g, d);
		if (now < d->blocked_until_ns)
			gdev_say(d, "%s", d->blocked_why);
		else
			gdev_say(d, "nothing foreign");
	}
	if ((next == DEV_IDLE || next == DEV_BUSY || next == DEV_LEFT) && !quiet)
		(void)gevent_add(g, d, EVENT_STATE, "%s: %s", dev_state_name(next), d->reason);
}

void gstep_act(struct gdev *d, enum dev_action action)
{
	uint64_t now = clock_mono_ns();

	switch (action) {
	case ACT_RELEASE:
		gholder_tell(d, HOLDER_RELEASE);
		d->holder.asked_ns = now;
		d->holder.freeing_ns = 0;
		d->holder.peeked_ns = 0;
		d->settled_used = 0;
		d->settle_at_ns = 0;
		d->steady_ns = 0;
		break;
	case ACT_SETTLE:
		/* A newcomer's start would wait for our context's end; nobody's does otherwise. */
		d->holder.end_at_ns =
			now + (d->letting_go.kind == EVENT_YIELD ? GSTEP_LINGER_NS : 0);
		break;
	case ACT_KEEP:
		d->holder.kept = true;
		break;
	case ACT_KILL:
		gholder_kill(d);
		break;
	case ACT_START:
	case ACT_NONE:
	case ACT_MAX:
		break;
	}
}

bool gstep(struct guard *g, struct gdev *d, enum dev_event event)
{
	enum dev_state before = d->state;
	struct dev_step s = dev_state_step(d->state, event);

	gstep_act(d, s.action);
	gstep_enter(g, d, s.next);
	return s.next != before || s.action != ACT_NONE;
}

void gstep_record(struct gdev *d, enum event_kind kind, uint64_t verdict_ns)
{
	d->letting_go = (struct guard_event){ .kind = kind };
	d->verdict_ns = verdict_ns;
}
