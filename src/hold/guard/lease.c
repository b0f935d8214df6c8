/* SPDX-License-Identifier: MIT */
/*
 * Entries of the ledger: what becomes of them.
 *
 * Grant. A device that is held needs no question: had anybody come it would not be held. On another
 * one a look decides that was begun after the question, and the task starts only after its answer.
 * All devices of a task are granted, or none.
 *
 * Until the task's first process is listed somebody foreign wins: the hold yields as always, and
 * the agent hears LEASE_TAKEN. From then on others beside the task are neighbours.
 *
 * End. Over is what UNLEASE says, or the shim's pidfd, or a look at it where there are none. The
 * entry stays until a look that was begun later lists no process of the task and, for the last
 * lease of a device, its memory is back (invariant 7): until then nobody else can lease the device.
 * Of a card that is gone for good there will be no such look; nothing can use it, and nobody can
 * lease it until it is seen again. Nor may there ever be one of a card that only fails: there the
 * entry ends after FAILING_NS, if no process that was seen on it is alive.
 *
 * What the agent has to know is a bit in the entry and not a message in a queue: it is sent when
 * the socket takes it, in the newest version, and entries stay until it was.
 */
#include "hold/guard/lease.h"
#include "hold/guard/ledger.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "gpu/xid.h"
#include "hold/guard/device.h"
#include "hold/guard/hold.h"
#include "hold/guard/lend.h"
#include "hold/guard/ownership.h"
#include "hold/guard/timings.h"
#include "hold/guard/usage.h"

/* --- what the ledger says of a device --- */

static bool spoken_for(struct guard *g, const struct lease *l)
{
	const struct client *c = client_find(g, l->instance);

	return c && !c->silent && !c->dropping;
}

void lease_recount(struct guard *g, struct device *d)
{
	bool wanted = false;

	d->ledger.n_leases = d->ledger.n_granted = d->ledger.n_awaited = d->ledger.n_running =
		d->ledger.n_over = d->ledger.n_preemptible = 0;
	LEASES_OF(g, d, l) {
		d->ledger.n_leases++;
		d->ledger.n_granted += l->shim.pid != 0;
		d->ledger.n_awaited += l->stage == LEASE_GRANTED;
		d->ledger.n_running += l->stage == LEASE_GRANTED || l->stage == LEASE_USED;
		d->ledger.n_over += l->stage == LEASE_OVER;
		d->ledger.n_preemptible += l->flags & LEASE_PREEMPTIBLE && l->stage < LEASE_OVER;
		wanted = wanted || (l->flags & LEASE_HOLD_WHILE && l->stage <= LEASE_GRANTED &&
				    spoken_for(g, l));
	}
	g->assign_due = true;
	hold_want_promised(g, d, wanted);
	hold_say_held(g, d);
	d->dirty = true;
}

/* --- entries --- */

void lease_close_shim(struct lease *l)
{
	l->pidfd = fd_close(l->pidfd);
}

void lease_end(struct guard *g, struct lease *l)
{
	struct device *d = lease_device(g, l);

	lease_close_shim(l);
	if (l->stage == LEASE_OVER)
		eyes_errors_now(g->eyes); /* a report may come some ms behind what it reports */
	if (!(l->flags & LEASE_RESERVED)) {
		d->ledger.last = l->id;
		(void)str_copy(d->ledger.last_instance, sizeof(d->ledger.last_instance),
			       l->instance);
		d->ledger.last_over_ns = l->over_ns;
	}
	*l = (struct lease){ .pidfd = -1 };
	lease_recount(g, d);
	device_unlock(d);
}

static struct msg_unleased unleased_of(struct guard *g, const struct lease *l)
{
	uint64_t now = clock_mono_ns();

	struct msg_unleased m = {
		.head = PROTO_HEAD(MSG_UNLEASED, struct msg_unleased),
		.id = l->id,
		.slot = (int32_t)l->slot,
		.by_itself = !l->unleased,
		.took_ns = l->over_ns && now > l->over_ns ? now - l->over_ns : 0,
	};

	(void)str_copy(m.uuid, sizeof(m.uuid), lease_device(g, l)->id.uuid);
	return m;
}

static bool tell_lease(struct guard *g, struct client *c, struct lease *l, uint32_t kinds);

/* It is gone: say so, and end it. What cannot be said just now is what a new agent is not told. The
 * agent counts what it used when it hears of the end, so the figures of all of it go before that.
 */
static void finish(struct guard *g, struct lease *l)
{
	struct client *c = client_find(g, l->instance);

	l->due |= DUE_UNLEASED | (l->use.came_ns ? DUE_USE : 0);
	if (c && c->fd >= 0)
		(void)tell_lease(g, c, l, DUE_USE | DUE_UNLEASED);
	else
		lease_end(g, l);
}

void lease_end_untold(struct guard *g, const char *instance)
{
	LEASES_EACH(g, l)
		if (l->due & DUE_UNLEASED && !strcmp(l->instance, instance))
			lease_end(g, l);
}

void lease_set_over(struct guard *g, struct lease *l, bool unleased)
{
	struct device *d = lease_device(g, l);

	l->unleased = l->unleased || unleased;
	if (l->stage == LEASE_OVER)
		return;
	l->over_ns = clock_mono_ns();
	if (!l->shim.pid) {
		finish(g, l); /* nothing of it ever ran */
		return;
	}
	l->stage = LEASE_OVER;
	lease_recount(g, d);
	eyes_look_now(g->eyes, d->slot);
	eyes_errors_now(g->eyes); /* it may have ended for one */
}

void lease_on_shim(struct guard *g, struct lease *l)
{
	lease_close_shim(l);
	lease_set_over(g, l, false);
}

void lease_look_at_shims(struct guard *g)
{
	LEASES_EACH(g, l)
		if (l->shim.pid && l->pidfd < 0 && l->stage != LEASE_OVER && !proc_alive(&l->shim))
			lease_on_shim(g, l);
}

/* --- may a task have it, as the last look shows it? --- */

/* Free as far as a lease goes: what our own hold has is free, what was promised is not. */
static uint64_t available(const struct guard *g, const struct device *d)
{
	const struct gpu_look *look = &d->sample.look;
	uint64_t promised = ledger_promised(g, d);
	uint64_t bytes =
		device_holds(d) ? look->free + look->used - d->figure.baseline.others : look->free;

	return bytes > promised ? bytes - promised : 0;
}

int lease_check_memory(const struct guard *g, const struct device *d, uint64_t bytes,
		       struct dev_reason *why)
{
	uint64_t free_bytes = available(g, d);

	if (!bytes || bytes <= free_bytes || d->id.unseen)
		return 0;
	return dev_reason_set(why, -ENOMEM, "needs %.1f GiB; %.1f GiB are free and not promised",
			      in_gib(bytes), in_gib(free_bytes));
}

int lease_check_foreign(struct guard *g, struct device *d, uint32_t flags, struct dev_reason *why)
{
	const struct gpu_proc *who;

	if ((flags & LEASE_OTHERS_OK) || device_holds(d) || d->state == DEV_LENDING)
		return 0;
	if (d->state != DEV_YIELDING) {
		if (verdict_foreign(g, d, &who) != SEEN_FOREIGN)
			return 0;
		if (who)
			verdict_name(g, d, who);
	}
	if (why)
		*why = ledger_why_taken(d);
	return -EBUSY;
}

int lease_check_sample(const struct device *d, struct dev_reason *why)
{
	if (d->id.mig_parent)
		return dev_reason_set(why, -EINVAL,
				      "it is in MIG mode: its instances are the devices");
	if (!d->present)
		return dev_reason_set(why, -ENODEV, "it is not there any more");
	if (!d->sample.seq || d->sample.code < 0)
		return dev_reason_set(why, -EAGAIN, "it cannot be seen just now: %s",
				      d->sample.seq ? d->sample.trouble : "not looked at yet");
	return 0;
}

int lease_check_errors(const struct device *d, struct dev_reason *why)
{
	char text[XID_TEXT_MAX];

	return d->seen.xid ? dev_reason_set(why, -EIO, "it has an error: %s",
					    xid_text(d->seen.xid, text))
			   : 0;
}

int lease_check_test(const struct guard *g, const struct device *d, struct dev_reason *why)
{
	return device_is_reserved_for_test(g, d)
		       ? dev_reason_set(why, -EBUSY, "tested (tenure burn --exclusive)")
		       : 0;
}

/* --- the answer to a GRANT --- */

void lease_ungrant(struct guard *g, struct lease *l)
{
	lease_close_shim(l);
	l->shim = (struct proc_id){ 0 };
	l->stage = LEASE_PROMISED;
	lease_recount(g, lease_device(g, l));
}

static void decide(struct guard *g, struct lease *l)
{
	struct device *d = lease_device(g, l);
	int r = lease_check_sample(d, &l->reason);
	uint64_t bytes = l->bytes;

	if (r == 0)
		r = lease_check_errors(d, &l->reason);
	if (r == 0)
		r = lease_check_test(g, d, &l->reason);
	if (r == 0)
		r = lease_check_foreign(g, d, l->flags, &l->reason);

	/* What was promised to itself is there for it. */
	l->bytes = 0;
	if (r == 0)
		r = lease_check_memory(g, d, bytes, &l->reason);
	l->bytes = bytes;
	l->decided = true;
	l->code = r;
	if (r < 0)
		dev_reason_lead(&l->reason, "GPU %u: ", d->id.index);
}

/* The first lease of that id that was refused, or is not decided; NULL: all are granted. */
static struct lease *stumbling_block(struct guard *g, const struct lease *of, bool *ret_waiting)
{
	struct lease *refused = NULL;

	*ret_waiting = false;
	LEASES_EACH(g, l) {
		if (!ledger_is_of(l, of->instance, &of->id) || l->stage != LEASE_ASKED)
			continue;
		*ret_waiting = *ret_waiting || !l->decided;
		if (l->decided && l->code < 0 && !refused)
			refused = l;
	}
	return refused;
}

void lease_conclude(struct guard *g, struct lease *of)
{
	bool waiting;
	struct lease *refused = stumbling_block(g, of, &waiting);
	const struct lease_id id = of->id;
	char instance[PROTO_INSTANCE_MAX];

	if (waiting)
		return;
	(void)str_copy(instance, sizeof(instance), of->instance);
	of->code = refused ? refused->code : 0;
	if (refused)
		of->reason = refused->reason;
	of->due |= DUE_GRANTED;
	LEASES_EACH(g, l) {
		if (!ledger_is_of(l, instance, &id) || l->stage != LEASE_ASKED)
			continue;
		if (refused) {
			lease_ungrant(g, l);
			continue;
		}
		l->stage = LEASE_GRANTED;
		lease_recount(g, lease_device(g, l));
		lend_begin(g, lease_device(g, l));
	}
}

static void decide_and_conclude(struct guard *g, struct lease *l)
{
	decide(g, l);
	lease_conclude(g, l);
}

void lease_ask(struct guard *g, struct lease *l)
{
	struct device *d = lease_device(g, l);

	l->stage = LEASE_ASKED;
	l->asked_ns = clock_mono_ns();
	l->decided = false;
	if (device_holds(d) ||
	    lease_check_sample(d, NULL) < 0) /* no look that is news would come then */
		decide(g, l);
	else
		eyes_look_now(g->eyes, d->slot);
	lease_recount(g, d);
}

/* --- looks --- */

static void count_processes(struct guard *g, const struct device *d)
{
	const struct gpu_procs *procs = &d->sample.look.procs;

	LEASES_OF(g, d, l)
		l->n_procs = l->n_unknown = 0, l->used_bytes = 0, l->proc = 0;
	for (uint32_t i = 0; i < procs->n; i++) {
		bool holder = own_classify(g, d, &procs->p[i]) == OWN_HOLDER;
		struct lease *l = holder ? NULL : descendants_find(g, d, procs->p[i].pid);

		if (!l)
			continue;
		l->n_procs++;
		l->n_unknown += !procs->p[i].used_known;
		l->used_bytes += procs->p[i].used_known ? procs->p[i].used_bytes : 0;
		l->proc = procs->p[i].pid;
	}
}

/* The memory of a task that is gone is still being given back. */
static bool memory_lingers(struct guard *g, struct device *d, const struct lease *l)
{
	const struct gpu_proc *who;

	if (d->ledger.n_leases > 1 || device_occupied(d) ||
	    clock_mono_ns() - l->over_ns > REST_WAIT_NS)
		return false;
	return verdict_foreign(g, d, &who) == SEEN_FOREIGN && !who;
}

/* Beside a task memory says nothing of who it is, so there only a process does. */
static bool is_for_newcomer(const struct device *d, const struct lease *l)
{
	if (l->flags & LEASE_OTHERS_OK || l->stage == LEASE_OVER)
		return false;
	if (l->stage <= LEASE_GRANTED && !l->n_procs)
		return true;
	return l->flags & LEASE_PREEMPTIBLE && d->said.who_pid;
}

static void note_taken(const struct device *d, struct lease *l, enum verdict v)
{
	if (v == SEEN_CLEAR && l->stage == LEASE_PROMISED)
		l->taken = false;
	if (v != SEEN_FOREIGN || l->taken || !is_for_newcomer(d, l))
		return;
	l->taken = true;
	l->due |= DUE_TAKEN;
}

static void on_look(struct guard *g, struct device *d, struct lease *l, enum verdict v)
{
	uint64_t began = d->sample.look.begin_ns;

	note_taken(d, l, v);
	lease_usage_on_look(g, d, l);
	if (l->stage == LEASE_GRANTED && l->n_procs) {
		l->stage = LEASE_USED;
		lease_recount(g, d);
	}
	if (l->stage == LEASE_ASKED && !l->decided && began >= l->asked_ns)
		decide_and_conclude(g, l);
	if (l->stage == LEASE_OVER && began >= l->over_ns && !l->n_procs && !device_letting_go(d) &&
	    !memory_lingers(g, d, l) && !(l->due & DUE_UNLEASED))
		finish(g, l);
}

void lease_on_sample(struct guard *g, struct device *d, enum verdict v)
{
	count_processes(g, d);
	LEASES_OF(g, d, l)
		on_look(g, d, l, v);
}

void lease_on_failed_look(struct guard *g, struct device *d)
{
	LEASES_OF(g, d, l)
		if (l->stage == LEASE_ASKED && !l->decided)
			decide_and_conclude(g, l);
}

void lease_on_lost(struct guard *g, struct device *d, uint64_t for_ns)
{
	if (for_ns <= REST_WAIT_NS || device_letting_go(d))
		return;
	LEASES_OF(g, d, l)
		if (l->stage == LEASE_OVER && !(l->due & DUE_UNLEASED))
			finish(g, l);
}

/* A process of its that was listed there is not known to be gone. */
static bool runs_on(const struct lease *l)
{
	for (uint32_t i = 0; i < l->n_descendants && i < LEASE_DESCENDANTS_MAX; i++)
		if (proc_alive(&l->descendants[i]))
			return true;
	return false;
}

void lease_on_failing(struct guard *g, struct device *d, uint64_t for_ns)
{
	if (for_ns <= FAILING_NS || d->holder.pid || device_letting_go(d))
		return;
	LEASES_OF(g, d, l)
		if (l->stage == LEASE_OVER && !(l->due & DUE_UNLEASED) && !runs_on(l))
			finish(g, l);
}

/* --- what is to be told --- */

static int tell_granted(struct guard *g, struct client *c, struct lease *l)
{
	struct msg_lease_reply m = { .head = PROTO_HEAD(MSG_GRANTED, struct msg_lease_reply),
				     .id = l->id,
				     .slot = -1,
				     .code = l->code,
				     .held = device_holds(lease_device(g, l)) };

	if (l->code < 0)
		m.reason = l->reason;
	return sock_send(c->fd, &m, sizeof(m));
}

static int tell_taken(struct guard *g, struct client *c, struct lease *l)
{
	const struct device *d = lease_device(g, l);
	struct msg_lease_taken m = { .head = PROTO_HEAD(MSG_LEASE_TAKEN, struct msg_lease_taken),
				     .id = l->id,
				     .slot = (int32_t)l->slot,
				     .started = l->stage >= LEASE_GRANTED,
				     .reason = ledger_why_taken(d) };

	return sock_send(c->fd, &m, sizeof(m));
}

static int tell_state(struct guard *g, struct client *c, struct lease *l)
{
	struct msg_lease_state m = { .head = PROTO_HEAD(MSG_LEASE_STATE, struct msg_lease_state),
				     .id = l->id,
				     .slot = (int32_t)l->slot,
				     .stage = l->stage,
				     .flags = l->flags,
				     .pid = l->shim.pid,
				     .start = l->shim.start,
				     .bytes = l->bytes };

	(void)str_copy(m.uuid, sizeof(m.uuid), lease_device(g, l)->id.uuid);
	return sock_send(c->fd, &m, sizeof(m));
}

static int tell_unleased(struct guard *g, struct client *c, struct lease *l)
{
	struct msg_unleased m = unleased_of(g, l);
	int r = sock_send(c->fd, &m, sizeof(m));

	if (r != -EAGAIN)
		lease_end(g, l);
	return r;
}

static int tell_use(struct guard *g, struct client *c, struct lease *l)
{
	struct msg_lease_use m = lease_usage_message(l);

	return sock_send(c->fd, &m, sizeof(m));
}

static const struct {
	uint32_t due;
	int (*tell)(struct guard *g, struct client *c, struct lease *l);
} tellers[] = {
	{ DUE_STATE, tell_state },	 { DUE_GRANTED, tell_granted }, { DUE_TAKEN, tell_taken },
	{ DUE_USE, tell_use }, /* before the end, which takes the entry away */
	{ DUE_UNLEASED, tell_unleased },
};

/* False: the socket is full. */
static bool tell_lease(struct guard *g, struct client *c, struct lease *l, uint32_t kinds)
{
	for (size_t i = 0; i < ARRAY_LEN(tellers) && l->used; i++) {
		if (!(l->due & kinds & tellers[i].due))
			continue;
		if (tellers[i].tell(g, c, l) == -EAGAIN)
			return false;
		l->due &= ~tellers[i].due;
	}
	return true;
}

static bool tell_kinds(struct guard *g, struct client *c, uint32_t kinds)
{
	LEASES_EACH(g, l)
		if (l->due && !strcmp(l->instance, c->instance) && !tell_lease(g, c, l, kinds))
			return false;
	return true;
}

void lease_tell(struct guard *g, struct client *c)
{
	struct msg_lease_state end = { .head = PROTO_HEAD(MSG_LEASE_STATE, struct msg_lease_state),
				       .slot = -1 };

	if (!g->looked || !tell_kinds(g, c, DUE_STATE))
		return; /* not looked yet: what the agent says after the list would be refused */
	if (c->states_due && sock_send(c->fd, &end, sizeof(end)) == 0)
		c->states_due = false;
	(void)tell_kinds(g, c, ~0U);
}

void lease_tell_all(struct guard *g, struct client *c)
{
	c->states_due = true;
	LEASES_EACH(g, l) {
		if (strcmp(l->instance, c->instance) != 0)
			continue;
		l->due = DUE_STATE;
		l->taken = false; /* the one before it was told, and may not have done anything */
		/* It asked, and the answer went to the one before it: it asks again. */
		if (l->stage == LEASE_ASKED)
			lease_ungrant(g, l);
	}
	lease_tell(g, c);
}

void lease_client_changed(struct guard *g, const struct client *c)
{
	LEASES_EACH(g, l)
		if (!strcmp(l->instance, c->instance))
			lease_recount(g, lease_device(g, l));
}

/* Who waits for the answer to its GRANT gets one, for all of its devices: with the last of them. */
static void answer_dropped(struct guard *g, struct client *c, struct lease *l)
{
	for (struct lease *m = l + 1; m < g->leases + GUARD_LEASES_MAX; m++)
		if (ledger_is_of(m, l->instance, &l->id) && m->stage == LEASE_ASKED)
			return;
	if (l->stage == LEASE_ASKED) {
		l->code = -ENOENT;
		(void)dev_reason_set(&l->reason, 0, "its agent let go of everything");
	}
	if (c && c->fd >= 0 && (l->stage == LEASE_ASKED || l->due & DUE_GRANTED))
		(void)tell_granted(g, c, l);
}

void lease_drop_promises(struct guard *g, const char *instance)
{
	struct client *c = client_find(g, instance);

	LEASES_EACH(g, l) {
		if (strcmp(l->instance, instance) != 0 || l->stage >= LEASE_GRANTED)
			continue;
		answer_dropped(g, c, l);
		lease_end(g, l);
	}
}

/* As if it had asked just now and been refused, so that it asks again when it goes on. False: it
 * cannot be told. */
static bool refuse_reservation(struct guard *g, const struct client *c, const struct lease *l)
{
	struct msg_lease_reply m = { .head = PROTO_HEAD(MSG_LEASE_REPLY, struct msg_lease_reply),
				     .id = l->id,
				     .slot = (int32_t)l->slot,
				     .code = -ETIMEDOUT };

	(void)dev_reason_set(&m.reason, 0, "its agent did not answer");
	return sock_send(c->fd, &m, sizeof(m)) != -EAGAIN;
}

void lease_drop_silent(struct guard *g, struct client *c)
{
	LEASES_EACH(g, l) {
		bool reserved = l->flags & LEASE_RESERVED;

		if (strcmp(l->instance, c->instance) != 0 || l->stage >= LEASE_GRANTED ||
		    (reserved && !refuse_reservation(g, c, l)))
			continue;
		if (!reserved)
			answer_dropped(g, c, l);
		lease_end(g, l);
	}
}
