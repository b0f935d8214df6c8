/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_TYPES_H
#define TENURE_SCHED_TYPES_H

/*
 * What the planner is told and what it answers. These are its own structs: it knows neither the
 * spool's files nor the guard's messages, the agent translates. Memory is in bytes, per device;
 * times are nanoseconds of CLOCK_MONOTONIC unless a name says `wall`.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sched/devset.h"

/* A task, or one element of a batch or array; element 0 = a task that has no elements. */
struct sched_ref {
	uint64_t id;
	uint32_t element;
};

enum sched_rules {
	SCHED_RULES_OWN,     /* exclusive tasks want a device that nobody else uses */
	SCHED_RULES_COMPETE, /* other people's use does not matter, only free memory does */
};

enum sched_dep {
	SCHED_DEP_READY,
	SCHED_DEP_WAIT,	 /* something that it depends on has not ended */
	SCHED_DEP_NEVER, /* a task that it depends on has failed, or is unknown: it can never run */
};

#define SCHED_ALL_GPUS UINT32_MAX
#define SCHED_MEM_MAX  (UINT64_C(1) << 52) /* bytes; more is refused */

/*
 * A task that waits. With n_elements > 1 it stands for the elements [element, element + n_elements)
 * of a batch: one entry, however many there are.
 */
struct sched_task {
	uint64_t id;
	uint32_t element;     /* the first one */
	uint32_t n_elements;  /* 0 and 1: a single task or element */
	int32_t priority;     /* lower first */
	uint64_t order;	      /* of submission; rising */
	uint64_t edits;	      /* which version of it this is; told with what is to start */
	uint64_t kind;	      /* those of one take about as long (forecast.h); 0: not known. Not
				 looked at by a plan */
	uint32_t lane;	      /* of sched_lane(); 0 = none */
	uint32_t array_limit; /* so many elements of this id run at once; 0 = no
				 limit. They are all in the same lane */
	uint32_t gpus;	      /* 0: none; SCHED_ALL_GPUS: every device that it may use */
	uint64_t mem_bytes;   /* 0 = not said */
	const char *model;    /* names, or glob patterns, separated by commas; NULL or "" = any */
	bool shared;	      /* beside others, where mem_bytes are free */
	bool preemptible;     /* by tasks that are not */
	bool idle_workload;   /* it runs and is preemptible: every task may preempt it,
			  so that it is no more than a way to hold the device; not counted */
	bool no_own_python;   /* not where another Python process of its owner is */
	bool elsewhere;	      /* it is for nodes of another pool */
	bool gang;   /* its elements are started together on several nodes: each stands aside until
			it is called, sched_call() */
	bool called; /* with gang */
	bool paused;
	bool changing; /* a command has it for a moment: passed over, as if it were paused */
	enum sched_rules rules;
	enum sched_dep dep;
	uint64_t timeout_ms;	/* 0 = none */
	uint64_t begin_wall_ns; /* 0 = at once */
	uint64_t not_before_ns; /* the back-off of a retry; 0 = none */
};

enum sched_dev_state {
	SCHED_DEV_IDLE,
	SCHED_DEV_HELD,	       /* by our holder, which lets go when a task needs it */
	SCHED_DEV_LENT,	       /* our task has it, or another instance's */
	SCHED_DEV_BUSY,	       /* somebody else uses it */
	SCHED_DEV_LEFT,	       /* for others */
	SCHED_DEV_UNSEEN,      /* cannot be seen */
	SCHED_DEV_EXCLUDED,    /* not selected */
	SCHED_DEV_PROHIBITED,  /* no program can use it, by its compute mode */
	SCHED_DEV_FAULTY,      /* the driver reports an error of it */
	SCHED_DEV_QUARANTINED, /* tasks have failed there with errors of the device */
	SCHED_DEV_STATE_MAX
};

/* A device as seen now. Its place in the array is its slot, which must not change while tasks have
 * it. The texts are the caller's; they are not kept. */
struct sched_device {
	unsigned int index; /* as shown to people */
	const char *model;
	enum sched_dev_state state;
	uint32_t xid;		/* SCHED_DEV_FAULTY: the number of the error */
	const char *quarantine; /* SCHED_DEV_QUARANTINED: why */
	const char *left_to;	/* SCHED_DEV_LEFT: a user who has asked for it; NULL: all others */
	uint64_t left_until_wall_ns;
	bool mem_known;
	bool unmeasured; /* nor ever will be: a task that wants it alone may have it */
	uint64_t total_bytes;
	uint64_t free_bytes; /* now, beside everything that runs and is held */
	uint64_t hold_bytes; /* of our holder, which would be free without it */
	bool foreign;	     /* somebody else is there */
	bool tested;	     /* by a burn of ours, for whose end tasks wait */
	/* SCHED_DEV_LENT to another instance: NULL = to ours */
	const char *lent_instance;
	struct sched_ref lent_task; /* id 0: its workload */
	bool lent_waits;	/* it is held back for that task, which waits for more devices */
	bool exclusive_process; /* one process at a time */
	bool own_python;	/* a Python process of the owner's is there, other than our tasks */
	struct devset peers;	/* slots that NVLink reaches from here */
};

struct sched_policy {
	uint32_t leave;	      /* the last so many devices that are selected are left for others */
	bool limits_devices;  /* max_devices counts, also 0 */
	uint32_t max_devices; /* our tasks are on so many devices at a time */
	uint32_t cpu_slots;   /* so many tasks without a GPU at once; 0 = no limit */
	uint64_t grace_ms;    /* from a task's time-out to its end at the latest */
	/*
	 * A task may pass a waiting one on a device that it needs, if it ends by its time-out
	 * before the waiting one could start *at the latest*, by the time-outs of all that run. It
	 * may delay it when those end early, so it is off unless asked for.
	 */
	bool backfill_timeout;
};

struct sched_view {
	const struct sched_device *devices;
	size_t n_devices; /* at most SCHED_DEVICES_MAX */
	struct sched_policy policy;
	uint64_t now_ns;
	uint64_t now_wall_ns;
	uint64_t end_ns; /* what runs then is stopped: a task whose time-out is later is not
			    started; 0 = never */
};

enum sched_action_kind {
	SCHED_START,	 /* ref on devices; supersedes what they were reserved for */
	SCHED_PREEMPT,	 /* ref: signal, grace, requeue */
	SCHED_RESERVE,	 /* devices[one]: hold it for ref */
	SCHED_UNRESERVE, /* devices[one]: nobody collects it any more */
	SCHED_ACTION_MAX
};

struct sched_action {
	enum sched_action_kind kind;
	struct sched_ref ref;
	struct devset devices; /* empty for SCHED_PREEMPT and for a START without a GPU */
};

/* The caller sets actions and cap (1 or more); the rest is written. */
struct sched_out {
	struct sched_action *actions;
	size_t cap;
	size_t n;
	bool more;	       /* cap was too small: carry these out and plan again */
	uint64_t next_ns;      /* a back-off ends: plan again then; UINT64_MAX = none */
	uint64_t next_wall_ns; /* a begin time; UINT64_MAX = none */
};

#endif
