/* SPDX-License-Identifier: MIT */

/* `tick`: what has to be looked after now and then, and no process stays for. */

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "alloc/base.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/agent_client.h"
#include "cli/alloc/alloc_make.h"
#include "cli/alloc/alloc_pool.h"
#include "cli/alloc/listed.h"
#include "cli/alloc/live.h"
#include "cli/commands.h"
#include "cli/node/pool_call.h"
#include "cli/pools.h"
#include "cli/task/submit_inherit.h"
#include "cli/task/taskstop.h"
#include "engine/inventory.h"
#include "pool/plan.h"
#include "sched/best_node.h"

extern char **environ;

#define STEPS_MOST 16
#define STATUS_MS  3000

/* ---- the automatic base ---- */

/* The engine of which its GPUs are; NULL: they are of this node. */
static const char *base_engine(const struct cmd_ctx *ctx)
{
	const char *engine = settings_str(ctx->settings, SET_ENGINE);

	return engine && strcmp(engine, engine_local.name) != 0 ? engine : NULL;
}

/* Those of the base that were told to end, and may run on for a moment. */
struct given {
	size_t n;
	uint64_t ids[STEPS_MOST];
};

static bool was_given(const struct given *g, uint64_t id)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->ids[i] == id)
			return true;
	return false;
}

/* "reserved: task 3": whether that is one of the base that waits. */
static bool is_for_base(const char *use, const struct live_allocs *l)
{
	const char *task = strstr(use, "task ");
	uint64_t id;

	if (!task || sscanf(task, "task %" SCNu64, &id) != 1)
		return false;
	for (size_t i = 0; i < l->n; i++)
		if (l->all[i].kind == ALLOC_BASE && l->all[i].task.name.id == id)
			return l->all[i].task.dir == SPOOL_PENDING;
	return false;
}

/* Devices that no task has, as the agent here sees them, or only one of the base that waits. One
 * that does not answer has as many as wait: so nothing is added or given back for that. */
static unsigned int free_here(const struct cmd_ctx *ctx, const struct live_allocs *l,
			      unsigned int waits)
{
	struct err e = ERR_INIT;
	json_t *doc = agent_status(ctx, STATUS_MS, &e), *device;
	unsigned int n = e.code == -ETIMEDOUT || e.code == -EAGAIN ? waits : 0;
	size_t i;

	json_array_foreach(json_object_get(doc, "devices"), i, device)
	{
		const char *state = json_get_str(device, "state");
		const char *use = json_get_str(device, "use");

		n += state && strcmp(state, "left") != 0 &&
		     !json_is_integer(json_object_get(device, "xid")) &&
		     (json_get_flag(device, "vacant") || strcmp(state, "held") == 0) &&
		     (!use || is_for_base(use, l));
	}
	json_decref(doc);
	return n;
}

/* One where some node can be had, by what the engine says. */
static unsigned int free_of(const struct cmd_ctx *ctx, const char *name)
{
	const struct engine *engine = engine_find(name);
	struct text_list settings = { .n = 0 };
	struct engine_env env = { .environ = (const char *const *)environ, .settings = &settings };
	const struct node_wish wish = { .gpus = 1 };
	cleanup_free char *dir = fs_cache_dir();
	cleanup_free struct node_offer *offers = NULL;
	struct inventory have = { .known = false };
	struct best_node best = { .at = BEST_NODE_NONE };
	struct err e = ERR_INIT;

	int r = -ENOENT;

	text_list_add_lines(&settings, settings_str(ctx->settings, SET_ENGINE_SETTINGS));
	if (engine)
		r = inventory_read(engine, &env, dir, INVENTORY_MAX_AGE_MS, &have, &e);
	text_list_clear(&settings);
	if (r < 0) {
		printf("base: %s\n", engine ? e.text : "there is no such engine");
		inventory_clear(&have);
		return 0;
	}
	offers = xcalloc(have.nodes.n + 1, sizeof(*offers));
	for (size_t i = 0; i < have.nodes.n; i++) {
		const struct engine_node *n = &have.nodes.all[i];

		offers[i] = (struct node_offer){ .name = n->name,
						 .type = n->type,
						 .total = n->total,
						 .free = n->free - n->blocked,
						 .blocked = n->blocked && n->blocked == n->free,
						 .usable = n->usable };
	}
	best_node(offers, have.nodes.n, &wish, &best);
	inventory_clear(&have);
	return best.at != BEST_NODE_NONE;
}

/* What waits for GPUs, besides what is the base's own. */
static bool others_wait(const struct spool *sp, const struct live_allocs *l)
{
	struct task_set active = { .n = 0 };
	bool any = false;

	if (select_all(sp, &active, NULL) < 0)
		return true;
	for (size_t i = 0; i < active.n && !any; i++) {
		const struct scan_task *t = &active.tasks[i];
		bool base = false;

		for (size_t k = 0; k < l->n; k++)
			base = base || (l->all[k].kind == ALLOC_BASE &&
					l->all[k].task.name.id == t->name.id);
		any = !base && t->dir == SPOOL_PENDING && t->name.gpus &&
		      !(t->name.flags & NAME_PAUSED);
	}
	free(active.tasks);
	return any;
}

/* Its engine's job was asked for just now, or has a node and may have an agent any moment: as pools
 * do, nothing is cancelled that had no time to come. */
static bool is_young(const struct spool *sp, const struct live_alloc *a)
{
	struct pool_jobs jobs = { .n = 0 };
	struct pool pool = { .gpus = 0 };
	uint64_t now_s = spool_now_or_ours(sp) / NS_PER_S;
	bool young = false;

	if (a->pool[0] && pool_read(sp, a->pool, &pool, NULL) == 0)
		(void)pool_jobs_read(sp, a->pool, &jobs, NULL);
	for (size_t i = 0; i < jobs.n; i++) {
		const struct pool_job *job = &jobs.all[i];

		young = young ||
			(job->phase != POOL_JOB_ENDED && !job->cancelled && !job->agent[0] &&
			 (job->submitted_s + POOL_SETTLE_S > now_s ||
			  (job->began_s && job->began_s + pool.start_ms / 1000 > now_s)));
	}
	pool_jobs_clear(&jobs);
	pool_clear(&pool);
	return young;
}

static bool is_of_base(const struct live_alloc *a, const struct given *given)
{
	return a->kind == ALLOC_BASE && !was_given(given, a->task.name.id);
}

static struct base_at look_at_base(const struct cmd_ctx *ctx, const struct spool *sp,
				   const struct live_allocs *l, unsigned int kept,
				   const struct given *given)
{
	struct alloc_limits limits = live_limits(ctx->settings);
	struct base_at at = { .wanted = limits.base,
			      .kept = kept,
			      .room = UINT_MAX,
			      .apart = base_engine(ctx) != NULL };
	unsigned int all = 0;

	for (size_t i = 0; i < l->n; i++) {
		bool runs = l->all[i].task.dir == SPOOL_RUNNING;
		unsigned int n = live_alloc_gpus(&l->all[i]);

		all += live_alloc_counts(&l->all[i]);
		if (!is_of_base(&l->all[i], given))
			continue;
		*(runs ? &at.has : &at.waits) += n;
		at.young += !runs && is_young(sp, &l->all[i]) ? n : 0;
	}
	if (limits.total && at.wanted) {
		struct listed listed;
		unsigned int on_engines;

		listed_read(ctx, sp, l, INVENTORY_MAX_AGE_MS, false, &listed);
		on_engines = alloc_jobs_gpus(listed.jobs, listed.n);
		all = on_engines > all ? on_engines : all;
		at.room = limits.total > all ? limits.total - all + at.waits : at.waits;
		listed_clear(&listed);
	}
	if (at.wanted || at.has || at.waits) {
		at.others_wait = others_wait(sp, l);
		at.free = base_engine(ctx) ? free_of(ctx, base_engine(ctx)) + at.waits
					   : free_here(ctx, l, at.waits);
	}
	return at;
}

static int add_to_base(const struct cmd_ctx *ctx, const struct spool *sp, struct err *e)
{
	const char *engine = base_engine(ctx);
	struct task_spec *s = spec_new();
	struct alloc_denial denied = { .reason = NULL }; /* nobody has asked for it */
	uint64_t id;
	int r;

	s->allocation = true;
	s->gpus = 1;
	s->preemptible = true;
	s->priority = SPEC_PRIORITY_MAX;
	submitter_umask(s);
	r = alloc_make(ctx, sp, s, ALLOC_BASE, engine != NULL, &id, &denied, e);
	json_decref(denied.who);
	if (r >= 0)
		printf("base: allocation %s for a GPU that is free%s%s\n", s->name,
		       engine ? " on " : "", engine ? engine : "");
	if (r >= 0 && engine && alloc_pool_up(ctx, engine, s->pool, 1, ALLOC_POOL_QUIET) != CMD_OK)
		r = err_set(e, -EIO, "%s asks for no node for it", engine);
	if (r >= 0 && engine)
		listed_forget(ctx, sp, s->pool);
	(void)spec_free(s);
	return r < 0 ? r : 0;
}

/* Why it is given back. */
static const char *reason_of(const struct base_at *at)
{
	unsigned int kept = at->kept > at->wanted ? at->kept : at->wanted;

	if (at->has + at->waits > kept)
		return "because fewer are wanted";
	return at->others_wait ? "because somebody waits" : "because nothing is free for it";
}

/* The last one that waits, or that has its GPU; before all others one that is not young. */
static const struct live_alloc *choose_of_base(const struct spool *sp, const struct live_allocs *l,
					       bool waits, const struct given *given)
{
	const struct live_alloc *last = NULL, *old = NULL;

	for (size_t i = 0; i < l->n; i++) {
		const struct live_alloc *a = &l->all[i];

		if (!is_of_base(a, given) || (a->task.dir == SPOOL_PENDING) != waits)
			continue;
		last = a;
		if (waits && !is_young(sp, a))
			old = a;
	}
	return old ? old : last;
}

static int take_from_base(const struct cmd_ctx *ctx, const struct spool *sp,
			  const struct live_allocs *l, bool waits, const char *reason,
			  struct given *given, struct err *e)
{
	struct taskstop stop = {
		.ctx = ctx, .sp = sp, .quiet = true, .remote_ms = AGENTS_LIMIT_MS
	};
	const struct live_alloc *a = choose_of_base(sp, l, waits, given);
	char word[24];
	int r;

	if (!a)
		return 0;
	given->ids[given->n++] = a->task.name.id;
	printf("base: allocation %s is given back, %s\n", a->task.name.name, reason);
	r = taskstop_word(&stop, str_print(word, sizeof(word), "%" PRIu64, a->task.name.id), e);
	if (r == -ENOENT) /* who looks after it as well was first */
		r = 0;
	r = r == 0 ? taskstop_finish(&stop, e) : r;
	if (r == 0 && a->pool[0]) {
		listed_forget(ctx, sp, a->pool);
		(void)alloc_pool_down(ctx, a->pool, ALLOC_POOL_QUIET);
	}
	return r;
}

static int look_after_base(const struct cmd_ctx *ctx, const struct spool *sp, struct err *e)
{
	enum base_step step = BASE_ADD;
	struct given given = { .n = 0 };
	unsigned int kept;
	int r = base_want(sp, opts_value(ctx->opts, "base-by")->str,
			  (unsigned int)settings_num(ctx->settings, SET_ALLOC_BASE),
			  (unsigned int)(opts_value(ctx->opts, "base-for")->num / 1000), e);

	if (r == 0)
		r = base_wanted(sp, &kept, e);
	for (int i = 0; i < STEPS_MOST && step != BASE_REST && r == 0; i++) {
		struct live_allocs live = { .n = 0 };
		struct base_at at = { .wanted = 0 };

		r = live_allocs_read(sp, &live, e);
		if (r == 0) {
			at = look_at_base(ctx, sp, &live, kept, &given);
			step = base_decide(&at);
		}
		if (r == 0 && step == BASE_ADD)
			r = add_to_base(ctx, sp, e);
		else if (r == 0 && step != BASE_REST)
			r = take_from_base(ctx, sp, &live, step == BASE_WITHDRAW, reason_of(&at),
					   &given, e);
		live_allocs_clear(&live);
		agent_look(ctx);
	}
	return r;
}

/* ---- pools of allocations that are over ---- */

#define POOL_KEPT_S 3600 /* for who wants to know what its jobs have printed */

/* All of its jobs have ended, the last one at ret_s; without jobs when it was asked for. */
static bool has_ended(const struct spool *sp, const struct pool *p, uint64_t *ret_s)
{
	struct pool_jobs jobs = { .n = 0 };
	bool ended = pool_jobs_read(sp, p->name, &jobs, NULL) == 0;

	*ret_s = p->asked_ns / NS_PER_S;
	for (size_t i = 0; i < jobs.n; i++) {
		ended = ended && jobs.all[i].phase == POOL_JOB_ENDED;
		if (jobs.all[i].ended_s > *ret_s)
			*ret_s = jobs.all[i].ended_s;
	}
	pool_jobs_clear(&jobs);
	return ended;
}

/* The allocation has ended, however that was: its node is given back, and long after that it is
 * forgotten, or it would be looked after for ever. */
static void end_pool(const struct cmd_ctx *ctx, const struct spool *sp, const char *name)
{
	struct pool p = { .gpus = 0 };
	uint64_t ended_s;

	if (pool_read(sp, name, &p, NULL) < 0 || !p.only || !pool_is_here(sp, &p)) {
		pool_clear(&p);
		return;
	}
	if (!p.down) {
		printf("pool %s: its allocation has ended\n", name);
		(void)alloc_pool_down(ctx, name, ALLOC_POOL_QUIET);
	} else if (has_ended(sp, &p, &ended_s) &&
		   ended_s + POOL_KEPT_S < spool_now_or_ours(sp) / NS_PER_S) {
		(void)pool_forget(sp, name, NULL); /* or the next time */
	}
	pool_clear(&p);
}

/* Their names were read before: a pool comes after its allocation. */
static void end_pools(const struct cmd_ctx *ctx, const struct spool *sp,
		      const struct text_list *names)
{
	struct live_allocs live = { .n = 0 };
	int r = names->n ? live_allocs_read(sp, &live, NULL) : -ENOENT;

	for (size_t i = 0; r == 0 && i < names->n; i++) {
		uint64_t id = alloc_of_pool(names->texts[i]);
		char word[24];

		if (id &&
		    !live_allocs_find(&live, str_print(word, sizeof(word), "%" PRIu64, id), NULL))
			end_pool(ctx, sp, names->texts[i]);
	}
	live_allocs_clear(&live);
}

/* ---- the command ---- */

/* Who wants base_gpus, and until when unless that is said again: an agent looks each minute. */
static const struct opt tick_opts[] = {
	{ .name = "base-by",
	  .spec = { VALUE_NAME },
	  .arg = "WHO",
	  .def = "by-hand",
	  .help = "who wants base_gpus; each has a wish of its own, and the largest one counts" },
	{ .name = "base-for",
	  .spec = { VALUE_DURATION, .min = 1000, .max = 24 * 3600 * 1000 },
	  .arg = "DURATION",
	  .def = "3m",
	  .help = "for how long, unless it is said again" },
	{ 0 },
};

static const struct cmd_example tick_examples[] = {
	{ "tenure tick exp1", "now" },
	{ 0 },
};

/* Of a node whose engine does not answer it is not told each minute. */
static void tell_tick(const struct spool *sp, const char *name, int r,
		      const struct pool_report *report, const struct err *e)
{
	(void)sp;
	if (r < 0 && r != -ENOENT) /* or it was forgotten meanwhile */
		printf("pool %s: %s\n", name, e->text);
	if (report->said.len)
		printf("pool %s: %s", name, strbuf_str(&report->said));
}

static void tell_tick_by_hand(const struct spool *sp, const char *name, int r,
			      const struct pool_report *report, const struct err *e)
{
	tell_tick(sp, name, r, report, e);
	if (report->busy && !report->begun)
		printf("pool %s: somebody else looks after it at this moment\n", name);
}

/* Who does so each minute says for whom. A person has as little time as behind a submit, which may
 * have advised this. */
static void tick_pools(const struct cmd_ctx *ctx, const struct spool *sp,
		       const struct text_list *names)
{
	cleanup_free char *root = spool_root(settings_str(ctx->settings, SET_ROOT));
	struct pool_caller caller = pools_caller_of_agent(ctx, root);
	bool by_hand = !opts_given(ctx->opts, "base-by");

	if (by_hand) {
		caller.silent_ms = pools_silent_ms(ctx);
		caller.patience_ms = POOLS_PATIENCE_MS;
	}
	pools_tick(sp, names, &caller, by_hand ? tell_tick_by_hand : tell_tick);
}

static int run_tick(const struct cmd_ctx *ctx, struct err *e)
{
	struct text_list names = { .n = 0 };
	struct spool *sp = NULL;
	bool wants = settings_num(ctx->settings, SET_ALLOC_BASE) != 0;
	int r = pool_call_open(ctx, wants ? SPOOL_CREATE : 0, &sp, e);

	if (r == 0)
		r = pool_list(sp, &names, e);
	tick_pools(ctx, sp, &names);
	/* Its agent, and its settings, are those of the instance that --instance names. */
	if (r == 0 &&
	    strcmp(pool_call_instance(ctx), settings_str(ctx->settings, SET_INSTANCE)) == 0) {
		end_pools(ctx, sp, &names);
		r = look_after_base(ctx, sp, e);
	}
	text_list_clear(&names);
	sp = spool_close(sp);
	return r;
}

const struct cmd cmd_tick = {
	.name = "tick",
	.group = QUEUE_GROUP,
	.summary = "look after the pools of a queue, and its automatic base, once",
	.args = "[NAME]",
	.words = { WORDS_INSTANCES },
	.max_args = 1,
	.description =
		"Agents do this once a minute; by hand, or from cron, where none runs. By hand it waits "
		"two seconds for whoever is busy with a pool, asks the engine again of an agent that is "
		"silent, as a submit does, and says where it could do nothing.",
	.examples = tick_examples,
	.opts = tick_opts,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_NODE | SETTING_GROUP_ALLOC |
			  SETTING_GROUP_AGENT,
	.flags = CMD_HIDDEN,
	.run = run_tick,
};
