/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_NODE_CONFIG_H
#define TENURE_AGENT_NODE_CONFIG_H

/*
 * What an agent was told when it was started, and what it is. Both are filled before anything of
 * the agent runs; all parts of it read them by the same pointers. A reload (agent/reload.h) changes
 * the policy and numbers of the first one, on the loop: other threads must not read those.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/textlist.h"
#include "engine/engine.h"
#include "hold/policy.h"
#include "spool/instance.h"

enum on_empty {
	EMPTY_HOLD,    /* as otherwise */
	EMPTY_RELEASE, /* nothing is held until there are tasks again */
	EMPTY_EXIT,
	EMPTY_MAX
};

/* What becomes of the tasks of an agent that is to end, before it does. It only rises: its owner's
 * order is the last word. */
enum drain_how {
	DRAIN_NOT,
	DRAIN_WAIT,    /* what runs may end */
	DRAIN_REQUEUE, /* what runs is stopped and requeued: its lifetime is over */
	DRAIN_EXPIRE,  /* the same, because the job that it runs in ends */
	DRAIN_CANCEL,  /* what runs is stopped, as its owner orders */
	DRAIN_HOW_MAX
};

/* So many tasks of a lane at once; those that are not named have a width of 1. */
struct lane_width {
	char *name;
	uint32_t width;
};

/* How an agent has ended. */
enum agent_end {
	AGENT_ENDED,   /* told to, or the time was up; everything is free */
	AGENT_REFUSED, /* the guard does not take the policy: a mistake in the options */
	AGENT_RUNNING, /* another one serves this instance here; e says which */
	AGENT_NO_GPUS, /* nothing to hold on this node: no driver, no devices */
	AGENT_UNREAD,  /* all is free, but it ended because nobody read its output any more */
	AGENT_FAILED,
};

struct agent_config {
	/* Strings must outlive agent_run(), which may leave a thread that hangs: config.stuck. */
	const char *instance;
	/* Behind `tenure off` and the like, for it to be about this agent: " -i NAME"; "". */
	const char *options;
	const char *given; /* the settings that all of this was made from (agent/reload.h); NULL */
	const char *dev_dir;
	const char *state_dir;
	enum log_level log_level;
	struct hold_policy policy;
	/* Whose spool may be served: root. */
	struct spool_trust trust;
	const char *root;	       /* of the spool whose tasks are run here; NULL: none are */
	const char *node_name;	       /* in the spool; NULL: the host's */
	const struct engine_here *job; /* of an engine, in which it runs; NULL: in none */
	const struct engine *engine;   /* that one, asked when the job ends */
	uint64_t job_time_ms;	       /* the job lasts so long from our start; 0: not said */
	uint64_t leave_ms;	       /* so long before the job's end it begins to leave */
	/* What the job was given, as CUDA_VISIBLE_DEVICES writes it, and how many. NULL and 0: all
	 * that there are. */
	const char *devices;
	uint32_t n_devices;
	const char *token, *pool; /* the pool's words for this job; NULL: none */
	bool pool_only;		  /* tasks that do not name the pool do not run here */
	uint64_t *n_ended;	  /* tasks that end under it are counted there; NULL */
	uint64_t heartbeat_ms;	  /* between two heartbeats */
	uint64_t gang_wait_ms;	  /* for all ranks of a gang to have their devices */
	unsigned int gang_port_first, gang_port_last;
	const char *gang_address; /* of this node, for those that run with it; NULL: looked for */
	uint64_t expire_ms;	  /* without one for so long, others take the tasks over */
	uint64_t log_limit;	  /* bytes of a task's log; 0: no limit */
	const char *on_end;	  /* command for each task that has ended; NULL: none */
	uint64_t on_end_limit_ms; /* so long it may take, and the task's own */
	uint64_t cpu_tasks;	  /* tasks without a GPU at once; 0: planview_cpu_slots() */
	uint32_t alloc_most;	  /* GPUs of all allocations that run here; 0: no limit */
	uint32_t alloc_base;	  /* GPUs of the automatic base; 0: there is none */
	uint32_t free_threshold;  /* free devices that are told of; 0: none are */
	uint64_t stuck_after_ms;  /* a task looks stuck for so long, and is told of; 0: never */
	bool ask;		  /* other users may ask for the devices of tasks */
	bool by_uuid;		  /* tasks' CUDA_VISIBLE_DEVICES names devices by UUID */
	uint64_t lifetime_ms;	  /* be done with all tasks after so long, then end; 0: do not */
	bool lifetime_stops;	  /* stop and requeue them then; else wait for them */
	uint64_t notice_ms;	  /* so long before it is told; 0: not */
	const char *workload;	  /* command to run instead of holding; NULL: hold */
	const char *workload_cwd;
	uint64_t workload_grace_ms;
	const struct lane_width *lanes;
	size_t n_lanes;
	unsigned int sweep; /* SWEEP_BIT()s: with each task that is stopped */
	const char *sweep_spare;
	enum on_empty on_empty; /* when the queue has been empty ... */
	uint64_t empty_ms;	/* ... for so long */
	uint64_t for_ms;	/* end after so long; 0: do not */
	uint64_t until_wall_ns; /* end at that time; 0: do not */
	bool show_json;		/* events are shown as JSON lines, not as sentences */
	bool ignore_hangup;	/* SIGHUP does not end it: it has no terminal */
	/* One line for who watches; on a pool thread; NULL: nobody does. */
	void (*show)(const char *line);
	/* Where show() writes: a pipe that nobody reads any more ends the agent. */
	int show_fd;
	/* The same for what somebody should look at: settings that hold nothing, no log. */
	void (*warn)(const char *line);
	/*
	 * Once, when the guard has taken the policy: what a person should know (sentence ends
	 * without a newline), the warnings, one per line, and whether log and events are written.
	 * On the loop's thread; NULL: nobody waits for it.
	 */
	void (*ready)(void *user, const char *sentence, const char *warnings, bool logs);
	/*
	 * Instead of a return from agent_run(): a thread hangs in a dead filesystem, for which
	 * libuv would wait at exit for ever. Tells e, which the log may not have, and calls
	 * _exit().
	 */
	void (*stuck)(void *user, enum agent_end end, const struct err *e)
		__attribute__((noreturn));
	void *user;
};

/* The key of its job; NULL: it is in none. */
static inline const char *agent_job_key(const struct agent_config *c)
{
	return c->job ? c->job->key : NULL;
}

/* What it is on this node. */
struct node_self {
	const char *host;
	const char *name; /* in the spool: the host, as far as it is a name */
	int program_fd;	  /* a copy of this program to start others from (node/selfcopy.h) */
	uint64_t nofile;  /* soft limit of descriptors of what is started */
};

/* As people call the node. */
static inline const char *agent_node_name(const struct agent_config *c,
					  const struct node_self *self)
{
	return c->node_name ? c->node_name : self->host;
}

#endif
