/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_SHAPE_H
#define TENURE_SCHED_SHAPE_H

/*
 * What a task asks for, for the files of this room only. Two entries of one shape fit or do not fit
 * together, so a plan looks at the first ready entry of each shape and, when it does not fit, at no
 * other of it.
 */

#include "base/hmap.h"
#include "sched/treap.h"
#include "sched/types.h"

/* The place in the order among all that is ready. */
struct sched_key {
	uint32_t after; /* 1: preemptible tasks, behind all that would push them aside */
	int32_t priority;
	uint64_t line;	/* age; for a lane that was served, behind the lanes that waited then */
	uint64_t turn;	/* when the lane was served */
	uint64_t order; /* age, and the rest tells equal ones apart */
	uint64_t id;
	uint32_t element;
};

struct shape {
	struct hnode hnode;
	struct treap_node node; /* in q->shapes[], by the key of its first entry */
	struct sched_key key;
	struct treap ready; /* of entries, by key */
	size_t refs;
	uint32_t gpus;
	uint64_t mem_bytes;
	uint64_t timeout_ms;
	enum sched_rules rules;
	bool shared, preemptible, no_own_python, elsewhere;
	char *model; /* "" = any */
	uint64_t models_hash;
	struct devset model_ok; /* as of models_hash */
};

#endif
