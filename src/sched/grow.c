/* SPDX-License-Identifier: MIT */
#include "sched/grow.h"

#include <errno.h>

#include "sched/choose.h"
#include "sched/device_board.h"
#include "sched/state.h"

/* The device as it will be without idle workloads, which go for every task. */
static struct fit_dev without_workloads(const struct sched_queue *q, unsigned int slot,
					bool *ret_there)
{
	struct fit_dev d = q->board.d[slot].now;

	*ret_there = false;
	for (const struct run *r = q->first_run; r; r = r->next) {
		if (!r->t.idle_workload || !devset_has(r->devices, slot))
			continue;
		board_without(&d, r, slot);
		*ret_there = true;
	}
	return d;
}

/* So many devices more may have a task of ours: a workload's is counted as one already. */
static unsigned int places_left(const struct board *b, const struct sched_policy *policy)
{
	unsigned int taken = devset_count(board_used(b)) + b->kept_places;

	if (!policy->limits_devices)
		return SCHED_DEVICES_MAX;
	return policy->max_devices > taken ? policy->max_devices - taken : 0;
}

void sched_room(struct sched_queue *q, struct sched_ref ref, const struct sched_view *view,
		struct sched_growth *ret)
{
	const struct run *r = queue_find_run(q, ref);
	struct devset fresh = { { 0 } }, workloads = { { 0 } }, models;

	*ret = (struct sched_growth){ .room = SCALE_ROOM_NONE };
	if (!r || r->preempting)
		return;
	models = board_models(&q->board, r->shape, view);
	for (unsigned int i = 0; i < q->board.n; i++) {
		const struct board_dev *d = &q->board.d[i];
		bool workload;
		struct fit_dev calm = without_workloads(q, i, &workload);

		if (devset_has(r->devices, i) ||
		    fit_check(r->shape, &calm, devset_has(models, i)) != CAUSE_NONE)
			continue;
		if (d->open_until_ns == UINT64_MAX)
			devset_add(workload ? &workloads : &fresh, i);
		else if (ret->room == SCALE_ROOM_NONE)
			*ret = (struct sched_growth){ .room = SCALE_ROOM_WANTED,
						      .wanted_by = d->keeper };
	}
	if (devset_count(fresh) && !places_left(&q->board, &view->policy)) {
		fresh = (struct devset){ { 0 } };
		*ret = (struct sched_growth){ .room = SCALE_ROOM_LIMIT };
	}
	if (!devset_count(fresh) && !devset_count(workloads))
		return;
	*ret = (struct sched_growth){ .room = SCALE_ROOM_FREE, .workload = !devset_count(fresh) };
	ret->slot =
		choose_one_more(&q->board, r->shape, ret->workload ? workloads : fresh, r->devices);
}

int sched_grow(struct sched_queue *q, struct sched_ref ref, unsigned int slot)
{
	struct run *r = queue_find_run(q, ref);

	if (!r || slot >= SCHED_DEVICES_MAX)
		return -ENOENT;
	devset_add(&r->devices, slot);
	r->used[slot] = 0;
	if (slot < q->board.n)
		board_take(&q->board, slot, r);
	return 0;
}

int sched_shrink(struct sched_queue *q, struct sched_ref ref, unsigned int slot)
{
	struct run *r = queue_find_run(q, ref);

	if (!r || slot >= SCHED_DEVICES_MAX)
		return -ENOENT;
	devset_del(&r->devices, slot);
	r->used[slot] = 0;
	return 0;
}
