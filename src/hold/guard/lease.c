/* SPDX-License-Identifier: MIT */
/*
 * The ledger.
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

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "hold/guard/client.h"
#include "hold/guard/device.h"
#include "hold/guard/gkin.h"
#include "hold/guard/hold.h"
#include "hold/guard/ownership.h"
#include "hold/guard/requests.h"
#include "hold/guard/usage.h"

#define REST_WAIT_NS (2 * NS_PER_S)  /* memory that stays longer after a task's end is not its */
#define FAILING_NS   (30 * NS_PER_S) /* a card that fails for so long is not waited for */

static struct gdev *device_of(struct guard *g, const struct glease *l)
{
	return &g->devs[l->slot];
}

bool glease_is_of(const struct glease *l, const char *instance, const struct lease_id *id)
{
	return l->used && l->id.task == id->task && l->id.element == id->element &&
	       l->id.attempt == id->attempt && !strcmp(l->instance, instance);
}

/* --- what the ledger says of a device --- */

static bool spoken_for(struct guard *g, const struct glease *l)
{
	const struct gclient *c = gclient_find(g, l->instance);

	return c && !c->silent && !c->dropping;
}

void glease_recount(struct guard *g, struct gdev *d)
{
	bool wanted = false;

	d->n_leases = d->n_granted = d->n_awaited = d->n_running = d->n_over = d->n_giving = 0;
	GLEASE_EACH(g, l)
	{
		if (l->slot != d->slot)
			continue;
		d->n_leases++;
		d->n_granted += l->shim.pid != 0;
		d->n_awaited += l->stage == LEASE_GRANTED;
		d->n_running += l->stage == LEASE_GRANTED || l->stage == LEASE_USED;
		d->n_over += l->stage == LEASE_OVER;
		d->n_giving += l->flags & LEASE_GIVES_WAY && l->stage < LEASE_OVER;
		wanted = wanted || (l->flags & LEASE_HOLD_WHILE && l->stage <= LEASE_GRANTED &&
				    spoken_for(g, l));
	}
	g->assign_due = true;
	ghold_want_while(g, d, wanted);
	ghold_say_held(g, d);
	d->dirty = true;
}

uint32_t glease_count(const struct guard *g, const char *instance)
{
	uint32_t n = 0;

	for (size_t i = 0; i < GUARD_LEASES_MAX; i++)
		n += g->leases[i].used && (!instance || !strcmp(g->leases[i].instance, instance));
	return n;
}

const struct glease *glease_first(const struct guard *g, const struct gdev *d)
{
	const struct glease *first = NULL;

	for (const struct glease *l = g->leases; d->n_leases && l < g->leases + GUARD_LEASES_MAX;
	     l++)
		if (l->used && l->slot == d->slot && (!first || l->stage > first->stage))
			first = l;
	return first;
}

char *glease_text(struct guard *g, const struct glease *l, char buf[GLEASE_TEXT_MAX])
{
	const struct gclient *owner = gdev_owner(g, &g->devs[l->slot]);
	char id[LEASE_TEXT_MAX];
	bool others = owner && strcmp(owner->instance, l->instance) != 0;

	return str_print(buf, GLEASE_TEXT_MAX, "%s%s%s", lease_id_text(&l->id, id),
			 others ? " of " : "", others ? l->instance : "");
}

uint64_t glease_promised(const struct guard *g, const struct gdev *d)
{
	uint64_t bytes = 0;

	for (const struct glease *l = g->leases; d->n_leases && l < g->leases + GUARD_LEASES_MAX;
	     l++)
		if (l->used && l->slot == d->slot && l->stage < LEASE_OVER &&
		    l->bytes > l->used_bytes)
			bytes += l->bytes - l->used_bytes;
	return bytes;
}

char *glease_taken_text(const struct gdev *d, char *buf, size_t size)
{
	if (d->who_pid && d->who_uid != UINT32_MAX)
		return str_print(buf, size, "taken by PID %d (uid %u, %s)", d->who_pid, d->who_uid,
				 d->who_comm);
	if (d->who_pid)
		return str_print(buf, size, "taken by PID %d", d->who_pid);
	return str_print(buf, size, "taken: %s", d->reason);
}

/* --- entries --- */

void glease_close_shim(struct glease *l)
{
	l->pidfd = fd_close(l->pidfd);
}

void glease_end(struct guard *g, struct glease *l)
{
	struct gdev *d = device_of(g, l);

	glease_close_shim(l);
	if (!(l->flags & LEASE_RESERVED)) {
		d->last = l->id;
		(void)str_copy(d->last_instance, sizeof(d->last_instance), l->instance);
		d->last_over_ns = l->over_ns;
	}
	*l = (struct glease){ .pidfd = -1 };
	glease_recount(g, d);
	gdev_unlock(d);
}

static struct msg_unleased unleased_of(const struct glease *l)
{
	uint64_t now = clock_mono_ns();

	return (struct msg_unleased){
		.head = PROTO_HEAD(MSG_UNLEASED, struct msg_unleased),
		.id = l->id,
		.slot = (int32_t)l->slot,
		.by_itself = !l->unleased,
		.took_ns = l->over_ns && now > l->over_ns ? now - l->over_ns : 0,
	};
}

/* It is gone: say so, and end it. What cannot be said just now is what a new agent is not told. */
static void finish(struct guard *g, struct glease *l)
{
	struct gclient *c = gclient_find(g, l->instance);
	struct msg_unleased m = unleased_of(l);

	if (c && c->fd >= 0 && sock_send(c->fd, &m, sizeof(m)) == -EAGAIN) {
		l->due |= DUE_USE | DUE_UNLEASED; /* the figures of all of it, whoever hears them */
		return;
	}
	glease_end(g, l);
}

void glease_end_untold(struct guard *g, const char *instance)
{
	GLEASE_EACH(g, l)
	if (l->due & DUE_UNLEASED && !strcmp(l->instance, instance))
		glease_end(g, l);
}

void glease_set_over(struct guard *g, struct glease *l, bool unleased)
{
	struct gdev *d = device_of(g, l);

	l->unleased = l->unleased || unleased;
	if (l->stage == LEASE_OVER)
		return;
	l->over_ns = clock_mono_ns();
	if (!l->shim.pid) {
		finish(g, l); /* nothing of it ever ran */
		return;
	}
	l->stage = LEASE_OVER;
	glease_recount(g, d);
	eyes_look_now(g->eyes, d->slot);
}

void glease_on_shim(struct guard *g, struct glease *l)
{
	glease_close_shim(l);
	glease_set_over(g, l, false);
}

void glease_look_at_shims(struct guard *g)
{
	GLEASE_EACH(g, l)
	if (l->shim.pid && l->pidfd < 0 && l->stage != LEASE_OVER && !proc_alive(&l->shim))
		glease_on_shim(g, l);
}

/* --- looks --- */

static void count_processes(struct guard *g, const struct gdev *d)
{
	const struct gpu_procs *procs = &d->sight.look.procs;

	GLEASE_EACH(g, l)
	if (l->slot == d->slot)
		l->n_procs = l->n_unknown = 0, l->used_bytes = 0, l->proc = 0;
	for (uint32_t i = 0; i < procs->n; i++) {
		bool holder = own_classify(g, d, &procs->p[i]) == OWN_HOLDER;
		struct glease *l = holder ? NULL : gkin_find(g, d, procs->p[i].pid);

		if (!l)
			continue;
		l->n_procs++;
		l->n_unknown += !procs->p[i].used_known;
		l->used_bytes += procs->p[i].used_known ? procs->p[i].used_bytes : 0;
		l->proc = procs->p[i].pid;
	}
}

/* The memory of a task that is gone is still being given back. */
static bool memory_lingers(struct guard *g, struct gdev *d, const struct glease *l)
{
	const struct gpu_proc *who;

	if (d->n_leases > 1 || gdev_occupied(d) || clock_mono_ns() - l->over_ns > REST_WAIT_NS)
		return false;
	return gjudge_foreign(g, d, &who) == SEEN_FOREIGN && !who;
}

/* Beside a task memory says nothing of who it is, so there only a process does. */
static bool is_for_newcomer(const struct gdev *d, const struct glease *l)
{
	if (l->flags & LEASE_OTHERS_OK || l->stage == LEASE_OVER)
		return false;
	if (l->stage <= LEASE_GRANTED && !l->n_procs)
		return true;
	return l->flags & LEASE_GIVES_WAY && d->who_pid;
}

static void note_taken(const struct gdev *d, struct glease *l, enum verdict v)
{
	if (v == SEEN_CLEAR && l->stage == LEASE_PROMISED)
		l->taken = false;
	if (v != SEEN_FOREIGN || l->taken || !is_for_newcomer(d, l))
		return;
	l->taken = true;
	l->due |= DUE_TAKEN;
}

static void on_look(struct guard *g, struct gdev *d, struct glease *l, enum verdict v)
{
	uint64_t began = d->sight.look.begin_ns;

	note_taken(d, l, v);
	guse_on_look(g, d, l);
	if (l->stage == LEASE_GRANTED && l->n_procs) {
		l->stage = LEASE_USED;
		glease_recount(g, d);
	}
	if (l->stage == LEASE_ASKED && !l->decided && began >= l->asked_ns)
		gorder_decide(g, l);
	if (l->stage == LEASE_OVER && began >= l->over_ns && !l->n_procs && !gdev_letting_go(d) &&
	    !memory_lingers(g, d, l) && !(l->due & DUE_UNLEASED))
		finish(g, l);
}

void glease_on_sight(struct guard *g, struct gdev *d, enum verdict v)
{
	count_processes(g, d);
	GLEASE_EACH(g, l)
	if (l->slot == d->slot)
		on_look(g, d, l, v);
}

void glease_on_failed_look(struct guard *g, struct gdev *d)
{
	GLEASE_EACH(g, l)
	if (l->slot == d->slot && l->stage == LEASE_ASKED && !l->decided)
		gorder_decide(g, l);
}

void glease_on_lost(struct guard *g, struct gdev *d, uint64_t for_ns)
{
	if (for_ns <= REST_WAIT_NS || gdev_letting_go(d))
		return;
	GLEASE_EACH(g, l)
	if (l->slot == d->slot && l->stage == LEASE_OVER && !(l->due & DUE_UNLEASED))
		finish(g, l);
}

/* A process of its that was listed there is not known to be gone. */
static bool runs_on(const struct glease *l)
{
	for (uint32_t i = 0; i < l->n_kin && i < LEASE_KIN_MAX; i++)
		if (proc_alive(&l->kin[i]))
			return true;
	return false;
}

void glease_on_failing(struct guard *g, struct gdev *d, uint64_t for_ns)
{
	if (for_ns <= FAILING_NS || d->holder.pid || gdev_letting_go(d))
		return;
	GLEASE_EACH(g, l)
	if (l->slot == d->slot && l->stage == LEASE_OVER && !(l->due & DUE_UNLEASED) && !runs_on(l))
		finish(g, l);
}

/* --- what is to be told --- */

static int tell_granted(struct guard *g, struct gclient *c, struct glease *l)
{
	struct msg_lease_reply m = { .head = PROTO_HEAD(MSG_GRANTED, struct msg_lease_reply),
				     .id = l->id,
				     .slot = -1,
				     .code = l->code,
				     .held = gdev_holds(device_of(g, l)) };

	(void)str_copy(m.text, sizeof(m.text), l->code < 0 ? l->text : "");
	return sock_send(c->fd, &m, sizeof(m));
}

static int tell_taken(struct guard *g, struct gclient *c, struct glease *l)
{
	const struct gdev *d = device_of(g, l);
	struct msg_lease_taken m = { .head = PROTO_HEAD(MSG_LEASE_TAKEN, struct msg_lease_taken),
				     .id = l->id,
				     .slot = (int32_t)l->slot,
				     .pid = d->who_pid,
				     .uid = d->who_uid,
				     .started = l->stage >= LEASE_GRANTED };

	(void)str_copy(m.comm, sizeof(m.comm), d->who_comm);
	(void)glease_taken_text(d, m.text, sizeof(m.text));
	return sock_send(c->fd, &m, sizeof(m));
}

static int tell_state(struct guard *g, struct gclient *c, struct glease *l)
{
	struct msg_lease_state m = { .head = PROTO_HEAD(MSG_LEASE_STATE, struct msg_lease_state),
				     .id = l->id,
				     .slot = (int32_t)l->slot,
				     .stage = l->stage,
				     .flags = l->flags,
				     .pid = l->shim.pid,
				     .start = l->shim.start,
				     .bytes = l->bytes };

	(void)str_copy(m.uuid, sizeof(m.uuid), device_of(g, l)->id.uuid);
	return sock_send(c->fd, &m, sizeof(m));
}

static int tell_unleased(struct guard *g, struct gclient *c, struct glease *l)
{
	struct msg_unleased m = unleased_of(l);
	int r = sock_send(c->fd, &m, sizeof(m));

	if (r != -EAGAIN)
		glease_end(g, l);
	return r;
}

static int tell_use(struct guard *g, struct gclient *c, struct glease *l)
{
	struct msg_lease_use m = guse_message(l);

	return sock_send(c->fd, &m, sizeof(m));
}

static const struct {
	uint32_t due;
	int (*tell)(struct guard *g, struct gclient *c, struct glease *l);
} tellers[] = {
	{ DUE_STATE, tell_state },	 { DUE_GRANTED, tell_granted }, { DUE_TAKEN, tell_taken },
	{ DUE_USE, tell_use }, /* before the end, which takes the entry away */
	{ DUE_UNLEASED, tell_unleased },
};

/* The end of the list. */
static void tell_all_known(struct gclient *c)
{
	struct msg_lease_state m = { .head = PROTO_HEAD(MSG_LEASE_STATE, struct msg_lease_state),
				     .slot = -1 };

	if (c->states_due && sock_send(c->fd, &m, sizeof(m)) == 0)
		c->states_due = false;
}

/* False: the socket is full. */
static bool tell_lease(struct guard *g, struct gclient *c, struct glease *l, uint32_t kinds)
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

static bool tell_kinds(struct guard *g, struct gclient *c, uint32_t kinds)
{
	GLEASE_EACH(g, l)
	if (l->due && !strcmp(l->instance, c->instance) && !tell_lease(g, c, l, kinds))
		return false;
	return true;
}

void glease_tell(struct guard *g, struct gclient *c)
{
	if (!g->looked || !tell_kinds(g, c, DUE_STATE))
		return; /* not looked yet: what the agent says after the list would be refused */
	tell_all_known(c);
	(void)tell_kinds(g, c, ~0U);
}

void glease_tell_all(struct guard *g, struct gclient *c)
{
	c->states_due = true;
	GLEASE_EACH(g, l)
	{
		if (strcmp(l->instance, c->instance) != 0)
			continue;
		l->due = DUE_STATE;
		l->taken = false; /* the one before it was told, and may not have done anything */
		/* It asked, and the answer went to the one before it: it asks again. */
		if (l->stage == LEASE_ASKED)
			gorder_ungrant(g, l);
	}
	glease_tell(g, c);
}

void glease_client_changed(struct guard *g, const struct gclient *c)
{
	GLEASE_EACH(g, l)
	if (!strcmp(l->instance, c->instance))
		glease_recount(g, device_of(g, l));
}

/* Who waits for the answer to its GRANT gets one, for all of its devices: with the last of them. */
static void answer_dropped(struct guard *g, struct gclient *c, struct glease *l)
{
	for (struct glease *m = l + 1; m < g->leases + GUARD_LEASES_MAX; m++)
		if (glease_is_of(m, l->instance, &l->id) && m->stage == LEASE_ASKED)
			return;
	if (l->stage == LEASE_ASKED) {
		l->code = -ENOENT;
		(void)str_copy(l->text, sizeof(l->text), "its agent let go of everything");
	}
	if (c && c->fd >= 0 && (l->stage == LEASE_ASKED || l->due & DUE_GRANTED))
		(void)tell_granted(g, c, l);
}

void glease_drop_promises(struct guard *g, const char *instance)
{
	struct gclient *c = gclient_find(g, instance);

	GLEASE_EACH(g, l)
	{
		if (strcmp(l->instance, instance) != 0 || l->stage >= LEASE_GRANTED)
			continue;
		answer_dropped(g, c, l);
		glease_end(g, l);
	}
}

/* As if it had asked just now and been refused, so that it asks again when it goes on. False: it
 * cannot be told. */
static bool refuse_reservation(struct guard *g, const struct gclient *c, const struct glease *l)
{
	struct msg_lease_reply m = { .head = PROTO_HEAD(MSG_LEASE_REPLY, struct msg_lease_reply),
				     .id = l->id,
				     .slot = (int32_t)l->slot,
				     .code = -ETIMEDOUT };

	(void)str_copy(m.text, sizeof(m.text), "its agent did not answer");
	return sock_send(c->fd, &m, sizeof(m)) != -EAGAIN;
}

void glease_drop_silent(struct guard *g, struct gclient *c)
{
	GLEASE_EACH(g, l)
	{
		bool reserved = l->flags & LEASE_RESERVED;

		if (strcmp(l->instance, c->instance) != 0 || l->stage >= LEASE_GRANTED ||
		    (reserved && !refuse_reservation(g, c, l)))
			continue;
		if (!reserved)
			answer_dropped(g, c, l);
		glease_end(g, l);
	}
}
