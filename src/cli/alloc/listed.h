/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_ALLOC_LISTED_H
#define TENURE_CLI_ALLOC_LISTED_H

/*
 * What the engines of an instance list of jobs that count against max_total_gpus: those whose names
 * begin with job_prefix (or --prefix), whoever has submitted them; where neither says one, the
 * allocations' own of this instance. The engines are those of its pools and of the settings, and
 * their answers are a minute old at most (engine/inventory.h).
 */

#include "alloc/limits.h"
#include "cli/alloc/live.h"
#include "cli/cmd.h"
#include "engine/inventory.h"
#include "spool/files.h"

#define LISTED_ENGINES_MAX 8

struct listed {
	size_t n;
	struct alloc_job *jobs; /* that count: alloc_jobs_keep() */
	bool cached;		/* some of it was not asked for just now */
	size_t n_engines;
	struct listed_engine {
		const struct engine *engine;
		struct text_list settings;
		struct inventory inventory;
	} engines[LISTED_ENGINES_MAX];
};

/* Of an engine that does not answer nothing is counted, and with tell that is said. live: of now,
 * and it outlives ret. listed_clear() after it. */
void listed_read(const struct cmd_ctx *ctx, const struct spool *sp, const struct live_allocs *live,
		 uint64_t max_age_ms, bool tell, struct listed *ret);
void listed_clear(struct listed *l);
/* A job of that pool was submitted, or cancelled: what is remembered is not so any more. */
void listed_forget(const struct cmd_ctx *ctx, const struct spool *sp, const char *pool);

#endif
