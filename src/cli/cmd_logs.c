/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>

#include "cli/commands.h"
#include "cli/tasklog.h"

static const struct opt logs_opts[] = {
	{ .name = "follow",
	  .short_name = 'f',
	  .spec = { VALUE_FLAG },
	  .help = "go on while it grows, until the task has ended" },
	{ .name = "attempt",
	  .spec = { VALUE_UINT, .min = 1, .max = 1000000 },
	  .arg = "N",
	  .help = "that of the N-th attempt (default: the latest)" },
	{ .name = "plain",
	  .spec = { VALUE_FLAG },
	  .help = "the output alone, without tenure's lines (===) around it" },
	{ 0 },
};

static int which_element(const struct queue_place *p, struct err *e)
{
	if (!p->name.count || p->element)
		return 0;
	return err_set(e, -EINVAL,
		       "task %" PRIu64 " has %" PRIu64
		       " elements with a log each; say which: tenure "
		       "logs %" PRIu64 ".1",
		       p->name.id, p->name.count, p->name.id);
}

static int follow(const struct spool *sp, const struct tasklog *log, const struct queue_place *p,
		  struct err *e)
{
	struct taskwatch *w = NULL;
	int r = taskwatch_open(sp, p, &w, e);

	if (r == 0)
		r = tasklog_follow(log, w, e);
	(void)taskwatch_close(w);
	return r;
}

static int logs_found(const struct cmd_ctx *ctx, const struct spool *sp,
		      const struct queue_place *p, struct err *e)
{
	const struct value *attempt = opts_value(ctx->opts, "attempt");
	struct tasklog log = { .sp = sp,
			       .id = p->name.id,
			       .element = p->element,
			       .attempt = attempt ? (unsigned int)attempt->num : 0,
			       .plain = opts_flag(ctx->opts, "plain"),
			       .out = stdout };
	int r = which_element(p, e);

	if (r < 0)
		return r;
	/* An attempt that is asked for by its number grows no more, or is the last one. */
	return opts_flag(ctx->opts, "follow") ? follow(sp, &log, p, e) : tasklog_show(&log, e);
}

static int run_logs(const struct cmd_ctx *ctx, struct err *e)
{
	return queue_with_task(ctx, logs_found, e);
}

static const struct cmd_example logs_examples[] = {
	{ "tenure logs 42", "what task 42 has printed in its latest attempt" },
	{ "tenure logs -f train.sh", "and what it prints from now on, until it ends" },
	{ "tenure logs 43.7 --attempt 1", "the first attempt of an element" },
	{ 0 },
};

const struct cmd cmd_logs = {
	.name = "logs",
	.group = QUEUE_GROUP,
	.summary = "what a task has printed",
	.args = "ID|NAME",
	.min_args = 1,
	.max_args = 1,
	.description = "Of the latest attempt; of ended tasks, too. Works without an agent.",
	.examples = logs_examples,
	.opts = logs_opts,
	.setting_groups = SETTING_GROUP_QUEUE,
	.run = run_logs,
};
