/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_RETRY_H
#define TENURE_SCHED_RETRY_H

/*
 * What becomes of a task after an attempt has ended: done, failed, or again at time T. Pure.
 *
 * A back-off comes after every retry_every-th counted attempt; before that a retry may start at
 * once. An attempt that a newcomer, a preemption, a lost node or the owner's order ended, or that
 * could not be begun, says nothing about the task and does not count as a try. Attempts that end at
 * once (fast_ms), one after another (fast_limit), mean that something is wrong which trying again
 * does not mend: then the lane, or the batch that has none, is to be paused. The streak is counted
 * where the pause would be, so a lane whose tasks fail one after the other is stopped before all
 * have been wasted. A pause ends the streak, because who ends the pause has mended something; what
 * had begun before it says nothing about that. Tasks that retry for ever are never paused for it.
 * Their back-off is what protects the node, and where it is shorter, or there is none, they wait a
 * second after such an attempt.
 */

#include <stdbool.h>
#include <stdint.h>

#define RETRY_FOREVER UINT32_MAX

enum end_kind {
	END_EXIT,      /* code is the exit status */
	END_SIGNAL,    /* code is the signal */
	END_OOM,       /* ran out of GPU memory; code is the exit status */
	END_TIMEOUT,   /* its own time limit */
	END_TAKEN,     /* a newcomer took its device before it could start */
	END_PREEMPTED, /* yielded: requeue */
	END_LIFETIME,  /* its agent's lifetime is over: requeue */
	END_EXPIRED,   /* the job of an engine that its agent ran in ends: requeue */
	END_NODE_LOST, /* the node rebooted, or its claim expired */
	END_GANG,      /* another rank of its gang ended, or could not start: requeue */
	END_REFUSED,   /* nothing of it ran: its process could not be had */
	END_STOPPED,   /* by the owner */
	END_MAX
};

struct retry_policy {
	uint32_t retries;     /* after the first attempt; RETRY_FOREVER */
	uint32_t retry_every; /* counted attempts before a back-off; 0 = no back-off */
	uint64_t backoff_ms;
	uint32_t oom_permille;	/* memory of the next attempt after END_OOM: 1500 is x1.5; 0 = as is
				 */
	uint64_t oom_cap_bytes; /* it never grows beyond that: what a device here has; 0 = not
				 * known: then it does not grow */
	bool no_requeue;	/* a lost node or a preemption is a failure */
	uint64_t fast_ms;	/* a failure within this is one "at once"; 0 = never pause */
	uint32_t fast_limit;	/* so many in a row pause; 0 = never */
	uint64_t limit_ms;	/* of each attempt, to be told; 0 = none */
};

/* Kept by the caller for each task, and written into its record. */
struct retry_state {
	uint32_t tries;	    /* counted attempts that failed; of this task */
	uint64_t mem_bytes; /* what the next attempt asks for, per device */
};

/* Kept by the caller for each lane, and for each task without a lane. */
struct retry_streak {
	uint32_t fast;	    /* failures at once, in a row */
	uint64_t paused_ns; /* monotonic, when they led to a pause last; 0 = never */
};

struct retry_end {
	enum end_kind kind;
	int code;
	uint64_t ran_ms;   /* from the start of the command to its end */
	uint64_t begun_ns; /* monotonic, when the attempt was claimed; 0 = before the caller was */
	const char *why; /* in place of the phrase of an exit, or of what does not count; or NULL */
	bool never_ran;	 /* so that a task without requeue waits again all the same */
	bool last;	 /* it does not wait again: its owner has stopped it, or it runs on */
};

enum retry_what { RETRY_DONE, RETRY_FAILED, RETRY_AGAIN, RETRY_CANCELLED, RETRY_WHAT_MAX };

#define RETRY_TEXT_MAX 400

struct retry_verdict {
	enum retry_what what;
	bool counted;
	bool pause;		   /* pause the lane, or the batch that has none; text says why */
	uint64_t at_ns;		   /* RETRY_AGAIN: monotonic, not before this */
	char text[RETRY_TEXT_MAX]; /* "out of GPU memory (exit code 1), try 2 of 4; next in 10m" */
};

/* 3 attempts before a back-off of 10 minutes, no retries; 3 failures within 10 s pause. */
void retry_defaults(struct retry_policy *p);

/* Updates state and streak; now_ns is monotonic, when the attempt ended. */
struct retry_verdict retry_decide(const struct retry_policy *p, struct retry_state *state,
				  struct retry_streak *streak, const struct retry_end *end,
				  uint64_t now_ns);

/* "exit", "signal", "oom", "timeout", "taken", "preempted", "lifetime", "expired", "node-lost",
 * "gang", "refused", "stopped" */
const char *end_kind_name(unsigned int kind);

#endif
