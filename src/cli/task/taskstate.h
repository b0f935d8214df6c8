/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_TASKSTATE_H
#define TENURE_CLI_TASK_TASKSTATE_H

/* How tasks, batches and their elements stand, from names of files and journals. */

#include "cli/task/select.h"
#include "spool/batch.h"
#include "spool/gang.h"

enum taskstate {
	TASKSTATE_PENDING,
	TASKSTATE_PAUSED,
	TASKSTATE_RUNNING,
	TASKSTATE_DONE,
	TASKSTATE_FAILED,
	TASKSTATE_CANCELLED,
	TASKSTATE_MAX
};

/* Of a task, by its name and where its file is. */
enum taskstate taskstate_of(const struct task_name *n, enum spool_dir dir);
/* A batch waits as long as an element of it does (taskstate_take_counts()); one that is a gang runs
 * once all its ranks do. */
void taskstate_of_gang(uint64_t id, const struct gangs_read *gangs, enum taskstate *state);
/* "pending", "paused", "running", "done", "failed", "cancelled" */
const char *taskstate_name(unsigned int state);

/*
 * ---- how elements of a batch have ended, as the journals of the agents that ran them tell ----
 *
 * All of a batch's journals are read each time: not for a loop.
 */

struct element_end {
	uint64_t element;
	struct spool_end end; /* attempt 0: it was stopped before it ran */
	char agent[NAME_AGENT_MAX + 1];
};

/* The last end of an element; false: none is told. */
bool taskstate_last_end(const struct spool *sp, uint64_t id, uint64_t element,
			struct element_end *ret);

struct element_ends {
	size_t n;
	struct element_end *ends; /* by element; the caller frees them */
};

/* Of those that have failed, and do not wait or run again. 0 or negative. */
int taskstate_failed(const struct spool *sp, const struct task_name *batch,
		     struct element_ends *ret, struct err *e);

/* "exit code 3", "signal 9". buf: TASKSTATE_EXIT_MAX. */
#define TASKSTATE_EXIT_MAX 32
/*
 * Why a task has failed, where its exit code or signal, as it stands in the name of its file, does
 * not tell: it could not be started, its time was over, its GPU's memory was full. From the last
 * record of the file, without which try it was; "" where the code says all. Reads the file. Returns
 * buf.
 */
char *taskstate_why_failed(const struct spool *sp, const struct task_name *n,
			   char buf[RECORD_REASON_MAX]);
char *taskstate_format_exit(unsigned int exit, char buf[TASKSTATE_EXIT_MAX]);

/* "42.3 (exit code 2), 42.7 (signal 9) and 4 more". The caller frees it. */
char *taskstate_format_failed(uint64_t id, const struct element_ends *failed);

/* ---- how they stand ---- */

/* What an element of a batch does; place as of select_one(). BATCH_WAITING, ... or negative. */
int taskstate_element_state(const struct spool *sp, const struct task_place *place,
			    uint64_t element, struct err *e);

/* How the elements of a batch stand; active: select_all(). 0 or negative. */
int taskstate_counts(const struct spool *sp, const struct task_name *batch,
		     const struct task_set *active, struct batch_counts *ret, struct err *e);
/* Of a batch: whether any of its elements has been started, and how they stand. */
bool taskstate_has_begun(const struct spool *sp, const struct task_name *n,
			 struct batch_counts *ret);
/* Nothing of it waits, and something runs: it does. */
void taskstate_take_counts(enum taskstate *state, const struct batch_counts *n);
/* For how many a task that does not run counts among what waits: its elements, as far as they are
 * known (NULL: not), or itself. */
uint64_t taskstate_waiting(const struct task_name *n, const struct batch_counts *counts);
json_t *taskstate_counts_json(const struct batch_counts *n);
/* Who runs it, as the claim in its file says. False: it is not known. */
bool taskstate_claimer(const struct spool *sp, const struct task_name *n, struct claimer *ret);
/* The agent that does; "" where that is not known. Of an element only its file says so. */
void taskstate_agent_of(const struct spool *sp, const struct task_name *n,
			char agent[NAME_AGENT_MAX + 1]);

#endif
