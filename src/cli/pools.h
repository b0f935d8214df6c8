/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_POOLS_H
#define TENURE_CLI_POOLS_H

/* Pools (pool/pool.h) as commands see them: who calls a tick, and what is shown of one. */

#include <jansson.h>

#include "cli/cmd.h"
#include "pool/job.h"
#include "pool/tick.h"

/* Who ticks: this process; root is borrowed. */
struct pool_caller pools_caller(const struct cmd_ctx *ctx, const char *root);
/* The same of an agent, in the midst of a job. */
struct pool_caller pools_caller_of_agent(const struct cmd_ctx *ctx, const char *root);
/* Of whose agent nothing was heard for so long, it is to be asked whether it is there: for who does
 * not wait until it has expired (struct pool_caller). */
uint64_t pools_silent_ms(const struct cmd_ctx *ctx);

/*
 * What the jobs of an engine run: this program, or, where the engine has nodes of its own, its copy
 * on the disk of the queues, which they see, too (base/publish.h); with write it is made, without
 * it is only said where it would be. The caller frees *ret. 0 or -errno.
 */
int pools_program(const char *root, const char *engine, bool write, char **ret, struct err *e);
/* What is to be said of it; NULL: nothing. The caller frees it. */
char *pools_program_note(const char *engine, const char *program);

/* One pool, with what came of its last tick and its jobs. */
struct pool_shown {
	struct pool pool;
	struct pool_state state;
	struct pool_jobs jobs;
	char *error; /* its file is none; NULL */
	char *lost;  /* of the last job of which no agent reported, with what it printed; NULL */
	char *name, *instance;
};

struct pools_shown {
	size_t n;
	struct pool_shown *all;
};

/* All of an instance, behind what is there already (zeroed: nothing). 0 or negative;
 * pools_shown_clear() in each case. */
int pools_read(const struct spool *sp, struct pools_shown *ret, struct err *e);
void pools_shown_clear(struct pools_shown *p);
/* It was of an allocation that was given back, and has no job any more. */
bool pools_is_over(const struct pool_shown *p);
/* A new reference: docs/json.md. From: of the first of those that are shown. */
json_t *pools_json(const struct pools_shown *p, size_t from);
/* A table, the jobs under it, and what is wrong; nothing where there is no pool. One of another
 * instance than this one is called "exp1/main", and left out while it is down and has no job, as
 * is one of an allocation that was given back. */
void pools_print(const struct pools_shown *p, const char *instance);
/* "pool night (slurm): 2 wanted, 1 live, 1 waiting of 4; waits for 1 job to start" */
char *pool_sentence(const struct pool_shown *p);

/* The most GPUs on one node that some pool which is up can bring; 0: there is none. */
unsigned int pools_most_gpus(const struct spool *sp);

/* The most nodes with so many GPUs each that such a pool can have at a time. */
unsigned int pools_most_nodes(const struct spool *sp, uint64_t gpus);

/* Of a person, with all whom somebody else is busy with; most ticks are over by then. */
#define POOLS_PATIENCE_MS 2000

/* What came of a tick, which is pool_tick()'s. */
typedef void (*pools_told_fn)(const struct spool *sp, const char *name, int r,
			      const struct pool_report *report, const struct err *e);
/* One tick of each of these. Those that somebody else is busy with come last, and the caller's
 * patience is for all of them together. */
void pools_tick(const struct spool *sp, const struct text_list *names,
		const struct pool_caller *caller, pools_told_fn tell);

/* After a submission: where the instance has pools, one tick of each that no agent sees to, and
 * what it did is noted. */
void pools_tick_after_submit(const struct cmd_ctx *ctx, const struct spool *sp);

/* An agent of a pool leaves, and what it ran may have gone back to the queue: the next node is
 * asked for, in a minute at most. So many tasks have ended under it. */
void pools_tick_at_end(const struct cmd_ctx *ctx, const char *token, uint64_t n_ended);

#endif
