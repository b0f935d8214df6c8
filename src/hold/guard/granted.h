/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_GRANTED_H
#define TENURE_HOLD_GUARD_GRANTED_H

/*
 * The devices that a job of an engine was given: a guard of a job looks at these, and at no others.
 *
 * Most engines name them, as CUDA_VISIBLE_DEVICES does: indices, UUIDs or beginnings of them. They
 * become UUIDs once, when NVML first answers, because indices may be others after it was restarted.
 * Some say only how many: then cards are chosen that nobody uses, those with the least memory in
 * use first, and each is locked for this guard by a name of this user on this node ("card/UUID"),
 * so that two jobs never choose the same one. What was given and is not found, or is in use by
 * others, is `unseen`, and is looked for again.
 *
 * What was named and NVML does not show (cards of another maker, a MIG instance under its old name,
 * a node without NVML) stands in the list all the same, by the word that it was named with, as a
 * device that is `unseen`: its job has it to itself, so tasks may use it. Not so where NVML counts
 * cards that it cannot tell of, because it may be one of these, and broken.
 *
 *	granted_parse(&g, "0,GPU-12", 0)
 *	granted_apply(&g, nvml, &list)		whenever the devices were listed
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/endpoint.h"
#include "gpu/device.h"

struct granted {
	bool only;	/* else it is about all devices, and nothing here means anything */
	uint32_t count; /* so many in all, where the engine does not name them; 0: it does */
	uint32_t n;
	struct granted_card {
		char word[GPU_UUID_MAX]; /* its UUID, once it was found */
		bool found;
		struct endpoint lock;
	} cards[GPU_DEVICES_MAX];
	/* Of the last list: */
	uint32_t n_others; /* cards that are not ours */
	uint32_t n_unseen;
};

/* There is nothing to be seen, and that is as it should be. */
bool granted_none(const struct granted *g);
/* words: NULL: they are not named; "": there are none. */
void granted_parse(struct granted *g, const char *words, uint32_t count);

/* Pure: the words that name a device of the list become its UUID. */
void granted_find(struct granted *g, const struct gpu_list *list);
/* Pure: leaves the devices in the list that were given: a card with the instances on it, or an
 * instance alone. Sets n_others and n_unseen. */
void granted_filter(struct granted *g, struct gpu_list *list);

/* Pure: adds what was named and is not in the list, which was filtered. */
void granted_add_unseen(const struct granted *g, struct gpu_list *list);
/* Pure: what there is where there is no NVML. */
void granted_blind(struct granted *g, struct gpu_list *ret);

/* Find, choose where there are too few, filter, add. Asks NVML, and makes names in the user's
 * private directory, on a thread that may wait. */
void granted_apply(struct granted *g, const struct nvml *nvml, struct gpu_list *list);

#endif
