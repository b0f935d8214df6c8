/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_ENDS_H
#define TENURE_CLI_TASK_ENDS_H

/*
 * How elements of a batch have ended, as the journals of the agents that ran them tell. Reads all
 * of a batch's journals each time: not for a loop.
 */

#include "spool/batch.h"

struct element_end {
	uint64_t element;
	struct spool_end end; /* attempt 0: it was stopped before it ran */
	char agent[NAME_AGENT_MAX + 1];
};

/* The last end of an element; false: none is told. */
bool ends_find(const struct spool *sp, uint64_t id, uint64_t element, struct element_end *ret);

struct element_ends {
	size_t n;
	struct element_end *ends; /* by element; the caller frees them */
};

/* Of those that have failed, and do not wait or run again. 0 or negative. */
int ends_failed(const struct spool *sp, const struct task_name *batch, struct element_ends *ret,
		struct err *e);

/* "exit code 3", "signal 9". buf: ENDS_HOW_MAX. */
#define ENDS_HOW_MAX 32
char *ends_format_how(unsigned int exit, char buf[ENDS_HOW_MAX]);

/* "42.3 (exit code 2), 42.7 (signal 9) and 4 more". The caller frees it. */
char *ends_format_failed(uint64_t id, const struct element_ends *failed);

#endif
