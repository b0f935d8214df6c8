/* SPDX-License-Identifier: MIT */
#include "hold/guard/lend.h"

#include "base/clock.h"
#include "base/str.h"
#include "hold/guard/device.h"
#include "hold/guard/event_ring.h"
#include "hold/guard/hold.h"
#include "hold/guard/ledger.h"
#include "hold/guard/timings.h"

/* While the task itself was not seen there it was they who came, and the record says so. */
void lend_on_neighbour(struct guard *g, struct device *d, const struct gpu_proc *who)
{
	if (!who)
		return;
	verdict_name(g, d, who);
	if (d->state == DEV_LENDING && d->ledger.n_awaited &&
	    d->hold.letting_go.kind == EVENT_LENT) {
		d->hold.letting_go.kind = EVENT_YIELD;
		d->hold.yields++;
	}
}

void lend_begin(struct guard *g, struct device *d)
{
	const struct lease *l = ledger_first(g, d);
	char id[LEDGER_TEXT_MAX];
	struct guard_event *ev;

	if (device_occupied(d) || d->state == DEV_LENT || !l)
		return;
	d->hold.before = d->sample.look.procs;
	d->hold.check = false;
	device_say(d, "lent to %s", ledger_text(g, l, id));
	(void)device_step(g, d, EV_LEND);
	ev = event_add_reason(g, d, EVENT_LENT, "");
	ev->lease = l->id;
	event_share(g, ev, l->instance);
}

/* It is there until the task shows, or for the hold that follows. */
void lend_drop_placeholder(struct guard *g, struct device *d)
{
	const struct lease *l = ledger_first(g, d);

	bool hurry = d->owner < 0 || device_owner(g, d)->dropping;

	if (!d->holder.kept || d->holder.end_at_ns || (d->ledger.n_awaited && !hurry) ||
	    (hold_has_future(g, d) && !(l && l->flags & LEASE_ALONE)))
		return;
	d->holder.end_at_ns = clock_mono_ns();
}

/* The agent that plans for whoever had it last is there to say who has it next. */
static bool next_is_awaited(struct guard *g, const struct device *d)
{
	const struct client *c = client_find(g, d->ledger.last_instance);

	return d->holder.kept && !d->holder.end_at_ns && c && c->fd >= 0 && !c->silent &&
	       !c->dropping && !c->full;
}

void lend_on_promise(struct device *d)
{
	uint64_t now = clock_mono_ns();

	if (now < d->ledger.chain_until_ns)
		d->ledger.chain_until_ns = now + CHAIN_START_NS;
}

void lend_on_no_next(struct guard *g, struct device *d)
{
	if (clock_mono_ns() >= d->ledger.chain_until_ns)
		return;
	d->ledger.chain_until_ns = 0;
	d->hold.check = true; /* the look of its end is some ms old */
	eyes_look_now(g->eyes, d->slot);
}

/*
 * The last task on it is over. With nobody else there it is idle and, if wanted, held at once; but
 * where our context is there already the memory is left alone for a moment, because what we take
 * now the driver would have to clean for the next task of a chain.
 */
static bool come_home(struct guard *g, struct device *d, enum verdict v, const struct gpu_proc *who)
{
	struct guard_event *ev;
	char id[LEASE_TEXT_MAX];

	ev = event_add(g, d, EVENT_RETURNED, "back from %s", lease_id_text(&d->ledger.last, id));
	ev->lease = d->ledger.last;
	ev->took_ns = clock_mono_ns() - d->ledger.last_over_ns;
	event_share(g, ev, d->ledger.last_instance);
	if (v == SEEN_CLEAR) {
		d->ledger.came_home = true;
		d->ledger.chain_until_ns = next_is_awaited(g, d) ? clock_mono_ns() + CHAIN_NS : 0;
		d->hold.yielded = false;
		d->said.who_pid = 0;
		(void)device_step(g, d, EV_RETURNED);
		return true;
	}
	if (v == SEEN_FOREIGN && who)
		verdict_name(g, d, who);
	(void)device_step(g, d, EV_AWAY);
	if (d->holder.kept) /* a newcomer's start would wait for its end */
		d->holder.end_at_ns = clock_mono_ns() + LINGER_NS;
	return false;
}

static void say_lent(struct guard *g, struct device *d, const struct gpu_proc *neighbour)
{
	const struct lease *l = ledger_first(g, d);
	char id[LEDGER_TEXT_MAX], beside[96] = "", text[64] = "", xid[XID_TEXT_MAX + 2];

	if (!l)
		return;
	if (neighbour)
		(void)str_print(beside, sizeof(beside), "; beside it PID %d", (int)neighbour->pid);
	if (l->stage == LEASE_OVER)
		(void)str_print(text, sizeof(text),
				l->n_procs ? ", which is over; PID %d of it is left"
					   : ", which is over",
				(int)l->proc);
	device_say(d, "lent to %s%s%s%s", ledger_text(g, l, id), text, beside,
		   device_xid_suffix(d, xid));
}

void lend_say(struct guard *g, struct device *d)
{
	const struct gpu_proc *who;

	(void)verdict_foreign(g, d, &who);
	say_lent(g, d, who);
}

bool lend_on_sample(struct guard *g, struct device *d, enum verdict v, const struct gpu_proc *who)
{
	if (!d->ledger.n_leases)
		return come_home(g, d, v, who);
	lend_drop_placeholder(g, d);
	say_lent(g, d, v == SEEN_FOREIGN ? who : NULL);
	return false;
}

void lend_on_ours(struct guard *g, struct device *d, const struct gpu_proc *who)
{
	const struct lease *l;
	char id[LEDGER_TEXT_MAX];

	if (!device_holds(d))
		return;
	device_act(d, ACT_RELEASE); /* first of all */
	device_record(d, EVENT_LENT, d->sample.look.end_ns);
	device_enter(g, d, DEV_LENDING);
	l = ledger_first(g, d);
	if (l) {
		d->hold.letting_go.lease = l->id;
		(void)str_copy(d->hold.letting_go.instance, sizeof(d->hold.letting_go.instance),
			       l->instance);
	}
	if (who)
		verdict_name(g, d, who);
	else
		verdict_note_hint(g, d, l ? l->asked_ns : 0);
	device_say(d, "lent to %s", l ? ledger_text(g, l, id) : "a task");
}
