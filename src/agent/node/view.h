/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_NODE_VIEW_H
#define TENURE_AGENT_NODE_VIEW_H

/*
 * What an agent knows, as plain data: the agent writes it, the status is made from it. Nothing in
 * it is owned but what the agent keeps anyway.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/node/config.h"
#include "agent/node/deadline.h"
#include "hold/device_state.h"
#include "hold/proto.h"

#define VIEW_YIELDS 10

struct view_yield {
	struct guard_event event; /* with names of users */
	int32_t mig;
	char line[PROTO_TEXT_MAX];
};

/* agent/lifecycle.h has the table. In this order: what it is while it starts comes first. */
enum life_phase {
	LIFE_STARTING,	     /* the guard has to see, then to take the policy */
	LIFE_STARTING_DRAIN, /* the same, and it is to end when its tasks have */
	LIFE_SERVING,
	LIFE_DRAINING,	/* nothing more is started or held; it ends when its tasks have */
	LIFE_CLEARING,	/* it ends: the workload does, first */
	LIFE_RELEASING, /* then the guard lets go of everything */
	LIFE_FLUSHING,	/* then the last lines are written */
	LIFE_PHASE_MAX
};

struct life_view {
	enum life_phase phase;
	enum drain_how how;	  /* once it drains */
	char why[PROTO_TEXT_MAX]; /* it does */
	uint32_t grace_ms;	  /* of tasks that are stopped, at most; 0: their own */
	bool released;		  /* the queue is empty, so nothing is held */
	uint64_t empty_ns;	  /* monotonic: it is empty since then; 0: it is not */
};

/* What is run where the instance would hold (agent/attempt/workload.h), on one device. */
struct view_workload {
	const char *state; /* as in the status: docs/json.md */
	bool there;	   /* it is not off */
	bool runs;
	pid_t pid; /* of its shim */
	uint64_t since_ns;
	uint64_t next_ns; /* it ended at once, or was refused, and is not tried before; or 0 */
	bool refused;	  /* it could not be started */
	unsigned int starts;
	char text[PROTO_TEXT_MAX]; /* how it ended last, or why it was not started */
};

/* A device that gets no tasks, or is tried (agent/device_trust.h). */
struct view_quarantine {
	bool shut;
	char text[300];	  /* "in quarantine until ..: why", "on probation: .."; "": trusted */
	char reason[200]; /* shut: why */
};

/* Devices that are left to somebody who has asked for them (agent/asks.h). */
#define VIEW_SPARED_MAX 64
struct view_left {
	char uuid[96];
	uid_t uid;
	char user[64]; /* the name, or "uid 1000" */
	uint64_t until_wall_ns;
};
struct view_spared {
	size_t n;
	struct view_left all[VIEW_SPARED_MAX];
};

struct view {
	const struct agent_config *c;
	const struct node_self *self;
	const char *log_path;
	const char *event_path;
	pid_t pid;
	uint64_t started_wall_ns;
	uint64_t started_ns;	   /* monotonic */
	uint64_t until_wall_ns;	   /* ends itself then; 0: does not */
	struct hold_policy policy; /* as the guard was told: it holds while nothing is against it */
	uint32_t cpu_slots;	   /* tasks without a GPU at once */
	const struct view_workload *workloads;	  /* by slot; NULL: there are none */
	const struct view_quarantine *quarantine; /* by slot; NULL: there is none */
	const struct view_spared *spared;	  /* NULL: none are */
	struct deadline deadlines[DEADLINE_MAX];
	struct life_view life;
	uint64_t job_end_ns; /* wall: of the job that it runs in; 0: not known, or never */

	bool guard_up;
	struct msg_guard guard;	      /* of the last guard; zero before the first */
	uint64_t heard_ns;	      /* its last message, monotonic */
	char trouble[PROTO_TEXT_MAX]; /* why there is no guard, or why it refused */

	uint32_t n_slots; /* devices the guard has spoken of */
	bool seen[PROTO_DEVICES_MAX];
	bool awaited[PROTO_DEVICES_MAX]; /* a lease there has ended; what it is now is told next */
	struct dev_status devices[PROTO_DEVICES_MAX];
	struct gpu_health health[PROTO_DEVICES_MAX]; /* how they are doing, as far as was told */

	size_t n_yields; /* ever; the last VIEW_YIELDS are kept, at [i % VIEW_YIELDS] */
	struct view_yield yields[VIEW_YIELDS];
};

/* The guard has taken the policy, and it does not end. */
bool view_is_ready(const struct view *v);
/* It lets go of everything, or has. */
bool view_is_ending(const struct view *v);
/* Its settings, and what has come since, say to hold, or to run the workload instead. */
bool view_would_hold(const struct view *v);
/* Of holds: it is by another instance's policy. */
bool view_is_anothers(const struct view *v, uint32_t slot);

/* What people and programs call it: 2, or "2/1" of an instance of it. */
json_t *view_label_json(const struct dev_status *d);
/* A card in MIG mode, for which its instances stand: it is not counted. */
bool view_is_mig_card(const struct view *v, uint32_t slot);
/* The policy names it, be it or its card. */
bool view_is_selected(const struct view *v, uint32_t slot);
/* The index of the one device that is named so, or -1: more than one, or not known yet. */
int view_index_of(const struct view *v, const char *name);
/* Devices that have been shown to us, with cards that are not counted. */
uint32_t view_seen(const struct view *v);
/* Devices that the guard has spoken of; all that it has, before. */
unsigned int view_devices(const struct view *v);
/* A device is not what it is shown as any more: nothing is decided before that is known. */
bool view_is_behind(const struct view *v);

/* To whom it is left; NULL: to nobody. */
const struct view_left *view_left_of(const struct view *v, const char *uuid);

/* Whether a task has d, or is to have it: what is held for one that runs it has not come to yet.
 * The workload's is no use. */
enum view_use { VIEW_UNUSED, VIEW_RESERVED, VIEW_BY_TASK, VIEW_JUST_FREED, VIEW_USE_MAX };
enum view_use view_use_of(const struct dev_status *d);

/* How many devices are what; without what another instance holds. */
struct tally {
	unsigned int states[DEV_STATE_MAX]; /* without cards in MIG mode, as the next two */
	unsigned int unused[DEV_STATE_MAX]; /* of these, those that no task has or is to have */
	unsigned int unseen;		    /* that no task has; in neither of them */
	unsigned int held_by_others;
	unsigned int uses[VIEW_USE_MAX];
	uint64_t held_bytes[VIEW_USE_MAX];
	unsigned int workloads; /* on which the workload runs */
};

void view_tally(const struct view *v, struct tally *ret);

enum phase {
	PHASE_STARTING,	 /* no guard yet, or none any more */
	PHASE_BLIND,	 /* the guard cannot see the devices */
	PHASE_WATCHING,	 /* told to hold nothing */
	PHASE_WAITING,	 /* nothing is idle for long enough */
	PHASE_HOLDING,	 /* at least one device is held */
	PHASE_DRAINING,	 /* ends when its tasks have */
	PHASE_RELEASING, /* ending */
	PHASE_MAX
};

enum phase view_phase(const struct view *v);
const char *phase_name(unsigned int phase);
const char *on_empty_name(unsigned int on_empty);

#endif
