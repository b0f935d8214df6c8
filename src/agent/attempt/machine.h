/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_MACHINE_H
#define TENURE_AGENT_ATTEMPT_MACHINE_H

/* What the files of a run share: attempt.c begins it and answers for it, lease.c speaks with the
 * guard, shim.c with the shim, runend.c files its end. Nobody else includes this. */

#include "agent/attempt/attempt.h"
#include "agent/attempt/orphans.h"
#include "agent/attempt/use.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "task/talk.h"

#define RETRY_FIRST_MS 1000  /* a file that could not be written is tried again after this, ... */
#define RETRY_LAST_MS  60000 /* ... twice as long each time, and this at most */

/* A connection to a shim, and its handle, which the loop gives back later than we let go of it. */
struct connection {
	uv_poll_t poll;
	int fd;
	struct attempt *attempt; /* NULL: let go of */
};

struct attempt {
	struct attempt_place *place;
	struct sched_ref ref;
	struct devset devices;
	struct text_list uuids; /* of its devices: what they are, whatever their slots are now */
	enum attempt_state state;
	struct claim claim;
	uint64_t claim_began_ns; /* by clock_boot_ns() */
	int claim_code;		 /* attempt_claim_code() */
	struct spool_spec *spec;
	unsigned int tries; /* counted failures before this attempt */
	char token[TASK_TOKEN_MAX];
	char log_path[SPOOL_PATH_MAX];
	char devices_text[SHPROTO_DEV_MAX];
	struct devset promised; /* devices of which the guard said so, and that are not free yet */
	int log_fd;
	struct connection *conn; /* NULL: not connected */
	uv_timer_t timer;
	bool adopted;
	bool elsewhere; /* as in struct adoptee */
	bool log_away;	/* it has none in the spool */
	uint64_t retry_ms;
	bool looking;		      /* for its shim: what it is told waits until that is known */
	struct orphan_ender *remains; /* of a shim that was killed: they are being ended */
	char refused[TASK_TEXT_MAX];  /* why its shim could not be had; "": it could */
	struct spool_job
		*note; /* of the shim's process in the claim, not done yet; the spooler's */
	struct proc_id shim;
	uint64_t started_ns;
	struct use use;
	uint64_t next_memory; /* attempt_next_memory() */
	/* It runs, and the guard was told of its lease. */
	struct devset slots;	/* that its devices have, as far as it has answered */
	unsigned int n_answers; /* one for each of them */
	bool unleased;		/* it could not take it */
	/* The end. */
	bool leased, freed, gone;
	enum end_kind kind;	/* what we ended it for; END_MAX: it ended by itself */
	uint32_t stop_grace_ms; /* the shortest that it was told; UINT32_MAX: its own */
	char why[RECORD_REASON_MAX];
	bool stopped_late; /* its owner has stopped it while the end is being written */
	char unfiled[RECORD_REASON_MAX]; /* why the end could not be written so far; or "" */
	struct task_end end;
	struct retry_verdict verdict;
	bool late;	    /* attempt_was_late() */
	unsigned int sweep; /* SWEEP_BIT()s that were asked for with its stop */
	bool swept;
	struct sweep_process *sweeping; /* under way: what comes after the tree waits for it */
};

/* attempt.c */
/* Asks for the shim, now or as soon as it can be had. */
void attempt_launch(struct attempt *r);
/* By clock_boot_ns(): until then after its claim it can be no other agent's. */
uint64_t attempt_go_until(const struct attempt *r);
/* Tells that it is over; r is gone after it. */
void attempt_finish(struct attempt *r);

#endif
