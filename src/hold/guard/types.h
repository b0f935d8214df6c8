/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_TYPES_H
#define TENURE_HOLD_GUARD_TYPES_H

/*
 * What the guard knows: its devices, its clients (one per instance), and the events it has told.
 * All of it belongs to the guard's one thread; guard.c has the loop.
 */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/cost.h"
#include "base/proc.h"
#include "hold/device_state.h"
#include "hold/guard/baseline.h"
#include "hold/guard/eyes.h"
#include "hold/guard/granted.h"
#include "hold/guard/hints.h"
#include "hold/policy.h"
#include "hold/proto.h"

struct endpoint_keeper;

#define GUARD_CLIENTS_MAX     64
#define GUARD_LEASES_MAX      256
#define LEASE_DESCENDANTS_MAX 32
#define XIDS_TOLD_MAX	      8

struct holder_proc {
	pid_t pid;		/* 0: there is none */
	int fd;			/* our end of its socket, or -1 */
	pid_t listed_pid;	/* its number in NVML's list where that is not pid; 0: not known */
	bool ready;		/* its context is there */
	bool ending;		/* it was told to end */
	bool kept;		/* its memory is free; its context is a placeholder beside a task */
	uint64_t started_ns;	/* decision to hold */
	uint64_t asked_ns;	/* told to let go; 0: not */
	uint64_t freeing_ns;	/* it has been freeing for so long, by turns of our loop */
	uint64_t peeked_ns;	/* /proc was asked what it is doing */
	uint64_t end_at_ns;	/* when the context is to be dropped; 0: not planned */
	uint64_t held, wanted;	/* bytes */
	uint64_t node_watch_ns; /* the last heartbeat was sent */
	unsigned int unanswered;   /* heartbeats since it spoke last */
	struct burn_window window; /* for the holders of other devices; 0 bytes: there is none */
};

struct load_state {
	uint32_t duty_permille;
	bool resting;
	uint64_t phase_ns;   /* the work or rest phase began */
	enum load_kind told; /* what the holder was told last */
	uint32_t told_duty;
	struct burn_test told_burn;
	uint32_t closing_id; /* of the burn whose last word is still to come; 0: none */
};

enum lease_due {
	DUE_GRANTED = 1 << 0,
	DUE_TAKEN = 1 << 1,
	DUE_UNLEASED = 1 << 2,
	DUE_STATE = 1 << 3,
	DUE_USE = 1 << 4
};

/* What a task uses of a device: usage.h. */
struct lease_usage {
	uint64_t peak_bytes, bytes; /* bytes UINT64_MAX: not known */
	uint64_t looked_ns;	    /* the last look */
	uint64_t came_ns;	    /* the first one since the hand-over; 0: not yet */
	uint64_t from_ns;    /* the utilisation that a look reads is the task's from then on */
	uint64_t counted_ns; /* and until then is in the sums */
	uint64_t busy_ns, util_ns; /* utilisation times time, and that time */
	uint64_t told_ns, told_peak_bytes;
};

/* One entry of the ledger: one device for one task. See lease.h. */
struct lease {
	bool used; /* the entry is */
	struct lease_id id;
	char instance[PROTO_INSTANCE_MAX];
	uint32_t slot;
	uint32_t flags; /* enum lease_flags */
	enum lease_stage stage;
	uint64_t bytes;	     /* declared */
	uint64_t used_bytes; /* by its processes, in the last look */
	uint32_t n_procs;    /* of its processes, in the last look */
	uint32_t n_unknown;  /* of these, whose memory NVML does not tell */
	struct lease_usage use;
	pid_t proc;	     /* one of them */
	struct proc_id shim; /* pid 0: not granted */
	int pidfd;	     /* of the shim, or -1: also where there are none */
	uint64_t asked_ns;   /* GRANT, and the look that decides is later */
	bool decided;	     /* that look was; code and reason are the outcome for this device */
	int code;
	struct dev_reason reason;
	uint64_t over_ns; /* LEASE_OVER since */
	bool unleased;	  /* by UNLEASE, and not by itself */
	bool taken;	  /* somebody foreign is there, and the agent was told */
	uint32_t due;	  /* enum lease_due: what the agent is to be told yet */
	uint64_t took_ns; /* DUE_UNLEASED: from over to gone */
	struct proc_id descendants[LEASE_DESCENDANTS_MAX]; /* processes found to be its, a ring */
	uint32_t n_descendants;
};

/* An error report that people were told of, and when. */
struct xid_told {
	uint32_t xid; /* 0: none */
	uint64_t ns;
};

/* What the last look at a device left room for. */
enum room {
	ROOM_NONE,
	ROOM_TASK, /* nothing foreign is there, but it may not be held: tasks alone */
	ROOM_HOLD, /* nothing foreign is there */
};

/* For people: why a device is as it is, and who is there. */
struct device_said {
	struct dev_reason reason;
	int32_t who_pid;
	uint32_t who_uid;
	char who_comm[16];
};

/* What follows from the last look at it, and from those before. */
struct device_seen {
	struct eyes_peers peers;
	enum room room;
	uint64_t failing_ns; /* all looks fail since; 0: they do not */
	bool lost;	     /* it was not there, and nothing was seen of it since */
	uint64_t lost_ns;    /* look_on_time() has found that so since; 0: it has not */
	uint32_t xid;	     /* for which it is not used: xid.h; 0: none */
	struct xid_told xids_told[XIDS_TOLD_MAX]; /* in no order */
	struct xid_count xids[PROTO_XIDS];	  /* all reports */
	uint64_t excused_bytes; /* in use by processes that the owner told us to ignore */
	uint64_t rise_since_ns; /* memory above the figure of the hold since; 0: not */
	uint64_t unlisted_ns;	/* memory that no listed process explains since; 0: none */
	bool unlisted_yield;	/* that was the reason to let go */
};

/* The way to a hold, and the way out of it. */
struct device_hold {
	uint64_t idle_since_ns;
	uint64_t wait_ns;	 /* the idle time that is asked of it now */
	bool yielded;		 /* wait_ns is that after a yield */
	uint16_t jitter;	 /* of that wait */
	bool check;		 /* the next look is a check of the owner's refresh clock */
	uint64_t due_ns;	 /* the moment to hold it for which it was looked at */
	struct gpu_procs before; /* the list when the holder was started */
	int lock_fd;		 /* @tenure/dev/UUID while held, or -1 */
	uint64_t free_ns;	 /* for which a holder frees its memory here; 0: not known yet */
	uint64_t turn_ns;	 /* when look_on_time() was here last */
	pid_t gone_pid;		 /* its last holder, by the number that it was listed with */
	uint64_t gone_ns;	 /* when that was waited for */
	struct guard_event letting_go; /* the record of the yield that is going on */
	uint64_t verdict_ns;
	uint64_t yields;
	uint64_t blocked_until_ns; /* no new hold before */
	char blocked_why[224];	   /* and why: a whole phrase */
	unsigned int failures;	   /* holds that failed in a row */
	uint64_t grow_at_ns;
};

/* What the ledger says of it, counted whenever that changes; and of the task that was there. */
struct device_ledger {
	uint32_t n_leases, n_granted; /* all; with a shim */
	uint32_t n_awaited;	      /* granted, and not seen on the device yet */
	uint32_t n_running;	      /* awaited ones and those that were seen */
	uint32_t n_over;
	uint32_t n_preemptible; /* that whoever comes beside them preempts */
	struct {
		bool wanted;	   /* to be held while a lease is promised, policy or not */
		bool ripe;	   /* at the last turn it lacked nothing but a fresh look */
		uint64_t check_ns; /* next look whether that can be had */
	} promise;
	bool came_home;		 /* idle since a task of ours ended: held again at once */
	uint64_t chain_until_ns; /* but not before: the next task may come; 0: at once */
	struct lease_id last;	 /* the lease that ended last */
	char last_instance[PROTO_INSTANCE_MAX]; /* whose it was */
	uint64_t last_over_ns;			/* when its task was over */
};

struct device {
	uint32_t slot;
	struct gpu_device id;
	bool present; /* NVML has it; a MIG instance may go while NVML is restarted */
	enum dev_state state;
	uint64_t since_ns;
	bool announced; /* its state was told since it was selected */
	bool dirty;	/* clients have not been told of the last change */
	int owner;	/* client that selects it, or -1 */
	int leaver;	/* client whose policy leaves it, or -1 */
	struct device_said said;
	struct sample sample; /* the last look at it */
	struct gpu_health health;
	uint64_t health_seq; /* of the eyes; 0: nothing was read */
	struct device_seen seen;
	struct holder_proc holder;
	struct load_state load;
	struct device_hold hold;
	struct figure figure; /* of the memory of its hold */
	struct device_ledger ledger;
};

struct client {
	bool used;
	int fd; /* -1: its agent is gone, the policy is kept until awaited_until_ns */
	pid_t pid;
	char instance[PROTO_INSTANCE_MAX];
	bool has_policy, dropping;
	bool begun;	   /* its agent, or one in whose place that came, has had a policy */
	bool returned;	   /* its agent was with a guard before */
	bool policy_waits; /* it came before the guard was ready, and is taken then */
	uint64_t asked;	   /* when it got that policy, as a number: the lowest asked first */
	bool waiting;	   /* a device of it is ripe and waits for its turn */
	struct hold_policy policy;
	char cgroup[256]; /* of its agent, with policy.my_cgroup */
	uint64_t awaited_until_ns;
	uint64_t next_event; /* sequence number of the next event to tell */
	uint64_t tick_ns;    /* next check of its devices */
	bool guard_dirty;
	uint64_t watched_ns;			   /* its agent said last that somebody watches */
	uint64_t health_due[GPU_DEVICES_MAX / 64]; /* slots whose health it has not been told */
	bool full;	    /* its socket: what it asks is read when it has read what it was told */
	bool states_due;    /* LEASE_STATEs, and the one that ends them */
	bool silent;	    /* its agent does not answer: nothing is held for it */
	uint64_t silent_ns; /* for how long it has not spoken, by turns of our loop */
	uint64_t listened_ns; /* when that was last counted */
	uint64_t came_ns;     /* it was accepted */
};

struct guard {
	char dev_dir[256];
	char job[256];		/* the key of the engine's job that it is for; "": for this node */
	struct granted granted; /* to that job; the eyes' */
	struct endpoint_keeper *keeper; /* of its name */
	int listen_fd, signal_fd;
	uint64_t accept_ns;    /* no client is accepted before */
	uint64_t turn_away_ns; /* and nobody who asks whose a device is */
	uint64_t shims_ns;     /* no shim is looked at before */
	int self_fd;	       /* the executable, from which holders are started */
	uint32_t flags;
	enum pid_class pid_class;
	bool hidden_possible; /* we are in a PID namespace: neighbours may not be listed */
	bool hidden_seen;     /* somebody who is not listed was here (verdict_note_hidden()) */
	uint64_t started_wall_ns;
	uint64_t born_ns; /* it is the guard since: no other one has started a holder after that */
	uint64_t quit_ns; /* told to end: at the latest then */
	bool outdated;	  /* an agent of another version waits for our place, and none needs us */
	struct eyes *eyes;
	struct cost_turns look; /* of the eyes, that goes on */
	bool ready;		/* NVML was tried: before that nothing is said of devices */
	bool looked; /* and each device looked at: before that no lease can be had or told again */
	char trouble[PROTO_TEXT_MAX];
	int trouble_code;
	struct hints hints;
	bool hint_on;
	bool greeted;		 /* an agent was here */
	uint64_t delay_ns;	 /* how late the eyes are is asked next then */
	uint64_t late_told_ns;	 /* its figures were told last; 0: never */
	uint64_t late_said_ns;	 /* and it was said in words */
	struct eyes_delay delay; /* since the start: the worst, and how many */
	struct eyes_delay told;	 /* as it was told then */
	uint64_t said;		 /* late_ns, as it was said */
	uint64_t rescan_ns;
	uint32_t n_devs;
	struct device devs[GPU_DEVICES_MAX];
	struct client clients[GUARD_CLIENTS_MAX];
	uint64_t n_asked;
	struct burn_peers windows; /* that holders were told of last; own 0 */
	bool assign_due;	   /* whose rule comes first on which device may have changed */
	struct lease leases[GUARD_LEASES_MAX];
	struct hold_policy plain; /* the defaults: for a device that no policy selects */
	uint64_t last_event;
	struct guard_event events[EVENT_RING]; /* event seq is at seq % EVENT_RING */
};

/* Each device; each client that is there, connected or awaited. */
#define DEVICES_EACH(g_, d_)                                                                       \
	for (__typeof__(&(g_)->devs[0]) d_ = (g_)->devs; d_ < (g_)->devs + (g_)->n_devs; d_++)
#define CLIENTS_EACH(g_, c_)                                                                       \
	for (__typeof__(&(g_)->clients[0]) c_ = (g_)->clients;                                     \
	     c_ < (g_)->clients + GUARD_CLIENTS_MAX; c_++)                                         \
		if (!c_->used) {                                                                   \
		} else

static inline struct client *device_owner(struct guard *g, const struct device *d)
{
	return d->owner >= 0 ? &g->clients[d->owner] : NULL;
}

/* The policies leave it for others, or nobody selects it. */
static inline bool device_is_left(const struct device *d)
{
	return d->owner < 0 || d->leaver >= 0;
}

/* The policy by which d is held: its owner's, or the defaults where only a lease wants it. */
static inline const struct hold_policy *device_policy(const struct guard *g, const struct device *d)
{
	return d->owner >= 0 ? &g->clients[d->owner].policy : &g->plain;
}

static inline bool device_letting_go(const struct device *d)
{
	return d->state == DEV_YIELDING || d->state == DEV_LENDING;
}

static inline bool device_holds(const struct device *d)
{
	return d->state == DEV_HOLDING || d->state == DEV_HELD;
}

/* A holder of ours has memory there, or had just now. */
static inline bool device_occupied(const struct device *d)
{
	return device_holds(d) || device_letting_go(d);
}

/* Its policy has d, which is a device that can be held. */
static inline bool client_owns(const struct guard *g, const struct client *c,
			       const struct device *d)
{
	return d->owner == (int)(c - g->clients) && !d->id.mig_parent;
}

/* Its policy is to test what it holds (hold/burn.h). */
static inline bool client_burns(const struct client *c)
{
	return c->has_policy && c->policy.hold && c->policy.load == LOAD_BURN;
}

/* It is tested, and tasks of this user wait for the end of that. */
static inline bool device_is_reserved_for_test(const struct guard *g, const struct device *d)
{
	const struct client *c = d->owner < 0 ? NULL : &g->clients[d->owner];

	return c && client_burns(c) && c->policy.burn.exclusive && device_holds(d);
}

/* The client of that instance; NULL: it has none, not even one that is waited for. */
static inline struct client *client_find(struct guard *g, const char *instance)
{
	CLIENTS_EACH(g, c)
		if (!strcmp(c->instance, instance))
			return c;
	return NULL;
}

/* For sentences. */
static inline double in_gib(uint64_t bytes)
{
	return (double)bytes / (double)(1ULL << 30);
}

#endif
