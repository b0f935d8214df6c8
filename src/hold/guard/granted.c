/* SPDX-License-Identifier: MIT */
#include "hold/guard/granted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"

static struct granted_card *add(struct granted *g, const char *word)
{
	struct granted_card *c;

	if (g->n == GPU_DEVICES_MAX)
		return NULL;
	c = &g->cards[g->n++];
	*c = (struct granted_card){ .lock = ENDPOINT_NONE };
	(void)str_copy(c->word, sizeof(c->word), word);
	return c;
}

/* What programs and engines write where there is none. */
static bool means_none(const char *word)
{
	static const char *const words[] = { "NoDevFiles", "none", "void", "-1" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcasecmp(word, words[i]) == 0)
			return true;
	return !word[0];
}

bool granted_none(const struct granted *g)
{
	return g->only && !g->n && !g->count;
}

void granted_parse(struct granted *g, const char *words, uint32_t count)
{
	cleanup_free char *text = xstrdup(words ? words : "");
	char *rest = text, *word;

	*g = (struct granted){ .only = words || count,
			       .count = count < GPU_DEVICES_MAX ? count : GPU_DEVICES_MAX };
	while ((word = strsep(&rest, ",")))
		if (!means_none(word))
			(void)add(g, word);
}

/* The number of a card as CUDA counts, which counts those that it may open: where a container or a
 * cgroup hides some (gpu_enumerate() leaves them out), NVML's index is another one. */
static uint32_t number_of(const struct gpu_list *list, const struct gpu_device *d)
{
	uint32_t cards = 0, before = 0;

	for (uint32_t i = 0; i < list->n; i++) {
		cards += list->d[i].mig < 0;
		before += list->d[i].mig < 0 && &list->d[i] < d;
	}
	return cards + list->n_failed < list->n_cards ? before : d->index;
}

/* As CUDA reads it: a number is a card's. */
static bool names(const char *word, const struct gpu_list *list, const struct gpu_device *d)
{
	uint64_t number;

	if (str_to_u64(word, &number) == 0)
		return d->mig < 0 && number_of(list, d) == number;
	return strncasecmp(word, d->uuid, strlen(word)) == 0;
}

static struct granted_card *card_of(struct granted *g, const struct gpu_device *d)
{
	for (uint32_t i = 0; i < g->n; i++)
		if (g->cards[i].found && strcmp(g->cards[i].word, d->uuid) == 0)
			return &g->cards[i];
	return NULL;
}

void granted_find(struct granted *g, const struct gpu_list *list)
{
	for (uint32_t i = 0; i < g->n; i++) {
		struct granted_card *c = &g->cards[i];

		for (uint32_t k = 0; k < list->n && !c->found; k++) {
			const struct gpu_device *d = &list->d[k];

			if (!names(c->word, list, d) || card_of(g, d))
				continue;
			(void)str_copy(c->word, sizeof(c->word), d->uuid);
			c->found = true;
		}
	}
}

/* Its card was given, of which it is an instance. */
static bool card_is_given(struct granted *g, const struct gpu_list *list,
			  const struct gpu_device *d)
{
	for (uint32_t i = 0; d->mig >= 0 && i < list->n; i++)
		if (list->d[i].mig < 0 && list->d[i].index == d->index && card_of(g, &list->d[i]))
			return true;
	return false;
}

void granted_filter(struct granted *g, struct gpu_list *list)
{
	bool given[GPU_DEVICES_MAX], listed;
	uint32_t kept = 0, wanted = g->count > g->n ? g->count : g->n, seen = 0;

	g->n_others = 0;
	for (uint32_t i = 0; i < list->n; i++) {
		const struct gpu_device *d = &list->d[i];

		listed = card_of(g, d) != NULL;
		given[i] = listed || card_is_given(g, list, d);
		seen += listed;
		g->n_others += !given[i] && d->mig < 0 && !d->mig_parent;
	}
	for (uint32_t i = 0; i < list->n; i++)
		if (given[i])
			list->d[kept++] = list->d[i];
	list->n = kept;
	g->n_unseen = wanted > seen ? wanted - seen : 0;
}

static bool has_word(const struct gpu_list *list, const char *word)
{
	for (uint32_t i = 0; i < list->n; i++)
		if (strcasecmp(list->d[i].uuid, word) == 0)
			return true;
	return false;
}

static bool has_index(const struct gpu_list *list, uint64_t index)
{
	for (uint32_t i = 0; i < list->n; i++)
		if (list->d[i].index == index)
			return true;
	return false;
}

/* The number that it was named with; else one that no card has. */
static uint32_t index_of_unseen(const struct gpu_list *list, const char *word)
{
	uint64_t number;

	if (str_to_u64(word, &number) == 0 && number <= UINT32_MAX && !has_index(list, number))
		return (uint32_t)number;
	number = list->n_cards;
	while (has_index(list, number))
		number++;
	return (uint32_t)number;
}

void granted_add_unseen(const struct granted *g, struct gpu_list *list)
{
	for (uint32_t i = 0; i < g->n && !list->n_failed && list->n < GPU_DEVICES_MAX; i++) {
		const struct granted_card *c = &g->cards[i];
		struct gpu_device d = { .index = index_of_unseen(list, c->word),
					.minor = -1,
					.mig = -1,
					.unseen = true };

		if (c->found || has_word(list, c->word))
			continue;
		(void)str_copy(d.uuid, sizeof(d.uuid), c->word);
		list->d[list->n++] = d;
	}
}

void granted_blind(struct granted *g, struct gpu_list *ret)
{
	ret->n = ret->n_cards = ret->n_failed = 0;
	granted_filter(g, ret);
	granted_add_unseen(g, ret);
}

/* ---- where the engine says only how many ---- */

struct candidate {
	const struct gpu_device *d;
	uint64_t used;
};

static int by_use(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->used != y->used)
		return x->used < y->used ? -1 : 1;
	return x->d->index < y->d->index ? -1 : x->d->index > y->d->index;
}

/* One of this user's guards has it, which is true for as long as that lives. */
static bool lock_card(struct granted_card *c)
{
	char name[ENDPOINT_NAME_MAX];

	if (c->lock.fd >= 0)
		return true;
	return endpoint_open(&c->lock, str_print(name, sizeof(name), "card/%s", c->word), NULL) !=
	       -EADDRINUSE;
}

static void forget(struct granted *g, struct granted_card *c)
{
	endpoint_close(&c->lock);
	*c = g->cards[--g->n];
}

/* Cards on which no process is listed. */
static size_t find_free(struct granted *g, const struct nvml *nvml, struct gpu_list *list,
			struct candidate ret[GPU_DEVICES_MAX])
{
	cleanup_free struct gpu_look *look = xcalloc(1, sizeof(*look));
	size_t n = 0;

	for (uint32_t i = 0; i < list->n; i++) {
		struct gpu_device *d = &list->d[i];

		if (d->mig >= 0 || d->mig_parent || card_of(g, d) ||
		    gpu_look_at(nvml, d, GPU_LOOK_PROCS, look, NULL) < 0 || look->procs.n_total)
			continue;
		ret[n++] = (struct candidate){ d, look->used };
	}
	qsort(ret, n, sizeof(*ret), by_use);
	return n;
}

static void choose(struct granted *g, const struct nvml *nvml, struct gpu_list *list)
{
	struct candidate all[GPU_DEVICES_MAX];
	size_t n = g->n < g->count ? find_free(g, nvml, list, all) : 0;

	for (size_t i = 0; i < n && g->n < g->count; i++) {
		struct granted_card *c = add(g, all[i].d->uuid);

		c->found = true;
		if (!lock_card(c))
			forget(g, c);
	}
}

/* What was given by name is ours, whoever says otherwise; those that were chosen before, by a guard
 * of this job that is gone, only unless another job has chosen them since. */
static void lock_found(struct granted *g)
{
	for (uint32_t i = 0; i < g->n; i++) {
		struct granted_card *c = &g->cards[i];

		if (c->found && !lock_card(c) && g->count)
			forget(g, &g->cards[i--]);
	}
}

void granted_apply(struct granted *g, const struct nvml *nvml, struct gpu_list *list)
{
	if (!g->only)
		return;
	granted_find(g, list);
	lock_found(g);
	choose(g, nvml, list);
	granted_filter(g, list);
	granted_add_unseen(g, list);
}
