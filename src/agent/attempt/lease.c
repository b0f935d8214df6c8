/* SPDX-License-Identifier: MIT */
#include "agent/attempt/lease.h"

#include "agent/attempt/shim.h"
#include "base/str.h"

/* Who shares asks for memory alone, before and beside others; nobody else has to be gone for it,
 * and it has not to go for them. */
uint32_t attempt_lease_flags(const struct task_spec *s)
{
	bool others = s->shared || s->rules != SPEC_RULES_TENURE;

	return (s->shared ? LEASE_SHARED : 0) | (others ? LEASE_OTHERS_OK : 0) |
	       (s->preemptible && !others ? LEASE_PREEMPTIBLE : 0);
}

/* What cannot be said now, because the line is down, is said with ON_GUARD_NEW. */
static void tell_lease(struct attempt *a, const struct proc_id *shim)
{
	struct msg_lease m = { .id = a->lease,
			       .bytes = a->spec->memory,
			       .flags = attempt_lease_flags(a->spec) };

	if (shim) {
		m.pid = shim->pid;
		m.start = shim->start;
	}
	for (size_t i = 0; i < a->uuids.n; i++) {
		(void)str_copy(m.uuid, sizeof(m.uuid), a->uuids.texts[i]);
		(void)guardlink_lease(a->place->link, &m);
	}
}

/* The slots of a new guard may be others. */
static void take_slots(struct attempt *a, struct devset slots)
{
	if (devset_equal(a->devices, slots))
		return;
	a->devices = slots;
	a->ops->moved(a);
}

void attempt_lease_ask(struct attempt *a, const void *with)
{
	a->leased = true;
	if (!a->uuids.n)
		devset_each(slot, a->devices)
			text_list_add(&a->uuids, a->place->view->devices[slot].uuid);
	tell_lease(a, NULL);
}

void attempt_lease_ask_again(struct attempt *a, const void *with)
{
	a->promised = (struct devset){ 0 };
	tell_lease(a, NULL);
}

void attempt_lease_settle(struct attempt *a)
{
	take_slots(a, a->promised);
}

static void tell_running(struct attempt *a)
{
	a->told_slots = (struct devset){ 0 };
	a->n_answers = 0;
	a->unleased = false;
	tell_lease(a, &a->shim);
}

void attempt_lease_tell(struct attempt *a, const void *with)
{
	if (!a->leased || a->freed || !a->shim.start) /* else when it has been found */
		return;
	a->promised = (struct devset){ 0 };
	tell_running(a);
}

void attempt_lease_told(struct attempt *a, const void *with)
{
	const struct msg_lease_reply *m = with;

	if (m->slot >= 0)
		devset_add(&a->told_slots, (unsigned int)m->slot);
	if (m->code < 0 && a->ops->lease_failed)
		a->ops->lease_failed(a, m);
	else if (m->code < 0)
		a->unleased = true;
	if (++a->n_answers == a->uuids.n)
		take_slots(a, a->told_slots);
}

void attempt_lease_grant(struct attempt *a, const void *with)
{
	(void)guardlink_grant(a->place->link, &a->lease, &a->shim);
}

void attempt_lease_give_back(struct attempt *a, const void *with)
{
	(void)guardlink_unlease(a->place->link, &a->lease);
}

void attempt_on_promise(struct attempt *a, const struct msg_lease_reply *m)
{
	if (m->slot >= PROTO_DEVICES_MAX || (m->code >= 0 && m->slot < 0))
		return;
	if (m->code < 0) {
		attempt_event(a, ON_LEASE_REFUSED, m);
		return;
	}
	/* Also where it ends before all are told: each is given back by a word of its own. */
	devset_add(&a->promised, (unsigned int)m->slot);
	attempt_event(a, devset_count(a->promised) == a->uuids.n ? ON_ALL_PROMISED : ON_PROMISED,
		      m);
}

void attempt_on_granted(struct attempt *a, const struct msg_lease_reply *m)
{
	attempt_event(a, m->code < 0 ? ON_GRANT_REFUSED : ON_GRANTED, m);
}

void attempt_on_taken(struct attempt *a, const struct msg_lease_taken *m)
{
	a->ops->taken(a, m);
}

void attempt_on_unleased(struct attempt *a, const struct msg_unleased *m)
{
	if (!a->leased) /* of an attempt before this one */
		return;
	/* One that it has given back while it runs, which is free now. */
	if (m->uuid[0] && !text_list_has(&a->uuids, m->uuid))
		return;
	if (m->slot < 0)
		a->promised = (struct devset){ 0 };
	else
		devset_del(&a->promised, (unsigned int)m->slot);
	if (devset_count(a->promised))
		return;
	a->freed = true;
	attempt_event(a, ON_FREED, NULL);
}

void attempt_on_use(struct attempt *a, const struct msg_lease_use *m)
{
	uint64_t peak_bytes;
	uint32_t util_permille;

	use_add(&a->use, m);
	use_sum(&a->use, &peak_bytes, &util_permille);
	attempt_shim_tell_use(a, peak_bytes, util_permille);
}

void attempt_on_guard(struct attempt *a)
{
	if (a->leased && !a->freed)
		attempt_event(a, ON_GUARD_NEW, NULL);
}

bool attempt_wants_lease(const struct attempt *a)
{
	return a->unleased && a->shown == AT_RUNNING;
}

void attempt_lease_again(struct attempt *a)
{
	if (attempt_wants_lease(a))
		tell_running(a);
}
