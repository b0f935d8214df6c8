/* SPDX-License-Identifier: MIT */
#include "agent/tasklease.h"

#include "base/mem.h"

#define AGAIN_MS 1000

static struct attempt *by_lease(const struct tasks *q, const struct lease_id *id)
{
	for (struct running *r = q->runs; r; r = r->next) {
		struct lease_id its = attempt_lease_id(r->run);

		if (its.task == id->task && its.element == id->element &&
		    its.attempt == id->attempt)
			return r->run;
	}
	return NULL;
}

/* The guard ends a lease by itself when the shim and all that it started are gone. */
static bool shim_lives(const struct msg_lease_state *m)
{
	const struct proc_id shim = { .pid = m->pid, .start = m->start };

	return m->pid > 0 && proc_alive(&shim);
}

void tasks_drop_stray_leases(struct tasks *q)
{
	for (size_t i = 0; i < q->n_leases; i++) {
		const struct msg_lease_state *m = &q->leases[i];

		if (m->flags & LEASE_RESERVED)
			reserving_on_state(&q->reserving, m);
		else if (m->id.task == LEASE_WORKLOAD)
			fillers_on_state(q->fillers, m);
		else if (!by_lease(q, &m->id) && !shim_lives(m))
			(void)guardlink_unlease(q->place.link, &m->id);
	}
	q->n_leases = 0;
}

/* A guard that is new may not see the device yet, or another task is just leaving it. Its answer is
 * news of the device, too, so it cannot be asked at each of those. */
static void on_again(uv_timer_t *timer)
{
	struct tasks *q = timer->data;

	for (struct running *r = q->runs; r; r = r->next)
		attempt_lease_again(r->run);
}

void tasks_on_promise(struct tasks *q, const struct msg_lease_reply *m)
{
	struct attempt *r = by_lease(q, &m->id);

	if (r)
		attempt_on_promise(r, m);
	else if (m->id.task == LEASE_WORKLOAD)
		fillers_on_promise(q->fillers, m);
	else
		reserving_on_reply(&q->reserving, m);
	if (r && attempt_wants_lease(r) && !q->ending &&
	    !uv_is_active((uv_handle_t *)&q->lease_timer))
		(void)uv_timer_start(&q->lease_timer, on_again, AGAIN_MS, 0);
}

void tasks_on_granted(struct tasks *q, const struct msg_lease_reply *m)
{
	struct attempt *r = by_lease(q, &m->id);

	if (r)
		attempt_on_granted(r, m);
	else if (m->id.task == LEASE_WORKLOAD)
		fillers_on_granted(q->fillers, m);
}

void tasks_on_taken(struct tasks *q, const struct msg_lease_taken *m)
{
	struct attempt *r = by_lease(q, &m->id);

	if (r)
		attempt_on_taken(r, m);
	else if (m->id.task == LEASE_WORKLOAD)
		fillers_on_taken(q->fillers, m);
}

void tasks_on_unleased(struct tasks *q, const struct msg_unleased *m)
{
	struct attempt *r = by_lease(q, &m->id);

	if (r)
		attempt_on_unleased(r, m);
	else if (m->id.task == LEASE_WORKLOAD)
		fillers_on_unleased(q->fillers, m);
}

/* What was promised and is in use is not to be had twice by the next plan. */
void tasks_on_use(struct tasks *q, const struct msg_lease_use *m)
{
	struct attempt *r = by_lease(q, &m->id);

	if (!r || m->slot < 0)
		return;
	attempt_on_use(r, m);
	(void)sched_used(q->plan, attempt_ref(r), (unsigned int)m->slot, m->bytes);
}

void tasks_on_lease_state(struct tasks *q, const struct msg_lease_state *m)
{
	if (q->leases_known)
		q->n_leases = 0;
	q->leases_known = false;
	q->leases = xrealloc(q->leases, q->n_leases + 1, sizeof(*q->leases));
	q->leases[q->n_leases++] = *m;
}

void tasks_on_leases_known(struct tasks *q)
{
	q->leases_known = true;
	if (!q->open)
		return;
	for (struct running *r = q->runs; r; r = r->next)
		attempt_on_guard(r->run);
	fillers_on_guard(q->fillers);
	reserving_forget_told(&q->reserving);
	tasks_drop_stray_leases(q);
	tasks_plan_soon(q);
}
