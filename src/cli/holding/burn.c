/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/burn/part.h"
#include "agent/burn/run.h"
#include "agent/burns.h"
#include "agent/node/policy.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/holding/burn_nodes.h"
#include "cli/holding/burn_report.h"
#include "cli/instance.h"
#include "cli/machine.h"
#include "cli/term.h"
#include "engine/engine.h"
#include "spool/instance.h"

extern char **environ;

#define SHOW_NS	    NS_PER_S
#define COUNTERS_MS 15000 /* for the driver to tell them */

static const struct opt burn_opts[] = {
	{ .name = "for",
	  .spec = { VALUE_DURATION, .min = 1000 },
	  .arg = "DURATION",
	  .def = "1m",
	  .help = "test each GPU for so long" },
	{ .name = "load",
	  .spec = { VALUE_CHOICE, .choices = burn_load_words },
	  .arg = "LOAD",
	  .def = "mixed",
	  .help = "products on the tensor cores, products in single or double precision, patterns "
		  "in memory, copies to and from the host, or all but the second and third by turns "
		  "(mixed)" },
	{ .name = "precision",
	  .spec = { VALUE_CHOICE, .choices = precision_words },
	  .arg = "PRECISION",
	  .def = "bf16",
	  .help = "of the elements of products on the tensor cores; unless it is given, fp16 on "
		  "cards without bf16 (before compute capability 8.0)" },
	{ .name = "kernel",
	  .spec = { VALUE_CHOICE, .choices = burn_kernel_words },
	  .arg = "KERNEL",
	  .def = "auto",
	  .help = "that computes products: tenure's own, NVIDIA's cuBLASLt, or the faster one that is "
		  "there" },
	{ .name = "memory",
	  .short_name = 'm',
	  .spec = { VALUE_MEM },
	  .arg = "AMOUNT",
	  .def = "90%",
	  .help = "memory to test on each GPU: a size, a share of what is free, or all-SIZE" },
	{ .name = "yield",
	  .spec = { VALUE_FLAG },
	  .help = "tasks of your own end the test of a GPU that they need, as newcomers do (the "
		  "default)" },
	{ .name = "exclusive",
	  .spec = { VALUE_FLAG },
	  .help = "tasks of your own wait for the end; a GPU that a newcomer takes is not tested" },
	{ .name = "junit",
	  .words = WORDS_FILES,
	  .spec = { VALUE_STRING },
	  .arg = "FILE",
	  .help = "also write the verdicts as JUnit has them, a test case for each GPU" },
	{ .name = "svg",
	  .words = WORDS_FILES,
	  .spec = { VALUE_STRING },
	  .arg = "FILE",
	  .help = "also draw power, clock, temperature and speed over time, as SVG" },
	{ 0 },
};

/* Who has waited for a test is not to learn at its end that there is no such directory. */
static int check_files(const struct opts *opts, struct err *e)
{
	static const char *const options[] = { "junit", "svg" };
	const char *junit = opts_text(opts, "junit"), *svg = opts_text(opts, "svg");

	if (junit && svg && strcmp(junit, svg) == 0)
		return err_set(e, -EINVAL, "--junit and --svg name the same file, %s", svg);
	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		const char *path = opts_text(opts, options[i]);

		if (path && fs_check_report(path, e) < 0)
			return err_wrap(e, "--%s", options[i]);
	}
	return 0;
}

/* What was asked for goes together. */
static int check_options(const struct cmd_ctx *ctx, struct err *e)
{
	const enum burn_load load = (enum burn_load)opts_value(ctx->opts, "load")->num;
	const uint64_t kernel = opts_value(ctx->opts, "kernel")->num;
	const char *name = burn_load_name(load);

	if (opts_flag(ctx->opts, "yield") && opts_flag(ctx->opts, "exclusive"))
		return err_set(e, -EINVAL, "--yield or --exclusive: one of them");
	if (opts_given(ctx->opts, "precision") && load != BURN_TENSOR && load != BURN_MIXED)
		return err_set(e, -EINVAL,
			       "--precision is for the loads tensor and mixed; --load %s has none "
			       "to choose",
			       name);
	if (kernel == BURN_KERNEL_CUBLAS && (load == BURN_FP64 || !burn_has_products(load)))
		return err_set(e, -EINVAL, "--kernel cublas: --load %s is not computed with it",
			       name);
	return check_files(ctx->opts, e);
}

static void make_order(const struct cmd_ctx *ctx, struct burn_order *ret)
{
	static const uint32_t kinds[MEM_SPEC_MAX] = { [MEM_SPEC_BYTES] = MEM_BYTES,
						      [MEM_SPEC_SHARE] = MEM_PERMILLE,
						      [MEM_SPEC_ALL_BUT] = MEM_ALL_BUT };
	const struct mem_spec *memory = &opts_value(ctx->opts, "memory")->mem;
	struct hold_policy *p = &ret->policy;

	p->load = LOAD_BURN;
	p->burn.id = (uint32_t)clock_mono_ns() | 1; /* 0 is none */
	p->burn.load = (uint8_t)opts_value(ctx->opts, "load")->num;
	p->burn.kernel = (uint8_t)opts_value(ctx->opts, "kernel")->num;
	p->burn.precision = opts_given(ctx->opts, "precision")
				    ? (uint8_t)opts_value(ctx->opts, "precision")->num
				    : PRECISION_BEST;
	p->memory = (struct mem_amount){ .kind = kinds[memory->kind],
					 .permille = memory->permille,
					 .bytes = memory->bytes };
	p->together = 0;
	p->work_ms = p->rest_ms = 0;
	p->idle_for_ms = 0;
	p->refresh_ms = 200;
	/* Whoever comes has it: the test of that device is over. */
	p->rehold_ms = 24ULL * 3600 * 1000;
	p->burn.exclusive = opts_flag(ctx->opts, "exclusive");
	ret->for_ms = opts_value(ctx->opts, "for")->num;
	ret->dev_dir = settings_str(ctx->settings, SET_DEV_DIR);
}

struct shown {
	bool live;
	struct term_page page;
	uint64_t at_ns;
};

/* On a terminal alone: a pipe gets the report. */
static bool show(void *user, const struct burn_state *state)
{
	struct shown *s = user;
	uint64_t now = clock_mono_ns();
	char *text = NULL;
	size_t size = 0;

	if (!s->live || (!state->over && now - s->at_ns < SHOW_NS))
		return true;

	FILE *page = open_memstream(&text, &size);

	if (!page)
		return true;
	s->at_ns = now;
	if (state->n)
		burn_progress_print(state, page);
	else
		(void)fputs("The guard is asked for the GPUs.\n", page);
	(void)fclose(page);
	term_page_draw(&s->page, state->over ? "" : text);
	free(text);
	return true;
}

/* By UUID: the guard reads them too seldom for a test of a minute. */
static void take_counters(const struct machine_figures *f, struct burn_state *state, bool first)
{
	for (uint32_t i = 0; i < state->n; i++) {
		struct burnt *d = &state->devices[i];
		const struct gpu_health *h = machine_find_health(f, d->dev.uuid);

		if (h)
			*(first ? &d->first : &d->last) = *h;
	}
}

/* Nobody knows what they have counted, and a driver that does not answer after a test is a sign of
 * its own. */
static void note_silence(struct burn_state *state, const struct err *why)
{
	for (uint32_t i = 0; i < state->n; i++)
		if (!state->devices[i].trouble[0])
			(void)str_print(state->devices[i].trouble,
					sizeof(state->devices[i].trouble), "after its test %s",
					why->text);
}

static void set_signals(void (*action)(int number))
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };

	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		(void)signal(signals[i], action);
}

/*
 * The test of this node's devices, with its counters before and after. 0 or negative, as
 * burn_run(). Signals that end it are ignored from then on: whoever presses Ctrl-C twice is to have
 * his report.
 */
static int test_here(const struct burn_order *order, struct burn_state *state,
		     bool (*tick)(void *user, const struct burn_state *state), void *user,
		     struct err *e)
{
	struct machine_figures *before = NULL, *after = NULL;
	struct err why = ERR_INIT;
	int code = machine_ask_health(COUNTERS_MS, &before, &why);

	if (code == -ETIMEDOUT)
		return err_set(e, code, "%s; tenure health tells more", why.text);
	code = burn_run(order, state, tick, user, e);
	set_signals(SIG_IGN);
	if (code == 0 && machine_ask_health(COUNTERS_MS, &after, &why) == -ETIMEDOUT)
		note_silence(state, &why);
	take_counters(before, state, true);
	take_counters(after, state, false);
	before = machine_figures_free(before);
	after = machine_figures_free(after);
	return code;
}

/* What the options say, and in a job of an engine which devices that has. 0 or CMD_USAGE. */
static int prepare(const struct cmd_ctx *ctx, struct burn_order *order, struct engine_here *here,
		   struct err *e)
{
	const struct engine *engine;

	*here = (struct engine_here){ .n_gpus = 0 };
	if (check_options(ctx, e) < 0 ||
	    policy_from_settings(ctx->settings, true, &order->policy, e) < 0)
		return CMD_USAGE;
	make_order(ctx, order);
	if (engine_inside((const char *const *)environ, &engine, here, NULL) == 0) {
		order->job = here;
		order->given = here->gpus;
		order->n_given = here->n_gpus;
	}
	return 0;
}

/* Of what has kept a test from being made: 1 and 4 are verdicts. */
static int exit_code_of(int code)
{
	return code == -EINVAL || code == -ERANGE || code == -ENOENT || code == -ENOTUNIQ
		       ? CMD_USAGE
		       : BURN_CANNOT_TEST;
}

static int burn_here(const struct cmd_ctx *ctx, const struct burn_order *order, struct err *e)
{
	cleanup_free struct burn_state *state = xcalloc(1, sizeof(*state));
	struct shown s = { .live = !opts_flag(ctx->opts, "json") &&
				   term_has_screen(STDOUT_FILENO) };
	char host[256] = "localhost";
	struct burn_node node = { .name = host };
	struct burn_report_of r = { .order = order,
				    .devices = state->devices,
				    .nodes = &node,
				    .n_nodes = 1,
				    .began_wall_ns = clock_wall_ns() };
	int code = test_here(order, state, show, &s, e);

	set_signals(SIG_DFL);
	if (code < 0 && exit_code_of(code) == CMD_USAGE)
		return CMD_USAGE;
	(void)gethostname(host, sizeof(host) - 1);
	r.n = node.n = state->n;
	r.for_ns = order->for_ms * NS_PER_MS;
	if (code < 0)
		node.trouble = e->text;
	else if (!state->n)
		node.trouble = "no GPU can be tested: those that are meant are left for others "
			       "(setting leave), or are cards in MIG mode without instances";
	code = burn_report(ctx, &r);
	e->text[0] = '\0'; /* it is told */
	return code;
}

/* What each node is to be told as well; how long is said by itself. */
static struct text_list options_given(const struct opts *opts)
{
	static const char *const own[] = { "for", "junit", "svg", "yield" };
	struct text_list list = { .n = 0 };

	for (const struct opt *o = burn_opts; o->name; o++) {
		bool skip = !opts_given(opts, o->name);
		cleanup_free char *text = NULL;

		for (size_t i = 0; i < ARRAY_LEN(own); i++)
			skip = skip || strcmp(own[i], o->name) == 0;
		if (skip)
			continue;
		if (o->spec.type == VALUE_FLAG) {
			text_list_take(&list, xasprintf("--%s", o->name));
			continue;
		}
		text = value_format(&o->spec, opts_value(opts, o->name));
		text_list_take(&list, xasprintf("--%s=%s", o->name, text));
	}
	return list;
}

static int burn_instance(const struct cmd_ctx *ctx, const struct burn_order *order, struct err *e)
{
	struct text_list options;
	int code;

	if (settings_origin(ctx->settings, SET_GPUS)->layer == SETTING_FROM_COMMAND_LINE)
		return err_set(e, CMD_USAGE,
			       "--gpus is of one node; of an instance those are tested that its "
			       "agents select");
	if (order->for_ms > ORDER_FOR_MAX_MS)
		return err_set(e, CMD_USAGE, "--for: of all nodes 30d at most");
	options = options_given(ctx->opts);
	code = burn_nodes(ctx, order, &options, e);
	text_list_clear(&options);
	return code;
}

static int run_burn(const struct cmd_ctx *ctx, struct err *e)
{
	struct burn_order order = { .for_ms = 0 };
	struct engine_here here;
	int code = prepare(ctx, &order, &here, e);

	/* The guard outlives us, and whoever waits for that. */
	proc_fds_keep_private();
	if (code == 0)
		code = settings_origin(ctx->settings, SET_INSTANCE)->layer ==
				       SETTING_FROM_COMMAND_LINE
			       ? burn_instance(ctx, &order, e)
			       : burn_here(ctx, &order, e);
	engine_here_clear(&here);
	return code;
}

/* -------- a part of a burn of several nodes -------- */

static bool tell(void *user, const struct burn_state *state)
{
	struct burn_part *part = user;

	burn_part_tell(part, state);
	return burn_part_is_wanted(part);
}

static int run_part(const struct cmd_ctx *ctx, struct err *e)
{
	cleanup_free struct burn_state *state = xcalloc(1, sizeof(*state));
	struct burn_order order = { .for_ms = 0 };
	struct burn_part *part = NULL;
	struct engine_here here;
	struct spool *sp = NULL;
	int code = prepare(ctx, &order, &here, e);
	int r = instance_open_quietly(ctx, 0, &sp, code == 0 ? e : NULL);

	proc_fds_keep_private();
	if (r == 0)
		r = burn_part_begin(sp, opts_arg(ctx->opts, 0), opts_arg(ctx->opts, 1), &part, e);
	if (r == 0 && code == 0)
		code = test_here(&order, state, tell, part, e);
	else if (code)
		code = -EINVAL;
	if (part)
		part = burn_part_end(part, state, code, code < 0 ? e->text : "");
	sp = spool_close(sp);
	engine_here_clear(&here);
	return r < 0 ? r : code < 0 ? exit_code_of(code) : CMD_OK;
}

static const struct cmd_example burn_examples[] = {
	{ "tenure burn", "test all GPUs that nobody uses, for a minute" },
	{ "tenure burn --gpus 0,1 --for 1h --load tensor --precision fp16",
	  "two of them, thoroughly" },
	{ "tenure burn --instance default --for 10m", "all nodes that serve that queue, together" },
	{ "tenure burn --for 10m --svg burn.svg", "with a picture of how they were meanwhile" },
	{ "tenure burn --json --junit burn.xml", "in a script: the exit code is the verdict" },
	{ 0 },
};

const struct cmd cmd_burn = {
	.name = "burn",
	.group = "Holding GPUs",
	.summary = "test GPUs under full load, and give way to whoever needs one",
	.description =
		"Takes the GPUs that nobody uses, those that an agent of yours holds included, and "
		"has them compute products whose every result is known, write and read all of "
		"their memory in patterns, and copy to and from the host. At the end it says of each GPU whether it is good, and "
		"why not: wrong results, memory that does not keep what was written, copies that "
		"arrive wrong, a speed below that of its like, heat, errors that ECC could not correct, reports of the driver.\n"
		"\n"
		"A GPU is yielded to a newcomer as a held one is, and to tasks of your own; its test "
		"is over then. What an agent of yours held goes back to it. With --exclusive tasks of "
		"your own wait for the end. A newcomer is never kept waiting, and a GPU that one took "
		"counts as not tested then: a node where nobody can come is for the site to drain.\n"
		"\n"
		"With --instance the agents of that queue test their GPUs on all their nodes at once, "
		"beside whatever tasks run there, and each GPU is compared with its like on all of "
		"them. Ctrl-C ends it everywhere.\n"
		"\n"
		"Exit codes: 0 all are good, 1 one is bad, 2 wrong usage, 3 one could not be tested, "
		"or the report cannot be written, 4 one was yielded before its time was over. A "
		"site that does not let you hold GPUs has 4 as well, without a report.",
	.examples = burn_examples,
	.opts = burn_opts,
	.setting_groups = SETTING_GROUP_GPUS | SETTING_GROUP_QUEUE,
	.flags = CMD_HOLDS | CMD_JSON,
	.run = run_burn,
};

const struct cmd cmd_burn_part = {
	.name = BURN_PART_VERB,
	.group = "Holding GPUs",
	.summary = "test the GPUs of this node for a burn of all nodes",
	.args = "NAME AGENT",
	.min_args = 2,
	.max_args = 2,
	.description = "Agents start this when `tenure burn --instance` asks them to.",
	.opts = burn_opts,
	.setting_groups = SETTING_GROUP_GPUS | SETTING_GROUP_QUEUE | SETTING_GROUP_NODE,
	.flags = CMD_HOLDS | CMD_HIDDEN,
	.run = run_part,
};
