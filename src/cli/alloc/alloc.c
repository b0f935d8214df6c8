/* SPDX-License-Identifier: MIT */

/* `alloc`, which takes GPUs for a purpose, and `release`, which gives them back. */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/agent_client.h"
#include "cli/alloc/alloc_make.h"
#include "cli/alloc/alloc_pool.h"
#include "cli/alloc/listed.h"
#include "cli/alloc/live.h"
#include "cli/commands.h"
#include "cli/instance.h"
#include "cli/node_agents.h"
#include "cli/pools.h"
#include "cli/task/aftercheck.h"
#include "cli/task/submit_inherit.h"
#include "cli/task/taskstop.h"
#include "cli/task/watch.h"
#include "cli/task/why.h"
#include "pool/pool.h"
#include "spool/instance.h"
#include "spool/record.h"
#include "spool/submit.h"
#include "spool/task_text.h"

static const struct opt alloc_opts[] = {
	{ .name = "gpus",
	  .short_name = 'g',
	  .spec = { VALUE_UINT, .min = 1, .max = SPEC_GPUS_MAX },
	  .arg = "N",
	  .help = "so many GPUs, all of one node (default: the setting min_gpus)" },
	{ .name = "for",
	  .spec = { VALUE_DURATION, .min = 1 },
	  .arg = "DURATION",
	  .help = "give them back by itself after that time" },
	{ .name = "wait",
	  .spec = { VALUE_DURATION },
	  .arg = "DURATION",
	  .def = "10s",
	  .help = "so long until it has them, or it is told what it waits for" },
	{ .name = "now",
	  .spec = { VALUE_FLAG },
	  .help = "take it back if it has not got them by then" },
	{ 0 },
};

/* Which GPUs, what before it, and how many while its program runs: as of any task. */
static void add_task_opts(struct opts *o)
{
	static const char *const keys[] = { "model",	  "after",	  "after_any",
					    "gpus_min",	  "gpus_max",	  "scale_up",
					    "scale_down", "scale_window", "scale_cooldown" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		opts_add_row(o, &task_option_find(keys[i])->opt);
	opts_add_rows(o, alloc_pool_opts);
}

/* ---- asking for it ---- */

static struct task_spec *make_spec(const struct cmd_ctx *ctx, const char *name, unsigned int gpus,
				   struct err *e)
{
	struct task_spec *s = spec_new();
	const struct value *limit = opts_value(ctx->opts, "for");
	int r = spec_set_text(s, "name", name, e);

	s->allocation = true;
	if (r == 0)
		r = spec_take_options(s, ctx->opts, e);
	s->gpus = gpus;
	s->timeout = limit ? limit->num : 0;
	submitter_umask(s);
	if (r == 0)
		r = spec_check(s, e);
	if (r == 0)
		r = spec_check_new(s, e);
	return r == 0 ? s : spec_free(s);
}

/* ---- what came of it ---- */

struct asked {
	const struct cmd_ctx *ctx;
	const struct spool *sp;
	const char *name;
	uint64_t id;
};

static void print_json(const struct asked *a, const struct live_allocs *l, const char *reason)
{
	char word[24];
	const struct live_alloc *found =
		live_allocs_find(l, str_print(word, sizeof(word), "%" PRIu64, a->id), NULL);
	json_t *doc = found ? live_alloc_json(a->sp, found) : json_object();

	(void)json_object_set_new(doc, "reason", reason ? json_string(reason) : json_null());
	cmd_print_json_line(doc);
}

static volatile sig_atomic_t interrupt;

static void on_interrupt(int signum)
{
	interrupt = signum;
}

/* Who is told to end while it waits says what becomes of it first. */
static void catch_interrupts(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction act = { .sa_handler = on_interrupt }, before;

	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			(void)sigaction(signals[i], &act, NULL);
}

static void end_by_interrupt(void)
{
	(void)fflush(NULL);
	(void)signal(interrupt, SIG_DFL);
	(void)raise(interrupt);
}

/* Its time may have been over, or somebody has given it back, before anybody looked. */
static int tell_over(const struct asked *a, const struct task_place *place, struct err *e)
{
	struct task_file t;
	char why[RECORD_REASON_MAX];
	int r = task_file_read(a->sp, place->path, &t, e);
	bool had;

	if (r < 0)
		return err_wrap(e, "%s was given back", a->name);
	had = t.history.started_ns || t.history.end.use.gpus;
	task_file_clear(&t);
	if (!had)
		return err_set(e, -ECANCELED, "%s was given back before it had its GPUs", a->name);
	(void)taskstate_why_failed(a->sp, &place->name, why);
	return err_set(e, -ECANCELED,
		       "%s had its GPUs, and was given back before this was seen%s%s", a->name,
		       why[0] ? ": " : "", why);
}

/* It has its GPUs: 1; it has ended: -ECANCELED; 0: neither. */
static int look(const struct asked *a, struct taskwatch *w, struct err *e)
{
	struct alloc_state st;
	int r = taskwatch_look(w, e);

	if (r == 1)
		return tell_over(a, taskwatch_place(w), e);
	if (r < 0 || taskwatch_state(w) != TASKSTATE_RUNNING)
		return r;
	r = alloc_state_read(a->sp, a->id, &st, e);
	return r < 0 ? r : st.host[0] != '\0';
}

static int wait_for_it(const struct asked *a, const struct task_place *place, struct err *e)
{
	uint64_t end_ns = clock_mono_ns() + opts_value(a->ctx->opts, "wait")->num * NS_PER_MS;
	struct taskwatch *w = NULL;
	int r = taskwatch_open(a->sp, place, &w, e);

	catch_interrupts();
	while (r == 0 && (r = look(a, w, e)) == 0 && clock_mono_ns() < end_ns && !interrupt)
		taskwatch_pause(w);
	w = taskwatch_close(w);
	return r;
}

/* With the node that was asked for. */
static int take_back(const struct asked *a, struct err *e)
{
	struct taskstop s = {
		.ctx = a->ctx, .sp = a->sp, .quiet = true, .remote_ms = AGENTS_LIMIT_MS
	};
	char word[24], pool[ALLOC_POOL_MAX], path[SPOOL_PATH_MAX];
	int r = taskstop_word(&s, str_print(word, sizeof(word), "%" PRIu64, a->id), e);

	r = r == 0 ? taskstop_finish(&s, e) : r;
	if (spool_exists(a->sp, pool_path(alloc_pool_name(a->id, pool), path)))
		(void)alloc_pool_down(a->ctx, pool, ALLOC_POOL_QUIET);
	return r;
}

static char *reason_of(const struct asked *a)
{
	struct strbuf why = STRBUF_INIT;
	struct task_place place;

	if (select_by_id(a->sp, a->id, 0, &place, NULL) < 0 ||
	    why_of(a->ctx, a->sp, &place, &why, NULL) < 0 || !why.len) {
		strbuf_clear(&why);
		return xstrdup("waits");
	}
	return strbuf_take(&why);
}

static void tell_interrupted(const struct asked *a)
{
	cleanup_free char *option = instance_option(a->ctx);
	struct err e = ERR_INIT;

	if (!opts_flag(a->ctx->opts, "now"))
		cmd_warn("note", "%s waits on in the queue; tenure release%s %s takes it back",
			 a->name, option, a->name);
	else if (take_back(a, &e) == 0)
		cmd_warn("note", "%s was taken back", a->name);
	else
		cmd_warn("warning", "%s was not taken back: %s", a->name, e.text);
	end_by_interrupt();
}

static int tell_waits(const struct asked *a, const struct live_allocs *live, struct err *e)
{
	cleanup_free char *why = reason_of(a);

	if (opts_flag(a->ctx->opts, "now")) {
		int r = take_back(a, e);

		return r < 0 ? r : err_set(e, -EBUSY, "%s was taken back: it %s", a->name, why);
	}
	if (opts_flag(a->ctx->opts, "json"))
		print_json(a, live, why);
	else
		printf("%s (task %" PRIu64 ") %s\n", a->name, a->id, why);
	return 0;
}

static void tell_has(const struct asked *a, const struct live_allocs *live)
{
	char word[24];
	const struct live_alloc *found =
		live_allocs_find(live, str_print(word, sizeof(word), "%" PRIu64, a->id), NULL);
	cleanup_free char *has = found ? live_alloc_has(found) : xstrdup("its GPUs");
	cleanup_free char *option = instance_option(a->ctx);

	if (opts_flag(a->ctx->opts, "json"))
		print_json(a, live, NULL);
	else
		printf("%s (task %" PRIu64 ") has %s; tenure start%s %s -- COMMAND runs something "
		       "there\n",
		       a->name, a->id, has, option, a->name);
}

static int tell(const struct asked *a, struct err *e)
{
	struct live_allocs live = { .n = 0 };
	struct task_place place;
	int r = select_by_id(a->sp, a->id, 0, &place, e), has = 0;

	if (r == 0)
		has = r = wait_for_it(a, &place, e);
	if (r >= 0)
		r = live_allocs_read(a->sp, &live, e);
	if (r == 0 && has)
		tell_has(a, &live);
	else if (r == 0 && interrupt)
		tell_interrupted(a);
	else if (r == 0)
		r = tell_waits(a, &live, e);
	live_allocs_clear(&live);
	return r;
}

/* What is to be over before it is there. */
static int check_after(const struct cmd_ctx *ctx, const struct spool *sp, struct task_spec *s,
		       struct err *e)
{
	struct after_check c = { .sp = sp };
	int r = after_take_last(sp, s, e);

	r = r == 0 ? after_check(&c, 0, s, e) : r;
	after_check_clear(&c);
	return r;
}

/* Where the engine does not want it there is no allocation. An exit code. */
static int bring_up(const struct asked *a, const struct task_spec *s, struct alloc_denial *denied,
		    struct err *e)
{
	unsigned int gpus = (unsigned int)(s->gpus_max ? s->gpus_max : s->gpus);
	int code = alloc_pool_up(a->ctx, alloc_pool_engine(a->ctx), s->pool, gpus, ALLOC_POOL_TELL);
	struct err other = ERR_INIT;

	if (code == CMD_OK) {
		cleanup_free char *option = instance_option(a->ctx);

		listed_forget(a->ctx, a->sp, s->pool);
		cmd_warn(
			"note",
			"its job keeps %u GPU%s of %s until tenure release%s %s, whether or not a program "
			"runs there; a site may end jobs that keep GPUs for nothing",
			gpus, gpus == 1 ? "" : "s", alloc_pool_engine(a->ctx), option, a->name);
		return 0;
	}
	(void)take_back(a, &other);
	denied->reason = code == CMD_FAILED ? "engine" : NULL;
	(void)err_set(e, -EIO, "%s is not allocated", a->name);
	return code;
}

static int run_alloc(const struct cmd_ctx *ctx, struct err *e)
{
	const struct value *gpus = opts_value(ctx->opts, "gpus");
	uint64_t n = gpus ? gpus->num : settings_num(ctx->settings, SET_ALLOC_GPUS);
	struct asked a = { .ctx = ctx, .name = opts_arg(ctx->opts, 0) };
	struct alloc_denial denied = { .reason = NULL };
	struct task_spec *s = make_spec(ctx, a.name, (unsigned int)n, e);
	struct spool *sp = NULL;
	int r;

	if (s && opts_argc(ctx->opts) > 1 && !(opts_dashes(ctx->opts) && alloc_pool_engine(ctx))) {
		(void)err_set(e, -EINVAL,
			      "\"%s\": one NAME at a time; what stands behind -- is for the job of "
			      "--engine",
			      opts_arg(ctx->opts, 1));
		s = spec_free(s);
	}
	if (s && alloc_pool_engine(ctx) &&
	    (opts_given(ctx->opts, "after") || opts_given(ctx->opts, "after-any"))) {
		(void)err_set(e, -EINVAL,
			      "--after is not for --engine: its job would keep GPUs while the "
			      "allocation waits");
		s = spec_free(s);
	}
	if (!s)
		return CMD_USAGE;
	r = instance_open(ctx, SPOOL_CREATE, &sp, e);
	a.sp = sp;
	if (r == 0)
		r = check_after(ctx, sp, s, e);
	if (r == 0)
		r = alloc_make(ctx, sp, s, ALLOC_MANUAL, alloc_pool_engine(ctx) != NULL, &a.id,
			       &denied, e);
	if (r == SUBMIT_NOT_DURABLE) {
		cmd_warn("warning", "%s\nit is in the queue, but may not survive a power loss",
			 e->text);
		r = 0;
	} else if (r < 0) {
		r = err_wrap(e, "not allocated");
	}
	if (r == 0 && s->pool)
		r = bring_up(&a, s, &denied, e);
	if (r == 0)
		agent_look(ctx);
	if (r == 0 && !s->pool)
		pools_tick_after_submit(ctx, sp);
	if (r == 0)
		r = tell(&a, e);
	if (denied.reason) {
		bool by_engine = strcmp(denied.reason, "engine") == 0;
		cleanup_free char *text =
			xasprintf("%s%s%s%s", by_engine ? "" : a.name, by_engine ? "" : ": ",
				  e->text, by_engine ? ": the engine took no job for it" : "");

		alloc_tell_denied(ctx, a.name, (unsigned int)n, &denied, text);
	}
	sp = spool_close(sp);
	(void)spec_free(s);
	return r;
}

static const struct cmd_example alloc_examples[] = {
	{ "tenure alloc exp_train -g 4", "four GPUs of one node, until they are given back" },
	{ "tenure alloc notebook --for 8h", "one, for a day's work" },
	{ "tenure alloc exp_train -g 1 --gpus-max 4",
	  "one, and up to four while its program is busy: tenure start tells that how" },
	{ "tenure alloc eval --after last", "when what you submitted last is done" },
	{ "tenure alloc exp_train -g 2 --now || echo none", "at once or not at all" },
	{ 0 },
};

const struct cmd cmd_alloc = {
	.name = "alloc",
	.group = ALLOC_GROUP,
	.summary = "take GPUs for a purpose, and keep them",
	.args = "NAME [-- LINE..]",
	.min_args = 1,
	.description =
		"An allocation is a task that keeps its GPUs until tenure release, whatever runs on them "
		"meanwhile: tenure start runs a program there, and another one after it. It waits for its "
		"turn as other tasks do, is told by why, list and history, and survives what they survive. "
		"GPUs that were held for you stay held until the first program uses them.\n\n"
		"max_total_gpus, max_manual_gpus and max_gpus_per_task limit how many GPUs allocations may "
		"have; what is more is refused, with who has what. Nobody else gets an allocated GPU "
		"through your queue; on a machine that you share, somebody who starts there all the same "
		"is not stopped.\n\n"
		"With --engine the allocation is a job of its own on that engine: one node, whose agent runs "
		"nothing else, until it is released or the job's time is over; then the next one is asked for.",
	.examples = alloc_examples,
	.opts = alloc_opts,
	.add_opts = add_task_opts,
	.flags = CMD_JSON,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT | SETTING_GROUP_ALLOC,
	.run = run_alloc,
};

/* ---- release ---- */

struct releasing {
	struct taskstop stop;
	struct live_allocs live;
	struct text_list pools; /* that go with them */
};

static int release_one(void *data, const char *word, struct err *e)
{
	struct releasing *r = data;
	const struct live_alloc *a = live_allocs_find(&r->live, word, e);
	char id[24];

	if (!a)
		return -ENOENT;
	if (a->pool[0])
		text_list_add(&r->pools, a->pool);
	return taskstop_word(&r->stop, str_print(id, sizeof(id), "%" PRIu64, a->task.name.id), e);
}

static int run_release(const struct cmd_ctx *ctx, struct err *e)
{
	struct releasing r = { .stop = { .ctx = ctx, .remote_ms = AGENTS_LIMIT_MS } };
	struct spool *sp = NULL;
	struct err last = ERR_INIT;
	int first, last_r;

	if (!opts_argc(ctx->opts)) { /* as other programs call what `off` is here */
		(void)err_set(
			e, -EINVAL,
			"say which allocation: tenure release NAME; what is merely held is let "
			"go of by: tenure off");
		return CMD_USAGE;
	}
	first = instance_open(ctx, 0, &sp, e);
	r.stop.sp = sp;
	if (first == 0)
		first = live_allocs_read(sp, &r.live, e);
	if (first == 0) {
		first = change_words(NULL, ctx->opts, 0, release_one, &r, e);
		last_r = taskstop_finish(&r.stop, &last);
		if (last_r < 0 && first)
			(void)cmd_fail(CMD_FAILED, e->text);
		if (last_r < 0)
			*e = last;
		first = first ? first : last_r;
	}
	live_allocs_clear(&r.live);
	for (size_t i = 0; i < r.pools.n; i++)
		listed_forget(ctx, sp, r.pools.texts[i]);
	sp = spool_close(sp);
	if (r.stop.changed)
		agent_look(ctx);
	for (size_t i = 0; i < r.pools.n; i++) {
		int code = alloc_pool_down(ctx, r.pools.texts[i], ALLOC_POOL_TELL);

		first = first ? first : code;
	}
	text_list_clear(&r.pools);
	return first;
}

static const struct cmd_example release_examples[] = {
	{ "tenure release exp_train", "its program is ended, and its GPUs are free" },
	{ 0 },
};

const struct cmd cmd_release = {
	.name = "release",
	.group = ALLOC_GROUP,
	.summary = "give an allocation back",
	.args = "NAME..",
	.words = { WORDS_ALLOCS, WORDS_ALLOCS },
	.description =
		"What runs in it is told to end (SIGTERM, then SIGKILL after 30 s), with everything that "
		"it has started; then its GPUs are free. tenure wait NAME waits for that. What is merely "
		"held is let go of by tenure off.",
	.examples = release_examples,
	.flags = CMD_ENDS,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.run = run_release,
};
