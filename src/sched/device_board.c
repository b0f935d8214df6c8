/* SPDX-License-Identifier: MIT */
#include "sched/device_board.h"

#include "base/clock.h"
#include "base/hash.h"
#include "sched/state.h"

static const enum sched_cause shut_by[SCHED_DEV_STATE_MAX] = {
	[SCHED_DEV_LEFT] = CAUSE_LEFT,	       [SCHED_DEV_UNSEEN] = CAUSE_UNSEEN,
	[SCHED_DEV_EXCLUDED] = CAUSE_EXCLUDED, [SCHED_DEV_PROHIBITED] = CAUSE_PROHIBITED,
	[SCHED_DEV_FAULTY] = CAUSE_FAULTY,     [SCHED_DEV_QUARANTINED] = CAUSE_QUARANTINED,
};

/* Within 2^62, so that sums of a few stay in range whatever the driver says. */
static int64_t amount(uint64_t bytes)
{
	return bytes < SCHED_MEM_MAX ? (int64_t)bytes : (int64_t)SCHED_MEM_MAX;
}

static struct board_dev board_dev_of(const struct sched_device *d)
{
	struct fit_dev f = {
		.shut = d->state < SCHED_DEV_STATE_MAX ? shut_by[d->state] : CAUSE_UNSEEN,
		.foreign = d->foreign || d->state == SCHED_DEV_BUSY,
		.lent = d->state == SCHED_DEV_LENT,
		.tested = d->tested,
		.one_process = d->exclusive_process,
		.own_python = d->own_python,
		.mem_known = d->mem_known,
		.unmeasured = d->unmeasured,
		.total_bytes = d->total_bytes,
		.room_bytes = d->mem_known ? amount(d->free_bytes) + amount(d->hold_bytes) : 0,
	};
	struct board_dev b = {
		.now = f,
		.open_until_ns = UINT64_MAX,
		.held = d->state == SCHED_DEV_HELD,
		.peers = d->peers,
	};

	return b;
}

/* Not allocated yet, and kept for it. */
static int64_t promised(const struct run *r, unsigned int slot)
{
	return r->used[slot] < r->t.mem_bytes ? amount(r->t.mem_bytes - r->used[slot]) : 0;
}

/* What would be free without it: all it has, and all it was promised. */
void board_without(struct fit_dev *d, const struct run *r, unsigned int slot)
{
	uint64_t used = r->used[slot] == UINT64_MAX ? r->t.mem_bytes : r->used[slot];

	d->runs--;
	d->alone -= !r->t.shared;
	d->room_bytes += amount(used) + promised(r, slot);
}

static void put_run(struct board_dev *d, const struct run *r, unsigned int slot)
{
	d->now.runs++;
	d->now.alone += !r->t.shared;
	d->now.room_bytes -= promised(r, slot);
	if (r->ends_ns > d->busy_until_ns)
		d->busy_until_ns = r->ends_ns;
}

static void put_runs(struct board *b, const struct sched_queue *q)
{
	for (const struct run *r = q->first_run; r; r = r->next)
		devset_each(slot, r->devices) if (slot < b->n) put_run(&b->d[slot], r, slot);
	for (unsigned int i = 0; i < b->n; i++) {
		b->d[i].now.lent = b->d[i].now.lent && !b->d[i].now.runs;
		b->d[i].calm = b->d[i].empty = b->d[i].now;
	}
	for (const struct run *r = q->first_run; r; r = r->next) {
		devset_each(slot, r->devices)
		{
			if (slot >= b->n)
				continue;
			board_without(&b->d[slot].empty, r, slot);
			if (r->t.preemptible)
				board_without(&b->d[slot].calm, r, slot);
		}
	}
}

/* The last so many devices that are selected and seen are left for others. */
static void leave_last(struct board *b, uint32_t leave)
{
	for (unsigned int i = b->n; i > 0 && leave > 0; i--) {
		enum sched_cause *shut = &b->d[i - 1].now.shut;

		if (*shut == CAUSE_EXCLUDED || *shut == CAUSE_UNSEEN)
			continue;
		*shut = CAUSE_LEFT;
		leave--;
	}
}

static void join(struct board *b, unsigned int from, unsigned int group)
{
	struct devset todo = { 0 };

	devset_add(&todo, from);
	for (unsigned int at; (at = devset_next(todo, 0)) < b->n;) {
		devset_del(&todo, at);
		b->d[at].group = group;
		devset_each(peer, b->d[at].peers) if (peer < b->n && !b->d[peer].group)
			devset_add(&todo, peer);
	}
}

void board_build(struct board *b, const struct sched_queue *q, const struct sched_view *view)
{
	uint64_t hash = 0;
	unsigned int groups = 0;

	b->n = view->n_devices < SCHED_DEVICES_MAX ? (unsigned int)view->n_devices
						   : SCHED_DEVICES_MAX;
	b->now_ns = view->now_ns;
	b->kept_places = 0;
	for (unsigned int i = 0; i < b->n; i++) {
		const char *model = view->devices[i].model;

		b->d[i] = board_dev_of(&view->devices[i]);
		hash = hash_text(hash, model ? model : "");
	}
	b->models_hash = hash_u64(hash, b->n);
	leave_last(b, view->policy.leave);
	put_runs(b, q);
	for (unsigned int i = 0; i < b->n; i++)
		if (!b->d[i].group)
			join(b, i, ++groups);
}

void board_take(struct board *b, unsigned int slot, const struct run *r)
{
	struct board_dev *d = &b->d[slot];

	put_run(d, r, slot);
	if (!r->t.preemptible) {
		d->calm.runs++;
		d->calm.alone += !r->t.shared;
		d->calm.room_bytes -= promised(r, slot);
	}
	d->collected = false;
}

struct devset board_used(const struct board *b)
{
	struct devset used = { { 0 } };

	for (unsigned int i = 0; i < b->n; i++)
		if (b->d[i].now.runs)
			devset_add(&used, i);
	return used;
}

struct devset board_models(const struct board *b, struct shape *s, const struct sched_view *view)
{
	if (s->models_hash == b->models_hash)
		return s->model_ok;
	s->model_ok = (struct devset){ { 0 } };
	for (unsigned int i = 0; i < b->n; i++)
		if (fit_model(s->model, view->devices[i].model))
			devset_add(&s->model_ok, i);
	s->models_hash = b->models_hash;
	return s->model_ok;
}

bool board_is_open(const struct board *b, unsigned int slot, const struct shape *s,
		   uint64_t grace_ms)
{
	uint64_t until = b->d[slot].open_until_ns;

	if (until == UINT64_MAX)
		return true;
	if (until <= b->now_ns || !s->timeout_ms)
		return false;

	uint64_t left_ms = (until - b->now_ns) / NS_PER_MS;

	return s->timeout_ms <= left_ms && grace_ms <= left_ms - s->timeout_ms;
}
