/* SPDX-License-Identifier: MIT */
#include "agent/doubts.h"

#include <stdlib.h>

#include "agent/queue/planview.h"
#include "agent/tasksin.h"
#include "base/clock.h"
#include "base/mem.h"
#include "sched/queue.h"

struct doubt {
	struct doubt *next;
	struct sched_ref ref;
};

static bool is_in(const struct text_list *claims, struct sched_ref ref)
{
	struct task_name n;

	for (size_t i = 0; i < claims->n; i++)
		if (opening_claim_name(claims->texts[i], &n) && n.id == ref.id &&
		    n.element == ref.element)
			return true;
	return false;
}

/* Where it waits, it is in no plan: what was told of it meanwhile was told of what runs. */
static void forget(struct tasks *q, struct sched_ref ref)
{
	struct id_list *ids = &q->want.ids;

	(void)sched_end(q->plan, ref);
	ids->ids = xrealloc(ids->ids, ids->n + 1, sizeof(*ids->ids));
	ids->ids[ids->n++] = ref.id;
}

void doubts_end(struct tasks *q, const struct opening *found)
{
	for (struct doubt **at = &q->doubts; *at;) {
		struct doubt *d = *at;

		if (is_in(&q->unknown, d->ref) || is_in(&found->unknown, d->ref)) {
			at = &d->next;
			continue;
		}
		*at = d->next;
		forget(q, d->ref);
		free(d);
	}
}

static void begin(struct tasks *q, const struct task_name *n)
{
	struct sched_task t;
	struct doubt *d;

	sched_task_from_spec(n, NULL, &t);
	t.lane = planview_lane(q->plan, n->lane);
	t.gpus = t.gpus > 0;
	t.preemptible = false; /* nobody could carry that out */
	/* -EEXIST: one of our own runs has it, or it is in doubt already. */
	if (sched_adopt(q->plan, &t, (struct devset){ { 0 } }, clock_mono_ns(), NULL) < 0)
		return;
	d = xcalloc(1, sizeof(*d));
	d->ref = planview_ref(n);
	d->next = q->doubts;
	q->doubts = d;
}

void doubts_begin(struct tasks *q, const struct opening *found)
{
	for (size_t i = 0; i < found->n_unsure; i++)
		begin(q, &found->unsure[i]);
}

bool doubts_use(const struct tasks *q, uint32_t lane, uint64_t array)
{
	struct sched_task t;

	for (const struct doubt *d = q->doubts; d; d = d->next)
		if (lane ? sched_get(q->plan, d->ref, &t) == 0 && t.lane == lane
			 : d->ref.id == array)
			return true;
	return false;
}

void doubts_clear(struct tasks *q)
{
	while (q->doubts) {
		struct doubt *gone = q->doubts;

		q->doubts = gone->next;
		free(gone);
	}
}
