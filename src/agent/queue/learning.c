/* SPDX-License-Identifier: MIT */

/*
 * Tasks that say "auto" and were planned are in a list, by rising ids, with what they were told. It
 * is gone through only when the table has changed, and what does not wait any more goes then; one
 * that runs and waits again comes back by learning_again() or by being read.
 */

#include "agent/queue/learning.h"

#include <stdlib.h>
#include <string.h>

#include "agent/queue/planview.h"
#include "base/clock.h"
#include "base/mem.h"

#define SYNC_NS	     (2 * NS_PER_S)
#define SYNC_SHARE   50		     /* reading and writing take at most this part of the time */
#define SYNC_MOST_NS (60 * NS_PER_S) /* or they rest so long */
#define HISTORY_MAX  2000	     /* files of ended tasks that are read where nothing was kept */
#define HISTORY_NS   (300 * NS_PER_MS)
#define LEAST_RAN_MS 1000 /* shorter ones that had no GPU are of no interest */

/* One that waits, and how much it was planned with. */
struct waits_auto {
	uint64_t id, gpus, bytes;
	char *name;
};

struct place_learning {
	struct learned *table;
	uint64_t version; /* of the table, when the list was gone through last */
	uint64_t next_sync_ns;
	size_t n;
	struct waits_auto *all;
};

static void sync_table(struct place_learning *l, const struct spool_place *p)
{
	uint64_t begun = clock_mono_ns(), rest;
	struct err e = ERR_INIT;

	/* It is a guess: what cannot be read or written now is tried again. */
	(void)learned_sync(l->table, p->spool, &e);
	l->next_sync_ns = clock_mono_ns();
	/* One that finds nothing new costs nothing, which says nothing of the next. */
	rest = (l->next_sync_ns - begun) * SYNC_SHARE;
	rest = rest < SYNC_MOST_NS ? rest : SYNC_MOST_NS;
	l->next_sync_ns += rest > SYNC_NS ? rest : SYNC_NS;
}

static struct place_learning *get(struct spool_place *p)
{
	struct place_learning *l = p->learning;

	if (l)
		return l;
	l = p->learning = xcalloc(1, sizeof(*l));
	l->table = learned_new();
	sync_table(l, p);
	/* An agent of before has kept none. */
	if (learned_is_new(l->table))
		(void)learned_from_history(l->table, p->spool, HISTORY_MAX,
					   clock_mono_ns() + HISTORY_NS, NULL);
	return l;
}

static uint64_t bytes_of(const struct place_learning *l, const char *name, uint64_t gpus)
{
	return learned_memory(l->table, name, gpus).bytes;
}

static void remember(struct place_learning *l, uint64_t id, const struct task_spec *spec,
		     uint64_t bytes)
{
	size_t i = l->n;

	/* They come nearly always in the order of their ids. */
	while (i > 0 && l->all[i - 1].id > id)
		i--;
	if (i > 0 && l->all[i - 1].id == id) {
		free(l->all[--i].name);
	} else {
		l->all = xgrow(l->all, l->n, sizeof(*l->all));
		(void)memmove(&l->all[i + 1], &l->all[i], (l->n - i) * sizeof(*l->all));
		l->n++;
	}
	l->all[i] = (struct waits_auto){ id, spec->gpus, bytes, xstrdup(spec->name) };
}

void learning_plan(struct spool_place *p, const struct task_spec *spec, struct sched_task *t)
{
	struct place_learning *l;
	uint64_t bytes;

	if (spec->memory != SPEC_AUTO)
		return;
	l = get(p);
	bytes = bytes_of(l, spec->name, spec->gpus);
	t->mem_bytes = bytes;
	t->shared = spec->shared && bytes;
	remember(l, t->id, spec, bytes);
}

void learning_fill(struct spool_place *p, struct task_spec *spec)
{
	if (spec->memory == SPEC_AUTO)
		spec_learn(spec, bytes_of(get(p), spec->name, spec->gpus));
}

uint64_t learning_again(struct spool_place *p, uint64_t id, const struct task_spec *spec)
{
	struct place_learning *l = get(p);

	/* The plan has it as it ran: what has come to be known since is told with the next look. */
	remember(l, id, spec, spec->memory);
	l->version = 0;
	return bytes_of(l, spec->name, spec->gpus);
}

void learning_note(struct spool_place *p, const struct task_spec *spec,
		   const struct learned_run *run)
{
	/* What runs in an allocation is another thing each time, and so is how long it is kept. */
	if (spec->allocation)
		return;
	if (run->peak_bytes || run->how == LEARNED_OOM || run->ran_ms >= LEAST_RAN_MS)
		learned_add(get(p)->table, spec->name, run);
}

static bool waits(const struct spool_place *p, uint64_t id)
{
	const struct scan_task *t = scan_find(p->scan, id, 0);

	return t && t->dir == SPOOL_PENDING;
}

static void find_changed(struct place_learning *l, const struct spool_place *p,
			 struct uint_list *ids)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->n; i++) {
		struct waits_auto *a = &l->all[i];

		if (!waits(p, a->id)) {
			free(a->name);
			continue;
		}
		if (bytes_of(l, a->name, a->gpus) != a->bytes) {
			ids->nums = xgrow(ids->nums, ids->n, sizeof(*ids->nums));
			ids->nums[ids->n++] = a->id;
		}
		l->all[kept++] = *a;
	}
	l->n = kept;
}

static void add_time(void *data, const char *name, uint64_t gpus, const struct learned_time *t)
{
	struct learning_news *news = data;

	news->times = xgrow(news->times, news->n_times, sizeof(*news->times));
	news->times[news->n_times++] =
		(struct forecast_time){ planview_kind(name, gpus), t->low_ms, t->high_ms };
}

static int by_kind(const void *a, const void *b)
{
	const struct forecast_time *x = a, *y = b;

	return (x->kind > y->kind) - (x->kind < y->kind);
}

void learning_look(struct spool_place *p, uint64_t now_ns, struct learning_news *ret)
{
	struct place_learning *l = get(p);
	uint64_t version;

	*ret = (struct learning_news){ .some = false };
	if (now_ns >= l->next_sync_ns)
		sync_table(l, p);
	version = learned_version(l->table);
	if (version == l->version)
		return;
	l->version = version;
	ret->some = true;
	find_changed(l, p, &ret->ids);
	learned_each_time(l->table, add_time, ret);
	if (ret->n_times)
		qsort(ret->times, ret->n_times, sizeof(*ret->times), by_kind);
}

void learning_free(struct spool_place *p)
{
	struct place_learning *l = take_ptr(p->learning);

	if (!l)
		return;
	if (p->spool)
		(void)learned_sync(l->table, p->spool, NULL);
	for (size_t i = 0; i < l->n; i++)
		free(l->all[i].name);
	free(l->all);
	l->table = learned_free(l->table);
	free(l);
}
