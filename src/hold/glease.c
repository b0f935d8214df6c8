/* SPDX-License-Identifier: MIT */
/*
 * The ledger.
 *
 * Promise. Decided at once, from the ledger and the last look. Nothing is started by it but a hold
 * where the lease asks for one (LEASE_HOLD_WHILE).
 *
 * Grant. A device that is held needs no question: had anybody come it would not be held. On another
 * one a look decides that was begun after the question, and the task starts only after its answer.
 * All devices of a task are granted, or none.
 *
 * Until the task's first process is listed somebody foreign wins: the hold yields as always, and
 * the agent hears LEASE_TAKEN. From then on others beside the task are neighbours.
 *
 * End. Over is what UNLEASE says, or the shim's pidfd. The entry stays until a look that was begun
 * later lists no process of the task and, for the last lease of a device, its memory is back
 * (invariant 7): until then nobody else can lease the device.
 *
 * What the agent has to know is a bit in the entry and not a message in a queue: it is sent when
 * the socket takes it, in the newest version, and entries stay until it was.
 */
#include "hold/glease.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "hold/gclient.h"
#include "hold/gdev.h"
#include "hold/ghold.h"
#include "hold/gkin.h"
#include "hold/glend.h"
#include "hold/own.h"

#define REST_WAIT_NS                                                                               \
	(2 * NS_PER_S) /* memory of a task that is gone, longer than that, is not its */

static bool same_id(const struct lease_id *a, const struct lease_id *b)
{
	return a->task == b->task && a->element == b->element && a->attempt == b->attempt;
}

static bool is_of(const struct glease *l, const char *instance, const struct lease_id *id)
{
	return l->used && same_id(&l->id, id) && !strcmp(l->instance, instance);
}

static struct gdev *device_of(struct guard *g, const struct glease *l)
{
	return &g->devs[l->slot];
}

#define EACH_LEASE(g_, l_)                                                                         \
	for (struct glease *l_ = (g_)->leases; l_ < (g_)->leases + GUARD_LEASES_MAX; l_++)         \
		if (l_->used)

/* --- what the ledger says of a device --- */

static bool spoken_for(struct guard *g, const struct glease *l)
{
	const struct gclient *c = gclient_find(g, l->instance);

	return c && !c->silent && !c->dropping;
}

static void recount(struct guard *g, struct gdev *d)
{
	bool wanted = false;

	d->n_leases = d->n_granted = d->n_awaited = d->n_running = d->n_over = 0;
	EACH_LEASE(g, l)
	{
		if (l->slot != d->slot)
			continue;
		d->n_leases++;
		d->n_granted += l->shim.pid != 0;
		d->n_awaited += l->stage == LEASE_GRANTED;
		d->n_running += l->stage == LEASE_GRANTED || l->stage == LEASE_USED;
		d->n_over += l->stage == LEASE_OVER;
		wanted = wanted || (l->flags & LEASE_HOLD_WHILE && l->stage <= LEASE_GRANTED &&
				    spoken_for(g, l));
	}
	ghold_want_while(g, d, wanted);
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

static void close_shim(struct glease *l)
{
	l->pidfd = fd_close(l->pidfd);
}

/* Out of the ledger; the agent is told with it, where there is one. */
static void end_lease(struct guard *g, struct glease *l)
{
	struct gdev *d = device_of(g, l);

	close_shim(l);
	d->last = l->id;
	d->last_over_ns = l->over_ns;
	*l = (struct glease){ .pidfd = -1 };
	recount(g, d);
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
		l->due |= DUE_UNLEASED;
		return;
	}
	end_lease(g, l);
}

static void set_over(struct guard *g, struct glease *l, bool unleased)
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
	recount(g, d);
	eyes_look_now(g->eyes, d->slot);
}

void glease_on_shim(struct guard *g, struct glease *l)
{
	close_shim(l);
	set_over(g, l, false);
}

/* --- LEASE --- */

static struct gdev *find_device(struct guard *g, const char *uuid)
{
	for (uint32_t i = 0; i < g->n_devs; i++)
		if (!strcmp(g->devs[i].id.uuid, uuid))
			return &g->devs[i];
	return NULL;
}

static int check_ledger(struct guard *g, const struct gdev *d, uint32_t flags, struct err *e)
{
	char id[LEASE_TEXT_MAX];

	EACH_LEASE(g, l)
	{
		if (l->slot == d->slot && !(l->flags & flags & LEASE_SHARED))
			return err_set(e, -EBUSY, "leased to task %s of %s%s",
				       lease_id_text(&l->id, id), l->instance,
				       l->stage == LEASE_OVER ? ", which is just ending" : "");
	}
	return 0;
}

/* What the policies say against it. */
static int check_policies(struct guard *g, const struct gdev *d, const struct gclient *c,
			  struct err *e)
{
	const struct gclient *owner = gdev_owner(g, d);

	if (d->leaver >= 0)
		return err_set(e, -EPERM, "left for others by the policy of %s",
			       g->clients[d->leaver].instance);
	if (owner && owner != c && gdev_holds(d))
		return err_set(e, -EBUSY, "held for instance %s", owner->instance);
	return 0;
}

/* Free as far as a lease goes: what our own hold has is free, what was promised is not. */
static uint64_t available(const struct guard *g, const struct gdev *d)
{
	const struct gpu_look *look = &d->sight.look;
	uint64_t promised = glease_promised(g, d);
	uint64_t bytes = gdev_holds(d) ? look->free + look->used - d->settle.others : look->free;

	return bytes > promised ? bytes - promised : 0;
}

/* Is there room for so many bytes more? */
static int check_memory(const struct guard *g, const struct gdev *d, uint64_t bytes, struct err *e)
{
	uint64_t free_bytes = available(g, d);

	if (!bytes || bytes <= free_bytes)
		return 0;
	return err_set(e, -ENOMEM, "needs %.1f GiB; %.1f GiB are free and not promised",
		       in_gib(bytes), in_gib(free_bytes));
}

/* Who is there by the last look. Names them for the text. */
static int check_foreign(struct guard *g, struct gdev *d, uint32_t flags, struct err *e)
{
	const struct gpu_proc *who;
	char text[PROTO_TEXT_MAX];

	if ((flags & LEASE_OTHERS_OK) || gdev_holds(d) || d->state == DEV_LENDING)
		return 0;
	if (d->state == DEV_YIELDING)
		return err_set(e, -EBUSY, "%s", glease_taken_text(d, text, sizeof(text)));
	if (gjudge_foreign(g, d, &who) != SEEN_FOREIGN)
		return 0;
	if (who)
		gjudge_name(g, d, who);
	return err_set(e, -EBUSY, "%s", glease_taken_text(d, text, sizeof(text)));
}

static int check_sight(const struct gdev *d, struct err *e)
{
	if (d->id.mig_parent)
		return err_set(e, -EINVAL, "it is in MIG mode: its instances are the devices");
	if (!d->present)
		return err_set(e, -ENODEV, "it is not there any more");
	if (!d->sight.seq || d->sight.code < 0)
		return err_set(e, -EAGAIN, "it cannot be seen just now: %s",
			       d->sight.seq ? d->sight.trouble : "not looked at yet");
	return 0;
}

static int check_lease(struct guard *g, struct gdev *d, const struct gclient *c,
		       const struct msg_lease *m, struct err *e)
{
	int r = check_sight(d, e);

	if (r == 0 && (!m->id.task || m->flags & ~(uint32_t)LEASE_FLAGS))
		r = err_set(e, -EINVAL, "a lease without a task, or with unknown flags");
	if (r == 0)
		r = check_ledger(g, d, m->flags, e);
	if (r == 0 && !m->pid)
		r = check_policies(g, d, c, e);
	if (r == 0 && !m->pid)
		r = check_foreign(g, d, m->flags, e);
	if (r == 0 && !m->pid)
		r = check_memory(g, d, m->bytes, e);
	if (r == 0 && !gdev_lock(d, e))
		r = -EBUSY;
	return r;
}

/* Watch the shim. 0; -ESRCH: that process is gone, or is not of our user. */
static int take_shim(struct glease *l, pid_t pid, uint64_t start, struct err *e)
{
	struct proc_peek p;
	cleanup_fd int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0U) : -1;

	if (fd < 0 || proc_peek(pid, &p) < 0 || p.start != start || p.uid != geteuid())
		return err_set(e, -ESRCH, "its shim (PID %d) is gone", (int)pid);
	(void)fd_close(l->pidfd);
	l->pidfd = take_fd(fd);
	l->shim = (struct proc_id){ .pid = pid, .start = start };
	return 0;
}

static void reply(struct gclient *c, enum msg_type type, const struct lease_id *id, int32_t slot,
		  int code, bool held, const char *text)
{
	struct msg_lease_reply m = { .head = PROTO_HEAD(MSG_LEASE_REPLY, struct msg_lease_reply),
				     .id = *id,
				     .slot = slot,
				     .code = code,
				     .held = held };

	m.head.type = (uint16_t)type;
	(void)str_copy(m.text, sizeof(m.text), text);
	if (c->fd >= 0)
		(void)sock_send(c->fd, &m, sizeof(m));
}

static struct glease *new_lease(struct guard *g, const struct gclient *c, const struct gdev *d,
				const struct msg_lease *m)
{
	for (struct glease *l = g->leases; l < g->leases + GUARD_LEASES_MAX; l++) {
		if (l->used)
			continue;
		*l = (struct glease){ .used = true,
				      .id = m->id,
				      .slot = d->slot,
				      .flags = m->flags,
				      .bytes = m->bytes,
				      .pidfd = -1 };
		(void)str_copy(l->instance, sizeof(l->instance), c->instance);
		return l;
	}
	return NULL;
}

static int enter_lease(struct guard *g, struct gclient *c, struct gdev *d,
		       const struct msg_lease *m, struct err *e)
{
	int r = check_lease(g, d, c, m, e);
	struct glease *l = r == 0 ? new_lease(g, c, d, m) : NULL;

	if (r == 0 && !l)
		r = err_set(e, -ENOSPC, "the ledger is full (%d leases)", GUARD_LEASES_MAX);
	if (r == 0 && m->pid)
		r = take_shim(l, m->pid, m->start, e);
	if (r == 0 && m->pid)
		l->stage = LEASE_GRANTED;
	if (r < 0 && l)
		*l = (struct glease){ .pidfd = -1 };
	recount(g, d);
	if (r == 0 && m->pid) {
		glend_begin(g, d);
		eyes_look_now(g->eyes, d->slot); /* what runs there is whose? */
	}
	gdev_unlock(d);
	return r;
}

static struct glease *find_lease(struct guard *g, const char *instance, const struct lease_id *id,
				 const struct gdev *d)
{
	EACH_LEASE(g, l)
	if (is_of(l, instance, id) && l->slot == d->slot)
		return l;
	return NULL;
}

void glease_on_lease(struct guard *g, struct gclient *c, struct msg_lease *m)
{
	struct err e = ERR_INIT;
	struct gdev *d;
	struct glease *l;
	int r = 0;

	m->uuid[sizeof(m->uuid) - 1] = '\0';
	d = find_device(g, m->uuid);
	if (!d) {
		(void)err_set(&e, -ENODEV, "there is no device %s", m->uuid);
		reply(c, MSG_LEASE_REPLY, &m->id, -1, -ENODEV, false, e.text);
		return;
	}
	l = find_lease(g, c->instance, &m->id, d);
	if (!l)
		r = enter_lease(g, c, d, m, &e);
	else if (l->stage == LEASE_OVER)
		r = err_set(&e, -EBUSY, "its last try is just ending");

	const char *unfit = gpu_unfit(&d->id, &d->sight.look);
	char remark[PROTO_TEXT_MAX] = "";

	if (r == 0 && unfit)
		(void)str_print(remark, sizeof(remark), "%s: there is no hold before a task",
				unfit);
	reply(c, MSG_LEASE_REPLY, &m->id, (int32_t)d->slot, r, gdev_holds(d),
	      r < 0 ? e.text : remark);
}

/* --- GRANT --- */

static void decide(struct guard *g, struct glease *l)
{
	struct gdev *d = device_of(g, l);
	struct err e = ERR_INIT;
	int r = d->sight.code < 0 ? err_set(&e, -EAGAIN, "it cannot be seen: %s", d->sight.trouble)
				  : check_foreign(g, d, l->flags, &e);
	uint64_t bytes = l->bytes;

	/* What was promised to itself is there for it. */
	l->bytes = 0;
	if (r == 0)
		r = check_memory(g, d, bytes, &e);
	l->bytes = bytes;
	l->decided = true;
	l->code = r;
	if (r < 0)
		(void)str_print(l->text, sizeof(l->text), "GPU %u: %s", d->id.index, e.text);
}

/* Back to a mere promise. */
static void ungrant(struct guard *g, struct glease *l)
{
	close_shim(l);
	l->shim = (struct proc_id){ 0 };
	l->stage = LEASE_PROMISED;
	recount(g, device_of(g, l));
}

/* The first lease of that id that was refused, or is not decided; NULL: all are granted. */
static struct glease *stumbling_block(struct guard *g, const struct glease *of, bool *ret_waiting)
{
	struct glease *refused = NULL;

	*ret_waiting = false;
	EACH_LEASE(g, l)
	{
		if (!is_of(l, of->instance, &of->id) || l->stage != LEASE_ASKED)
			continue;
		*ret_waiting = *ret_waiting || !l->decided;
		if (l->decided && l->code < 0 && !refused)
			refused = l;
	}
	return refused;
}

/* Answer when all of the task's devices are decided. */
static void conclude(struct guard *g, struct glease *of)
{
	bool waiting;
	struct glease *refused = stumbling_block(g, of, &waiting);
	const struct lease_id id = of->id;
	char instance[PROTO_INSTANCE_MAX];

	if (waiting)
		return;
	(void)str_copy(instance, sizeof(instance), of->instance);
	of->code = refused ? refused->code : 0;
	(void)str_copy(of->text, sizeof(of->text), refused ? refused->text : "");
	of->due |= DUE_GRANTED;
	EACH_LEASE(g, l)
	{
		if (!is_of(l, instance, &id) || l->stage != LEASE_ASKED)
			continue;
		if (refused) {
			ungrant(g, l);
			continue;
		}
		l->stage = LEASE_GRANTED;
		recount(g, device_of(g, l));
		glend_begin(g, device_of(g, l));
	}
}

static void ask(struct guard *g, struct glease *l)
{
	struct gdev *d = device_of(g, l);

	l->stage = LEASE_ASKED;
	l->asked_ns = clock_mono_ns();
	l->decided = false;
	if (gdev_holds(d))
		decide(g, l);
	else
		eyes_look_now(g->eyes, d->slot);
	recount(g, d);
}

void glease_on_grant(struct guard *g, struct gclient *c, const struct msg_grant *m)
{
	struct err e = ERR_INIT;
	struct glease *some = NULL;
	int r = 0;

	EACH_LEASE(g, l)
	{
		if (r < 0 || !is_of(l, c->instance, &m->id))
			continue;
		some = l;
		if (l->shim.pid && l->shim.pid == m->pid && l->shim.start == m->start)
			continue; /* asked again */
		if (l->shim.pid || l->stage == LEASE_OVER)
			r = err_set(&e, -EEXIST, "it was granted to PID %d", (int)l->shim.pid);
		else
			r = take_shim(l, m->pid, m->start, &e);
		if (r == 0)
			ask(g, l);
	}
	if (!some)
		r = err_set(&e, -ENOENT, "it has no lease");
	if (r < 0) {
		EACH_LEASE(g, l)
		if (is_of(l, c->instance, &m->id) && l->stage == LEASE_ASKED)
			ungrant(g, l);
		reply(c, MSG_GRANTED, &m->id, -1, r, false, e.text);
		return;
	}
	conclude(g, some);
}

/* --- UNLEASE --- */

void glease_on_unlease(struct guard *g, struct gclient *c, const struct msg_unlease *m)
{
	struct msg_unleased none = { .head = PROTO_HEAD(MSG_UNLEASED, struct msg_unleased),
				     .id = m->id,
				     .slot = -1 };
	bool any = false;

	EACH_LEASE(g, l)
	{
		if (!is_of(l, c->instance, &m->id))
			continue;
		any = true;
		set_over(g, l, true);
	}
	if (!any && c->fd >= 0)
		(void)sock_send(c->fd, &none, sizeof(none));
}

/* --- looks --- */

static void count_processes(struct guard *g, const struct gdev *d)
{
	const struct gpu_procs *procs = &d->sight.look.procs;

	EACH_LEASE(g, l)
	if (l->slot == d->slot)
		l->n_procs = 0, l->used_bytes = 0, l->proc = 0;
	for (uint32_t i = 0; i < procs->n; i++) {
		bool holder = own_classify(g, d, &procs->p[i]) == OWN_HOLDER;
		struct glease *l = holder ? NULL : gkin_find(g, d, procs->p[i].pid);

		if (!l)
			continue;
		l->n_procs++;
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

static void note_taken(struct glease *l, enum verdict v)
{
	if (v == SEEN_CLEAR && l->stage == LEASE_PROMISED)
		l->taken = false;
	if (v != SEEN_FOREIGN || l->taken || l->stage > LEASE_GRANTED ||
	    (l->flags & LEASE_OTHERS_OK) || l->n_procs)
		return;
	l->taken = true;
	l->due |= DUE_TAKEN;
}

static void on_look(struct guard *g, struct gdev *d, struct glease *l, enum verdict v)
{
	uint64_t began = d->sight.look.begin_ns;

	note_taken(l, v);
	if (l->stage == LEASE_GRANTED && l->n_procs) {
		l->stage = LEASE_USED;
		recount(g, d);
	}
	if (l->stage == LEASE_ASKED && !l->decided && began >= l->asked_ns) {
		decide(g, l);
		conclude(g, l);
	}
	if (l->stage == LEASE_OVER && began >= l->over_ns && !l->n_procs && !gdev_letting_go(d) &&
	    !memory_lingers(g, d, l) && !(l->due & DUE_UNLEASED))
		finish(g, l);
}

void glease_on_sight(struct guard *g, struct gdev *d, enum verdict v)
{
	count_processes(g, d);
	EACH_LEASE(g, l)
	if (l->slot == d->slot)
		on_look(g, d, l, v);
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
		end_lease(g, l);
	return r;
}

static const struct {
	uint32_t due;
	int (*tell)(struct guard *g, struct gclient *c, struct glease *l);
} tellers[] = {
	{ DUE_STATE, tell_state },
	{ DUE_GRANTED, tell_granted },
	{ DUE_TAKEN, tell_taken },
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
	EACH_LEASE(g, l)
	if (l->due && !strcmp(l->instance, c->instance) && !tell_lease(g, c, l, kinds))
		return false;
	return true;
}

void glease_tell(struct guard *g, struct gclient *c)
{
	if (!tell_kinds(g, c, DUE_STATE))
		return;
	tell_all_known(c);
	(void)tell_kinds(g, c, ~0U);
}

void glease_tell_all(struct guard *g, struct gclient *c)
{
	c->states_due = true;
	EACH_LEASE(g, l)
	{
		if (strcmp(l->instance, c->instance) != 0)
			continue;
		l->due = DUE_STATE;
		/* It asked, and the answer went to the one before it: it asks again. */
		if (l->stage == LEASE_ASKED)
			ungrant(g, l);
	}
	glease_tell(g, c);
}

void glease_client_changed(struct guard *g, const struct gclient *c)
{
	EACH_LEASE(g, l)
	if (!strcmp(l->instance, c->instance))
		recount(g, device_of(g, l));
}

void glease_drop_promises(struct guard *g, const char *instance)
{
	EACH_LEASE(g, l)
	if (!strcmp(l->instance, instance) && l->stage < LEASE_GRANTED)
		end_lease(g, l);
}
