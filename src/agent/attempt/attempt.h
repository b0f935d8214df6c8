/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_ATTEMPT_H
#define TENURE_AGENT_ATTEMPT_ATTEMPT_H

/*
 * One attempt of one task on this node, from the plan's START until its end is in the spool.
 *
 *	claim in the spool -> lease of its devices -> shim -> grant -> GO -> runs -> tree gone
 *	   -> devices free -> filed: done, failed, or waiting again
 *
 * Each step waits for the one before it; what can fail leads to the last one, with the reason, so
 * that every start ends in exactly one of attempt_place.over's outcomes.
 */

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "agent/attempt/job.h"
#include "agent/attempt/sweep.h"
#include "agent/node/guardlink.h"
#include "agent/node/view.h"
#include "agent/queue/heartbeat.h"
#include "agent/queue/lanes.h"
#include "agent/queue/recovery.h"
#include "agent/queue/spooler.h"
#include "agent/report/eventlog.h"
#include "sched/retry.h"
#include "sched/types.h"
#include "spool/batch.h"
#include "task/launch.h"

#define ATTEMPT_STOPPED_TEXT "stopped by its owner"

enum attempt_state {
	AT_CLAIMING,
	AT_LEASING,  /* the guard was asked for the devices */
	AT_STARTING, /* the shim was asked for */
	AT_GRANTING, /* the guard is told of the shim */
	AT_RUNNING,
	AT_FREEING, /* the tree is gone; the devices are not free yet */
	AT_COMMITTING,
	AT_STATE_MAX
};

struct attempt;

/* What is the same for all runs of an agent. */
struct attempt_place {
	uv_loop_t *loop;
	struct spooler *spooler;
	struct guardlink *link;
	const struct sweep_place *sweeping;
	struct eventlog *eventlog;
	const struct view *view;
	struct mother mother;
	int program_fd;
	const char *instance, *node, *run_dir;
	struct login login;
	const char *key; /* of the spool: names_token() */
	const char *spool_dir, *agent;
	uint64_t beat_ms;
	const struct heartbeat *heartbeat; /* what shims promise: heartbeat_promise_ms() */
	uint64_t log_limit;
	const char *cgroup; /* for those of tasks; NULL: none */
	bool by_uuid;	    /* CUDA_VISIBLE_DEVICES */
	int file_code;	    /* why an end could not be written last; 0 */
	void *user;
	/* The attempt is over and r is freed after this. again: it waits again, by verdict. */
	void (*over)(void *user, struct attempt *r, const struct retry_verdict *verdict);
	/* Its tree and devices are free and it has succeeded, which is only to be written down:
	 * what comes next can be planned, and is claimed by the same waking of the spooler. */
	void (*succeeded)(void *user, struct attempt *r);
	/* It runs since now. */
	void (*started)(void *user, struct attempt *r);
	/* Its owner has stopped it while it was being claimed, and it has its claim now. */
	void (*stopped)(void *user, struct attempt *r);
	/* What its start met of lanes. */
	void (*lanes)(void *user, const struct lanes_met *met);
	/* attempt_devices() is another now: a guard that is new may count them otherwise. */
	void (*moved)(void *user, struct attempt *r);
	/* The streak of failures of its lane, or of the task where it has none. */
	struct retry_streak *(*streak)(void *user, const struct attempt *r);
};

/* All as the plan says: edits is the version of the task that it knows, and another one is not
 * started. The slots of devices are those of the view. */
struct attempt *attempt_start(struct attempt_place *place, struct sched_ref ref, uint64_t edits,
			      struct devset devices);
/* What an earlier agent started, as recovery tells. The spec and the devices in a are r's from now
 * on; devices: those of them that the view shows. */
struct attempt *attempt_adopt(struct attempt_place *place, struct adoptee *a,
			      struct devset devices);

/* kind: END_STOPPED, END_PREEMPTED, END_TAKEN. grace_ms UINT32_MAX: as the task says. Where its end
 * is being written it may wait again all the same: the caller sees to that, commit_cancel(). */
void attempt_stop(struct attempt *r, enum end_kind kind, uint32_t grace_ms, const char *why);
/* What else is ended when it is over, SWEEP_BIT()s, besides what the task itself says. */
void attempt_sweep(struct attempt *r, unsigned int what);
unsigned int attempt_sweep_of(enum spec_clean clean);
/* The guard's words on its lease. */
void attempt_on_promise(struct attempt *r, const struct msg_lease_reply *m);
void attempt_on_granted(struct attempt *r, const struct msg_lease_reply *m);
void attempt_on_taken(struct attempt *r, const struct msg_lease_taken *m);
void attempt_on_unleased(struct attempt *r, const struct msg_unleased *m);
void attempt_on_use(struct attempt *r, const struct msg_lease_use *m);
/* The guard is a new one, or its line was down: tell it again. */
void attempt_on_guard(struct attempt *r);
/* It runs, and the guard could not take its lease: true until attempt_lease_again() has told it. */
bool attempt_wants_lease(const struct attempt *r);
void attempt_lease_again(struct attempt *r);

struct sched_ref attempt_ref(const struct attempt *r);
struct devset attempt_devices(const struct attempt *r);
enum attempt_state attempt_state(const struct attempt *r);
/* 0: it was claimed; else it never was ours: CLAIM_LOST, CLAIM_REFUSED or negative. */
int attempt_claim_code(const struct attempt *r);
/* NULL before it is claimed. */
const struct spool_spec *attempt_spec(const struct attempt *r);
/* NULL before it is claimed. */
const struct claim *attempt_claim(const struct attempt *r);
/* Its owner has stopped it, as far as that came before its end was being written. */
bool attempt_was_stopped(const struct attempt *r);
/* It had been given to another node; what came of it here changes nothing. */
bool attempt_was_late(const struct attempt *r);
/* After `over`: what the next attempt asks for, in bytes per GPU; 0: what its task or batch says.
 */
uint64_t attempt_next_memory(const struct attempt *r);
/* Monotonic; 0: not known. */
uint64_t attempt_started_ns(const struct attempt *r);
struct lease_id attempt_lease_id(const struct attempt *r);
json_t *attempt_report(const struct attempt *r);

/* Let go of it without a word to anybody: it runs on. */
struct attempt *attempt_forget(struct attempt *r);

#endif
