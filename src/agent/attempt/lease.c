/* SPDX-License-Identifier: MIT */
#include "agent/attempt/lease.h"

#include "agent/attempt/runend.h"
#include "agent/attempt/shim.h"

/* Who shares asks for memory alone, before and beside others; nobody else has to be gone for it,
 * and it has not to go for them. */
static uint32_t lease_flags(const struct spool_spec *s)
{
	bool others = s->shared || s->rules != SPEC_RULES_TENURE;

	return (s->shared ? LEASE_SHARED : 0) | (others ? LEASE_OTHERS_OK : 0) |
	       (s->preemptible && !others ? LEASE_GIVES_WAY : 0);
}

/* What cannot be said now, because the line is down, is said by attempt_on_guard(). */
static void tell_lease(struct attempt *r, const struct proc_id *shim)
{
	struct msg_lease m = { .id = attempt_lease_id(r), .bytes = r->spec->memory };

	m.flags = lease_flags(r->spec);
	if (shim) {
		m.pid = shim->pid;
		m.start = shim->start;
	}
	for (size_t i = 0; i < r->uuids.n; i++) {
		(void)str_copy(m.uuid, sizeof(m.uuid), r->uuids.texts[i]);
		(void)guardlink_lease(r->place->link, &m);
	}
}

/* The slots of a new guard may be others. */
static void take_slots(struct attempt *r, struct devset slots)
{
	if (devset_equal(r->devices, slots))
		return;
	r->devices = slots;
	r->place->moved(r->place->user, r);
}

/* It runs there, whatever the guard knows of it. */
static void tell_running(struct attempt *r)
{
	r->slots = (struct devset){ 0 };
	r->n_answers = 0;
	r->unleased = false;
	tell_lease(r, &r->shim);
}

static void on_running_told(struct attempt *r, const struct msg_lease_reply *m)
{
	if (m->slot >= 0)
		devset_add(&r->slots, (unsigned int)m->slot);
	if (m->code < 0)
		r->unleased = true;
	else
		devset_add(&r->promised, (unsigned int)m->slot);
	if (++r->n_answers == r->uuids.n)
		take_slots(r, r->slots);
}

void attempt_lease_ask(struct attempt *r)
{
	if (!devset_count(r->devices)) {
		attempt_launch(r);
		return;
	}
	r->state = AT_LEASING;
	r->leased = true;
	devset_each(slot, r->devices) text_list_add(&r->uuids, r->place->view->devices[slot].uuid);
	r->promised = (struct devset){ 0 };
	tell_lease(r, NULL);
}

void attempt_lease_give_back(struct attempt *r)
{
	const struct lease_id id = attempt_lease_id(r);

	(void)guardlink_unlease(r->place->link, &id);
}

void attempt_lease_grant(struct attempt *r)
{
	const struct lease_id id = attempt_lease_id(r);

	(void)guardlink_grant(r->place->link, &id, &r->shim);
}

void attempt_on_promise(struct attempt *r, const struct msg_lease_reply *m)
{
	bool asks = r->state == AT_LEASING || r->state == AT_GRANTING;

	if (m->slot >= PROTO_DEVICES_MAX || (m->code >= 0 && m->slot < 0))
		return;
	if (r->state == AT_RUNNING)
		on_running_told(r, m);
	/* It ends before all are told; each that it has is given back by a word of its own. */
	if (r->state == AT_FREEING && !r->freed && m->code >= 0)
		devset_add(&r->promised, (unsigned int)m->slot);
	if (!asks)
		return;
	/* Not to be had after all: the task waits again, and this was no try. */
	if (m->code < 0) {
		attempt_stop(r, END_TAKEN, UINT32_MAX, m->text);
		return;
	}
	devset_add(&r->promised, (unsigned int)m->slot);
	if (devset_count(r->promised) != r->uuids.n)
		return;
	take_slots(r, r->promised);
	(r->state == AT_LEASING ? attempt_launch : attempt_lease_grant)(r);
}

bool attempt_wants_lease(const struct attempt *r)
{
	return r->unleased && r->state == AT_RUNNING;
}

void attempt_lease_again(struct attempt *r)
{
	if (attempt_wants_lease(r))
		tell_running(r);
}

void attempt_on_granted(struct attempt *r, const struct msg_lease_reply *m)
{
	if (r->state != AT_GRANTING)
		return;
	if (m->code < 0)
		attempt_stop(r, END_TAKEN, UINT32_MAX, m->text);
	else
		attempt_shim_go(r);
}

/* Who comes before the task wins, and beside one that gives way; it is ended where it was started
 * already, and comes again. */
void attempt_on_taken(struct attempt *r, const struct msg_lease_taken *m)
{
	char why[RECORD_REASON_MAX];

	if (r->gone)
		return;
	if (r->state != AT_RUNNING || !r->spec->preemptible) {
		attempt_stop(r, END_TAKEN, UINT32_MAX, m->text);
		return;
	}
	(void)str_print(why, sizeof(why), "gave way, GPU %u was %s",
			r->place->view->devices[m->slot].index, m->text);
	attempt_stop(r, END_PREEMPTED, UINT32_MAX, why);
}

void attempt_on_unleased(struct attempt *r, const struct msg_unleased *m)
{
	if (!r->leased) /* of an attempt before this one */
		return;
	if (m->slot < 0)
		r->promised = (struct devset){ 0 };
	else
		devset_del(&r->promised, (unsigned int)m->slot);
	if (devset_count(r->promised))
		return;
	r->freed = true;
	attempt_settle(r);
}

void attempt_on_use(struct attempt *r, const struct msg_lease_use *m)
{
	uint64_t peak_bytes;
	uint32_t util_permille;

	use_add(&r->use, m);
	use_sum(&r->use, &peak_bytes, &util_permille);
	if (r->conn && r->state == AT_RUNNING)
		(void)talk_gpu(r->conn->fd, peak_bytes, util_permille);
}

void attempt_on_guard(struct attempt *r)
{
	if (!r->leased || r->freed)
		return;
	/* One that has been started waits for its GRANT until the new one has promised all: what
	 * the old one had promised may be somebody else's by now. */
	if (r->state == AT_LEASING || r->state == AT_GRANTING) {
		r->promised = (struct devset){ 0 };
		tell_lease(r, NULL);
	} else if (r->state == AT_RUNNING && r->shim.start) { /* else when it has been found */
		r->promised = (struct devset){ 0 };
		tell_running(r);
	} else if (r->state == AT_FREEING) {
		attempt_lease_give_back(r);
	}
}
