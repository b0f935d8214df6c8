/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/task/sweeper.h"
#include "task/sweep.h"

static const struct opt sweep_opts[] = {
	{ .name = "end", .spec = { VALUE_FLAG }, .help = "end them; else they are only shown" },
	{ 0 },
};

static int add_word(const char *word, unsigned int *what, struct err *e)
{
	for (unsigned int w = 0; w < SWEEP_WHAT_MAX; w++)
		if (strcmp(sweep_what_name(w), word) == 0) {
			*what |= SWEEP_BIT(w);
			return 0;
		}
	return err_set(e, -EINVAL, "\"%s\" cannot be swept; gpu and python can", word);
}

static int run_sweep(const struct cmd_ctx *ctx, struct err *e)
{
	struct sweep_order o = { .end = opts_flag(ctx->opts, "end"),
				 .json = opts_flag(ctx->opts, "json") };

	for (size_t i = 0; i < opts_argc(ctx->opts); i++)
		if (add_word(opts_arg(ctx->opts, i), &o.what, e) < 0)
			return CMD_USAGE;
	return sweeper_run(ctx, &o, e);
}

static const struct cmd_example sweep_examples[] = {
	{ "tenure sweep python", "your Python processes on this node, and which would be ended" },
	{ "tenure sweep python --end", "end them" },
	{ "tenure sweep gpu --gpus 0,1 --end", "end what of yours is on these GPUs" },
	{ 0 },
};

const struct cmd cmd_sweep = {
	.name = "sweep",
	.group = QUEUE_GROUP,
	.summary = "show, or end, what else of yours runs on this node",
	.args = "gpu|python..",
	.words = { WORDS_SWEEPS, WORDS_SWEEPS },
	.min_args = 1,
	.max_args = 2,
	.description =
		"Processes of your user alone. Spared are this program and what started it, all that "
		"runs under tenure (tasks, agents, holders), what matches sweep_spare, and, of Python "
		"processes, those in a session with a terminal and those of another job of an engine. "
		"With --end they get TERM, and KILL "
		"after 5 seconds.\n\n"
		"tenure stop --sweep does it with a task that it stops, and a task's --clean when it "
		"ends.",
	.examples = sweep_examples,
	.opts = sweep_opts,
	.setting_groups = SETTING_GROUP_GPUS | SETTING_GROUP_SPARE,
	.flags = CMD_ENDS | CMD_JSON_LINES,
	.run = run_sweep,
};
