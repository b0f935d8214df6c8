/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TESTS_ATTEMPT_TASK_H
#define TENURE_TESTS_ATTEMPT_TASK_H

/*
 * One attempt of a task in the world of attempt_world.h, the words that its guard, shim and owner
 * say to it, and what it tells the one that it belongs to.
 *
 *	at_begin()
 *	at_start(gpus)			or one that brings it to a state, at_start_running()
 *	at_promise(), at_exit(), ...
 *	at_end()
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/attempt/attempt.h"
#include "attempt_world.h"

extern struct attempt *attempt; /* NULL: it is over */

/* What it has told. */
struct told {
	struct retry_streak streak;
	struct retry_verdict verdict; /* with which it was over */
	unsigned int n_over, n_succeeded, n_mustered, n_started, n_stopped, n_moved, n_resized;
	enum resize_end resized; /* the last one */
	bool was_stopped;
	int claim_code;
};

extern struct told told;

void at_begin(void);
void at_end(void);

/* Task 7 with the first devices. */
void at_start(unsigned int gpus);
/* The same with one device, up to that state. */
void at_start_leasing(void);
void at_start_starting(void);
void at_start_noting(void);
void at_start_granting(void);
void at_start_running(void);
void at_start_freeing(void);
void at_start_committing(void);
/* As its report calls it. */
void at_expect(const char *state);

/* The guard: code 0, or why not. */
void at_promise(int slot, int code);
void at_grant(int code);
void at_unlease(int slot);
void at_take(int slot);
/* The shim: the task has ended so, or never began. */
void at_exit(int code);
void at_cancel(void);
/* Its owner; and all that has to come of that. */
void at_stop(uint32_t grace_ms);
void at_finish_stopped(void);

#endif
