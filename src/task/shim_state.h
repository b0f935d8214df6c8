/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_SHIM_STATE_H
#define TENURE_TASK_SHIM_STATE_H

/* The struct of a shim, for its loop (shim.c) and for what its events mean (shim_steps.c). */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/endpoint.h"
#include "base/err.h"
#include "task/cgroup.h"
#include "task/claim_heartbeat.h"
#include "task/end_record.h"
#include "task/launch_spec.h"
#include "task/logfile.h"
#include "task/program.h"
#include "task/shproto.h"
#include "task/tree.h"
#include "task/worker.h"

#define SHIM_CONNS     4U
#define STOP_GRACE_DEF UINT32_MAX      /* the task's own */
#define PASS_FIRST_NS  (2 * NS_PER_MS) /* between two looks at a tree that is to end */
#define PASS_LAST_NS   (500 * NS_PER_MS)

struct shim_start; /* task/shim.h */

enum shim_event {
	EV_GO,
	EV_STARTED,
	EV_NOT_STARTED,
	EV_CANCEL,
	EV_STOP, /* told, by a message or SIGTERM, or its time is over: shim->why */
	EV_LEADER_GONE,
	EV_REST, /* the first process has ended, the others are to follow it */
	EV_GRACE_OVER,
	EV_ONLY_OTHERS, /* what still runs is not ours to end */
	EV_NEVER_BEGAN, /* killed on the way to its program, where the kernel does not let it go */
	EV_TREE_GONE,
	EV_MAX
};

struct conn {
	int fd;
	bool spoke;  /* it has said something that makes sense */
	bool serves; /* it is an agent's, who files the end; others only look */
};

struct shim {
	const struct shim_start *start;
	struct launch_spec spec;
	struct task_record rec;
	struct worker worker;
	/* The worker's, while it is busy. */
	struct program program;
	struct logfile log;
	struct cgroup made;
	struct err start_err;
	pid_t start_pid;
	/* As of the last time that it was idle. */
	int32_t log_errno;
	uint64_t log_bytes;
	uint64_t log_cut;
	uint64_t log_next_ns;
	struct gate gate;
	bool starting; /* the worker has not said yet what came of GO */
	struct ender ender;
	struct cgroup cgroup;
	struct claim_heartbeat heartbeat;
	struct shmsg_go go;
	enum shim_state state;
	enum task_cause why; /* of the EV_STOP that comes */
	int32_t stop_signal;
	uint32_t stop_scope;
	uint32_t stop_grace_ms;
	bool told; /* the stop signal was sent to the leader alone */
	bool leader_gone;
	bool unreaped;	 /* more children may have ended than were waited for */
	bool heard_term; /* a signal told us to end */
	bool acked;
	bool hurried; /* stopped by a signal after its task has ended */
	struct endpoint name;
	uint64_t name_at_ns; /* the next look whether it is there */
	uint64_t pace_at_ns; /* from then on as many as that are accepted again */
	unsigned int accepted;
	struct conn conns[SHIM_CONNS]; /* the oldest first, but for those that were dropped */
	size_t n_conns;
	pid_t leader;
	uint64_t started_ns;
	uint64_t timeout_at_ns; /* UINT64_MAX: none */
	uint64_t grace_at_ns;
	uint64_t heard_ns;	 /* an agent spoke, or the last one hung up */
	uint64_t left_ns;	 /* the last one of all who were connected has hung up */
	uint64_t alone_at_ns;	 /* ended then, for want of an agent; UINT64_MAX */
	uint64_t doubt_until_ns; /* why the leader has ended may yet be heard; 0: no doubt of it */
	bool doubt_over;	 /* that was listened for afterwards, too */
	uint64_t pass_at_ns;
	uint64_t pass_every_ns;
	unsigned int passes_of_one; /* that killed the one process there was, before its program */
};

#endif
