/* SPDX-License-Identifier: MIT */
#include "sched/queue_empty.h"

#include "sched/device_board.h"
#include "sched/state.h"

static bool waits_for_nobody(const struct entry *e)
{
	return !e->t.paused && e->t.dep != SCHED_DEP_NEVER && !(e->lane && e->lane->pause);
}

static bool has_room(const struct board *b, struct shape *s, const struct sched_view *view)
{
	struct devset models = board_models(b, s, view);
	unsigned int n = 0;

	if (s->elsewhere || !fit_time(s, view))
		return false;
	for (unsigned int i = 0; i < b->n; i++)
		n += !fit_is_fixed(fit_check(s, &b->d[i].empty, devset_has(models, i)));
	return n >= (s->gpus == SCHED_ALL_GPUS ? 1 : s->gpus);
}

bool sched_is_empty(const struct sched_queue *q, const struct sched_view *view)
{
	const struct shape *too_large = NULL; /* many entries have the same */
	struct board b;

	for (const struct run *r = q->first_run; r; r = r->next)
		if (!r->t.idle_workload)
			return false;
	if (!q->entries.n)
		return true;
	board_build(&b, q, view);
	for (struct hnode *n = hmap_next(&q->entries, NULL); n; n = hmap_next(&q->entries, n)) {
		const struct entry *e = treap_item(n, struct entry, hnode);

		if (!waits_for_nobody(e) || e->shape == too_large)
			continue;
		if (has_room(&b, e->shape, view))
			return false;
		too_large = e->shape;
	}
	return true;
}
