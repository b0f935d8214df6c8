/* SPDX-License-Identifier: MIT */
#include "agent/queue/applying.h"

#include <errno.h>

#include "agent/queue/planview.h"

/* Each has its own back-off, its own memory and its own reason. */
static void apply_again(struct sched_queue *plan, const struct index_change *c)
{
	for (size_t i = 0; i < c->n_again; i++) {
		const struct index_again *a = &c->again[i];
		struct sched_ref ref = { c->task.id, a->element };
		struct sched_task t = c->task;

		t.element = a->element;
		t.n_elements = 1;
		t.not_before_ns = a->not_before_ns;
		t.mem_bytes = a->mem_bytes ? a->mem_bytes : t.mem_bytes;
		if (sched_add(plan, &t, NULL) == 0 && a->reason)
			(void)sched_note(plan, ref, a->reason);
	}
}

/*
 * A batch is put in anew, without what does not wait: elements that are asked for again come back,
 * and so do those whose claim was lost because the batch was called otherwise just then.
 */
static int plan_batch(struct sched_queue *plan, const struct index_change *c, struct err *e)
{
	int r;

	sched_change_running(plan, &c->task);
	(void)sched_remove_batch(plan, c->task.id, c->task.n_elements);
	r = sched_add(plan, &c->task, e);
	if (r == -EEXIST && c->task.n_elements == 1) /* that one runs */
		return 0;
	for (size_t i = 0; i < c->n_out && r == 0; i++)
		(void)sched_remove_element(plan, (struct sched_ref){ c->task.id, c->out[i] });
	if (r == 0)
		apply_again(plan, c);
	return r;
}

static int plan_task(struct sched_queue *plan, const struct index_change *c, struct err *e)
{
	int r = sched_add(plan, &c->task, e);

	if (r == -EEXIST)
		r = sched_change(plan, &c->task, e);
	/* It is being claimed. Where that fails, or it has to be tried again, it is what it is now.
	 */
	if (r == -ENOENT) {
		sched_change_running(plan, &c->task);
		return 0;
	}
	if (r == 0 && c->note)
		(void)sched_note(plan, (struct sched_ref){ c->task.id, 0 }, c->note);
	return r;
}

static void apply_waiting(struct sched_queue *plan, struct eventlog *eventlog,
			  struct index_change *c)
{
	struct err e = ERR_INIT;

	c->task.model = c->model;
	c->task.lane = planview_lane(plan, c->lane);
	if ((c->task.n_elements ? plan_batch : plan_task)(plan, c, &e) < 0)
		eventlog_say(eventlog, LOG_LEVEL_ERROR, "task %llu cannot be planned: %s",
			     (unsigned long long)c->task.id, e.text);
}

/* What it waits for is what there is to say of it; where that is over, nothing. */
static int depend(struct sched_queue *plan, const struct index_change *c, struct sched_ref ref)
{
	struct sched_task t;
	int r = sched_get(plan, ref, &t);

	if (r == 0)
		r = sched_depend(plan, ref, c->task.dep);
	if (r == 0 && (c->note || t.dep != SCHED_DEP_READY))
		r = sched_note(plan, ref, c->note);
	return r;
}

/* Of all that waits of it. */
static void apply_dep(struct sched_queue *plan, const struct index_change *c)
{
	uint32_t element = c->task.n_elements ? 1 : 0;
	struct sched_task t;

	do {
		struct sched_ref ref = { c->task.id, element };

		if (depend(plan, c, ref) == 0 && sched_get(plan, ref, &t) == 0 && t.n_elements > 1)
			element = t.element + t.n_elements - 1;
	} while (++element <= c->task.n_elements);
}

void applying_change(struct sched_queue *plan, struct eventlog *eventlog, struct index_change *c)
{
	if (c->dep_only)
		apply_dep(plan, c);
	else if (c->waits)
		apply_waiting(plan, eventlog, c);
	else if (c->task.n_elements)
		(void)sched_remove_batch(plan, c->task.id, c->task.n_elements);
	else
		(void)sched_remove(plan, (struct sched_ref){ c->task.id, 0 });
}
