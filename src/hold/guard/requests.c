/* SPDX-License-Identifier: MIT */
/*
 * Promise. Decided at once, from the ledger and the last look. Nothing is started by it but a hold
 * where the lease asks for one (LEASE_HOLD_WHILE).
 *
 * Reservation. Of one device for a task that waits for others. A lease of the same instance takes
 * over what is held for it, so that between the two the device is never anybody's.
 *
 * Instances. What one of them merely holds is for every task of this user's: its lease takes the
 * hold over, whatever becomes of the policy meanwhile, and the device goes back to that policy.
 * What is reserved is not given. Two instances that each collect what the other waits for would
 * wait for ever, so nobody reserves what an instance could want that has begun to collect before.
 */
#include "hold/guard/requests.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "hold/guard/assign.h"
#include "hold/guard/device.h"
#include "hold/guard/lease.h"
#include "hold/guard/ledger.h"
#include "hold/guard/lend.h"
#include "hold/guard/limits.h"

/* --- may a device be leased? --- */

static int check_ledger(struct guard *g, const struct device *d, const struct client *c,
			uint32_t flags, struct dev_reason *why)
{
	char id[LEASE_TEXT_MAX];

	LEASES_EACH(g, l) {
		bool reserved = l->flags & LEASE_RESERVED && !strcmp(l->instance, c->instance);

		if (l->slot == d->slot && !reserved && !(l->flags & flags & LEASE_SHARED))
			return dev_reason_set(
				why, -EBUSY, "%s %s of %s%s",
				l->flags & LEASE_RESERVED ? "reserved for" : "leased to",
				lease_id_text(&l->id, id), l->instance,
				l->stage == LEASE_OVER ? ", which is still ending" : "");
	}
	return 0;
}

static int check_lease(struct guard *g, struct device *d, const struct client *c,
		       const struct msg_lease *m, struct dev_reason *why)
{
	int r = lease_check_sample(d, why);

	if (r == 0 && (!m->id.task || m->flags & ~(uint32_t)LEASE_FLAGS))
		r = dev_reason_set(why, -EINVAL, "a lease without a task, or with unknown flags");
	if (r == 0)
		r = check_ledger(g, d, c, m->flags, why);
	if (r < 0 || m->pid) /* what runs already is there, whatever is said against it */
		return r;
	r = lease_check_errors(d, why);
	if (r == 0)
		r = lease_check_test(g, d, why);
	if (r == 0 && d->leaver >= 0)
		r = dev_reason_set(why, -EPERM, "left for others by the policy of %s",
				   g->clients[d->leaver].instance);
	if (r == 0)
		r = limit_lease(g, c, d, why);
	if (r == 0)
		r = lease_check_foreign(g, d, m->flags, why);
	return r == 0 ? lease_check_memory(g, d, m->bytes, why) : r;
}

/* Watch the shim. 0; -ESRCH: that process is gone, or is not of our user. */
static int take_shim(struct lease *l, pid_t pid, uint64_t start, struct dev_reason *why)
{
	struct proc_peek p;
	cleanup_fd int fd = pid > 0 ? proc_open(pid) : -ESRCH;

	if (fd == -ESRCH || proc_peek(pid, &p) < 0 || p.start != start || p.uid != geteuid())
		return dev_reason_set(why, -ESRCH, "its shim (PID %d) is gone", (int)pid);
	(void)fd_close(l->pidfd);
	l->pidfd = fd < 0 ? -1 : take_fd(fd); /* without one, lease_look_at_shims() */
	l->shim = (struct proc_id){ .pid = pid, .start = start };
	return 0;
}

static void reply(struct client *c, enum msg_type type, const struct lease_id *id, int32_t slot,
		  int code, bool held, const struct dev_reason *why)
{
	struct msg_lease_reply m = { .head = PROTO_HEAD(MSG_LEASE_REPLY, struct msg_lease_reply),
				     .id = *id,
				     .slot = slot,
				     .code = code,
				     .held = held };

	m.head.type = (uint16_t)type;
	if (why)
		m.reason = *why;
	if (c->fd >= 0)
		(void)sock_send(c->fd, &m, sizeof(m));
}

static struct lease *new_lease(struct guard *g, const struct client *c, const struct device *d,
			       const struct msg_lease *m)
{
	for (struct lease *l = g->leases; l < g->leases + GUARD_LEASES_MAX; l++) {
		if (l->used)
			continue;
		*l = (struct lease){ .used = true,
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

static int no_room(struct dev_reason *why)
{
	return dev_reason_set(why, -ENOSPC, "the ledger is full (%d leases)", GUARD_LEASES_MAX);
}

static struct lease *reservation_on(struct guard *g, const struct client *c, const struct device *d)
{
	LEASES_OF(g, d, l)
		if (l->flags & LEASE_RESERVED && !strcmp(l->instance, c->instance))
			return l;
	return NULL;
}

/* What is held for the reservation, or for another instance, is held for the task now. */
static void take_over(struct guard *g, const struct client *c, struct lease *l)
{
	struct device *d = lease_device(g, l);
	struct lease *r = reservation_on(g, c, d);

	if (device_holds(d) && (r || device_owner(g, d) != c))
		l->flags |= LEASE_HOLD_WHILE;
	if (r)
		lease_end(g, r);
}

static int enter_lease(struct guard *g, struct client *c, struct device *d,
		       const struct msg_lease *m, struct dev_reason *why)
{
	int r = check_lease(g, d, c, m, why);
	struct lease *l = r == 0 ? new_lease(g, c, d, m) : NULL;

	if (r == 0 && !l)
		r = no_room(why);
	if (r == 0 && m->pid)
		r = take_shim(l, m->pid, m->start, why);
	/* It runs: whether it was seen on the device already is what only the guard before this one
	 * knows, and who came beside it since has nothing to claim. */
	if (r == 0 && m->pid)
		l->stage = LEASE_USED;
	if (r < 0 && l)
		*l = (struct lease){ .pidfd = -1 };
	if (r == 0) {
		take_over(g, c, l);
		lend_on_promise(d);
		(void)device_lock(d, NULL);
	}
	lease_recount(g, d);
	if (r == 0)
		limit_trim(g, c);
	if (r == 0 && m->pid) {
		lend_begin(g, d);
		eyes_look_now(g->eyes, d->slot); /* what runs there is whose? */
	}
	device_unlock(d);
	return r;
}

/* --- LEASE --- */

static struct device *find_device(struct guard *g, const char *uuid)
{
	DEVICES_EACH(g, d)
		if (!strcmp(d->id.uuid, uuid))
			return d;
	return NULL;
}

void request_lease(struct guard *g, struct client *c, struct msg_lease *m)
{
	struct dev_reason why;
	struct device *d;
	struct lease *known = NULL;
	int r = 0;

	m->uuid[sizeof(m->uuid) - 1] = '\0';
	d = find_device(g, m->uuid);
	if (!d) {
		(void)dev_reason_set(&why, -ENODEV, "there is no device %s", m->uuid);
		reply(c, MSG_LEASE_REPLY, &m->id, -1, -ENODEV, false, &why);
		return;
	}
	LEASES_OF(g, d, l)
		if (ledger_is_of(l, c->instance, &m->id))
			known = l;
	if (!known)
		r = enter_lease(g, c, d, m, &why);
	else if (known->stage == LEASE_OVER)
		r = dev_reason_set(&why, -EBUSY, "its last try is still ending");

	const char *unfit = gpu_unfit(&d->id, &d->sample.look);

	if (r == 0 && unfit)
		(void)dev_reason_set(&why, 0, "%s: there is no hold before a task", unfit);
	reply(c, MSG_LEASE_REPLY, &m->id, (int32_t)d->slot, r, device_holds(d),
	      r < 0 || unfit ? &why : NULL);
}

/* --- RESERVE --- */

/* Another instance collects, and may come to want d. */
static int check_collectors(struct guard *g, const struct client *c, const struct device *d,
			    struct dev_reason *why)
{
	char id[LEASE_TEXT_MAX];

	LEASES_EACH(g, l)
		if (l->flags & LEASE_RESERVED && strcmp(l->instance, c->instance) != 0 &&
		    assign_selects(g, client_find(g, l->instance), d))
			return dev_reason_set(why, -EBUSY,
					      "GPUs are collected for %s of %s, which came first",
					      lease_id_text(&l->id, id), l->instance);
	return 0;
}

/* In place of what was reserved there before, so that the hold stays. */
static int enter_reservation(struct guard *g, struct client *c, struct device *d,
			     const struct lease_id *id, struct dev_reason *why)
{
	struct lease *l = reservation_on(g, c, d);
	struct msg_lease m = { .id = *id };
	int r = l ? 0 : check_lease(g, d, c, &m, why);

	if (r == 0 && !l)
		r = check_collectors(g, c, d, why);
	if (r == 0 && !l)
		l = new_lease(g, c, d, &m);
	if (r == 0 && !l)
		r = no_room(why);
	if (r == 0) {
		l->id = *id;
		l->flags = LEASE_RESERVED | LEASE_HOLD_WHILE;
		l->taken = false;
		lend_on_no_next(g, d); /* it waits for others: that may take long */
		(void)device_lock(d, NULL);
		lease_recount(g, d); /* a refusal is no news of the device */
	}
	device_unlock(d);
	return r;
}

void request_reserve(struct guard *g, struct client *c, struct msg_reserve *m)
{
	struct dev_reason why;
	struct device *d;
	struct lease *l;
	int r;

	m->uuid[sizeof(m->uuid) - 1] = '\0';
	d = find_device(g, m->uuid);
	if (!m->id.task) {
		l = d ? reservation_on(g, c, d) : NULL;
		if (l)
			lease_end(g, l);
		if (d && !strcmp(d->ledger.last_instance, c->instance) && !d->ledger.n_leases)
			lend_on_no_next(g, d);
		return;
	}
	if (!d)
		r = dev_reason_set(&why, -ENODEV, "there is no device %s", m->uuid);
	else if (m->id.attempt)
		r = dev_reason_set(&why, -EINVAL, "a reservation is for no attempt yet");
	else
		r = enter_reservation(g, c, d, &m->id, &why);
	reply(c, MSG_LEASE_REPLY, &m->id, d ? (int32_t)d->slot : -1, r, d && device_holds(d),
	      r < 0 ? &why : NULL);
}

/* --- GRANT --- */

void request_grant(struct guard *g, struct client *c, const struct msg_grant *m)
{
	struct dev_reason why;
	struct lease *some = NULL;
	int r = 0;

	LEASES_EACH(g, l) {
		if (r < 0 || !ledger_is_of(l, c->instance, &m->id) || l->flags & LEASE_RESERVED)
			continue;
		some = l;
		if (l->shim.pid && l->shim.pid == m->pid && l->shim.start == m->start)
			continue; /* asked again */
		if (l->shim.pid || l->stage == LEASE_OVER)
			r = dev_reason_set(&why, -EEXIST, "it was granted to PID %d",
					   (int)l->shim.pid);
		else
			r = take_shim(l, m->pid, m->start, &why);
		if (r == 0)
			lease_ask(g, l);
	}
	if (!some)
		r = dev_reason_set(&why, -ENOENT, "it has no lease");
	if (r < 0) {
		LEASES_EACH(g, l)
			if (ledger_is_of(l, c->instance, &m->id) && l->stage == LEASE_ASKED)
				lease_ungrant(g, l);
		reply(c, MSG_GRANTED, &m->id, -1, r, false, &why);
		return;
	}
	lease_conclude(g, some);
}

/* --- UNLEASE --- */

void request_unlease(struct guard *g, struct client *c, const struct msg_unlease *m)
{
	struct msg_unleased none = { .head = PROTO_HEAD(MSG_UNLEASED, struct msg_unleased),
				     .id = m->id,
				     .slot = -1 };
	bool any = false;

	(void)memcpy(none.uuid, m->uuid, sizeof(none.uuid) - 1);
	LEASES_EACH(g, l) {
		if (!ledger_is_of(l, c->instance, &m->id) ||
		    (none.uuid[0] && strcmp(none.uuid, lease_device(g, l)->id.uuid) != 0))
			continue;
		any = true;
		lease_set_over(g, l, true);
	}
	if (!any && c->fd >= 0)
		(void)sock_send(c->fd, &none, sizeof(none));
}
