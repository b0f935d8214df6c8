/* SPDX-License-Identifier: MIT */
#include "hold/guard/dev_status.h"

#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/sock.h"
#include "base/str.h"
#include "hold/guard/hold.h"
#include "hold/guard/ledger.h"
#include "hold/guard/ownership.h"
#include "hold/guard/timings.h"

_Static_assert(GPU_DEVICES_MAX == PROTO_DEVICES_MAX, "a slot of the guard is one of a message");

static uint32_t known_figures(const struct gpu_look *look)
{
	static const struct {
		uint32_t valid, known;
	} map[] = {
		{ GPU_VALID_MEM, KNOWN_MEM },	{ GPU_VALID_PROCS, KNOWN_PROCS },
		{ GPU_VALID_UTIL, KNOWN_UTIL }, { GPU_VALID_POWER, KNOWN_POWER },
		{ GPU_VALID_TEMP, KNOWN_TEMP }, { GPU_VALID_POWER_LIMIT, KNOWN_POWER_LIMIT },
	};
	uint32_t known = 0;

	for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++)
		if (look->valid & map[i].valid)
			known |= map[i].known;
	return known;
}

static void fill_figures(struct dev_status *s, const struct sample *sample)
{
	const struct gpu_look *look = &sample->look;

	if (!sample->seq || sample->code < 0)
		return;
	s->known = known_figures(look);
	s->looked_ns = look->end_ns;
	s->mem_total = look->total;
	s->mem_used = look->used;
	s->mem_free = look->free;
	s->util = look->util;
	s->power_mw = look->power_mw;
	s->power_limit_mw = look->power_limit_mw;
	s->temp_c = look->temp_c;
	for (uint32_t i = 0; i < look->procs.n; i++)
		s->n_procs += !look->procs.p[i].graphics;
}

static void fill_lease(struct guard *g, const struct device *d, struct dev_status *s)
{
	const struct lease *first = ledger_first(g, d);

	if (!first)
		return;
	s->n_leases = d->ledger.n_leases;
	s->promised = ledger_promised(g, d);
	s->lease = first->id;
	s->lease_stage = first->stage;
	(void)str_copy(s->lease_instance, sizeof(s->lease_instance), first->instance);
	LEASES_OF(g, d, l)
		s->n_lease_procs += l->n_procs;
}

/* Of interest to tasks by the rules of compete (sched/fit.c). */
static uint32_t count_python(struct guard *g, const struct device *d)
{
	const struct gpu_procs *procs = &d->sample.look.procs;
	struct proc_peek peek;
	uint32_t n = 0;

	for (uint32_t i = 0; i < procs->n; i++) {
		const struct gpu_proc *p = &procs->p[i];
		enum ownership own = own_classify(g, d, p);

		if (own != OWN_FOREIGN && own != OWN_IGNORED)
			continue;
		n += proc_peek(p->pid, &peek) == 0 && peek.uid == geteuid() &&
		     proc_is_python(p->pid, peek.comm);
	}
	return n;
}

static uint32_t flags_of(const struct guard *g, const struct device *d)
{
	const struct gpu_look *look = &d->sample.look;
	bool known = d->sample.seq && look->valid & GPU_VALID_MODE;

	return (d->seen.room != ROOM_NONE ? DEVICE_VACANT : 0) |
	       (d->id.mig_parent ? DEVICE_MIG_CARD : 0) | (d->id.unseen ? DEVICE_UNSEEN : 0) |
	       (d->state == DEV_BUSY && !d->announced ? DEVICE_UNJUDGED : 0) |
	       (device_is_reserved_for_test(g, d) ? DEVICE_TESTED : 0) |
	       (known && look->mode == NVML_COMPUTEMODE_EXCLUSIVE_PROCESS ? DEVICE_ONE_PROCESS
									  : 0) |
	       (known && look->mode == NVML_COMPUTEMODE_PROHIBITED ? DEVICE_PROHIBITED : 0);
}

static void fill_status(struct guard *g, const struct device *d, struct dev_status *s)
{
	struct client *owner = device_owner(g, d);

	(void)str_copy(s->uuid, sizeof(s->uuid), d->id.uuid);
	(void)str_copy(s->name, sizeof(s->name), d->id.name);
	s->reason = d->said.reason;
	if (owner)
		(void)str_copy(s->instance, sizeof(s->instance), owner->instance);
	s->index = d->id.index;
	s->mig = d->id.mig;
	s->state = d->state;
	s->since_ns = d->since_ns;
	s->idle_since_ns = d->state == DEV_IDLE ? d->hold.idle_since_ns : 0;
	s->hold_at_ns = hold_at(g, d);
	s->held_bytes = d->state == DEV_HELD ? d->holder.held : 0;
	s->target_bytes = d->state == DEV_HELD ? d->holder.wanted : 0;
	s->who_pid = d->said.who_pid;
	s->who_uid = d->said.who_uid;
	s->holder_pid = d->holder.pid;
	s->load = d->state == DEV_HELD ? d->load.told : LOAD_NONE;
	s->duty_permille = s->load ? d->load.told_duty : 0;
	s->yields = d->hold.yields;
	s->flags = flags_of(g, d);
	s->xid = d->seen.xid;
	(void)memcpy(s->xids, d->seen.xids, sizeof(s->xids));
	for (size_t i = 0; i < ARRAY_LEN(s->peers); i++)
		s->peers[i] = d->seen.peers.w[i];
	s->own_python = count_python(g, d);
	fill_lease(g, d, s);
	fill_figures(s, &d->sample);
}

void status_tell_devices(struct guard *g, struct client *c, bool all)
{
	for (uint32_t i = 0; c->fd >= 0 && i < g->n_devs; i++) {
		struct device *d = &g->devs[i];
		struct msg_device m = { .head = PROTO_HEAD(MSG_DEVICE, struct msg_device),
					.slot = i };

		if (!all && !d->dirty)
			continue;
		fill_status(g, d, &m.dev);
		if (sock_send(c->fd, &m, sizeof(m)) == -EAGAIN)
			return; /* newest state wins: the next round tells */
	}
}

void status_take_health(struct guard *g)
{
	bool watched = status_watched(g);

	DEVICES_EACH(g, d) {
		if (watched)
			eyes_figures(g->eyes, d->slot, &d->sample.look);
		if (!eyes_health(g->eyes, d->slot, &d->health_seq, &d->health))
			continue;
		CLIENTS_EACH(g, c)
			c->health_due[d->slot / 64] |= UINT64_C(1) << (d->slot % 64);
	}
}

bool status_watched(const struct guard *g)
{
	uint64_t now = clock_mono_ns();

	CLIENTS_EACH(g, c)
		if (c->watched_ns && now < c->watched_ns + WATCHED_NS)
			return true;
	return false;
}

void status_tell_health(struct guard *g, struct client *c)
{
	DEVICES_EACH(g, d) {
		uint64_t bit = UINT64_C(1) << (d->slot % 64);
		struct msg_health m = { .head = PROTO_HEAD(MSG_HEALTH, struct msg_health),
					.slot = d->slot };

		if (!d->health_seq || !(c->health_due[d->slot / 64] & bit))
			continue;
		m.health = d->health;
		if (sock_send(c->fd, &m, sizeof(m)) == -EAGAIN)
			return; /* newest state wins: the next round tells */
		c->health_due[d->slot / 64] &= ~bit;
	}
}

void status_tell_guard(struct guard *g, struct client *c, enum msg_type type)
{
	struct msg_guard m = { .head = PROTO_HEAD(MSG_GUARD, struct msg_guard),
			       .pid = getpid(),
			       .n_devices = g->n_devs,
			       .flags = g->flags,
			       .pid_class = g->pid_class,
			       .started_wall_ns = g->started_wall_ns,
			       .late_ns = g->delay.late_ns,
			       .look_ns = g->delay.took_ns,
			       .n_late = g->delay.n_late };

	m.head.type = (uint16_t)type;
	eyes_driver(g->eyes, m.driver, sizeof(m.driver));
	(void)str_copy(m.trouble, sizeof(m.trouble), g->trouble);
	eyes_granted(g->eyes, &m.n_others, &m.n_unseen);
	if (c->fd >= 0 && sock_send(c->fd, &m, sizeof(m)) == 0)
		c->guard_dirty = false;
}
