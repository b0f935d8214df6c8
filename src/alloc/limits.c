/* SPDX-License-Identifier: MIT */
#include "alloc/limits.h"

#include <errno.h>
#include <string.h>

#include "base/enumstr.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"

#define SHOWN_USES 6

static const char *const kinds[] = { [ALLOC_MANUAL] = "manual", [ALLOC_BASE] = "base" };
_Static_assert(ARRAY_LEN(kinds) == ALLOC_KIND_MAX, "a name for every kind");

const char *alloc_kind_name(enum alloc_kind kind)
{
	return enum_name(kinds, ARRAY_LEN(kinds), kind);
}

bool alloc_kind_parse(const char *name, enum alloc_kind *ret)
{
	unsigned int n;

	if (enum_parse(kinds, ARRAY_LEN(kinds), name, &n, NULL) < 0)
		return false;
	*ret = (enum alloc_kind)n;
	return true;
}

/* ---- what an engine lists ---- */

static bool has_job(const struct alloc_job *jobs, size_t n, const struct alloc_job *job)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(jobs[i].id, job->id) == 0 && strcmp(jobs[i].name, job->name) == 0 &&
		    strcmp(jobs[i].engine, job->engine) == 0)
			return true;
	return false;
}

size_t alloc_jobs_keep(struct alloc_job *jobs, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (!jobs[i].over && !jobs[i].aside && !has_job(jobs, kept, &jobs[i]))
			jobs[kept++] = jobs[i];
	return kept;
}

unsigned int alloc_jobs_gpus(const struct alloc_job *jobs, size_t n)
{
	unsigned int sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += jobs[i].known ? jobs[i].gpus : 1;
	return sum;
}

/* ---- limits ---- */

static const struct alloc_job *job_of(const struct alloc_has *has, const char *name)
{
	for (size_t i = 0; i < has->n_jobs; i++)
		if (has->jobs[i].of && strcmp(has->jobs[i].of, name) == 0)
			return &has->jobs[i];
	return NULL;
}

/* "exp1 has 4", "exp1 has 1 (its job 4)" */
static void add_use(struct strbuf *b, size_t *told, const struct alloc_use *use,
		    const struct alloc_job *job)
{
	if (!use->gpus)
		return;
	if (job && job->gpus > use->gpus)
		strbuf_add_some(b, (*told)++, SHOWN_USES, "%s has %u (its job %u)", use->name,
				use->gpus, job->gpus);
	else
		strbuf_add_some(b, (*told)++, SHOWN_USES, "%s has %u", use->name, use->gpus);
}

/* "exp1 has 4, NDFS_exp7 (job 12 of slurm) has 2" */
static void add_who(struct strbuf *b, const struct alloc_has *has, bool jobs)
{
	size_t told = 0;

	for (size_t i = 0; i < has->n; i++)
		add_use(b, &told, &has->uses[i], jobs ? job_of(has, has->uses[i].name) : NULL);
	for (size_t i = 0; jobs && i < has->n_jobs; i++) {
		const struct alloc_job *job = &has->jobs[i];

		if (job->of || (job->known && !job->gpus))
			continue;
		strbuf_add_some(b, told++, SHOWN_USES, "%s (job %s of %s) has %s%u", job->name,
				job->id, job->engine, job->known ? "" : "at least ",
				job->known ? job->gpus : 1);
	}
	strbuf_add_more(b, told, SHOWN_USES);
}

int alloc_check_limits(const struct alloc_limits *limits, const struct alloc_has *has,
		       enum alloc_kind kind, unsigned int gpus, struct alloc_refusal *ret,
		       struct err *e)
{
	unsigned int by_kind[ALLOC_KIND_MAX] = { 0 };

	for (size_t i = 0; i < has->n; i++)
		by_kind[has->uses[i].kind] += has->uses[i].gpus;

	unsigned int recorded = by_kind[ALLOC_MANUAL] + by_kind[ALLOC_BASE];
	unsigned int listed = alloc_jobs_gpus(has->jobs, has->n_jobs);
	/* What the base has it gives to whoever asks. */
	unsigned int all = (listed > recorded ? listed : recorded) -
			   (kind == ALLOC_MANUAL ? by_kind[ALLOC_BASE] : 0);
	const struct {
		unsigned int limit, has;
		const char *setting, *whose;
		bool who, jobs; /* it is told who has what, and the engine's jobs with it */
	} checks[] = {
		{ limits->per_alloc, 0, "max_gpus_per_task", "one allocation", false, false },
		{ kind == ALLOC_BASE ? limits->base : limits->manual, by_kind[kind],
		  kind == ALLOC_BASE ? "base_gpus" : "max_manual_gpus",
		  kind == ALLOC_BASE ? "the automatic base" : "allocations by hand", true, false },
		{ limits->total, all, "max_total_gpus", "all allocations", true,
		  listed > recorded },
	};

	if (ret)
		*ret = (struct alloc_refusal){ .setting = NULL };
	for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
		cleanup_strbuf struct strbuf who = STRBUF_INIT;

		if (!checks[i].limit || checks[i].has + gpus <= checks[i].limit)
			continue;
		if (ret)
			*ret = (struct alloc_refusal){ .setting = checks[i].setting,
						       .limit = checks[i].limit,
						       .has = checks[i].has };
		if (checks[i].who)
			add_who(&who, has, checks[i].jobs);

		cleanup_free char *may =
			xasprintf("%s may have %u GPU%s (%s)", checks[i].whose, checks[i].limit,
				  checks[i].limit == 1 ? "" : "s", checks[i].setting);

		if (!checks[i].who)
			return err_set(e, -EDQUOT, "%s, and %u are asked for", may, gpus);
		return err_set(e, -EDQUOT, "%s, and %u more would be %u%s%s%s", may, gpus,
			       checks[i].has + gpus, who.len ? " (" : "", strbuf_str(&who),
			       who.len ? ")" : "");
	}
	return 0;
}
