/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_STATE_H
#define TENURE_SCHED_STATE_H

/*
 * The inside of the queue, for the files of this layer only.
 *
 * entry   something that waits: a task, an element, or the rest of a batch
 * shape   what it asks for. Two entries of one shape fit or do not fit together, so a plan looks at
 *         the first ready entry of each shape and, when it does not fit, at no other of it
 * gate    what lets only so many through: a lane, or the limit of an array. Only its first entry
 *         can be ready, and only while it has room
 * run     something that was started and has not been ended
 */

#include "base/hmap.h"
#include "sched/board.h"
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
	bool shared, preemptible, no_own_python;
	char *model; /* "" = any */
	uint64_t models_hash;
	struct devset model_ok; /* as of models_hash */
};

enum gate_kind { GATE_LANE, GATE_ARRAY };

struct entry;

struct gate {
	struct hnode hnode;	     /* arrays by id, lanes by name */
	struct treap_node head_node; /* lanes with a ready entry, by its key */
	struct treap waiting;	     /* of entries */
	struct entry *ready;	     /* the first one, when it may start */
	size_t refs; /* an array lives as long as something of it is here, or it is blocked; a lane
			for ever */
	enum gate_kind kind;
	uint64_t id;
	char *name;
	char *pause; /* the reason */
	char *block; /* why nothing of it is started from here */
	uint32_t handle;
	uint32_t width; /* 0 = no limit */
	uint32_t running;
	uint64_t line, turn; /* when it was served last: see struct sched_key */
};

struct entry {
	struct hnode hnode;
	struct sched_task t; /* model is the shape's */
	struct shape *shape;
	struct gate *lane, *array;
	struct treap_node gate_node;  /* in its gate's waiting */
	struct treap_node ready_node; /* in its shape's ready */
	struct treap_node place_node; /* in q->places */
	struct treap_node time_node;  /* in q->begins or q->retries */
	struct sched_key key;	      /* while ready */
	bool batch;
	bool early; /* its begin time has not come */
	bool late;  /* its back-off has not ended */
	char *note;
};

struct run {
	struct hnode hnode;
	struct run *prev, *next;
	struct sched_task t; /* n_elements 1; model is the shape's */
	struct shape *shape;
	struct sched_task again;   /* as it waits when it waits again; model is again_shape's */
	struct shape *again_shape; /* its batch may have been edited since it began */
	struct gate *lane, *array;
	struct devset devices;
	uint64_t started_ns;
	uint64_t ends_ns; /* at the latest; UINT64_MAX = unknown */
	bool preempting;
	uint64_t used[SCHED_DEVICES_MAX]; /* allocated, by slot */
};

enum { SHAPES_GPU, SHAPES_CPU, SHAPES_MAX };

struct sched_queue {
	struct hmap entries;
	struct hmap runs;
	struct hmap shape_map;
	struct hmap arrays;
	struct hmap lane_map;
	struct gate **lanes; /* by handle - 1 */
	size_t n_lanes;
	struct run *first_run; /* the youngest */
	size_t cpu_running;
	struct treap shapes[SHAPES_MAX]; /* that have a ready entry */
	struct treap heads;		 /* lanes that have one */
	struct treap places;		 /* everything that is in line, weighed by its elements */
	struct treap begins;		 /* by wall time */
	struct treap retries;		 /* by monotonic time */
	uint64_t turn;
	uint64_t waiting; /* elements counted */
	struct entry *spare_entries;
	struct run *spare_runs;
	size_t n_spare_entries, n_spare_runs;
	struct sched_ref reserved[SCHED_DEVICES_MAX]; /* id 0 = not reserved */
	struct board board;			      /* as the last plan left it */
};

int sched_key_cmp(const struct sched_key *a, const struct sched_key *b);

/* The entry of ref: itself, or the batch that contains it; NULL. */
struct entry *queue_find_entry(const struct sched_queue *q, struct sched_ref ref);
struct run *queue_find_run(const struct sched_queue *q, struct sched_ref ref);
/* The first ready element of the entry runs on these devices. */
struct run *queue_start(struct sched_queue *q, struct entry *e, struct devset devices,
			uint64_t now_ns, uint64_t grace_ms);

static inline struct sched_ref ref_of(const struct sched_task *t)
{
	return (struct sched_ref){ .id = t->id, .element = t->element };
}

#endif
