/* SPDX-License-Identifier: MIT */
#ifndef TENURE_ALLOC_LIMITS_H
#define TENURE_ALLOC_LIMITS_H

/*
 * How many GPUs may be allocated, and who has them. Those of all allocations together are counted
 * twice: by our own records, and by what the engine lists of jobs whose names begin with one word,
 * which a program that knows nothing of us may have submitted. The larger figure counts.
 *
 * Pure: who asks brings the records and the list. The rules, and NDFS_, are of the older
 * gpu_resource_manager (docs/compat.md).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Who wanted it. */
enum alloc_kind {
	ALLOC_MANUAL, /* somebody */
	ALLOC_BASE,   /* the automatic base: it makes room for those */
	ALLOC_KIND_MAX
};

const char *alloc_kind_name(enum alloc_kind kind);
/* False: there is none of that name. */
bool alloc_kind_parse(const char *name, enum alloc_kind *ret);

/* In GPUs; 0: no limit. */
struct alloc_limits {
	unsigned int total;	/* all allocations together */
	unsigned int base;	/* those of the automatic base */
	unsigned int manual;	/* the others */
	unsigned int per_alloc; /* one of them */
};

/* Who has, or waits for, how many. */
struct alloc_use {
	const char *name;
	enum alloc_kind kind;
	unsigned int gpus;
};

/* A job that an engine lists. */
struct alloc_job {
	const char *engine, *id, *name; /* as the engine writes them */
	unsigned int gpus;
	bool known; /* how many it has; else it counts as one */
	bool over;
	const char *of; /* the allocation whose job it is: it may have more than that uses; NULL */
	bool aside;	/* a node of one of our pools, whose GPUs are allocated by records */
};

/* Those that count: not over, not aside, and each once, though it is listed twice. They are moved
 * to the front in their order: how many. */
size_t alloc_jobs_keep(struct alloc_job *jobs, size_t n);
/* Their GPUs. */
unsigned int alloc_jobs_gpus(const struct alloc_job *jobs, size_t n);

struct alloc_has {
	const struct alloc_use *uses;
	size_t n;
	const struct alloc_job *jobs; /* alloc_jobs_keep() */
	size_t n_jobs;
};

/* What was more than a limit. */
struct alloc_refusal {
	const char *setting; /* "max_total_gpus"; NULL: nothing was */
	unsigned int limit, has;
};

/*
 * Whether gpus more of that kind are within the limits. 0; -EDQUOT, with the limit and who has what
 * in e, and the figures in ret, which may be NULL. The base gives its GPUs to whoever asks, so it
 * counts in the total only for itself.
 */
int alloc_check_limits(const struct alloc_limits *limits, const struct alloc_has *has,
		       enum alloc_kind kind, unsigned int gpus, struct alloc_refusal *ret,
		       struct err *e);

#endif
