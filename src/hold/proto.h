/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_PROTO_H
#define TENURE_HOLD_PROTO_H

/*
 * What agent and guard say to each other: messages of fixed size over a SOCK_SEQPACKET socket
 * (hold/endpoint_names.h), one message a packet. Both ends are the same executable or two versions
 * of it; the guard refuses a HELLO of another PROTO_VERSION with MSG_REFUSED, and ends unless
 * agents of its own version use it; tasks run on. The agent waits for that for some seconds, and
 * starts a guard of its own version.
 *
 *   agent                                guard
 *     HELLO {instance, last event seen}
 *                                          WELCOME {what it is, how many devices}
 *     POLICY {struct hold_policy}
 *                                          POLICY_REPLY {0 or error text}
 *                                          DEVICE x n   after every change and once a second
 *                                          EVENT        each once, in order, kept for a new agent
 *                                          GUARD        when what is true of the whole node changed
 *                                          HEALTH       of a device, when some of it was read anew
 *                                          BURN         what a device that burns for this
 *                                                       instance was found to be, twice a second
 *     HEARTBEAT {flags} every second        without it for GUARD_AWAIT_MS nothing stays held;
 *                                          while it says that somebody watches, what moves is
 *                                          read more often
 *     DROP {}                              lets go of all that this instance holds, and of
 *                                          what was only promised to it; its tasks run on
 *                                          GRANTED      -ENOENT, for a GRANT that was not answered
 *                                          DROPPED      when all of it is free and holders are gone
 *     LEASE {id, device, flags, bytes}     the device is promised to that task, or was already
 *                                          LEASE_REPLY {id, slot, code, text}
 *     GRANT {id, shim}                     what descends from that process is the task's
 *                                          GRANTED      {id, code, text}: start it now, or do not
 *                                          LEASE_TAKEN  somebody foreign came before the task, or
 *                                                       beside a preemptible one
 *     UNLEASE {id, device or none}         the task is over, or is not to come; or it has left
 *                                          that one of its devices, and runs on
 *                                          UNLEASED     once a device: its processes are gone
 *                                          LEASE_USE    what the task uses there: when it needs
 *                                                       more than ever, and once a second
 *     RESERVE {id, device}                 held for that task, which waits; id.task 0: for none
 *                                          LEASE_REPLY {id, slot, code, text}, but for none
 *
 * Leases. The guard's ledger is the only truth on a node, and outlives agents: after
 * WELCOME a LEASE_STATE tells of each lease of the instance, and one of slot -1 ends that. A guard
 * that has just started says so when it has looked at all devices; orders before would be refused.
 * A lease that was granted lives as long as its shim and what descends from it; one that was only
 * promised goes when its agent is not awaited any more. LEASE, GRANT and UNLEASE may be repeated:
 * the answer is what is true then. While the line is up they need not be: of an agent whose socket
 * has no room for an answer nothing is read. A task on several devices has a lease of one id on
 * each, and GRANT and UNLEASE are about all of them. A task that runs may get a device more: LEASE,
 * and then GRANT for the same shim, which is answered for what is new alone; and it may give one
 * back, by an UNLEASE that names it.
 *
 * A reservation is an entry of the ledger as well (LEASE_RESERVED), but nobody is to come yet: the
 * agent collects devices for a task that waits for others. It keeps other instances off and has the
 * device held, policy or not. Its own instance it keeps from nothing: a LEASE of that takes its
 * place and its hold, and another RESERVE on the device replaces it. Its ids have attempt 0.
 *
 * A guard serves from its start, but NVML may take seconds to answer first, or hang: until then its
 * WELCOME and GUARD have neither GUARD_SEES nor a trouble, and a POLICY is answered after that.
 *
 * An agent that disconnects without DROP has died: its policy is kept for GUARD_AWAIT_MS, so that
 * a new agent of the same instance finds its holds as they were (invariant 2). One that is
 * connected and says nothing for as long (stopped, or hanging) is treated the same, but keeps its
 * place: its policy counts again with its next word.
 *
 * Bounded: neither side waits for the other. The guard drops DEVICE, GUARD and HEALTH messages that
 * do not fit (newest state wins, the next one tells), never EVENTs (kept in a ring of EVENT_RING).
 * The guard never looks names of users up, because that can hang on a directory service: where a
 * reason speaks of one (hold/dev_reason.h) it has the number, and the agent finds the name.
 *
 * Times named _ns are CLOCK_MONOTONIC of this node; wall_ns is since the epoch.
 */

#include <stddef.h>
#include <stdint.h>

#include "gpu/health.h"
#include "hold/burn.h"
#include "hold/dev_reason.h"
#include "hold/event.h"
#include "hold/lease_id.h"
#include "hold/policy.h"

#define PROTO_VERSION 18U
/* Whoever has not been heard for so long is gone: an agent to its guard, a guard to its agent, and
 * every agent to a task that is to end with them. */
#define GUARD_AWAIT_MS	  10000U
#define PROTO_TEXT_MAX	  256
#define PROTO_DEVICES_MAX 128
#define PROTO_XIDS	  8

enum msg_type {
	MSG_HELLO = 1,
	MSG_WELCOME,
	MSG_REFUSED,
	MSG_POLICY,
	MSG_POLICY_REPLY,
	MSG_DEVICE,
	MSG_EVENT,
	MSG_GUARD,
	MSG_DROP,
	MSG_DROPPED,
	MSG_HEARTBEAT,
	MSG_LEASE,
	MSG_LEASE_REPLY,
	MSG_GRANT,
	MSG_GRANTED,
	MSG_LEASE_TAKEN,
	MSG_UNLEASE,
	MSG_UNLEASED,
	MSG_LEASE_STATE,
	MSG_RESERVE,
	MSG_LEASE_USE,
	MSG_HEALTH,
	MSG_BURN,
	MSG_TYPE_MAX
};

struct msg_head {
	uint16_t version; /* PROTO_VERSION */
	uint16_t type;	  /* enum msg_type */
	uint32_t size;	  /* of the whole message, this head included */
};

struct msg_hello {
	struct msg_head head;
	char instance[PROTO_INSTANCE_MAX];
	uint64_t last_event; /* seq of the last event seen from this guard; 0 = none */
	int32_t guard_pid;   /* of the guard that last_event is from; 0 = none */
};

/* How the NVML process list shows processes here; learnt at the first real hold. */
enum pid_class {
	PIDS_UNKNOWN, /* nothing was held yet */
	PIDS_SAME,    /* as we see them: every newcomer is visible */
	PIDS_HOST,    /* another namespace's numbers: ours are told from others by what appeared */
	PIDS_OWN,     /* only our own processes are listed: newcomers show as memory in use */
	PIDS_NONE,    /* none are listed, not even ours */
	PID_CLASS_MAX
};

enum guard_flags {
	GUARD_SEES = 1 << 0,	/* NVML works */
	GUARD_INOTIFY = 1 << 1, /* opens of the device nodes are seen */
	GUARD_LOCKED = 1 << 2,	/* its memory is locked: no page fault on a dead file system */
};

struct msg_guard { /* MSG_WELCOME and MSG_GUARD */
	struct msg_head head;
	int32_t pid;
	uint32_t n_devices;
	uint32_t flags; /* enum guard_flags */
	uint32_t pid_class;
	uint32_t n_others; /* cards of this node that are not for its job, and not looked at */
	uint32_t n_unseen; /* devices that its job was given, and that are not there */
	uint64_t started_wall_ns;
	/* How well it keeps its time, since its start and as of when it was last told: */
	uint64_t late_ns;	      /* the worst look at what is held: so long after it was due */
	uint64_t look_ns;	      /* the longest that the driver took for one */
	uint32_t n_late;	      /* looks that were so late that a newcomer may have met us */
	char driver[64];	      /* "580.159.03", or empty */
	char trouble[PROTO_TEXT_MAX]; /* why it does not see, or empty */
};

struct msg_text { /* MSG_REFUSED, MSG_POLICY_REPLY (code 0 = taken) */
	struct msg_head head;
	int32_t code; /* 0 or negative errno */
	char text[PROTO_TEXT_MAX];
};

struct msg_policy {
	struct msg_head head;
	struct hold_policy policy;
};

struct msg_plain { /* MSG_DROP, MSG_DROPPED */
	struct msg_head head;
};

enum heartbeat_flags {
	HEARTBEAT_WATCHED = 1 << 0, /* somebody looks at the figures just now */
};

struct msg_heartbeat {
	struct msg_head head;
	uint32_t flags; /* enum heartbeat_flags */
	uint32_t pad;
};

enum lease_flags {
	LEASE_SHARED = 1 << 0,	  /* beside others that are shared, as far as their bytes fit */
	LEASE_OTHERS_OK = 1 << 1, /* foreign processes there do not matter, only free memory does */
	LEASE_HOLD_WHILE = 1 << 2,  /* while it is promised the device is held, policy or not */
	LEASE_ALONE = 1 << 3,	    /* our context goes when the task's first process is listed */
	LEASE_PREEMPTIBLE = 1 << 4, /* LEASE_TAKEN also when somebody comes beside the task */
	LEASE_FLAGS = (1 << 5) - 1,
	LEASE_RESERVED = 1 << 8, /* in LEASE_STATE: by RESERVE */
};

enum lease_stage {
	LEASE_PROMISED, /* no process yet */
	LEASE_ASKED,	/* GRANT came, and the look that decides is on its way */
	LEASE_GRANTED,	/* the task runs and was not seen on the device yet */
	LEASE_USED,	/* and was */
	LEASE_OVER,	/* the task is over; NVML has not agreed yet */
	LEASE_STAGE_MAX
};

struct msg_lease {
	struct msg_head head;
	struct lease_id id;
	char uuid[96];
	uint32_t flags; /* enum lease_flags */
	uint32_t pad;
	uint64_t bytes; /* what the task says that it needs here; 0: it does not say */
	/* The shim of a task that runs already, for a new guard; else 0. Granted then. */
	uint64_t start;
	int32_t pid;
	uint32_t pad2;
};

struct msg_lease_reply { /* MSG_LEASE_REPLY, MSG_GRANTED (slot -1) */
	struct msg_head head;
	struct lease_id id;
	int32_t slot;  /* or -1: there is no such device */
	int32_t code;  /* 0; -EBUSY taken or leased; -ENOMEM; -ENODEV; -EPERM left; -ESRCH */
	uint32_t held; /* a hold stands there until the task comes */
	uint32_t pad;
	struct dev_reason reason; /* why not; or, with code 0, a remark or nothing */
};

struct msg_grant {
	struct msg_head head;
	struct lease_id id;
	int32_t pid; /* the shim: subreaper of all that the task starts */
	uint32_t pad;
	uint64_t start; /* its start time (base/proc.h) */
};

struct msg_unlease {
	struct msg_head head;
	struct lease_id id;
	char uuid[96]; /* of the one device that is given back; "": of all of them */
};

struct msg_reserve {
	struct msg_head head;
	struct lease_id id; /* attempt 0; task 0: what was reserved there for this instance is not,
			       and none of its tasks is about to come there */
	char uuid[96];
};

struct msg_lease_taken {
	struct msg_head head;
	struct lease_id id;
	int32_t slot;
	uint32_t started;	  /* the task was granted already */
	struct dev_reason reason; /* "taken by PID 77 (alice, python)" */
};

struct msg_unleased {
	struct msg_head head;
	struct lease_id id;
	int32_t slot;
	uint32_t by_itself; /* there was no UNLEASE: the shim and all its processes are gone */
	uint64_t took_ns;   /* the task's end -> NVML agreed */
	char uuid[96];	    /* with slot -1 what the UNLEASE named */
};

struct msg_lease_state { /* after WELCOME; slot -1 and no id: that was all */
	struct msg_head head;
	struct lease_id id;
	int32_t slot;
	uint32_t stage; /* enum lease_stage */
	uint32_t flags;
	int32_t pid; /* its shim, or 0 */
	uint64_t start;
	uint64_t bytes;
	char uuid[96];
};

/*
 * What a task has used of one device since it was handed that, or since the guard knows of it; a
 * guard that is new begins anew, which shows in util_ns. Memory is that of the task's processes;
 * where NVML does not tell it, all that is in use there while the task is alone on the device.
 * Utilisation is the device's, whoever shares it.
 */
struct msg_lease_use {
	struct msg_head head;
	struct lease_id id;
	int32_t slot;
	uint32_t util_permille; /* mean over util_ns */
	uint64_t util_ns;	/* that was looked at; 0: the utilisation is not known */
	uint64_t bytes;		/* at the last look; UINT64_MAX: not known */
	uint64_t peak_bytes;	/* the most at any look */
};

/* Which of the figures of a dev_status are known; the others are 0 and mean nothing. */
enum dev_known {
	KNOWN_MEM = 1 << 0,
	KNOWN_UTIL = 1 << 1,
	KNOWN_POWER = 1 << 2,
	KNOWN_TEMP = 1 << 3,
	KNOWN_PROCS = 1 << 4,
	KNOWN_POWER_LIMIT = 1 << 5,
};

enum dev_flags {
	DEVICE_VACANT = 1 << 0, /* the last look found nobody foreign: a task may come, whatever the
				   clocks of a hold say */
	DEVICE_ONE_PROCESS = 1 << 1, /* EXCLUSIVE_PROCESS: there is no hold before a task */
	DEVICE_PROHIBITED = 1 << 2,  /* by its compute mode no program can use it */
	DEVICE_MIG_CARD = 1 << 3,    /* in MIG mode: its instances are the devices */
	DEVICE_UNJUDGED = 1 << 4, /* selected since the last look: its state is not from one yet */
	DEVICE_UNSEEN = 1 << 5,	  /* given to the job and not visible to NVML: for tasks alone */
	DEVICE_TESTED = 1 << 6,	  /* by an exclusive burn, for whose end tasks wait */
};

/* How often an error was reported; xid 0: all others, for which there is no room. */
struct xid_count {
	uint32_t xid, n;
};

struct dev_status {
	char uuid[96]; /* a MIG instance's is longer than a card's */
	char name[96];
	char instance[PROTO_INSTANCE_MAX]; /* whose policy selects it; empty: nobody's */
	struct dev_reason reason;	   /* why it is in this state */
	uint32_t index;			   /* NVML index of the card */
	int32_t mig;			   /* MIG instance number, or -1 */
	uint32_t state;			   /* enum dev_state */
	uint32_t known;			   /* enum dev_known */
	uint64_t since_ns;		   /* in this state since */
	uint64_t idle_since_ns;		   /* while DEV_IDLE: the idle clock's start */
	uint64_t hold_at_ns; /* with nobody there and wanted: when it will be held, or 0 */
	uint64_t looked_ns;  /* when the figures were read */
	uint64_t mem_total, mem_used, mem_free; /* bytes; without the driver's reserve */
	uint64_t held_bytes, target_bytes;	/* by our holder */
	uint32_t util;				/* per cent, as NVML says */
	uint32_t power_mw, power_limit_mw;
	uint32_t temp_c;
	int32_t who_pid;	/* the foreign process the reason speaks of, or 0 */
	uint32_t who_uid;	/* its user, or UINT32_MAX */
	uint32_t n_procs;	/* compute processes listed, ours included */
	int32_t holder_pid;	/* 0: none */
	uint32_t load;		/* enum load_kind that runs now; LOAD_NONE while resting */
	uint32_t duty_permille; /* what the load control asks for */
	uint64_t yields;	/* since the guard started */
	uint32_t n_leases;	/* on this device, of any instance */
	uint32_t n_lease_procs; /* listed processes that are theirs */
	uint64_t promised;	/* bytes of theirs that are not in use yet */
	struct lease_id lease;	/* the one that is furthest, or zeroes */
	uint32_t lease_stage;	/* of that one */
	uint32_t own_python;	/* listed Python processes of this user that are not tasks */
	char lease_instance[PROTO_INSTANCE_MAX];
	uint32_t flags; /* enum dev_flags */
	uint32_t xid;	/* the error for which it is not used (gpu/xid.h), or 0 */
	struct xid_count xids[PROTO_XIDS];	/* reported since the guard started; n 0: no more */
	uint64_t peers[PROTO_DEVICES_MAX / 64]; /* slots that NVLink joins with it, a bit each */
};

struct msg_device {
	struct msg_head head;
	uint32_t slot; /* 0 .. n_devices - 1, stable while the guard lives */
	struct dev_status dev;
};

struct msg_health {
	struct msg_head head;
	uint32_t slot;
	uint32_t pad;
	struct gpu_health health;
};

struct msg_burn {
	struct msg_head head;
	uint32_t slot;
	uint32_t pad;
	struct burn_report found;
};

struct msg_event {
	struct msg_head head;
	struct guard_event event;
};

#define PROTO_MSG_MAX sizeof(struct msg_policy)

/* Fill in a head: PROTO_HEAD(MSG_DROP, struct msg_plain). */
#define PROTO_HEAD(type_, struct_)                                                                 \
	{                                                                                          \
		.version = PROTO_VERSION, .type = (type_), .size = sizeof(struct_)                 \
	}

/*
 * The message in buf of n bytes is whole and of a known type, version and size. 0, -EPROTO (not
 * ours), -EPROTONOSUPPORT (another version).
 */
int proto_check(const void *buf, size_t n);

const char *pid_class_name(uint32_t c);
const char *lease_stage_name(uint32_t stage);

#endif
