/* SPDX-License-Identifier: MIT */
#include "cli/alloc/listed.h"

#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/alloc/alloc_pool.h"
#include "engine/engine.h"
#include "pool/job.h"
#include "pool/pool.h"
#include "spool/instance.h"

extern char **environ;

/* ---- whose jobs ---- */

/* "NDFS-", "tenure-exp1-alloc-" */
static char *name_prefix(const struct cmd_ctx *ctx, const struct spool *sp)
{
	cleanup_free char *own = alloc_pool_prefix(ctx);
	cleanup_free char *middle = NULL;
	char name[ENGINE_JOB_NAME_MAX];

	if (own)
		return xasprintf("%s-", own);
	middle = xasprintf("%s-alloc", spool_instance(sp));
	return xstrdup(engine_job_name(POOL_PREFIX, middle, "", name));
}

/* ---- what our records say of them ---- */

/* A job of one of our pools. */
struct record {
	char token[ENGINE_TOKEN_MAX + 1];
	unsigned int gpus;
	const char *of; /* struct alloc_job */
	bool aside;
};

struct records {
	size_t n;
	struct record *all;
};

/* The name of the allocation that has that pool; NULL. */
static const char *find_live(const struct live_allocs *live, const char *pool)
{
	for (size_t i = 0; i < live->n; i++)
		if (strcmp(live->all[i].pool, pool) == 0)
			return live->all[i].task.name.name;
	return NULL;
}

static void add_records(const struct spool *sp, const struct live_allocs *live, const char *pool,
			struct records *ret)
{
	struct pool_jobs jobs = { .n = 0 };
	const char *of = find_live(live, pool);
	bool aside = !of && !alloc_of_pool(pool);

	(void)pool_jobs_read(sp, pool, &jobs, NULL);
	for (size_t i = 0; i < jobs.n; i++) {
		ret->all = xgrow(ret->all, ret->n, sizeof(*ret->all));
		ret->all[ret->n] =
			(struct record){ .gpus = jobs.all[i].gpus, .of = of, .aside = aside };
		(void)str_copy(ret->all[ret->n++].token, sizeof(ret->all->token),
			       jobs.all[i].token);
	}
	pool_jobs_clear(&jobs);
}

static const struct record *find_record(const struct records *r, const char *name)
{
	const char *token = strrchr(name, '-');

	for (size_t i = 0; token && i < r->n; i++)
		if (strcmp(r->all[i].token, token + 1) == 0)
			return &r->all[i];
	return NULL;
}

/* ---- which engines ---- */

static bool same_settings(const struct text_list *a, const struct text_list *b)
{
	for (size_t i = 0; i < a->n; i++)
		if (!text_list_has(b, a->texts[i]))
			return false;
	return a->n == b->n;
}

/* This machine's own jobs are counted by records. */
static void add_engine(struct listed *l, const char *name, const struct text_list *settings)
{
	const struct engine *engine = name ? engine_find(name) : NULL;

	if (!engine || engine->here_alone || l->n_engines == LISTED_ENGINES_MAX)
		return;
	for (size_t i = 0; i < l->n_engines; i++)
		if (l->engines[i].engine == engine &&
		    same_settings(&l->engines[i].settings, settings))
			return;
	l->engines[l->n_engines++] =
		(struct listed_engine){ .engine = engine, .settings = text_list_copy(settings) };
}

static void add_pools(struct listed *l, const struct spool *sp, const struct live_allocs *live,
		      struct records *records)
{
	struct text_list names = { .n = 0 };

	(void)pool_list(sp, &names, NULL);
	for (size_t i = 0; i < names.n; i++) {
		struct pool pool = { .gpus = 0 };

		/* That an allocation once was on an engine is no reason to ask it. */
		if (pool_read(sp, names.texts[i], &pool, NULL) == 0 &&
		    !(pool.down && alloc_of_pool(pool.name)))
			add_engine(l, pool.engine, &pool.settings);
		pool_clear(&pool);
		add_records(sp, live, names.texts[i], records);
	}
	text_list_clear(&names);
}

/* The one of --engine, which has no pool yet, and the one of the settings. */
static void add_configured(struct listed *l, const struct cmd_ctx *ctx)
{
	const char *configured = settings_str(ctx->settings, SET_ENGINE);
	const char *asked = alloc_pool_engine(ctx);
	const struct value *set = asked ? opts_value(ctx->opts, "set") : NULL;
	struct text_list settings = { .n = 0 };

	if (configured)
		text_list_add_lines(&settings, settings_str(ctx->settings, SET_ENGINE_SETTINGS));
	if (configured && (!asked || strcmp(asked, configured) == 0))
		asked = configured;
	else
		text_list_clear(&settings);
	for (size_t i = 0; set && i < set->words.n; i++)
		text_list_set_variable(&settings, set->words.texts[i]);
	add_engine(l, asked, &settings);
	text_list_clear(&settings);
}

/* ---- what they list ---- */

static void add_job(struct listed *l, const struct engine *engine, const struct engine_job *job,
		    const struct records *records)
{
	const struct record *record = find_record(records, job->name);
	struct alloc_job *to;

	l->jobs = xgrow(l->jobs, l->n, sizeof(*l->jobs));
	to = &l->jobs[l->n++];
	*to = (struct alloc_job){ .engine = engine->name,
				  .id = job->id,
				  .name = job->name,
				  .gpus = job->gpus,
				  .known = job->gpus_known,
				  .over = engine_job_is_over(job->state) };
	if (!record)
		return;
	to->of = record->of;
	to->aside = record->aside;
	if (!to->known)
		to->gpus = record->gpus;
	to->known = true;
}

void listed_read(const struct cmd_ctx *ctx, const struct spool *sp, const struct live_allocs *live,
		 uint64_t max_age_ms, bool tell, struct listed *ret)
{
	cleanup_free char *prefix = name_prefix(ctx, sp), *dir = fs_cache_dir();
	struct records records = { .n = 0 };

	*ret = (struct listed){ .n = 0 };
	add_pools(ret, sp, live, &records);
	add_configured(ret, ctx);
	for (size_t i = 0; i < ret->n_engines; i++) {
		struct listed_engine *at = &ret->engines[i];
		const struct engine_env env = { .environ = (const char *const *)environ,
						.settings = &at->settings };
		struct err e = ERR_INIT;

		if (inventory_read_jobs(at->engine, &env, prefix, dir, max_age_ms, &at->inventory,
					&e) < 0) {
			if (tell)
				cmd_warn(
					"note",
					"%s does not answer, so its jobs count as far as the queue "
					"knows of them: %s",
					at->engine->name, e.text);
			continue;
		}
		ret->cached = ret->cached || at->inventory.cached;
		for (size_t k = 0; k < at->inventory.jobs.n; k++)
			add_job(ret, at->engine, &at->inventory.jobs.all[k], &records);
	}
	ret->n = alloc_jobs_keep(ret->jobs, ret->n);
	free(records.all);
}

void listed_clear(struct listed *l)
{
	for (size_t i = 0; i < l->n_engines; i++) {
		text_list_clear(&l->engines[i].settings);
		inventory_clear(&l->engines[i].inventory);
	}
	free(l->jobs);
	*l = (struct listed){ .n = 0 };
}

void listed_forget(const struct cmd_ctx *ctx, const struct spool *sp, const char *name)
{
	cleanup_free char *prefix = name_prefix(ctx, sp), *dir = fs_cache_dir();
	struct pool pool = { .gpus = 0 };
	const struct engine *engine;

	if (dir && pool_read(sp, name, &pool, NULL) == 0 && (engine = engine_find(pool.engine))) {
		const struct engine_env env = { .environ = (const char *const *)environ,
						.settings = &pool.settings };

		inventory_forget_jobs(engine, &env, prefix, dir);
	}
	pool_clear(&pool);
}
