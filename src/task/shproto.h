/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_SHPROTO_H
#define TENURE_TASK_SHPROTO_H

/*
 * What an agent, its fork server and the shims say to each other: messages of fixed size over
 * SOCK_SEQPACKET, one message a packet.
 *
 *   agent                      fork server                shim
 *     LOG {} + 1 descriptor, into one end of a socket pair, for the shim
 *     START {} + 2 descriptors
 *        (the other end, description)
 *                                 forks ------------------->
 *                                                          PREPARED {pid, start}   it has the name
 *     GO {environment, devices}                              shim/<token> (base/endpoint.h)
 *       or CANCEL                                          STARTED {task's pid}
 *     GPU {peak, utilisation}     at any time, the last one counts: for the log's trailer
 *     STOP {signal, grace}        again with a shorter grace: hurry
 *     ASK {}                      also by who only looks   STATUS {}, or ENDED: to who asked alone
 *                                                          ENDED {struct task_end}, end of file
 *     ACK {}                      needed only where ENDED has record_errno
 *
 * With LAUNCH_GO in the description there is neither PREPARED nor GO: STARTED, or ENDED, comes
 * first; but a shim that begins after its go_until_ns says PREPARED and waits for GO as any other.
 *
 * A shim's connection is the descriptor from START, or one made to its name by an agent that
 * adopts it (task/adopt.h); there may be several, all are told. Only who has said more than ASK
 * counts as an agent, who files the end; without one the shim leaves its record in the spool.
 * Before GO the end of file on the last connection is a CANCEL. After GO an end of file means
 * nothing: the task runs on (with LAUNCH_ATTENDED or LAUNCH_IN_JOB for GUARD_AWAIT_MS, then it is
 * ended). ENDED is sent after the record is on the disk (task/end_record.h), so it need not be
 * answered, except where the record could not be written: the shim then stays until ACK or until it
 * could.
 *
 * The two descriptors are taken by the fork server, which reads nothing of them: what is wrong with
 * a description, or with starting, is said on the shim's own connection as ENDED with TASK_REFUSED.
 * The log is not among them: to close a file waits for its file system, where that is a network's,
 * so nobody has the log but who can wait for it (task/worker.h).
 *
 * Shims outlive agents, and so meet newer ones. SHPROTO_VERSION stays the same while messages only
 * grow at their end: shmsg_take() fills what an older side did not send with zeros, and cuts what
 * it does not know. Bounded: nobody waits for another; what does not fit into a socket's buffer is
 * dropped and can be asked for with ASK, except ENDED, whose content is in the record.
 */

#include <stddef.h>
#include <stdint.h>

#include "task/end_record.h"

#define SHPROTO_VERSION	 1U
#define SHPROTO_ENV_MAX	 4096
#define SHPROTO_DEV_MAX	 512
#define SHPROTO_FDS	 2
#define SHMSG_SIGNALLED	 256 /* added to the signal's number in an exit */
#define SHPROTO_NAME_MAX (TASK_TOKEN_MAX + 8)
#define SHIM_NAME_PREFIX "shim/"
#define TASK_TOKEN_ENV	 "TENURE_TASK_TOKEN"

/* Names of processes in /proc/PID/comm, by which they are found: of a shim, which has that of the
 * fork server until its own is safe. Those of older versions, which may run yet, are the same. */
#define SHIM_COMM	 "tenure-shim"
#define FORK_SERVER_COMM "tenure-shims"
/* argv[0] of the fork server, which process lists show; the agent's end is this descriptor. */
#define FORK_SERVER_ARGV0 "tenure-shims: starts tasks"
#define FORK_SERVER_FD	  3
/* In its environment: of which spool's tasks (names_tokens_of()). */
#define FORK_SERVER_OF_ENV "TENURE_SHIMS_OF"

enum shmsg_type {
	SHMSG_START = 1,
	SHMSG_PREPARED,
	SHMSG_GO,
	SHMSG_CANCEL,
	SHMSG_STARTED,
	SHMSG_STOP,
	SHMSG_ENDED,
	SHMSG_ACK,
	SHMSG_ASK,
	SHMSG_STATUS,
	SHMSG_GPU,
	SHMSG_LOG,
	SHMSG_TYPE_MAX
};

struct shmsg_head {
	uint16_t version; /* SHPROTO_VERSION */
	uint16_t type;	  /* enum shmsg_type */
	uint32_t size;	  /* of the whole message, this head included */
};

struct shmsg_plain { /* START, LOG, CANCEL, ACK, ASK */
	struct shmsg_head head;
};

/* Where a shim is in its life. */
enum shim_state {
	SHIM_PREPARED, /* waits for GO */
	SHIM_RUNNING,  /* the task's first process runs */
	SHIM_TRAILING, /* it has exited, others of the tree go on */
	SHIM_STOPPING, /* the tree was told to stop, the grace runs */
	SHIM_KILLING,  /* the grace is over */
	SHIM_ENDED,    /* nothing runs any more */
	SHIM_STARTING, /* after GO: the task's first process does not run its program yet */
	SHIM_STATE_MAX
};

struct shmsg_status { /* PREPARED, STARTED, STATUS */
	struct shmsg_head head;
	uint32_t state;	     /* enum shim_state */
	int32_t shim_pid;    /* with shim_start and boot_id: this very process */
	uint64_t shim_start; /* struct proc_id */
	int32_t task_pid;    /* its first process and its session, 0 before GO */
	int32_t log_errno;   /* what last went wrong with the log */
	uint64_t log_bytes;  /* as of the last look */
	uint64_t started_wall_ns;
	uint64_t run_ns; /* since the start, by the monotonic clock */
	char boot_id[BOOT_ID_MAX];
	char token[TASK_TOKEN_MAX];
	uint32_t leader_ended; /* its first process has ended, others of the tree go on */
	int32_t leader_exit;   /* status, or SHMSG_SIGNALLED + signal, then */
};

struct shmsg_go {
	struct shmsg_head head;
	uint32_t env_bytes; /* of env that are used */
	uint32_t unused;
	char devices[SHPROTO_DEV_MAX]; /* for the log: "GPU 0, 1 (NVIDIA H200)", or empty */
	char env[SHPROTO_ENV_MAX]; /* NAME=VALUE, each with its NUL; win over the description's */
};

/* Who gets the first signal; KILL goes to the whole tree always. */
enum stop_scope {
	STOP_TREE,   /* everybody */
	STOP_LEADER, /* the task's first process: it tells its own, as torchrun does */
};

struct shmsg_stop {
	struct shmsg_head head;
	int32_t signal;	   /* first; 0: the description's */
	uint32_t scope;	   /* enum stop_scope */
	uint32_t grace_ms; /* until KILL; UINT32_MAX: the description's */
	uint32_t requeue;  /* 1: for the record, where an agent that is not there yet reads it */
};

struct shmsg_gpu {
	struct shmsg_head head;
	uint64_t peak_bytes; /* of all its devices together */
	uint32_t util_permille;
	uint32_t unused;
};

struct shmsg_ended {
	struct shmsg_head head;
	struct task_end end;
};

/* Room for any message, and for what a newer side may have made of it. */
union shmsg {
	char room[8192];
	struct shmsg_head head;
	struct shmsg_plain plain;
	struct shmsg_status status;
	struct shmsg_go go;
	struct shmsg_stop stop;
	struct shmsg_gpu gpu;
	struct shmsg_ended ended;
};

/* Fill in a head: SHMSG_HEAD(SHMSG_GO, struct shmsg_go). */
#define SHMSG_HEAD(type_, struct_)                                                                 \
	{                                                                                          \
		.version = SHPROTO_VERSION, .type = (type_), .size = sizeof(struct_)               \
	}

/*
 * The n bytes received into m are whole, of this version and of a known type; what an older side
 * did not send becomes zero, texts are terminated. 0, -EPROTO (not ours), -EPROTONOSUPPORT (another
 * version), -ENOMSG (a newer side's type: skip it).
 */
int shmsg_take(union shmsg *m, size_t n);

/*
 * The next message on fd: its type, and it in m; 0: the other side is gone, and all that it said
 * was read; -EAGAIN: none yet; -EPROTO, -EPROTONOSUPPORT. Types that are not known are skipped.
 */
int shmsg_recv(int fd, union shmsg *m);

/* Close a connection so that what was sent before arrives, whatever the other side still says. */
void shmsg_close(int fd);

/* The name of a shim's endpoint. buf holds SHPROTO_NAME_MAX bytes; returns buf. */
char *shim_socket_name(char *buf, const char *token);

const char *shim_state_name(uint32_t state);

#endif
