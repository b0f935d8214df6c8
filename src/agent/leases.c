/* SPDX-License-Identifier: MIT */
#include "agent/leases.h"

#include "agent/attempt/lease.h"
#include "agent/attempt/resize.h"
#include "agent/device_trust.h"
#include "agent/dispatch_state.h"
#include "agent/scaling.h"
#include "base/mem.h"

#define AGAIN_MS 1000

static bool is_lease_of(const struct attempt *r, const struct lease_id *id)
{
	return r->lease.task == id->task && r->lease.element == id->element &&
	       r->lease.attempt == id->attempt;
}

static struct attempt *by_lease(const struct dispatch *q, const struct lease_id *id)
{
	if (id->task == LEASE_WORKLOAD)
		return workload_by_lease(q->workload, id);
	for (struct attempt *r = q->place.tasks; r; r = r->next)
		if (is_lease_of(r, id))
			return r;
	return NULL;
}

/* The guard ends a lease by itself when the shim and all that it started are gone. */
static bool shim_lives(const struct msg_lease_state *m)
{
	const struct proc_id shim = { .pid = m->pid, .start = m->start };

	return m->pid > 0 && proc_alive(&shim);
}

/* Of a task that runs: its claim does not tell of that device. It was to get it, or had left it. */
static bool is_beyond(const struct attempt *r, const struct msg_lease_state *m)
{
	return r && r->resize && r->uuids.n && !text_list_has(&r->uuids, m->uuid);
}

void leases_take_told(struct dispatch *q)
{
	for (size_t i = 0; i < q->n_leases; i++) {
		const struct msg_lease_state *m = &q->leases[i];

		if (m->flags & LEASE_RESERVED)
			reserving_on_state(&q->reserving, m);
		else if (m->id.task == LEASE_WORKLOAD)
			workload_on_state(q->workload, m);
		else if (is_beyond(by_lease(q, &m->id), m))
			(void)guardlink_unlease_one(q->place.link, &m->id, m->uuid);
		else if (!by_lease(q, &m->id) && !shim_lives(m))
			(void)guardlink_unlease(q->place.link, &m->id);
	}
	q->n_leases = q->n_early = 0;
}

void leases_find_devices(const struct dispatch *q, const struct task_name *n, struct text_list *ret)
{
	for (size_t i = 0; i < q->n_leases; i++) {
		const struct msg_lease_state *m = &q->leases[i];

		if (m->id.task == n->id && m->id.element == n->element &&
		    m->id.attempt == (uint32_t)n->epoch + 1)
			text_list_add(ret, m->uuid);
	}
}

/* A guard that is new may not see the device yet, or another task is just leaving it. Its answer is
 * news of the device, too, so it cannot be asked at each of those. */
static void on_again(uv_timer_t *timer)
{
	struct dispatch *q = timer->data;

	for (struct attempt *r = q->place.tasks; r; r = r->next)
		attempt_lease_again(r);
}

static void on_promise(struct dispatch *q, struct attempt *r, const struct msg_lease_reply *m)
{
	if (r && resize_on_promise(r, m))
		return;
	if (r)
		attempt_on_promise(r, m);
	else if (m->id.task != LEASE_WORKLOAD)
		reserving_on_reply(&q->reserving, m);
	if (r && attempt_wants_lease(r) && q->mode < DISPATCH_END &&
	    !uv_is_active((uv_handle_t *)&q->lease_timer))
		(void)uv_timer_start(&q->lease_timer, on_again, AGAIN_MS, 0);
}

static void on_reply(struct dispatch *q, const struct msg_lease_reply *m)
{
	struct attempt *r = by_lease(q, &m->id);

	if (m->head.type == MSG_LEASE_REPLY) {
		on_promise(q, r, m);
		return;
	}
	/* A device with an error is granted to nobody: what the guard tells behind that is news. */
	if (r && m->code >= 0)
		device_trust_on_granted(q->trust, r);
	if (r && !resize_on_granted(r, m))
		attempt_on_granted(r, m);
}

static void tell_taken(struct dispatch *q, struct attempt *r, const struct msg_lease_taken *m)
{
	if (!scaling_on_taken(q, r, m))
		attempt_on_taken(r, m);
}

static void on_taken(struct dispatch *q, const struct msg_lease_taken *m)
{
	struct attempt *r = by_lease(q, &m->id);

	if (r) {
		tell_taken(q, r, m);
	} else if (!dispatch_is_open(q)) {
		q->early = xrealloc(q->early, q->n_early + 1, sizeof(*q->early));
		q->early[q->n_early++] = *m;
	}
}

void leases_adopted(struct dispatch *q, struct attempt *r)
{
	for (size_t i = 0; i < q->n_early; i++)
		if (is_lease_of(r, &q->early[i].id))
			tell_taken(q, r, &q->early[i]);
}

static void on_unleased(struct dispatch *q, const struct msg_unleased *m)
{
	struct attempt *r = by_lease(q, &m->id);

	if (r)
		attempt_on_unleased(r, m);
}

/* What was promised and is in use is not to be had twice by the next plan. */
static void on_use(struct dispatch *q, const struct msg_lease_use *m)
{
	struct attempt *r = by_lease(q, &m->id);

	if (!r || m->slot < 0 || m->id.task == LEASE_WORKLOAD)
		return;
	attempt_on_use(r, m);
	(void)sched_used(q->plan, r->ref, (unsigned int)m->slot, m->bytes);
}

/* Those were all: attempts are told first, then what nobody has is given back. */
static bool on_all_told(struct dispatch *q)
{
	q->leases_known = true;
	if (!dispatch_is_open(q))
		return false;
	for (struct attempt *r = q->place.tasks; r; r = r->next) {
		resize_on_guard(r);
		attempt_on_guard(r);
	}
	workload_on_guard(q->workload);
	reserving_forget_told(&q->reserving);
	leases_take_told(q);
	return true;
}

/* They are kept until the last one, and until the queue is open. */
static bool on_state(struct dispatch *q, const struct msg_lease_state *m)
{
	if (m->slot < 0)
		return on_all_told(q);
	if (q->leases_known)
		q->n_leases = q->n_early = 0;
	q->leases_known = false;
	q->leases = xrealloc(q->leases, q->n_leases + 1, sizeof(*q->leases));
	q->leases[q->n_leases++] = *m;
	return false;
}

bool leases_on_message(struct dispatch *q, const struct msg_head *m)
{
	switch (m->type) {
	case MSG_LEASE_REPLY:
	case MSG_GRANTED:
		on_reply(q, (const void *)m);
		break;
	case MSG_LEASE_TAKEN:
		on_taken(q, (const void *)m);
		break;
	case MSG_UNLEASED:
		on_unleased(q, (const void *)m);
		break;
	case MSG_LEASE_USE:
		on_use(q, (const void *)m);
		break;
	case MSG_LEASE_STATE:
		return on_state(q, (const void *)m);
	}
	return false;
}
