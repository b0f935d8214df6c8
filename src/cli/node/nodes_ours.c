/* SPDX-License-Identifier: MIT */
#include "cli/node/nodes_ours.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/instance.h"
#include "cli/node_agents.h"
#include "engine/node_sums.h"
#include "spool/instance.h"
#include "spool/scan.h"

/* -------- jobs -------- */

bool ours_job_runs(const struct pool_job *job)
{
	return job->agent[0] || (job->state != ENGINE_JOB_WAITING &&
				 job->state != ENGINE_JOB_HELD && job->phase == POOL_JOB_SUBMITTED);
}

const char *ours_job_engine(const struct pool_shown *pool, const struct pool_job *job)
{
	return job->engine[0] ? job->engine : pool->pool.engine;
}

struct ours_count ours_count(const struct pool_shown *pool)
{
	struct ours_count n = { .running = 0 };

	for (size_t i = 0; i < pool->jobs.n; i++) {
		const struct pool_job *job = &pool->jobs.all[i];

		if (job->phase == POOL_JOB_ENDED)
			continue;
		n.running += ours_job_runs(job);
		n.pending += !ours_job_runs(job);
		*(ours_job_runs(job) ? &n.running_gpus : &n.pending_gpus) += job->gpus;
	}
	return n;
}

static bool has_job(const struct pools_shown *pools, const char *token)
{
	for (size_t i = 0; i < pools->n; i++)
		for (size_t k = 0; k < pools->all[i].jobs.n; k++)
			if (pools->all[i].jobs.all[k].phase != POOL_JOB_ENDED &&
			    strcmp(pools->all[i].jobs.all[k].token, token) == 0)
				return true;
	return false;
}

/* -------- agents -------- */

/* Devices that it has for itself or its tasks. */
static unsigned int count_used(const struct agent_status *s)
{
	static const char *const states[] = { "held",	 "holding", "yielding",
					      "lending", "lent",    "workload" };
	unsigned int n = 0;

	for (unsigned int i = 0; i < s->n_devices; i++)
		for (size_t k = 0; k < ARRAY_LEN(states); k++)
			n += strcmp(s->devices[i].state, states[k]) == 0;
	return n;
}

static void add_agent(struct ours *o, const struct node_agent *p)
{
	const struct agent_status *s = p->status;
	struct ours_agent *a;

	if (p->state != NODE_AGENT_ALIVE || !s || (s->token[0] && has_job(&o->pools, s->token)))
		return;
	o->agents = xgrow(o->agents, o->n_agents, sizeof(*o->agents));
	a = &o->agents[o->n_agents++];
	*a = (struct ours_agent){ .gpus = s->engine[0] ? s->n_devices + s->unseen : count_used(s) };
	(void)str_copy(a->node, sizeof(a->node), s->host);
	(void)str_copy(a->engine, sizeof(a->engine), s->engine);
}

/* -------- queues -------- */

static void read_instance(const struct cmd_ctx *ctx, const char *root, const char *name,
			  struct ours *o)
{
	struct node_agents agents = { .n = 0 };
	struct spool *sp = NULL;

	if (spool_open(root, name, NULL, SPOOL_LOOK, &sp, NULL) < 0)
		return;
	(void)pools_read(sp, &o->pools, NULL);
	(void)node_agents_read(ctx, sp, &agents, NULL);
	for (size_t i = 0; i < agents.n; i++)
		add_agent(o, &agents.all[i]);
	node_agents_clear(&agents);
	if (strcmp(name, o->instance) == 0) {
		struct scan *s = scan_new(sp, 0);

		o->running_known = scan_update(s, NULL, NULL, NULL) == 0;
		o->running = scan_count(s, SPOOL_RUNNING);
		s = scan_free(s);
	}
	sp = spool_close(sp);
}

void ours_read(const struct cmd_ctx *ctx, struct ours *ret)
{
	cleanup_free char *root = spool_root(settings_str(ctx->settings, SET_ROOT));
	struct text_list names = { .n = 0 };
	struct instance_note *note = instance_note_begin(root);
	int r = spool_instances(root, &names, NULL);

	*ret = (struct ours){ .instance = settings_str(ctx->settings, SET_INSTANCE),
			      .n_instances = names.n };
	for (size_t i = 0; r == 0 && i < names.n; i++)
		read_instance(ctx, root, names.texts[i], ret);
	/* Into which nothing was ever submitted. */
	if (r == 0 && !text_list_has(&names, ret->instance))
		ret->running_known = true;
	(void)instance_note_end(note);
	text_list_clear(&names);
}

void ours_clear(struct ours *o)
{
	pools_shown_clear(&o->pools);
	free(take_ptr(o->agents));
	o->n_agents = 0;
}

/* -------- on nodes -------- */

static unsigned int count_on(const struct ours *o, const char *engine, const char *node)
{
	unsigned int n = 0;

	for (size_t i = 0; i < o->pools.n; i++)
		for (size_t k = 0; k < o->pools.all[i].jobs.n; k++) {
			const struct pool_job *job = &o->pools.all[i].jobs.all[k];

			if (job->phase != POOL_JOB_ENDED && ours_job_runs(job) &&
			    strcmp(ours_job_engine(&o->pools.all[i], job), engine) == 0 &&
			    node_sums_same_host(job->node, node))
				n += job->gpus;
		}
	for (size_t i = 0; i < o->n_agents; i++)
		if ((!o->agents[i].engine[0] || strcmp(o->agents[i].engine, engine) == 0) &&
		    node_sums_same_host(o->agents[i].node, node))
			n += o->agents[i].gpus;
	return n;
}

unsigned int *ours_on(const struct ours *o, const char *engine, const struct engine_nodes *nodes)
{
	unsigned int *n = xcalloc(nodes->n + 1, sizeof(*n)), left = 0;

	for (size_t i = 0; i < nodes->n; i++) {
		const struct engine_node *node = &nodes->all[i];

		if (i == 0 || strcmp(node->name, nodes->all[i - 1].name) != 0)
			left = count_on(o, engine, node->name);
		unsigned int most = node->unknown ? node->total : node->used;

		n[i] = left < most ? left : most;
		left -= n[i];
	}
	return n;
}
