/* SPDX-License-Identifier: MIT */

/* The row of `top`; the program that it becomes has the library for screens. */

#include "cli/top.h"
#include "cli/commands.h"
#include "cli/libexec.h"

static int run_top(const struct cmd_ctx *ctx, struct err *e)
{
	return libexec_run(ctx, TOP_PROGRAM, TOP_NEEDS, e);
}

static const struct opt top_opts[] = {
	{ .name = "once", .spec = { VALUE_FLAG }, .help = "print one frame as text, and end" },
	{ .name = "ended",
	  .short_name = 'e',
	  .spec = { VALUE_FLAG },
	  .help = "with what has ended (the key e)" },
	LIBEXEC_OPT,
	{ 0 },
};

static const struct cmd_example top_examples[] = {
	{ "tenure top", "GPUs, queue and events, as they change" },
	{ "tenure top --once", "one look, as text" },
	{ "tenure top -i exp1", "another queue" },
	{ 0 },
};

const struct cmd cmd_top = {
	.name = "top",
	.group = QUEUE_GROUP,
	.summary = "watch GPUs, queue and events on one screen, and steer them",
	.description =
		"Whose each GPU is and why, what runs, what waits and for what, what was yielded to "
		"whom. Keys (h shows them) follow a log, explain, stop, pause, move. It is a client "
		"like any other: it works with an agent and without one, and ends alone. Where the "
		"output is no terminal it prints one frame.",
	.examples = top_examples,
	.opts = top_opts,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.run = run_top,
};
