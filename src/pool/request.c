/* SPDX-License-Identifier: MIT */
#include "pool/request.h"

#include <errno.h>
#include <stdlib.h>

#include "base/fs.h"
#include "base/mem.h"
#include "pool/job.h"

#define TEMPLATE_MAX 65536
#define MS_OF_MINUTE 60000ULL

void pool_request_clear(struct pool_request *q)
{
	text_list_clear(&q->agent);
	text_list_clear(&q->exclude);
	free(q->title);
	free(q->dir);
	free(q->output);
	free(q->template_text);
}

static void add_option(struct text_list *l, const char *name, const char *value)
{
	text_list_add(l, name);
	text_list_add(l, value);
}

static void add_ms(struct text_list *l, const char *name, uint64_t ms)
{
	cleanup_free char *text = xasprintf("%llums", (unsigned long long)ms);

	add_option(l, name, text);
}

/* What a node of the pool runs: an agent that leaves when there is nothing to do, or, where its
 * owner has said so, holds its GPUs for so long. */
static struct text_list agent_command(const char *instance, const struct pool *pool,
				      const struct pool_caller *caller, const char *token)
{
	struct text_list l = { .n = 0 };

	text_list_add(&l, pool->program ? pool->program : "tenure");
	text_list_add(&l, "agent");
	add_option(&l, "--root", caller->root);
	add_option(&l, "--instance", instance);
	add_option(&l, "--pool", pool->name);
	add_option(&l, "--token", token);
	if (pool->only)
		text_list_add(&l, "--pool-only");
	if (pool->time_ms) {
		add_ms(&l, "--time", pool->time_ms);
		add_ms(&l, "--signal-lead", pool->lead_s * 1000ULL);
	}
	if (pool->keep_ms) {
		add_ms(&l, "--lifetime", pool->keep_ms);
	} else {
		text_list_add(&l, "--no-hold");
		add_option(&l, "--on-empty", "exit");
		add_ms(&l, "--empty-for", pool->idle_ms);
	}
	for (size_t i = 0; i < pool->agent.n; i++)
		text_list_add(&l, pool->agent.texts[i]);
	return l;
}

static int read_template(const struct pool *pool, struct pool_request *q, struct err *e)
{
	size_t len;

	if (!pool->template_path)
		return 0;
	return fs_read_own_file(pool->template_path, TEMPLATE_MAX, &q->template_text, &len, e);
}

int pool_request_make(const char *instance, const struct pool *pool,
		      const struct pool_caller *caller, const char *token, struct pool_request *ret,
		      struct err *e)
{
	char path[SPOOL_PATH_MAX], file[32];
	cleanup_free char *middle = xasprintf("%s-%s", instance, pool->name);

	*ret = (struct pool_request){ .agent = agent_command(instance, pool, caller, token) };
	ret->title = xasprintf("%s-%s", pool->prefix, instance);
	ret->dir = xasprintf("%s/%s/%s", caller->root, instance, spool_dir_name(SPOOL_POOLS));
	ret->output = xasprintf("%s/%s/%s", caller->root, instance,
				pool_path_of(pool->name, pool_job_file(token, "out", file), path));
	text_list_take(&ret->agent, NULL);
	ret->req = (struct engine_request){
		.name = engine_job_name(pool->prefix, middle, token, ret->name),
		.title = ret->title,
		.token = token,
		.gpus = pool->gpus,
		.cpus = pool->cpus,
		.mem_mib = pool->mem_mib,
		.minutes = (pool->time_ms + MS_OF_MINUTE - 1) / MS_OF_MINUTE,
		.warn_s = pool->lead_s,
		.type = pool->type,
		.dir = ret->dir,
		.output = ret->output,
		.agent = (const char *const *)ret->agent.texts,
		.options = &pool->options,
		.drop = &pool->drop,
		.settings = &pool->settings,
	};
	if (read_template(pool, ret, e) < 0)
		return e ? e->code : -EINVAL;
	ret->req.template_text = ret->template_text;
	return 0;
}

int pool_script(const char *instance, const struct pool *pool, const struct pool_caller *caller,
		struct strbuf *script, struct err *e)
{
	const struct engine *engine = engine_find(pool->engine);
	struct pool_request q;
	int r = pool_request_make(instance, pool, caller, "token", &q, e);

	if (r == 0)
		r = engine->render(&q.req, script, e);
	pool_request_clear(&q);
	return r;
}

int pool_when(const char *instance, const struct pool *pool, const struct pool_caller *caller,
	      uint64_t *ret_ns, struct strbuf *words, struct err *e)
{
	const struct engine *engine = engine_find(pool->engine);
	struct engine_env env = { .environ = caller->environ, .settings = &pool->settings };
	struct pool_request q;
	int r = pool_request_make(instance, pool, caller, "token", &q, e);

	if (r == 0)
		r = engine->when(&env, &q.req, NULL, ret_ns, words, e);
	pool_request_clear(&q);
	return r;
}
