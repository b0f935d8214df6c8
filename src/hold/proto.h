/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_PROTO_H
#define TENURE_HOLD_PROTO_H

/*
 * What agent and guard say to each other: messages of fixed size over an abstract SOCK_SEQPACKET
 * socket, one message a packet. Both ends are the same executable or two versions of it; the guard
 * refuses a HELLO of another PROTO_VERSION with MSG_REFUSED and the agent then starts a guard of
 * its own version once the old one has gone.
 *
 *   agent                                guard
 *     HELLO {instance, last event seen}
 *                                          WELCOME {what it is, how many devices}
 *     POLICY {struct hold_policy}
 *                                          POLICY_REPLY {0 or error text}
 *                                          DEVICE x n   after every change and once a second
 *                                          EVENT        each once, in order, kept for a new agent
 *                                          GUARD        when what is true of the whole node changed
 *     BEAT {}      every second             without it for GUARD_ORPHAN_MS nothing stays held
 *     DROP {}                              lets go of all that this instance holds
 *                                          DROPPED      when all of it is free and holders are gone
 *
 * An agent that disconnects without DROP has died: its policy is kept for GUARD_ORPHAN_MS, so that
 * a new agent of the same instance finds its holds as they were (invariant 2). One that is
 * connected and says nothing for as long (stopped, or hanging) is treated the same, but keeps its
 * place: its policy counts again with its next word.
 *
 * Bounded: neither side waits for the other. The guard drops DEVICE and GUARD messages that do not
 * fit (newest state wins, the next one tells), never EVENTs (kept in a ring of EVENT_RING).
 * Where a text speaks of a user it says "uid 1234": the guard never looks names up, because that
 * can hang on a directory service. The agent puts the name in where it shows or records the text.
 *
 * Times named _ns are CLOCK_MONOTONIC of this node; wall_ns is since the epoch.
 */

#include <stddef.h>
#include <stdint.h>

#include "hold/policy.h"

#define PROTO_VERSION	   3U
#define GUARD_ORPHAN_MS	   10000U
#define EVENT_RING	   512U
#define PROTO_INSTANCE_MAX 64
#define PROTO_TEXT_MAX	   256
#define PROTO_DEVICES_MAX  128

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
	MSG_BEAT,
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
	uint64_t started_wall_ns;
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

struct msg_plain { /* MSG_DROP, MSG_DROPPED, MSG_BEAT */
	struct msg_head head;
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

struct dev_status {
	char uuid[96]; /* a MIG instance's is longer than a card's */
	char name[96];
	char instance[PROTO_INSTANCE_MAX]; /* whose policy selects it; empty: nobody's */
	char reason[PROTO_TEXT_MAX]; /* one phrase a person can read: why it is in this state */
	uint32_t index;		     /* NVML index of the card */
	int32_t mig;		     /* MIG instance number, or -1 */
	uint32_t state;		     /* enum dev_state */
	uint32_t known;		     /* enum dev_known */
	uint64_t since_ns;	     /* in this state since */
	uint64_t idle_since_ns;	     /* while DEV_IDLE: the idle clock's start */
	uint64_t hold_at_ns;	     /* while DEV_IDLE and wanted: when it will be held, or 0 */
	uint64_t looked_ns;	     /* when the figures were read */
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
};

struct msg_device {
	struct msg_head head;
	uint32_t slot; /* 0 .. n_devices - 1, stable while the guard lives */
	struct dev_status dev;
};

enum event_kind {
	EVENT_NOTE,    /* a sentence for the log */
	EVENT_START,   /* a holder was started */
	EVENT_HELD,    /* it holds; took_ns, bytes */
	EVENT_YIELD,   /* let go for something foreign: all the latencies */
	EVENT_RELEASE, /* let go because it was told to, or nobody wants it */
	EVENT_BLIND,   /* let go because we could not see */
	EVENT_GONE,    /* the holder and its context are gone */
	EVENT_FAILED,  /* a hold did not come about, or a holder had to be killed */
	EVENT_LOST,    /* NVML or a device was lost */
	EVENT_BACK,    /* and is back */
	EVENT_STATE,   /* a device changed between busy, idle and left */
	EVENT_KIND_MAX
};

struct guard_event {
	uint64_t seq; /* from 1, without gaps, per guard */
	uint64_t wall_ns;
	uint32_t kind;	/* enum event_kind */
	int32_t slot;	/* device, or -1 */
	uint32_t index; /* of the card, where slot >= 0 */
	uint32_t state; /* enum dev_state after it */
	char uuid[96];
	char instance[PROTO_INSTANCE_MAX];
	char text[PROTO_TEXT_MAX]; /* the sentence; complete without the figures below */
	/* EVENT_YIELD: */
	int32_t pid;		      /* the newcomer, or 0 where only memory showed */
	char user[32];		      /* its user as "uid 1000", or empty */
	char command[64];	      /* its command, or empty */
	uint64_t hint_to_verdict_ns;  /* first open of a node -> verdict; 0 = there was no hint */
	uint64_t verdict_to_freed_ns; /* verdict -> the holder had let go */
	uint64_t bytes;		      /* EVENT_HELD: held; EVENT_YIELD, EVENT_RELEASE: freed */
	uint64_t took_ns;	      /* EVENT_HELD: decision -> held */
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
const char *event_kind_name(uint32_t kind);

#endif
