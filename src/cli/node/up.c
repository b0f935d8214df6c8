/* SPDX-License-Identifier: MIT */

/*
 * `up`: what an instance wants of an engine. It writes the pool's file and does one tick, so that
 * what follows of it is seen at once; whoever ticks later goes by the file alone.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/node/pool_call.h"
#include "cli/pools.h"
#include "cli/term.h"
#include "pool/request.h"

#define HOURS_MOST 48ULL
#define MIB_BYTES  (1ULL << 20)

extern char **environ;

/* ---- the command line ---- */

/* A second word would be the engine's where nobody said so. */
static int check_words(const struct cmd_ctx *ctx, struct err *e)
{
	size_t names = pool_call_word(ctx) ? 1 : 0;

	if (pool_call_check(ctx, e) != CMD_OK)
		return CMD_USAGE;
	if (opts_argc(ctx->opts) <= names || opts_dashes(ctx->opts))
		return CMD_OK;
	(void)err_set(e, -EINVAL,
		      "\"%s\": what the engine is told stands behind --, as in tenure up %s -- "
		      "--partition=gpu",
		      opts_arg(ctx->opts, names), names ? opts_arg(ctx->opts, 0) : "NAME");
	return CMD_USAGE;
}

/* *ret is NULL where there is none yet. */
static int open_if_there(const struct cmd_ctx *ctx, struct spool **ret, struct err *e)
{
	int r = pool_call_open(ctx, 0, ret, e);

	if (r != -ENOENT)
		return r;
	if (e)
		*e = (struct err)ERR_INIT;
	return 0;
}

/* ---- up ---- */

static const struct opt up_opts[] = {
	POOL_CALL_OPT,
	{ .name = "at-once",
	  .spec = { VALUE_FLAG },
	  .flags = OPT_HIDDEN,
	  .help = "it is a failure when the engine takes no job now (tenure alloc)" },
	{ .name = "engine",
	  .words = WORDS_ENGINES,
	  .spec = { VALUE_NAME },
	  .arg = "ENGINE",
	  .help = "who has the nodes: slurm, sge, sco, k8s, local; left out: the one that answers "
		  "here" },
	{ .name = "gpus",
	  .short_name = 'g',
	  .spec = { VALUE_UINT, .max = POOL_GPUS_MAX },
	  .arg = "N",
	  .help = "GPUs of each node (1 where nothing was said before)" },
	{ .name = "nodes",
	  .spec = { VALUE_UINT, .min = 1, .max = POOL_JOBS_MAX },
	  .arg = "N",
	  .help = "ask for so many nodes at once, and for no more at a time" },
	{ .name = "min",
	  .spec = { VALUE_UINT, .max = POOL_JOBS_MAX },
	  .arg = "N",
	  .help = "so many nodes whatever waits" },
	{ .name = "max",
	  .spec = { VALUE_UINT, .min = 1, .max = POOL_JOBS_MAX },
	  .arg = "N",
	  .help = "no more nodes than that, whatever waits" },
	{ .name = "total-gpus",
	  .spec = { VALUE_UINT, .max = POOL_JOBS_MAX * POOL_GPUS_MAX },
	  .arg = "N",
	  .help = "no more GPUs than that of all nodes together" },
	{ .name = "time",
	  .spec = { VALUE_DURATION },
	  .arg = "DURATION",
	  .help = "of each job; its agent leaves before that is over, and what runs then waits for "
		  "the next one" },
	{ .name = "type",
	  .spec = { VALUE_STRING },
	  .arg = "TYPE",
	  .help = "of the GPUs, in the engine's words" },
	{ .name = "cpus",
	  .spec = { VALUE_UINT, .max = 4096 },
	  .arg = "N",
	  .help = "processors of each node (4 for each GPU)" },
	{ .name = "node-memory",
	  .spec = { VALUE_SIZE, .max = POOL_MEM_MIB_MAX * MIB_BYTES },
	  .arg = "SIZE",
	  .help = "memory of each node (16 GiB for each GPU)" },
	{ .name = "keep",
	  .spec = { VALUE_FLAG },
	  .help = "hold the GPUs when nothing is to run, too, for --keep-for; without it an agent "
		  "that has nothing to do leaves" },
	{ .name = "keep-for",
	  .spec = { VALUE_DURATION, .min = 60000 },
	  .arg = "DURATION",
	  .def = "24h",
	  .help = "how long --keep holds at most" },
	{ .name = "idle-exit",
	  .spec = { VALUE_DURATION, .min = 1000 },
	  .arg = "DURATION",
	  .help = "an agent that has had nothing to do for so long leaves (5m)" },
	{ .name = "start-limit",
	  .spec = { VALUE_DURATION, .min = 1000 },
	  .arg = "DURATION",
	  .help = "an agent that has not reported so long after its job began does not (10m)" },
	{ .name = "signal-lead",
	  .spec = { VALUE_DURATION, .max = 86400000 },
	  .arg = "DURATION",
	  .help = "so long before its end the engine is to signal a job (3m)" },
	{ .name = "relay",
	  .spec = { VALUE_FLAG },
	  .help = "queue the next job so that it begins as one ends, and its tasks go on there" },
	{ .name = "only",
	  .spec = { VALUE_FLAG },
	  .help = "nothing runs there but tasks that name the pool: tenure submit --pool POOL" },
	{ .name = "prefix",
	  .spec = { VALUE_STRING },
	  .arg = "WORD",
	  .help = "with which the names of its jobs begin (tenure)" },
	{ .name = "template",
	  .words = WORDS_FILES,
	  .spec = { VALUE_PATH },
	  .arg = "FILE",
	  .flags = OPT_AS_TEXT,
	  .help = "a job script of your own, with {agent} and other words in it: docs/cluster.md" },
	{ .name = "drop",
	  .spec = { VALUE_TEXTS },
	  .arg = "DIRECTIVE",
	  .help = "leave out what begins so of the directives that tenure writes, such as --mem" },
	{ .name = "set",
	  .spec = { VALUE_TEXTS },
	  .arg = "KEY=VALUE",
	  .help = "what the engine needs besides: queue, image, workspace .. (docs/cluster.md)" },
	{ .name = "agent-option",
	  .spec = { VALUE_TEXTS },
	  .arg = "OPTION",
	  .help = "for its agents, such as --agent-option=--load=gemm" },
	{ .name = "dry-run",
	  .short_name = 'n',
	  .spec = { VALUE_FLAG },
	  .help = "print the script of a job, and ask for nothing" },
	{ 0 },
};

static bool given(const struct cmd_ctx *ctx, const char *name)
{
	return opts_given(ctx->opts, name);
}

static uint64_t num(const struct cmd_ctx *ctx, const char *name)
{
	return opts_value(ctx->opts, name)->num;
}

static void take_uint(const struct cmd_ctx *ctx, const char *name, unsigned int *at)
{
	if (given(ctx, name))
		*at = (unsigned int)num(ctx, name);
}

static void take_num(const struct cmd_ctx *ctx, const char *name, uint64_t *at)
{
	if (given(ctx, name))
		*at = num(ctx, name);
}

static void take_str(const struct cmd_ctx *ctx, const char *name, char **at)
{
	if (!given(ctx, name))
		return;
	free(*at);
	*at = opts_value(ctx->opts, name)->str[0] ? xstrdup(opts_value(ctx->opts, name)->str)
						  : NULL;
}

static void take_texts(const struct cmd_ctx *ctx, const char *name, struct text_list *at)
{
	if (!given(ctx, name))
		return;
	text_list_clear(at);
	for (size_t i = 0; i < opts_value(ctx->opts, name)->words.n; i++)
		if (opts_value(ctx->opts, name)->words.texts[i][0])
			text_list_add(at, opts_value(ctx->opts, name)->words.texts[i]);
}

/* A path, or what takes it back. */
static int take_template(const struct cmd_ctx *ctx, struct pool *p, struct err *e)
{
	static const struct value_spec spec = { VALUE_PATH };
	struct value v;
	int r;

	take_str(ctx, "template", &p->template_path);
	if (!given(ctx, "template") || !p->template_path)
		return 0;
	r = value_parse(&spec, p->template_path, &v, e);
	if (r < 0)
		return err_wrap(e, "--template");
	free(p->template_path);
	p->template_path = xstrdup(v.str);
	value_clear(&v);
	return 0;
}

/* "slurm, sge": one more. */
static void add_engine(struct strbuf *b, const struct engine *engine)
{
	strbuf_addf(b, "%s%s", b->len ? ", " : "", engine->name);
}

/* The first that answers and is not this machine itself: who asks for more has more. */
static int choose_engine(struct pool *p, struct err *e)
{
	struct engine_env env = { .environ = (const char *const *)environ,
				  .settings = &p->settings };
	cleanup_strbuf struct strbuf absent = STRBUF_INIT, failing = STRBUF_INIT;
	const struct engine *engine;

	for (size_t i = 0; (engine = engine_at(i)); i++) {
		int r;

		if (strcmp(engine->name, "local") == 0)
			continue;
		r = engine->probe(&env, NULL);
		if (r == 0) {
			(void)str_copy(p->engine, sizeof(p->engine), engine->name);
			return 0;
		}
		add_engine(r == -ENOENT ? &absent : &failing, engine);
	}
	return err_set(e, -ENOENT,
		       "no engine answers here: not there %s%s%s (tenure engines says why); "
		       "--engine names one, and --engine local takes GPUs of this machine",
		       strbuf_str(&absent), failing.len ? "; failing " : "", strbuf_str(&failing));
}

static void take_counts(const struct cmd_ctx *ctx, bool is_new, struct pool *p)
{
	bool range = given(ctx, "min") || given(ctx, "max");

	take_uint(ctx, "gpus", &p->gpus);
	take_uint(ctx, "min", &p->min);
	take_uint(ctx, "max", &p->max);
	take_uint(ctx, "total-gpus", &p->total_gpus);
	if (given(ctx, "nodes")) {
		p->first = (unsigned int)num(ctx, "nodes");
		p->max = given(ctx, "max") ? p->max : p->first;
	} else if (is_new) {
		p->first = range ? 0 : 1;
	}
	if (p->max < p->min && !given(ctx, "max"))
		p->max = p->min;
}

static unsigned int kept_nodes(const struct pool *p)
{
	return p->first && p->first < p->max ? p->first : p->max;
}

static void take_keep(const struct cmd_ctx *ctx, struct pool *p)
{
	if (!given(ctx, "keep") && !given(ctx, "keep-for"))
		return;
	/* What --keep has raised goes back with it. */
	if (p->keep_ms && !given(ctx, "min") && p->min == kept_nodes(p))
		p->min = 0;
	p->keep_ms = given(ctx, "keep") && !opts_flag(ctx->opts, "keep") ? 0 : num(ctx, "keep-for");
	if (p->keep_ms && !given(ctx, "min"))
		p->min = kept_nodes(p);
}

/* The engine's own words, behind "--". */
static void take_options(const struct cmd_ctx *ctx, struct pool *p)
{
	size_t first = pool_call_word(ctx) ? 1 : 0;

	if (opts_argc(ctx->opts) <= first && !opts_dashes(ctx->opts))
		return;
	text_list_clear(&p->options);
	for (size_t i = first; i < opts_argc(ctx->opts); i++)
		text_list_add(&p->options, opts_arg(ctx->opts, i));
}

/* What the user's files say of every pool: of one of the engine that they name, where they do. */
static void take_defaults(const struct cmd_ctx *ctx, struct pool *p)
{
	const char *engine = settings_str(ctx->settings, SET_ENGINE);

	if (engine && given(ctx, "engine") &&
	    strcmp(opts_value(ctx->opts, "engine")->str, engine) != 0)
		return;
	(void)str_copy(p->engine, sizeof(p->engine), engine ? engine : "");
	text_list_add_lines(&p->settings, settings_str(ctx->settings, SET_ENGINE_SETTINGS));
	text_list_add_lines(&p->options, settings_str(ctx->settings, SET_ENGINE_OPTIONS));
}

/* The settings of that key leave. */
static void drop_setting(struct text_list *l, const char *assignment)
{
	size_t n = strcspn(assignment, "=") + 1;
	struct text_list rest = { .n = 0 };

	for (size_t i = 0; i < l->n; i++)
		if (strncmp(l->texts[i], assignment, n) != 0)
			text_list_add(&rest, l->texts[i]);
	text_list_clear(l);
	*l = rest;
}

/* Over those of that key that there are; "KEY=" takes them back, whatever the engine. */
static void take_settings(const struct cmd_ctx *ctx, struct pool *p)
{
	const struct text_list *words;

	if (!given(ctx, "set"))
		return;
	words = &opts_value(ctx->opts, "set")->words;
	for (size_t i = 0; i < words->n; i++) {
		const char *word = words->texts[i], *equals = strchr(word, '=');

		if (equals && equals > word && !equals[1])
			drop_setting(&p->settings, word);
		else
			text_list_set_variable(&p->settings, word);
	}
}

/* A word that no agent knows would be found out by three jobs, one after another. */
static int check_agent_options(const struct pool *p, struct err *e)
{
	struct text_list argv = { .n = 0 };
	struct opts *o = cmd_opts(&cmd_agent);
	int r;

	text_list_add(&argv, cmd_agent.name);
	for (size_t i = 0; i < p->agent.n; i++)
		text_list_add(&argv, p->agent.texts[i]);
	r = opts_parse(o, (int)argv.n, argv.texts, OPTS_DEFAULT, e);
	if (r == 0 && opts_argc(o))
		r = err_set(e, -EINVAL,
			    "\"%s\" is no option; write it as --agent-option=--NAME=VALUE",
			    opts_arg(o, 0));
	if (r < 0)
		(void)err_wrap(e, "--agent-option");
	(void)opts_free(o);
	text_list_clear(&argv);
	return r;
}

/* What was said in another engine's words means nothing to the new one, or something else. */
static void take_engine(const struct cmd_ctx *ctx, struct pool *p)
{
	const char *engine = given(ctx, "engine") ? opts_value(ctx->opts, "engine")->str : NULL;

	if (!engine || strcmp(engine, p->engine) == 0)
		return;
	if (p->engine[0] && engine_find(engine)) {
		if (p->settings.n || p->options.n || p->drop.n || p->template_path || p->type)
			cmd_warn("note",
				 "what was said for %s is left out: settings, lines behind --, "
				 "--drop, --template and --type",
				 p->engine);
		text_list_clear(&p->settings);
		text_list_clear(&p->options);
		text_list_clear(&p->drop);
		free(take_ptr(p->template_path));
		free(take_ptr(p->type));
		take_defaults(ctx, p);
	}
	(void)str_copy(p->engine, sizeof(p->engine), engine);
}

/* What would be cut without a word. */
static int check_sizes(const struct cmd_ctx *ctx, struct err *e)
{
	if (given(ctx, "prefix") && strlen(opts_value(ctx->opts, "prefix")->str) > POOL_PREFIX_MAX)
		return err_set(e, -EINVAL, "--prefix: at most %d characters", POOL_PREFIX_MAX);
	if (given(ctx, "node-memory") && num(ctx, "node-memory") &&
	    num(ctx, "node-memory") < MIB_BYTES)
		return err_set(e, -EINVAL, "--node-memory: at least 1M");
	return 0;
}

/* Who asks is who runs the job, whatever user that has in its container: his queue is served. */
static void accept_asker(struct pool *p)
{
	if (!engine_find(p->engine) || !engine_find(p->engine)->as_root || geteuid() == 0)
		return;
	for (size_t i = 0; i < p->agent.n; i++)
		if (str_has_prefix(p->agent.texts[i], "--accept-owners"))
			return;
	text_list_take(&p->agent, xasprintf("--accept-owners=%u", (unsigned int)geteuid()));
}

static int take_all(const struct cmd_ctx *ctx, bool is_new, struct pool *p, struct err *e)
{
	uint64_t ms = p->lead_s * 1000ULL, bytes = p->mem_mib * MIB_BYTES;

	if (check_sizes(ctx, e) < 0)
		return CMD_USAGE;
	if (is_new)
		take_defaults(ctx, p);
	take_engine(ctx, p);
	if (given(ctx, "prefix"))
		(void)str_copy(p->prefix, sizeof(p->prefix), opts_value(ctx->opts, "prefix")->str);
	take_counts(ctx, is_new, p);
	take_uint(ctx, "cpus", &p->cpus);
	take_num(ctx, "node-memory", &bytes);
	take_num(ctx, "time", &p->time_ms);
	take_num(ctx, "idle-exit", &p->idle_ms);
	take_num(ctx, "start-limit", &p->start_ms);
	take_num(ctx, "signal-lead", &ms);
	take_keep(ctx, p);
	if (given(ctx, "relay"))
		p->relay = opts_flag(ctx->opts, "relay");
	if (given(ctx, "only"))
		p->only = opts_flag(ctx->opts, "only");
	take_str(ctx, "type", &p->type);
	if (take_template(ctx, p, e) < 0)
		return CMD_USAGE;
	take_texts(ctx, "drop", &p->drop);
	take_settings(ctx, p);
	take_texts(ctx, "agent-option", &p->agent);
	take_options(ctx, p);
	p->lead_s = (unsigned int)(ms / 1000);
	p->mem_mib = bytes / MIB_BYTES;
	p->down = false;
	p->asked_ns = clock_wall_ns();
	(void)user_name(geteuid(), p->user, sizeof(p->user));
	if (pool_check_limits(p, e) < 0 || pool_check_time(p, e) < 0 ||
	    check_agent_options(p, e) < 0)
		return CMD_USAGE;
	if (!p->engine[0] && choose_engine(p, e) < 0)
		return CMD_FAILED;
	accept_asker(p);
	return pool_check(p, e) < 0 ? CMD_USAGE : CMD_OK;
}

/* As it is, or one with what every pool begins with. sp: NULL where there is no such instance. */
static int read_or_make(const struct cmd_ctx *ctx, const struct spool *sp, struct pool *ret,
			bool *ret_new, struct err *e)
{
	int r = sp ? pool_read(sp, pool_call_pool(ctx), ret, e) : -ENOENT;

	*ret_new = r == -ENOENT;
	if (r != -ENOENT)
		return r;
	*ret = (struct pool){ .prefix = POOL_PREFIX,
			      .gpus = 1,
			      .max = 1,
			      .idle_ms = POOL_IDLE_MS,
			      .start_ms = POOL_START_MS,
			      .lead_s = 180 };
	(void)str_copy(ret->name, sizeof(ret->name), pool_call_pool(ctx));
	return 0;
}

/* "24h" and not a day: so a job's time is said to engines, and by people. */
static const char *job_time(uint64_t ms, char buf[UNIT_TEXT_MAX])
{
	if (ms % MS_PER_H == 0 && ms <= HOURS_MOST * MS_PER_H)
		return str_print(buf, UNIT_TEXT_MAX, "%lluh", ms / MS_PER_H);
	return unit_format_duration_exact(ms, buf);
}

static void print_report(const struct cmd_ctx *ctx, const struct pool *p,
			 const struct pool_report *report)
{
	const struct pool_state *st = &report->state;
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	cleanup_free char *show = pool_call_text(ctx, "instances", false);
	cleanup_free char *end = pool_call_text(ctx, "down", true);
	char time[UNIT_TEXT_MAX];

	strbuf_addf(&b, "Pool %s of instance %s: up to %u node%s with %u GPU%s each from %s",
		    p->name, pool_call_instance(ctx), pool_cap(p), pool_cap(p) == 1 ? "" : "s",
		    p->gpus, p->gpus == 1 ? "" : "s", p->engine);
	if (p->time_ms)
		strbuf_addf(&b, ", for %s each", job_time(p->time_ms, time));
	strbuf_addf(&b, "; %s.", p->keep_ms ? "its GPUs are held" : "its agents leave when idle");
	term_print_wrapped(stdout, strbuf_str(&b), 0);
	(void)fputs(strbuf_str(&report->said), stdout);
	if (report->busy)
		printf("Somebody else sees to it at this moment.\n");
	printf("Next: %s.\n", st->next[0] ? st->next : "its first tick");
	printf("%s shows how it goes, %s ends it.\n", show, end);
}

/* What is missing for a job is found before anything is written. */
static int make_script(const struct cmd_ctx *ctx, const struct pool *p, struct strbuf *script,
		       struct err *e)
{
	cleanup_free char *root = spool_root(settings_str(ctx->settings, SET_ROOT));
	struct pool_caller caller = pools_caller(ctx, root);

	return pool_script(pool_call_instance(ctx), p, &caller, script, e) < 0 ? CMD_USAGE : CMD_OK;
}

/* What its jobs run from now on; where it is not written, that which they would. */
static int take_program(const struct cmd_ctx *ctx, struct pool *p, bool write, struct err *e)
{
	cleanup_free char *root = spool_root(settings_str(ctx->settings, SET_ROOT));

	free(take_ptr(p->program));
	return pools_program(root, p->engine, write, &p->program, e);
}

static void tell_program(const struct pool *p)
{
	cleanup_free char *note = pools_program_note(p->engine, p->program);

	if (note)
		cmd_warn("note", "%s", note);
}

/* Jobs are one engine's, and their ids mean others to another one; those of one machine are seen
 * there alone. */
static int check_jobs(const struct cmd_ctx *ctx, const struct spool *sp, const struct pool *p,
		      struct err *e)
{
	cleanup_free char *end = pool_call_text(ctx, "down", true);
	struct pool_jobs jobs = { .n = 0 };
	int r = pool_jobs_read(sp, p->name, &jobs, e);

	for (size_t i = 0; i < jobs.n && r == 0; i++) {
		const struct pool_job *job = &jobs.all[i];

		if (job->phase == POOL_JOB_ENDED || !job->engine[0])
			continue;
		if (strcmp(job->engine, p->engine) != 0)
			r = err_set(
				e, -EBUSY,
				"pool %s has jobs of %s (%s): %s --now ends them, or --pool NAME "
				"makes another pool",
				p->name, job->engine, job->id, end);
		else if (!pool_is_here(sp, p))
			r = err_set(e, -EBUSY,
				    "pool %s has jobs on %s: call this there, or --pool NAME makes "
				    "another pool",
				    p->name, p->host);
	}
	pool_jobs_clear(&jobs);
	return r;
}

/* Of an engine that is one machine: this one. */
static void take_host(const struct spool *sp, struct pool *p)
{
	bool here = engine_find(p->engine)->here_alone;

	(void)str_copy(p->host, sizeof(p->host), here ? spool_host(sp) : "");
}

/* Somebody has called `up` since it was read: what is said now is said of that. seen_ns: the
 * asked_ns of what was read, 0 where there was none. */
static int take_again(const struct cmd_ctx *ctx, const struct spool *sp, uint64_t seen_ns,
		      struct pool *p, struct err *e)
{
	struct pool now = { .gpus = 0 };
	bool is_new = false;
	int r = read_or_make(ctx, sp, &now, &is_new, e);

	if (r == 0 && now.asked_ns != seen_ns) {
		r = take_all(ctx, is_new, &now, e);
		if (r == 0)
			r = check_jobs(ctx, sp, &now, e);
		if (r == 0) {
			pool_clear(p);
			*p = now;
			return 0;
		}
	}
	pool_clear(&now);
	return r;
}

static int write_words(const struct cmd_ctx *ctx, const struct spool *sp, uint64_t seen_ns,
		       struct pool *p, struct err *e)
{
	struct pool_owner owner;
	int r = pool_call_own(sp, p->name, &owner, e);

	if (r < 0)
		return r;
	r = take_again(ctx, sp, seen_ns, p, e);
	if (r == 0)
		r = take_program(ctx, p, true, e);
	if (r == 0) {
		take_host(sp, p);
		r = pool_write(sp, p, e);
	}
	pool_disown(sp, &owner);
	return r;
}

/* Where an engine's commands or its cluster are not, a new pool of it would be one that nobody sees
 * to. They may take as long to say so as the first job takes to be refused for it. */
static int check_engine(const struct pool *p, struct err *e)
{
	const struct engine_env env = { .environ = (const char *const *)environ,
					.settings = &p->settings };
	struct err why = ERR_INIT;

	if (engine_find(p->engine)->probe(&env, &why) != -ENOENT)
		return 0;
	return err_set(e, -ENOENT, "%s; no pool was made: call this where %s is", why.text,
		       p->engine);
}

/* sp: NULL where the instance is to be made. */
static int say_up(const struct cmd_ctx *ctx, struct spool **sp, uint64_t seen_ns, struct pool *p,
		  struct err *e)
{
	struct pool_report report = { .busy = false };
	int r = *sp ? 0 : pool_call_open(ctx, SPOOL_CREATE, sp, e);

	if (r == 0)
		r = write_words(ctx, *sp, seen_ns, p, e);
	if (r == 0)
		r = pool_call_tick(ctx, *sp, p, &report, e);
	if (r == 0)
		print_report(ctx, p, &report);
	(void)fflush(stdout);
	/* What is wanted is written, and is asked for again. */
	if (r == 0 && report.state.error[0] && opts_flag(ctx->opts, "at-once"))
		r = err_set(e, -EIO, "%s: %s", p->engine, report.state.error);
	else if (r == 0 && report.state.error[0])
		cmd_warn("warning", "the pool is there, but %s gave an error: %s", p->engine,
			 report.state.error);
	if (r == 0)
		tell_program(p);
	pool_report_clear(&report);
	return r;
}

/* What the engine itself says of such a job, which it does not get. */
static void tell_when(const struct cmd_ctx *ctx, const struct pool *p)
{
	cleanup_free char *root = spool_root(settings_str(ctx->settings, SET_ROOT));
	struct pool_caller caller = pools_caller(ctx, root);
	cleanup_strbuf struct strbuf words = STRBUF_INIT;
	char start[CLOCK_TEXT_MAX];
	struct err e = ERR_INIT;
	uint64_t at_ns = 0;
	int r = pool_when(pool_call_instance(ctx), p, &caller, &at_ns, &words, &e);
	const char *text = strbuf_str(&words);

	(void)fflush(stdout);
	(void)clock_format_local(at_ns, start);
	if (str_has_prefix(text, start)) /* the engine's words begin so, too */
		text += strlen(start) + strspn(text + strlen(start), " ");
	if (r == ENGINE_REFUSED)
		cmd_warn("warning", "%s would not take it: %s", p->engine, e.text);
	else if (r == 0 && at_ns)
		cmd_warn("note", "it would start at %s%s%s", start, text[0] ? ": " : "", text);
	else if (r == 0)
		cmd_warn("note", "%s", text);
	else if (r != -ENOTSUP)
		cmd_warn("note", "%s does not say when it would start: %s", p->engine, e.text);
}

static void dry_run(const struct cmd_ctx *ctx, const struct pool *p, const struct strbuf *script)
{
	tell_program(p);
	(void)fputs(strbuf_str(script), stdout);
	tell_when(ctx, p);
}

/* Nothing is written before all that can be wrong with what was said has been looked at. */
static int run_up(const struct cmd_ctx *ctx, struct err *e)
{
	cleanup_strbuf struct strbuf script = STRBUF_INIT;
	struct spool *sp = NULL;
	struct pool p = { .gpus = 0 };
	bool is_new = false;
	uint64_t seen_ns;
	int r = check_words(ctx, e);

	if (r == 0)
		r = open_if_there(ctx, &sp, e);
	if (r == 0)
		r = read_or_make(ctx, sp, &p, &is_new, e);
	seen_ns = p.asked_ns; /* 0 of a new one */
	if (r == 0)
		r = take_all(ctx, is_new, &p, e);
	if (r == 0 && sp)
		r = check_jobs(ctx, sp, &p, e);
	if (r == 0)
		r = take_program(ctx, &p, false, e);
	if (r == 0)
		r = make_script(ctx, &p, &script, e);
	if (r == 0 && opts_flag(ctx->opts, "dry-run")) {
		dry_run(ctx, &p, &script);
		goto out;
	}
	if (r == 0 && is_new)
		r = check_engine(&p, e);
	if (r == 0)
		r = say_up(ctx, &sp, seen_ns, &p, e);
out:
	pool_clear(&p);
	sp = spool_close(sp);
	return r;
}

static const struct cmd_example up_examples[] = {
	{ "tenure up exp1 -g 8 --nodes 2 --time 24h",
	  "two nodes with eight GPUs for the queue exp1" },
	{ "tenure up exp1 --min 0 --max 4 -- --partition=gpu",
	  "as many as the queue needs, up to four" },
	{ "tenure up exp1 -g 8 --dry-run", "the script of a job" },
	{ "tenure up exp1", "again, as it was" },
	{ 0 },
};

const struct cmd cmd_up = {
	.name = "up",
	.group = QUEUE_GROUP,
	.summary = "get nodes of an engine (Slurm, Grid Engine ..) for a queue",
	.args = "[NAME] [-- OPTION ..]",
	.words = { WORDS_INSTANCES },
	.max_args = 0,
	.description =
		"Asks the engine for jobs that each run an agent for the queue NAME (the one that "
		"commands mean, where it is left out). What follows -- is the engine's own and goes "
		"into its script as it is. Between --min and --max nodes the pool follows the queue: "
		"while tasks are ready that no node that is there can run, another one is asked for; "
		"an agent that has had nothing to do for 5 minutes leaves. Where the engine takes no "
		"job now, the pool is there all the same, and asks again later: a warning says why. "
		"Where its commands are not installed, or say that there is no cluster here, no "
		"new pool is made.\n\n"
		"Called again, it continues: with what was said before, but for the options that are "
		"given. A 0 or an empty value takes one back: --time 0, --type '', --set KEY=, "
		"or -- with nothing behind it. Another --engine begins without what was said "
		"in the words of the one before.",
	.examples = up_examples,
	.opts = up_opts,
	.setting_groups = SETTING_GROUP_QUEUE,
	.run = run_up,
};
