/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_ALLOC_LIVE_H
#define TENURE_CLI_ALLOC_LIVE_H

/* The allocations of an instance that wait or run, as the commands about them see them. */

#include <jansson.h>

#include "alloc/alloc.h"
#include "cli/cmd.h"
#include "cli/task/select.h"

struct live_alloc {
	struct scan_task task;
	enum alloc_kind kind;
	char pool[ALLOC_POOL_MAX]; /* that it has for itself; "" */
	unsigned int node_gpus;	   /* of the node of that pool, which nobody else gets; 0 */
	struct alloc_state state;  /* what its keeper has said last */
};

struct live_allocs {
	size_t n;
	struct live_alloc *all; /* in the planner's order */
};

/* 0 or negative; live_allocs_clear() in each case. */
int live_allocs_read(const struct spool *sp, struct live_allocs *ret, struct err *e);
void live_allocs_clear(struct live_allocs *l);
/* By its name or its id: the entry; NULL, and e says which there are. */
const struct live_alloc *live_allocs_find(const struct live_allocs *l, const char *word,
					  struct err *e);
bool live_alloc_runs(const struct live_alloc *a);

/* How many it has, or waits for. */
unsigned int live_alloc_gpus(const struct live_alloc *a);
/* How many nobody else gets because of it: the same, or all of its own node. */
unsigned int live_alloc_counts(const struct live_alloc *a);
/* "GPU 0,1 of node7", "2 GPUs of node7": what it has. The caller frees it. */
char *live_alloc_has(const struct live_alloc *a);
/* The words of its last order, cut; "": there is none. The caller frees it. */
char *live_alloc_program(const struct spool *sp, const struct live_alloc *a);
/* docs/json.md; a new reference. */
json_t *live_alloc_json(const struct spool *sp, const struct live_alloc *a);

/* The limits of the settings. */
struct alloc_limits live_limits(const struct settings *s);
/* Whether so many GPUs more are within them, beside those jobs of an engine: alloc_check_limits().
 */
int live_allocs_check(const struct live_allocs *l, const struct alloc_job *jobs, size_t n_jobs,
		      const struct alloc_limits *limits, enum alloc_kind kind, unsigned int gpus,
		      struct alloc_refusal *ret, struct err *e);

#endif
