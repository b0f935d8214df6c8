/* SPDX-License-Identifier: MIT */
#include "cli/pools.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/alloc.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/publish.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/node_agents.h"
#include "cli/table.h"
#include "cli/term.h"

#define END_LIMIT_S 60
#define DELETED	    " (deleted)" /* of a link in /proc */
#define TAIL_MAX    200
#define LATELY_S    150 /* agents tick once a minute */

extern char **environ;

/* ---- who calls ---- */

static char *own_program(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n <= 0)
		return NULL;
	path[n] = '\0';
	/* After an upgrade that is another one, which is as good. */
	if (str_has_suffix(path, DELETED))
		path[(size_t)n - strlen(DELETED)] = '\0';
	return access(path, X_OK) == 0 ? xstrdup(path) : NULL;
}

/* The engine's nodes are this machine. */
static bool runs_here(const char *engine)
{
	return strcmp(engine, "local") == 0;
}

int pools_program(const char *root, const char *engine, bool write, char **ret, struct err *e)
{
	*ret = NULL;
	if (!runs_here(engine))
		return write ? program_publish(root, ret, e) : program_publish_path(root, ret, e);
	*ret = own_program();
	if (!*ret)
		return err_set(e, -ENOENT, "/proc/self/exe does not say where this program is");
	return 0;
}

char *pools_program_note(const char *engine, const char *program)
{
	return runs_here(engine) ? NULL : program_publish_note(program);
}

/* What an agent was told about its own node and job, which is not for those that it asks for. */
static const char *const *agents_environment(void)
{
	static const char *const own[] = { "LD_PRELOAD=", "TMPDIR=", "UV_THREADPOOL_SIZE=",
					   "CUDA_VISIBLE_DEVICES=" };
	struct text_list l = { .n = 0 }; /* for as long as the process lives */

	for (char **v = environ; *v; v++) {
		bool left_out = false;

		for (size_t i = 0; i < ARRAY_LEN(own); i++)
			left_out = left_out || str_has_prefix(*v, own[i]);
		if (!left_out)
			text_list_add(&l, *v);
	}
	text_list_take(&l, NULL);
	return (const char *const *)l.texts;
}

struct pool_caller pools_caller_of_agent(const struct cmd_ctx *ctx, const char *root)
{
	struct pool_caller caller = pools_caller(ctx, root);

	caller.by_agent = true;
	caller.environ = agents_environment();
	return caller;
}

struct pool_caller pools_caller(const struct cmd_ctx *ctx, const char *root)
{
	return (struct pool_caller){ .environ = (const char *const *)environ,
				     .root = root,
				     .expire_ms = settings_num(ctx->settings, SET_EXPIRE) };
}

uint64_t pools_silent_ms(const struct cmd_ctx *ctx)
{
	return settings_num(ctx->settings, SET_BEAT) * 3 / 2;
}

/* ---- what is shown ---- */

/* A sentence; NULL: every job since `up` was called has had its agent. The caller frees it. */
static char *tell_lost(const struct spool *sp, const struct pool_shown *p)
{
	for (size_t i = p->jobs.n; i-- > 0;) {
		const struct pool_job *job = &p->jobs.all[i];
		cleanup_free char *tail = NULL;

		if (job->asked_ns != p->pool.asked_ns || (!job->lost && !job->agent[0]))
			continue;
		if (!job->lost)
			return NULL;
		tail = pool_job_tail(sp, p->name, job->token, TAIL_MAX);
		return xasprintf("job %s%s%s: %s, and no agent of it reported; it printed %s%s",
				 job->id, job->node[0] ? " on " : "", job->node,
				 job->reason[0] ? job->reason : "ended", tail ? ".. " : "nothing",
				 tail ? tail : "");
	}
	return NULL;
}

static void read_one(const struct spool *sp, const char *name, struct pool_shown *ret)
{
	struct err e = ERR_INIT;

	*ret = (struct pool_shown){ .name = xstrdup(name),
				    .instance = xstrdup(spool_instance(sp)) };
	if (pool_read(sp, name, &ret->pool, &e) < 0)
		ret->error = xstrdup(e.text);
	if (pool_state_read(sp, name, &ret->state, &e) < 0 ||
	    pool_jobs_read(sp, name, &ret->jobs, &e) < 0)
		(void)str_copy(ret->state.error, sizeof(ret->state.error), e.text);
	ret->lost = tell_lost(sp, ret);
}

int pools_read(const struct spool *sp, struct pools_shown *ret, struct err *e)
{
	struct text_list names = { .n = 0 };
	int r = pool_list(sp, &names, e);

	for (size_t i = 0; i < names.n; i++) {
		ret->all = xgrow(ret->all, ret->n, sizeof(*ret->all));
		read_one(sp, names.texts[i], &ret->all[ret->n++]);
	}
	text_list_clear(&names);
	return r;
}

void pools_shown_clear(struct pools_shown *p)
{
	for (size_t i = 0; i < p->n; i++) {
		pool_clear(&p->all[i].pool);
		pool_jobs_clear(&p->all[i].jobs);
		free(p->all[i].error);
		free(p->all[i].lost);
		free(p->all[i].name);
		free(p->all[i].instance);
	}
	free(take_ptr(p->all));
	p->n = 0;
}

/* When it began, or, while it waits, may begin by the engine's estimate; wall, 0: not known. */
static uint64_t start_of(const struct pool_job *job)
{
	return job->began_s ? job->began_s * NS_PER_S : job->start_ns;
}

static json_t *job_json(const struct pool_job *job)
{
	char start[CLOCK_TEXT_MAX];
	json_t *o = json_pack("{s:s, s:s, s:s, s:i}", "token", job->token, "id", job->id, "state",
			      engine_job_state_name(job->state), "gpus", (int)job->gpus);

	if (job->node[0])
		(void)json_object_set_new(o, "node", json_string(job->node));
	if (job->agent[0])
		(void)json_object_set_new(o, "agent", json_string(job->agent));
	if (job->reason[0])
		(void)json_object_set_new(o, "reason", json_string(job->reason));
	if (start_of(job))
		(void)json_object_set_new(o, "start",
					  json_string(clock_format_iso(start_of(job), start)));
	(void)json_object_set_new(o, "ended", json_boolean(job->phase == POOL_JOB_ENDED));
	(void)json_object_set_new(o, "lost", json_boolean(job->lost));
	return o;
}

/* What `up` was told: 0 is no bound, or no time. */
static void add_wanted(json_t *o, const struct pool *p)
{
	json_t *said = json_pack("{s:i, s:i, s:i, s:i, s:I, s:I, s:b}", "nodes", (int)p->first,
				 "min", (int)p->min, "max", (int)p->max, "total_gpus",
				 (int)p->total_gpus, "time_s", (json_int_t)(p->time_ms / MS_PER_S),
				 "keep_s", (json_int_t)(p->keep_ms / MS_PER_S), "only", p->only);

	(void)json_object_update_new(o, said);
}

static json_t *commands_json(const struct pool_state *st)
{
	json_t *o = json_object();

	for (unsigned int i = 0; i < POOL_COMMAND_MAX; i++) {
		const struct pool_count *c = &st->commands[i];

		(void)json_object_set_new(o, pool_command_name(i),
					  json_pack("{s:I, s:I, s:f}", "n", (json_int_t)c->n,
						    "errors", (json_int_t)c->errors, "seconds",
						    (double)c->ms / MS_PER_S));
	}
	return o;
}

static json_t *shown_json(const struct pool_shown *p)
{
	const struct pool_state *st = &p->state;
	json_t *o = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:b, s:b, s:s}", "pool", p->name,
			      "engine", p->pool.engine, "gpus", (int)p->pool.gpus, "wanted",
			      (int)st->wanted, "live", (int)st->live, "waiting", (int)st->waiting,
			      "cap", (int)(p->error ? 0 : pool_cap(&p->pool)), "down", p->pool.down,
			      "paused", st->paused, "next", st->next);
	json_t *jobs = json_array();
	const char *error = p->error ? p->error : st->error;

	if (error[0])
		(void)json_object_set_new(o, "error", json_string(error));
	if (st->pause[0])
		(void)json_object_set_new(o, "pause", json_string(st->pause));
	if (p->lost)
		(void)json_object_set_new(o, "lost", json_string(p->lost));
	for (size_t i = 0; i < p->jobs.n; i++)
		(void)json_array_append_new(jobs, job_json(&p->jobs.all[i]));
	(void)json_object_set_new(o, "jobs", jobs);
	(void)json_object_set_new(o, "commands", commands_json(st));
	if (!p->error)
		add_wanted(o, &p->pool);
	return o;
}

json_t *pools_json(const struct pools_shown *p, size_t from)
{
	json_t *a = json_array();

	for (size_t i = from; i < p->n; i++)
		(void)json_array_append_new(a, shown_json(&p->all[i]));
	return a;
}

/* The caller frees it. */
static char *label(const struct pool_shown *p, const char *instance)
{
	return strcmp(p->instance, instance) == 0 ? xstrdup(p->name)
						  : xasprintf("%s/%s", p->instance, p->name);
}

static void pool_row(struct table *t, const struct pool_shown *p, const char *called)
{
	const struct pool_state *st = &p->state;
	char gpus[16], wanted[16], live[16], waiting[16], cap[16];

	table_add(t, p->pool.down ? TERM_DIM : TABLE_PLAIN, called, p->pool.engine,
		  str_print(gpus, sizeof(gpus), "%u", p->pool.gpus),
		  str_print(wanted, sizeof(wanted), "%u", st->wanted),
		  str_print(live, sizeof(live), "%u", st->live),
		  str_print(waiting, sizeof(waiting), "%u", st->waiting),
		  str_print(cap, sizeof(cap), "%u", p->error ? 0 : pool_cap(&p->pool)),
		  p->error	? p->error
		  : st->next[0] ? st->next
				: "the first tick");
}

static void job_row(struct table *t, const char *called, const struct pool_job *job)
{
	char start[CLOCK_TEXT_MAX] = "";

	if (start_of(job))
		(void)clock_format_local(start_of(job), start);
	table_add(t, TABLE_PLAIN, job->id[0] ? job->id : job->token, called,
		  job->agent[0] ? "serves" : engine_job_state_name(job->state), job->node, start,
		  job->agent[0] ? job->agent : job->reason);
}

static void add_jobs(struct table *t, const struct pool_shown *p, const char *instance)
{
	cleanup_free char *called = label(p, instance);

	for (size_t i = 0; i < p->jobs.n; i++)
		if (p->jobs.all[i].phase != POOL_JOB_ENDED)
			job_row(t, called, &p->jobs.all[i]);
}

static void print_jobs(const struct pools_shown *p, const char *instance)
{
	static const struct table_column columns[] = {
		{ "JOB" }, { "POOL" }, { "STATE" }, { "NODE" }, { "START", .drop = 1 },
		{ "" },	   { 0 }
	};
	struct table *t = table_new(columns);

	for (size_t i = 0; i < p->n; i++)
		add_jobs(t, &p->all[i], instance);
	if (!table_is_empty(t)) {
		printf("\nTheir jobs:\n");
		table_print(t, stdout);
	}
	t = table_free(t);
}

/* Seconds since its last tick, by two clocks; 0: the clocks are apart. */
static uint64_t ticked_ago_s(const struct pool_shown *p)
{
	uint64_t now_s = clock_wall_ns() / NS_PER_S, then_s = p->state.ticked_s;

	return now_s > then_s ? now_s - then_s : 0;
}

static bool has_open_job(const struct pool_shown *p)
{
	for (size_t i = 0; i < p->jobs.n; i++)
		if (p->jobs.all[i].phase != POOL_JOB_ENDED)
			return true;
	return false;
}

bool pools_is_over(const struct pool_shown *p)
{
	return !p->error && p->pool.only && p->pool.down && alloc_of_pool(p->name) &&
	       !has_open_job(p);
}

/* A sentence, which the caller frees: what is shown is old, and nobody will change that. NULL: it
 * is not, or there is nothing to be done. */
static char *tell_stale(const struct pool_shown *p)
{
	const struct pool_state *st = &p->state;
	char ago[UNIT_TEXT_MAX];

	if (p->error || st->paused || !st->ticked_s || ticked_ago_s(p) < LATELY_S ||
	    (!has_open_job(p) && (p->pool.down || st->live + st->waiting >= st->wanted)))
		return NULL;
	return xasprintf("this is as it was %s ago, and no agent of it lives to look after it: "
			 "tenure tick %s looks now",
			 unit_format_duration(ticked_ago_s(p) * MS_PER_S, ago), p->instance);
}

static void warn_of(const struct pool_shown *p, const char *instance)
{
	cleanup_free char *called = label(p, instance), *stale = tell_stale(p);
	const struct pool_state *st = &p->state;

	if (stale)
		cmd_warn("warning", "pool %s: %s", called, stale);
	if (st->paused)
		cmd_warn("warning", "pool %s is paused: %s", called, st->pause);
	else if (p->lost)
		cmd_warn("warning", "pool %s: %s", called, p->lost);
	if (st->error[0])
		cmd_warn("warning", "pool %s: %s", called, st->error);
}

/* It is of that instance, or somebody may wait for something of it. */
static bool is_of_interest(const struct pool_shown *p, const char *instance)
{
	return has_open_job(p) || !p->pool.down ||
	       (strcmp(p->instance, instance) == 0 && !pools_is_over(p));
}

void pools_print(const struct pools_shown *p, const char *instance)
{
	static const struct table_column columns[] = {
		{ "POOL" },	    { "ENGINE" },     { "GPUS", true },
		{ "WANTED", true }, { "LIVE", true }, { "WAITING", true },
		{ "CAP", true },    { "NEXT" },	      { 0 }
	};
	struct table *t = table_new(columns);

	for (size_t i = 0; i < p->n; i++) {
		cleanup_free char *called = label(&p->all[i], instance);

		if (is_of_interest(&p->all[i], instance))
			pool_row(t, &p->all[i], called);
	}
	if (!table_is_empty(t)) {
		printf("\nPools:\n");
		table_print(t, stdout);
	}
	t = table_free(t);
	for (size_t i = 0; i < p->n; i++)
		if (is_of_interest(&p->all[i], instance))
			warn_of(&p->all[i], instance);
	print_jobs(p, instance);
}

/* The engine's own estimate for the first of those that wait; 0: it gives none. */
static uint64_t next_start_ns(const struct pool_shown *p)
{
	uint64_t first_ns = 0;

	for (size_t i = 0; i < p->jobs.n; i++) {
		const struct pool_job *job = &p->jobs.all[i];

		if (job->phase == POOL_JOB_ENDED || job->agent[0] || !job->start_ns)
			continue;
		if (!first_ns || job->start_ns < first_ns)
			first_ns = job->start_ns;
	}
	return first_ns;
}

/* What the engine says of the first of those that wait; NULL: nothing. */
static const struct pool_job *first_with_reason(const struct pool_shown *p)
{
	for (size_t i = 0; i < p->jobs.n; i++) {
		const struct pool_job *job = &p->jobs.all[i];

		if (job->phase != POOL_JOB_ENDED && !job->agent[0] && job->reason[0])
			return job;
	}
	return NULL;
}

char *pool_sentence(const struct pool_shown *p)
{
	const struct pool_state *st = &p->state;
	const struct pool_job *waits = first_with_reason(p);
	uint64_t start_ns = next_start_ns(p);
	cleanup_free char *stale = tell_stale(p);
	struct strbuf b = STRBUF_INIT;
	char start[CLOCK_TEXT_MAX];

	if (p->error)
		return xasprintf("pool %s is none: %s", p->name, p->error);
	strbuf_addf(&b, "pool %s (%s): %u wanted, %u live, %u waiting of %u; next: %s", p->name,
		    p->pool.engine, st->wanted, st->live, st->waiting, pool_cap(&p->pool),
		    st->next[0] ? st->next : "its first tick");
	if (waits)
		strbuf_addf(&b, "; job %s waits: %s", waits->id, waits->reason);
	if (start_ns)
		strbuf_addf(&b, "; its engine expects a start at %s",
			    clock_format_local(start_ns, start));
	if (st->paused)
		strbuf_addf(&b, "; paused: %s", st->pause);
	else if (p->lost)
		strbuf_addf(&b, "; %s", p->lost);
	if (st->error[0])
		strbuf_addf(&b, "; %s", st->error);
	if (stale)
		strbuf_addf(&b, "; %s", stale);
	return strbuf_take(&b);
}

/* ---- what others ask ---- */

unsigned int pools_most_gpus(const struct spool *sp)
{
	struct pools_shown shown = { .n = 0 };
	unsigned int most = 0;

	(void)pools_read(sp, &shown, NULL);
	for (size_t i = 0; i < shown.n; i++)
		if (!shown.all[i].error && !shown.all[i].pool.down && shown.all[i].pool.gpus > most)
			most = shown.all[i].pool.gpus;
	pools_shown_clear(&shown);
	return most;
}

unsigned int pools_most_nodes(const struct spool *sp, uint64_t gpus)
{
	struct pools_shown shown = { .n = 0 };
	unsigned int most = 0;

	(void)pools_read(sp, &shown, NULL);
	for (size_t i = 0; i < shown.n; i++) {
		const struct pool *p = &shown.all[i].pool;

		if (!shown.all[i].error && !p->down && p->gpus >= gpus && pool_cap(p) > most)
			most = pool_cap(p);
	}
	pools_shown_clear(&shown);
	return most;
}

/* Whether it is to be tried again, since somebody else is busy with it. */
static bool tick_one(const struct spool *sp, const char *name, const struct pool_caller *caller,
		     bool last, pools_told_fn tell)
{
	struct pool_report report;
	struct err e = ERR_INIT;
	int r = pool_tick(sp, name, caller, &report, &e);
	bool again = r == 0 && report.busy && !last;

	if (!again)
		tell(sp, name, r, &report, &e);
	pool_report_clear(&report);
	return again;
}

void pools_tick(const struct spool *sp, const struct text_list *names,
		const struct pool_caller *caller, pools_told_fn tell)
{
	struct text_list busy = { .n = 0 };
	struct pool_caller now = *caller;
	uint64_t until_ns, now_ns;

	now.patience_ms = 0;
	for (size_t i = 0; i < names->n; i++)
		if (tick_one(sp, names->texts[i], &now, !caller->patience_ms, tell))
			text_list_add(&busy, names->texts[i]);
	until_ns = clock_mono_ns() + caller->patience_ms * NS_PER_MS;
	for (size_t i = 0; i < busy.n; i++) {
		now_ns = clock_mono_ns();
		now.patience_ms = until_ns > now_ns ? (until_ns - now_ns) / NS_PER_MS : 0;
		(void)tick_one(sp, busy.texts[i], &now, true, tell);
	}
	text_list_clear(&busy);
}

static void note_tick(const struct spool *sp, const char *name, int r,
		      const struct pool_report *report, const struct err *e)
{
	if (r < 0)
		cmd_warn("note", "pool %s: %s", name, e->text);
	else if (report->said.len)
		cmd_warn("note", "pool %s: %s", name, strbuf_str(&report->said));
	else if (report->busy && !report->begun)
		cmd_warn("note",
			 "pool %s: somebody else looks after it at this moment; tenure tick %s "
			 "looks again",
			 name, spool_instance(sp));
}

/* The agents of its jobs, of which one may see to it. */
static void add_agents(struct text_list *agents, const struct pool_shown *p)
{
	for (size_t i = 0; i < p->jobs.n; i++)
		if (p->jobs.all[i].phase != POOL_JOB_ENDED && p->jobs.all[i].agent[0])
			text_list_add(agents, p->jobs.all[i].agent);
}

/* An agent that lives, and has ticked lately, sees the task, at the latest when it leaves. */
static bool is_seen_to(const struct cmd_ctx *ctx, const struct spool *sp,
		       const struct pool_shown *p)
{
	struct text_list names = { .n = 0 };
	struct node_agents agents = { .n = 0 };
	bool lives = false;

	if (ticked_ago_s(p) >= LATELY_S)
		return false;
	add_agents(&names, p);
	if (names.n)
		node_agents_read_named(ctx, sp, &names, &agents);
	for (size_t i = 0; i < agents.n && !lives; i++) {
		const struct node_agent *a = &agents.all[i];

		lives = a->state == NODE_AGENT_ALIVE &&
			(a->here || a->age_ms <= pools_silent_ms(ctx));
	}
	node_agents_clear(&agents);
	text_list_clear(&names);
	return lives;
}

void pools_tick_after_submit(const struct cmd_ctx *ctx, const struct spool *sp)
{
	cleanup_free char *root = spool_root(settings_str(ctx->settings, SET_ROOT));
	struct pool_caller caller = pools_caller(ctx, root);
	struct pools_shown shown = { .n = 0 };
	struct text_list names = { .n = 0 };

	caller.silent_ms = pools_silent_ms(ctx);
	caller.patience_ms = POOLS_PATIENCE_MS;
	(void)pools_read(sp, &shown, NULL);
	for (size_t i = 0; i < shown.n; i++) {
		const struct pool_shown *p = &shown.all[i];

		if (!p->error && !p->pool.down && !is_seen_to(ctx, sp, p))
			text_list_add(&names, p->pool.name);
	}
	pools_tick(sp, &names, &caller, note_tick);
	text_list_clear(&names);
	pools_shown_clear(&shown);
}

/* Whoever hangs here has nothing that anybody waits for any more. */
void pools_tick_at_end(const struct cmd_ctx *ctx, const char *token, uint64_t n_ended)
{
	cleanup_free char *root = spool_root(settings_str(ctx->settings, SET_ROOT));
	struct pool_caller caller = pools_caller_of_agent(ctx, root);
	struct spool_trust trust = trust_from_settings(ctx->settings);
	struct spool *sp = NULL;

	(void)signal(SIGALRM, SIG_DFL);
	(void)alarm(END_LIMIT_S);
	caller.token = token;
	caller.n_ended = n_ended;
	caller.patience_ms = END_LIMIT_S * 1000ULL / 2;
	if (spool_open(root, settings_str(ctx->settings, SET_INSTANCE), &trust, 0, &sp, NULL) == 0)
		pool_tick_all(sp, &caller);
	sp = spool_close(sp);
	(void)alarm(0);
}
