/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_VIEW_H
#define TENURE_CLI_TASK_VIEW_H

/*
 * How elements of a batch have ended, as the journals of the agents that ran them tell. Reads all
 * of a batch's journals each time: not for a loop.
 */

#include "cli/task/select.h"
#include "spool/batch.h"

struct element_end {
	uint64_t element;
	struct spool_end end; /* attempt 0: it was stopped before it ran */
	char agent[NAME_AGENT_MAX + 1];
};

/* The last end of an element; false: none is told. */
bool taskview_last_end(const struct spool *sp, uint64_t id, uint64_t element,
		       struct element_end *ret);

struct element_ends {
	size_t n;
	struct element_end *ends; /* by element; the caller frees them */
};

/* Of those that have failed, and do not wait or run again. 0 or negative. */
int taskview_failed(const struct spool *sp, const struct task_name *batch, struct element_ends *ret,
		    struct err *e);

/* "exit code 3", "signal 9". buf: TASKVIEW_EXIT_MAX. */
#define TASKVIEW_EXIT_MAX 32
char *taskview_format_exit(unsigned int exit, char buf[TASKVIEW_EXIT_MAX]);

/* "42.3 (exit code 2), 42.7 (signal 9) and 4 more". The caller frees it. */
char *taskview_format_failed(uint64_t id, const struct element_ends *failed);

/* ---- how it stands ---- */

/* What an element of a batch is doing; place as of select_one(). BATCH_WAITING, ... or negative.
 */
int taskview_element_state(const struct spool *sp, const struct task_place *place, uint64_t element,
			   struct err *e);

/* How the elements of a batch stand; active: select_all(). 0 or negative. */
int taskview_counts(const struct spool *sp, const struct task_name *batch,
		    const struct task_set *active, struct batch_counts *ret, struct err *e);
/* Of a batch: whether any of its elements has been started, and how they stand. */
bool taskview_has_begun(const struct spool *sp, const struct task_name *n,
			struct batch_counts *ret);
json_t *taskview_counts_json(const struct batch_counts *n);
/* The agent that runs it; "" where that is not known. Of an element only its file says so. */
void taskview_agent_of(const struct spool *sp, const struct task_name *n,
		       char agent[NAME_AGENT_MAX + 1]);

/* "pending", "running", "paused", "done", ... */
const char *taskview_state(const struct task_name *n, enum spool_dir dir);

#endif
