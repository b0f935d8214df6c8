/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_ATTEMPT_H
#define TENURE_AGENT_ATTEMPT_ATTEMPT_H

/*
 * An attempt: something that is run once under a lease, from the plan's START until its end is
 * recorded. There are two kinds of it, tasks (task.h) and the idle workload (workload.h).
 *
 *	claim in the spool -> lease of its devices -> shim -> grant -> GO -> runs -> tree gone
 *	   -> devices free -> committed: done, failed, or requeued
 *
 * Each step waits for the one before it; what can fail leads to the last one, with the reason, so
 * that every start ends in exactly one of ops->over's outcomes. What moves it on is one of the
 * events below; what each of them means in each state is one table, in steps.c. All of it is on the
 * loop.
 */

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "agent/attempt/device_use.h"
#include "agent/attempt/launch.h"
#include "agent/attempt/sweep.h"
#include "agent/node/config.h"
#include "agent/node/guardlink.h"
#include "agent/node/view.h"
#include "agent/queue/lanes.h"
#include "agent/queue/node_watch.h"
#include "agent/queue/recovery.h"
#include "agent/queue/spooler.h"
#include "agent/report/eventlog.h"
#include "sched/retry.h"
#include "sched/types.h"
#include "task/shim_client.h"
#include "task/shproto.h"

#define ATTEMPT_STOPPED_TEXT "stopped by its owner"

enum attempt_state {
	AT_CLAIMING,
	AT_LEASING,   /* the guard was asked for the devices */
	AT_LAUNCHING, /* the shim is asked for, until the fork server takes that */
	AT_PREPARING, /* the shim comes up */
	AT_NOTING,    /* the shim is noted in the claim, before anything of the task runs */
	AT_GRANTING,  /* the guard is told of the shim; then GO, and the shim's word that it runs */
	AT_MUSTERED,  /* a rank of a gang that has all it needs, and waits for those of other nodes
		       */
	AT_RUNNING,
	AT_STOPPING, /* the shim was told to stop */
	AT_LOOKING,  /* the connection to the shim broke, or there was none: what became of it? */
	AT_ORPHANS,  /* the shim was killed: what is left of its tree is being ended */
	/* The tree is gone, or never was. */
	AT_ENDED,    /* within one event only */
	AT_SWEEPING, /* what else is to end with it */
	AT_FREEING,  /* the devices are not free yet */
	AT_COMMITTING,
	AT_UNCOMMITTED, /* the end could not be recorded, and is tried again */
	AT_OVER,
	AT_STATE_MAX
};

/* What happens to an attempt, and what comes with it as attempt_event()'s `with`; else NULL. */
enum attempt_event {
	ON_CLAIMED,
	ON_CLAIMED_BARE, /* the same, and it needs no devices */
	ON_UNCLAIMED,	 /* it never was ours: a->verdict */
	ON_MUSTERED,	 /* nothing is missing, but it is a rank of a gang */
	ON_GO,		 /* struct text_list: all ranks are; its environment for that */
	ON_DOOMED,	 /* it is not to be started, or cannot be: a->why */
	/* The guard: struct msg_lease_reply. */
	ON_PROMISED,
	ON_ALL_PROMISED,
	ON_LEASE_REFUSED,
	ON_GRANTED,
	ON_GRANT_REFUSED,
	ON_GUARD_NEW, /* or its line was down */
	ON_FREED,     /* all devices are */
	/* The shim. */
	ON_CONNECTED,	/* int: the connection, which is taken over */
	ON_PREPARED,	/* struct shmsg_status */
	ON_STARTED,	/* struct shmsg_status */
	ON_NEVER_BEGAN, /* it waits for a GO that its agent did not say */
	ON_DENIED,	/* char[]: nothing was started for us */
	ON_HUNG_UP,
	ON_ENDED,	 /* struct task_end */
	ON_FOUND,	 /* struct adopted: it lives */
	ON_FOUND_NOBODY, /* it was killed */
	/* The note in the claim. */
	ON_NOTED,
	ON_NOTE_FAILED, /* struct err */
	/* The end. */
	ON_SWEEP,
	ON_SWEPT,
	ON_GIVE_BACK,
	ON_COMMIT,
	ON_COMMITTED,
	ON_COMMIT_FAILED, /* struct err */
	ON_TIMER,
	ON_STOP, /* a->end_kind, a->why, a->stop_grace_ms */
	ON_MAX
};

struct attempt;
struct resize;

/* How a change of its devices ended, while it runs (resize.h). */
enum resize_end {
	RESIZE_GROWN,
	RESIZE_REFUSED, /* it could not have one more: resize->why */
	RESIZE_SHRUNK,
	RESIZE_KEPT, /* it could not give one back: resize->why, or "": it uses it yet */
};

struct attempt_step {
	enum attempt_state next;
	void (*action)(struct attempt *a, const void *with); /* NULL: it means nothing there */
};

/* What is different about a kind of attempts. A NULL slot: there is nothing to do. */
struct attempt_ops {
	/* What is its own in what its shim is told. */
	void (*describe)(const struct attempt *a, struct launch_with *w);
	/* Write down who its shim is; ON_NOTED or ON_NOTE_FAILED comes of it. waits: it has not
	 * begun, and GO comes after. NULL: there is no place for that. */
	void (*note)(struct attempt *a, bool waits);
	/* The note failed, so late that only it can tell whether the claim is ours still. */
	void (*note_later)(struct attempt *a, const struct err *e);
	/* Its shim could not be asked for. */
	void (*launch_failed)(struct attempt *a, int code, const struct err *e);
	/* A new guard cannot take the lease of what runs. NULL: it is asked again. */
	void (*lease_failed)(struct attempt *a, const struct msg_lease_reply *m);
	/* a->devices is another now: a new guard may count them otherwise. */
	void (*moved)(struct attempt *a);
	/* Somebody came before it, or beside it where it is preemptible. */
	void (*taken)(struct attempt *a, const struct msg_lease_taken *m);
	/* It is a rank of a gang: before GO it waits for ON_GO. NULL: it never is. */
	bool (*waits_for_ranks)(const struct attempt *a);
	/* It runs since a->started_ns. */
	void (*started)(struct attempt *a, pid_t task_pid);
	/* Nobody can tell now what became of its shim; it is looked for again. */
	void (*unseen)(const struct attempt *a, const struct err *e);
	/* Record the end; ON_COMMITTED or ON_COMMIT_FAILED comes of it. */
	void (*commit)(struct attempt *a);
	/* It is freed after this. */
	void (*over)(struct attempt *a);
	/* Something has happened to it: its state, its shim. */
	void (*changed)(struct attempt *a);
	bool requeues; /* what makes room is requeued, which its shim writes down */
	bool by_index; /* CUDA_VISIBLE_DEVICES has indices, whatever the setting says */
	bool sweeps;   /* what else of its owner's ends with it, where it was stopped */
};

/* Who has tasks tried: agent/dispatch.c. */
struct attempt_owner {
	/* It is over and a is freed after this. again: it is requeued, by verdict. */
	void (*over)(void *user, struct attempt *a, const struct retry_verdict *verdict);
	/* Its tree and devices are free and it has succeeded, which is only to be written down:
	 * what comes next can be planned, and is claimed by the same waking of the spooler. */
	void (*succeeded)(void *user, struct attempt *a);
	/* What it has used is about to be written down. */
	void (*closing)(void *user, struct attempt *a);
	/* It is AT_MUSTERED now. */
	void (*mustered)(void *user, struct attempt *a);
	/* It runs since now. */
	void (*started)(void *user, struct attempt *a);
	/* Its owner has stopped it while it was being claimed, and it has its claim now. */
	void (*stopped)(void *user, struct attempt *a);
	/* What its start met of lanes. */
	void (*lanes)(void *user, const struct lanes_met *met);
	/* a->devices is another now. */
	void (*moved)(void *user, struct attempt *a);
	/* It has one device more or less, or that could not be. */
	void (*resized)(void *user, struct attempt *a, enum resize_end end);
	/* The streak of failures of its lane, or of the task where it has none. */
	struct retry_streak *(*streak)(void *user, const struct attempt *a);
};

/* What is the same for all attempts of an agent. */
struct attempt_place {
	const struct agent_config *c;
	const struct node_self *self;
	uv_loop_t *loop;
	struct spooler *spooler;
	struct guardlink *link;
	const struct sweep_place *sweeping;
	struct eventlog *eventlog;
	const struct view *view;
	const struct node_watch *node_watch; /* what shims promise: node_watch_fence_timeout_ms() */
	struct fork_server fork_server;
	struct login login;
	const char *run_dir, *spool_dir;
	const char *key;       /* of the spool: names_token() */
	const char *cgroup;    /* for those of tasks; NULL: none */
	int commit_code;       /* why an end could not be recorded last; 0 */
	struct attempt *tasks; /* that run, or are about to; the last one first */
	const struct attempt_owner *owner;
	void *user;
};

struct attempt {
	struct attempt *next; /* of place->tasks */
	const struct attempt_ops *ops;
	const struct attempt_step (*steps)[ON_MAX];
	struct attempt_place *place;
	void *own; /* its kind's */
	struct sched_ref ref;
	struct lease_id lease; /* of this attempt alone; zeros before it is claimed */
	enum attempt_state state;
	enum attempt_state shown; /* the last one that people are told of: attempt_state_name() */
	uv_timer_t timer;	  /* of the state */
	uint64_t retry_ms;	  /* attempt_later(); 0: not yet in this state */
	/* The claim. */
	struct claim claim;	 /* path "": not yet */
	uint64_t claim_began_ns; /* by clock_boot_ns() */
	int claim_code;		 /* 0; CLAIM_LOST, CLAIM_REFUSED or negative: never ours */
	struct task_spec *spec;	 /* NULL before it is claimed */
	unsigned int tries;	 /* failures that count; with this one when it is over */
	char log_path[SPOOL_PATH_MAX];
	int log_fd;
	bool adopted;	/* an earlier agent started it */
	bool elsewhere; /* as in struct adoptee */
	bool log_away;	/* it has none in the spool */
	/* The shim. */
	char token[TASK_TOKEN_MAX];
	struct connection *conn; /* NULL: not connected */
	struct proc_id shim;
	struct text_list go_env;    /* of ON_GO, for its shim */
	unsigned int go_port;	    /* of rank 0 of a gang: where the others come; 0: it is none */
	bool port_taken;	    /* somebody else had it when the rank had failed */
	uint64_t started_ns;	    /* monotonic; 0: it does not run, or nobody knows since when */
	char denied[TASK_TEXT_MAX]; /* why there is none; "": there is */
	struct orphan_ender *orphans;
	struct spool_job *note; /* not done yet; the spooler's */
	/* The lease. */
	struct devset devices;
	struct text_list uuids; /* of its devices: what they are, whatever their slots are now */
	char devices_text[SHPROTO_DEV_MAX];
	struct devset promised; /* of which the guard said so, and that are not free yet */
	bool leased, freed;
	/* It runs, and a new guard was told of its lease. */
	struct devset told_slots; /* that its devices have, as far as it has answered */
	unsigned int n_answers;	  /* one for each of them */
	bool unleased;		  /* it could not take it */
	struct use use;
	bool use_closed;       /* nothing is added to its meter any more */
	struct resize *resize; /* how that changes while it runs (resize.h); NULL: it does not */
	/* The end. */
	enum end_kind end_kind; /* what we ended it for; END_MAX: it ended by itself */
	uint32_t stop_grace_ms; /* the shortest that it was told; UINT32_MAX: its own */
	char why[RECORD_REASON_MAX];
	bool has_reason;	  /* why is this in words: */
	struct dev_reason reason; /* whose user's name may have been unknown then */
	struct task_end end;
	bool stopped_late; /* its owner has stopped it while the end was being recorded */
	bool turned_away;  /* it could not be started, for nothing that it did */
	bool failed;	   /* by itself, and not for want of memory */
	char fault[64];	   /* then what its log says has failed of its device; or "" */
	bool followed;	   /* a command is due for its end */
	bool late;	   /* it had been given to another node: its end changes nothing */
	char uncommitted[RECORD_REASON_MAX]; /* why the end could not be recorded so far; or "" */
	struct retry_verdict verdict;
	uint64_t next_memory; /* that the next attempt asks for, per GPU; 0: as it is said */
	unsigned int sweep;   /* SWEEP_BIT()s that were asked for with its stop */
	struct subcommand *sweeping;
	bool swept; /* that was begun */
	/* That its owner has stopped it is written into its claim, too. */
	struct {
		bool elsewhere; /* what is stopped here is not what has the task now */
		char unwritten[ERR_TEXT_MAX]; /* why it could not be written; or "" */
	} stop;
};

/* In AT_CLAIMING. steps: attempt_steps (steps.h). */
struct attempt *attempt_new(struct attempt_place *place, const struct attempt_ops *ops,
			    const struct attempt_step (*steps)[ON_MAX]);
/* Its memory, as soon as the loop has given back its handle. */
void attempt_free(struct attempt *a);

/* Takes it as far as it leads. */
void attempt_event(struct attempt *a, enum attempt_event ev, const void *with);
/* ON_TIMER after a second, twice as long each time in this state, and last_ms at most. True: it is
 * the first time. */
bool attempt_later(struct attempt *a, uint64_t last_ms);
/* ON_TIMER after so long. */
void attempt_soon(struct attempt *a, uint64_t ms);

/* kind: END_STOPPED, END_PREEMPTED, END_TAKEN. grace_ms UINT32_MAX: as it says itself. Where its
 * end is being recorded it may be requeued all the same: the caller sees to that,
 * cancel_waiting(). */
void attempt_stop(struct attempt *a, enum end_kind kind, uint32_t grace_ms, const char *why);
/* The same for what the guard says, with the name of the user that it speaks of. */
void attempt_stop_for(struct attempt *a, enum end_kind kind, const struct dev_reason *why);
/* a->why, with names that have become known since it was said. */
const char *attempt_why(struct attempt *a);
/* Of a state that people are told of; else NULL. */
const char *attempt_state_name(enum attempt_state state);

#endif
