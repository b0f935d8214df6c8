/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/burn/part.h"
#include "agent/burn/run.h"
#include "agent/burns.h"
#include "agent/node/policy.h"
#include "base/clock.h"
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
#define CANNOT_TEST 3 /* exit code, also where there is no guard or no GPU */

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
	  .help = "of the elements of products on the tensor cores" },
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
	return 0;
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
	p->burn.precision = (uint8_t)opts_value(ctx->opts, "precision")->num;
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
	unsigned int lines; /* of the last table, to be drawn over */
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
	if (s->lines)
		(void)printf("\033[%uA\033[J", s->lines);
	s->lines = 0;
	for (const char *p = text; *p; p++)
		s->lines += *p == '\n';
	if (!state->over)
		(void)fputs(text, stdout);
	(void)fflush(stdout);
	free(text);
	return true;
}

/* The counters of each card, by UUID: the guard reads them too seldom for a test of a minute. */
static void take_counters(const struct machine *m, struct burn_state *state, bool first)
{
	for (uint32_t i = 0; m && i < state->n; i++)
		for (uint32_t k = 0; k < m->list.n; k++)
			if (strcmp(m->list.d[k].uuid, state->devices[i].dev.uuid) == 0)
				*(first ? &state->devices[i].first : &state->devices[i].last) =
					m->devices[k].health;
}

static struct machine *read_counters(void)
{
	struct machine *m = NULL;

	if (machine_look(0, &m, NULL) < 0)
		return NULL;
	machine_read_health(m);
	return m;
}

/* The test of this node's devices, with its counters before and after. 0 or negative, as
 * burn_run().
 */
static int test_here(const struct burn_order *order, struct burn_state *state,
		     bool (*tick)(void *user, const struct burn_state *state), void *user,
		     struct err *e)
{
	struct machine *before = read_counters();
	int code = burn_run(order, state, tick, user, e);
	struct machine *after = code < 0 ? NULL : read_counters();

	take_counters(before, state, true);
	take_counters(after, state, false);
	before = machine_free(before);
	after = machine_free(after);
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

static int exit_code_of(int code)
{
	return code == -EPERM ? CMD_DENIED
	       : code == -EINVAL || code == -ERANGE || code == -ENOENT || code == -ENOTUNIQ
		       ? CMD_USAGE
		       : CANNOT_TEST;
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

	if (code < 0)
		return exit_code_of(code);
	(void)gethostname(host, sizeof(host) - 1);
	r.n = node.n = state->n;
	r.for_ns = state->for_ns;
	return burn_report(ctx, &r, e);
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
		"Exit codes: 0 all are good, 1 one is bad, 3 one could not be tested, 4 one was "
		"yielded before its time was over.",
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
