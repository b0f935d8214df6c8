/* SPDX-License-Identifier: MIT */
#include "sched/choose.h"

#include <string.h>

#include "sched/state.h"

/* Compared from the first number on; the smaller score is the better device. */
#define SCORE_MAX 6

struct score {
	int64_t part[SCORE_MAX];
};

static bool is_better(const struct score *a, const struct score *b)
{
	for (int i = 0; i < SCORE_MAX; i++)
		if (a->part[i] != b->part[i])
			return a->part[i] < b->part[i];
	return false;
}

struct choice {
	const struct board *b;
	const struct shape *s;
	struct devset left; /* candidates that are not taken */
	struct devset taken;
};

typedef struct score (*score_fn)(const struct choice *c, unsigned int slot);

static int64_t links(const struct choice *c, unsigned int slot, struct devset to)
{
	return devset_count(devset_and(c->b->d[slot].peers, to));
}

static struct score score_alone(const struct choice *c, unsigned int slot)
{
	const struct board_dev *d = &c->b->d[slot];

	return (struct score){ { -links(c, slot, c->taken), d->now.foreign, links(c, slot, c->left),
				 (int64_t)d->now.total_bytes, !d->held, slot } };
}

static struct score score_shared(const struct choice *c, unsigned int slot)
{
	const struct board_dev *d = &c->b->d[slot];
	int64_t room = c->s->mem_bytes ? d->now.room_bytes : (int64_t)d->now.runs;

	return (struct score){ { d->now.foreign, c->s->mem_bytes && !d->now.runs, room,
				 links(c, slot, c->left), !d->held, slot } };
}

/* The best of the set, which is not empty. */
static unsigned int best_of(const struct choice *c, struct devset set, score_fn score)
{
	unsigned int best = devset_next(set, 0);
	struct score top = score(c, best);

	devset_each(slot, set)
	{
		struct score s = score(c, slot);

		if (is_better(&s, &top)) {
			top = s;
			best = slot;
		}
	}
	return best;
}

static void take(struct choice *c, unsigned int slot)
{
	devset_add(&c->taken, slot);
	devset_del(&c->left, slot);
}

static struct devset members(const struct choice *c, unsigned int group)
{
	struct devset set = { { 0 } };

	devset_each(slot, c->left) if (c->b->d[slot].group == group) devset_add(&set, slot);
	return set;
}

/* Enough for n and small, or else large; between equals the one with the best device. */
static struct score score_group(const struct choice *c, struct devset set, unsigned int n)
{
	unsigned int size = devset_count(set);
	unsigned int best = best_of(c, set, score_alone);
	const struct board_dev *d = &c->b->d[best];

	return (struct score){ { size < n, size < n ? -(int64_t)size : size, d->now.foreign,
				 (int64_t)d->now.total_bytes, !d->held, best } };
}

static struct devset best_group(const struct choice *c, unsigned int n)
{
	struct devset best = { { 0 } };
	struct score top;
	struct devset seen = { { 0 } };

	devset_each(slot, c->left)
	{
		if (devset_has(seen, slot))
			continue;

		struct devset set = members(c, c->b->d[slot].group);
		struct score s = score_group(c, set, n);

		if (!devset_count(seen) || is_better(&s, &top)) {
			best = set;
			top = s;
		}
		seen = devset_or(seen, set);
	}
	return best;
}

static void choose_alone(struct choice *c, unsigned int n)
{
	while (n > 0 && devset_count(c->left)) {
		struct devset group = best_group(c, n);

		for (; n > 0 && devset_count(group); n--) {
			unsigned int slot = best_of(c, group, score_alone);

			take(c, slot);
			devset_del(&group, slot);
		}
	}
}

struct devset choose_devices(const struct board *b, const struct shape *s, struct devset candidates,
			     unsigned int n)
{
	struct choice c = { .b = b, .s = s, .left = candidates };

	if (!s->shared) {
		choose_alone(&c, n);
		return c.taken;
	}
	for (; n > 0 && devset_count(c.left); n--)
		take(&c, best_of(&c, c.left, score_shared));
	return c.taken;
}

unsigned int choose_one_more(const struct board *b, const struct shape *s, struct devset candidates,
			     struct devset beside)
{
	const struct choice c = { .b = b, .s = s, .left = candidates, .taken = beside };

	return best_of(&c, candidates, s->shared ? score_shared : score_alone);
}
