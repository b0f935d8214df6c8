/* SPDX-License-Identifier: MIT */

/* `start`: the order that an allocation's keeper (alloc/keeper.h) runs. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "cli/alloc/live.h"
#include "cli/commands.h"
#include "cli/instance.h"
#include "cli/task/submit_inherit.h"
#include "cli/task/submit_options.h"
#include "cli/task/why.h"
#include "spool/instance.h"
#include "spool/task_text.h"

#define LOOK_MS 100
#define TRIES	5

static const struct opt own_opts[] = {
	{ .name = "no-env", .spec = { VALUE_FLAG }, .help = "do not take this environment along" },
	{ .name = "on-change",
	  .spec = { VALUE_TEXT, .max = 4096 },
	  .arg = "HOW",
	  .def = "restart",
	  .help = "when the allocation gets or gives a GPU: restart the program; signal: it gets "
		  "SIGUSR1 once it catches that, and TENURE_GPUS_FILE says which there are; "
		  "hook:COMMAND" },
	{ .name = "replace",
	  .spec = { VALUE_FLAG },
	  .help = "end what runs there, and run this instead" },
	{ .name = "wait",
	  .spec = { VALUE_DURATION },
	  .arg = "DURATION",
	  .def = "10s",
	  .help = "so long until it runs, or it is told what it waits for" },
	{ 0 },
};

static void add_opts(struct opts *o)
{
	static const char *const keys[] = { "env", "cwd", "signal", "grace" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		opts_add_row(o, &task_option_find(keys[i])->opt);
}

/* ---- the order ---- */

/* Of nothing but a name the setting `program`. */
static int take_program(const struct cmd_ctx *ctx, struct task_spec *s, struct err *e)
{
	const char *program = settings_str(ctx->settings, SET_ALLOC_PROGRAM);

	if (opts_argc(ctx->opts) > 1)
		return 0;
	if (!program) {
		cleanup_free char *option = instance_option(ctx);

		return err_set(e, -EINVAL,
			       "say what to run: tenure start%s %s -- COMMAND, or a script; or "
			       "set program in a config file",
			       option, opts_arg(ctx->opts, 0));
	}
	return spec_set_text(s, "commands", program, e);
}

static struct task_spec *make_order(const struct cmd_ctx *ctx, struct err *e)
{
	struct task_spec *s = spec_new();
	const char *change = opts_text(ctx->opts, "on-change"), *hook;
	enum alloc_change parsed;
	int r = alloc_parse_change(change, &parsed, &hook, e);

	if (r < 0)
		(void)err_wrap(e, "--on-change");
	if (r == 0)
		r = submit_take_run(ctx, 1, s, e);
	if (r == 0)
		r = take_program(ctx, s, e);
	if (r == 0 && change)
		r = spec_set_text(s, "on_change", change, e);
	if (r == 0 && !s->name)
		r = spec_set_text(s, "name", opts_arg(ctx->opts, 0), e);
	if (r == 0)
		r = spec_check(s, e);
	return r == 0 ? s : spec_free(s);
}

/* Nothing runs there, or it may be replaced. */
static int check_free(const struct cmd_ctx *ctx, const struct live_alloc *a, unsigned int last,
		      struct err *e)
{
	const char *name = a->task.name.name;
	cleanup_free char *option = instance_option(ctx);

	if (opts_flag(ctx->opts, "replace"))
		return 0;
	if (a->state.phase == ALLOC_RUNNING && live_alloc_runs(a))
		return err_set(e, -EBUSY,
			       "a program runs in %s already (PID %d on %s); tenure start%s "
			       "--replace %s ends it first, and another allocation runs beside it",
			       name, (int)a->state.pid, a->state.host, option, name);
	if (last > a->state.order)
		return err_set(e, -EBUSY,
			       "a program waits in %s already, until it has its GPUs; tenure "
			       "start%s --replace %s puts this one in its place",
			       name, option, name);
	return 0;
}

static int give_order(const struct cmd_ctx *ctx, const struct spool *sp, const struct live_alloc *a,
		      const struct task_spec *s, unsigned int *ret_n, struct err *e)
{
	int r = -EEXIST;

	for (int i = 0; i < TRIES && r == -EEXIST; i++) {
		r = alloc_last_order(sp, a->task.name.id, ret_n, e);
		if (r == 0)
			r = check_free(ctx, a, *ret_n, e);
		++*ret_n;
		if (r == 0)
			r = alloc_order_write(sp, a->task.name.id, *ret_n, s, e);
	}
	return r;
}

/* ---- what came of it ---- */

static int tell_ran(const struct cmd_ctx *ctx, const struct alloc_state *st, const char *name,
		    struct err *e)
{
	cleanup_free char *option = instance_option(ctx);

	if (st->error[0])
		return err_set(e, -ENOEXEC, "%s: %s", name, st->error);
	if (st->phase == ALLOC_ENDED)
		printf("%s: the program has ended already (%s %u); tenure logs%s %s\n", name,
		       st->exit >= NAME_SIGNALLED ? "signal" : "exit code",
		       st->exit & (NAME_SIGNALLED - 1), option, name);
	else
		printf("%s: it runs (PID %d on %s, GPU %s); tenure logs -f%s %s\n", name,
		       (int)st->pid, st->host, st->gpus, option, name);
	return 0;
}

static int tell_waits(const struct cmd_ctx *ctx, const struct spool *sp, const struct live_alloc *a,
		      const struct alloc_state *st)
{
	cleanup_strbuf struct strbuf why = STRBUF_INIT;
	struct task_place place;

	if (a->task.dir == SPOOL_RUNNING) {
		printf("%s: the program starts when %s\n", a->task.name.name,
		       st->phase == ALLOC_RUNNING
			       ? "the one that runs there, and is asked to end, has ended"
			       : "its node has seen the order");
		return 0;
	}
	if (select_by_id(sp, a->task.name.id, 0, &place, NULL) == 0)
		(void)why_of(ctx, sp, &place, &why, NULL);
	printf("%s: the program starts as soon as it has its GPUs; it %s\n", a->task.name.name,
	       why.len ? strbuf_str(&why) : "waits");
	return 0;
}

static int print_json(const struct spool *sp, const struct live_alloc *a,
		      const struct alloc_state *st, unsigned int n)
{
	struct live_alloc now = *a;
	json_t *doc;

	now.state = *st;
	doc = live_alloc_json(sp, &now);
	(void)json_object_set_new(doc, "order", json_integer(n));
	(void)json_object_set_new(doc, "taken", json_boolean(st->order >= n));
	cmd_print_json_line(doc);
	return 0;
}

static int tell(const struct cmd_ctx *ctx, const struct spool *sp, const struct live_alloc *a,
		unsigned int n, struct err *e)
{
	static const struct timespec pause = { .tv_nsec = LOOK_MS * (long)NS_PER_MS };
	uint64_t end_ns = clock_mono_ns() + opts_value(ctx->opts, "wait")->num * NS_PER_MS;
	struct alloc_state st;
	int r;

	while ((r = alloc_state_read(sp, a->task.name.id, &st, e)) == 0 && st.order < n &&
	       a->task.dir == SPOOL_RUNNING && clock_mono_ns() < end_ns)
		(void)nanosleep(&pause, NULL);
	if (r < 0)
		return r;
	if (opts_flag(ctx->opts, "json"))
		return print_json(sp, a, &st, n);
	return st.order >= n ? tell_ran(ctx, &st, a->task.name.name, e)
			     : tell_waits(ctx, sp, a, &st);
}

/* Other programs call so what `on` is here. */
static int say_on(struct err *e)
{
	(void)err_set(e, -EINVAL,
		      "say in which allocation: tenure start NAME -- COMMAND; what holds GPUs and "
		      "runs the queue is started by: tenure on");
	return CMD_USAGE;
}

static int run_start(const struct cmd_ctx *ctx, struct err *e)
{
	struct live_allocs live = { .n = 0 };
	struct task_spec *s = opts_argc(ctx->opts) ? make_order(ctx, e) : NULL;
	const struct live_alloc *a = NULL;
	struct spool *sp = NULL;
	unsigned int n = 0;
	int r;

	if (!s)
		return opts_argc(ctx->opts) ? CMD_USAGE : say_on(e);
	r = instance_open(ctx, 0, &sp, e);
	if (r == 0)
		r = live_allocs_read(sp, &live, e);
	if (r == 0)
		a = live_allocs_find(&live, opts_arg(ctx->opts, 0), e);
	if (a) {
		submitter_name(s, sp);
		r = give_order(ctx, sp, a, s, &n, e);
	}
	if (a && r == 0)
		r = tell(ctx, sp, a, n, e);
	else if (r == 0)
		r = -ENOENT;
	live_allocs_clear(&live);
	sp = spool_close(sp);
	(void)spec_free(s);
	return r;
}

static void explain(const char *option, struct err *e)
{
	(void)err_wrap(e, "options of the program stand behind --: tenure start NAME -- COMMAND %s",
		       option);
}

static const struct cmd_example start_examples[] = {
	{ "tenure start exp_train -- python train.py --gpus {gpu_list}",
	  "on the GPUs of the allocation; {gpu_count} and {task_id} are known, too" },
	{ "tenure start exp_train train.sh", "a script, whose text is taken along" },
	{ "tenure start exp_train", "what the setting program says" },
	{ 0 },
};

const struct cmd cmd_start = {
	.name = "start",
	.group = ALLOC_GROUP,
	.summary = "run a program in an allocation",
	.args = "NAME [SCRIPT [ARG..] | -- COMMAND..]",
	.words = { WORDS_ALLOCS, WORDS_FILES, WORDS_COMMAND },
	.description =
		"The program gets the allocation's GPUs (CUDA_VISIBLE_DEVICES), this directory and this "
		"environment. One runs at a time; when it has ended the allocation stays, for the next one. "
		"What it prints is in the log of the allocation (tenure logs NAME). Where the allocation "
		"still waits for its GPUs the program starts as soon as it has them, and where its node is "
		"lost it begins anew on another one.",
	.examples = start_examples,
	.opts = own_opts,
	.add_opts = add_opts,
	.flags = CMD_JSON,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT | SETTING_GROUP_ALLOC,
	.run = run_start,
	.explain = explain,
};
