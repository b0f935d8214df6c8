/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_STATE_H
#define TENURE_SCHED_STATE_H

/*
 * The inside of the queue, for the files of this layer only.
 *
 * entry   something that waits: a task, an element, or the rest of a batch
 * shape   what it asks for (shape.h)
 * gate    what lets only so many through: a lane, or the limit of an array. Only its first entry
 *         can be ready, and only while it has room
 * run     something that was started and has not been ended
 * board   the devices as a plan sees them (device_board.h)
 */

#include "base/hmap.h"
#include "sched/fit.h"
#include "sched/shape.h"
#include "sched/treap.h"
#include "sched/types.h"

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
	struct treap_node gang_node;  /* in q->gangs */
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

struct board_dev {
	struct fit_dev now;
	struct fit_dev calm;	/* without our preemptible tasks */
	struct fit_dev empty;	/* without any of our tasks */
	uint64_t busy_until_ns; /* the last of our tasks ends at the latest; UINT64_MAX = unknown */
	uint64_t open_until_ns; /* who is not gone by then may not start: UINT64_MAX = anybody may,
				   0 = kept for an earlier task */
	struct sched_ref keeper; /* the first task that it is kept for; id 0 = none */
	bool collected;		 /* it is free, and the keeper waits for others: hold it */
	bool held;		 /* by our holder, now */
	unsigned int group;	 /* devices that NVLink joins have one number */
	struct devset peers;
};

struct board {
	unsigned int n;
	uint64_t models_hash; /* of all models: what shapes keep about them is valid for it */
	uint64_t now_ns;
	unsigned int kept_places; /* of those that max_devices allows, for those that wait */
	struct board_dev d[SCHED_DEVICES_MAX];
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
	struct treap gangs;		 /* that could start, but were not called */
	uint64_t turn;
	uint64_t waiting; /* elements counted */
	struct entry *spare_entries;
	struct run *spare_runs;
	size_t n_spare_entries, n_spare_runs;
	struct sched_ref reserved[SCHED_DEVICES_MAX]; /* id 0 = not reserved */
	struct board board;			      /* as the last plan left it */
};

static inline struct sched_ref ref_of(const struct sched_task *t)
{
	return (struct sched_ref){ .id = t->id, .element = t->element };
}

#endif
