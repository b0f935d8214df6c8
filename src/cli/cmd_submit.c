/* SPDX-License-Identifier: MIT */
#include <jansson.h>
#include <stdio.h>

#include "cli/commands.h"
#include "cli/queue.h"
#include "cli/submission.h"
#include "spool/elements.h"

static void print_id(const struct cmd_ctx *ctx, const struct spool_spec *s, uint64_t id)
{
	uint64_t n = 0;

	(void)elements_count(s, &n, NULL);
	if (!opts_flag(ctx->opts, "json")) {
		printf("%llu\n", (unsigned long long)id);
		return;
	}

	json_t *doc =
		json_pack("{s:I, s:s, s:s, s:I}", "id", (json_int_t)id, "name", s->name, "instance",
			  settings_str(ctx->settings, SET_INSTANCE), "elements", (json_int_t)n);

	(void)json_dumpf(doc, stdout, JSON_COMPACT);
	(void)putchar('\n');
	json_decref(doc);
}

static int run_submit(const struct cmd_ctx *ctx, struct err *e)
{
	struct submitted s;
	int r = submit_from_options(ctx, &s, e);

	if (r == 0)
		print_id(ctx, s.spec, s.id);
	submitted_clear(&s);
	return r;
}

static const struct cmd_example submit_examples[] = {
	{ "tenure submit train.sh", "one GPU; prints the id, say 42" },
	{ "tenure submit -g 2 -m 20G -l week train.sh --epochs 10",
	  "two GPUs with 20 GiB each, in a lane" },
	{ "tenure submit --after 42 -- python eval.py", "a command, when 42 is done" },
	{ "tenure submit --sweep lr=0.1,0.01 --sweep seed=1..5 train.sh",
	  "ten runs, 43.1 to 43.10" },
	{ "tenure submit --from commands.txt", "one id for all lines, or for none" },
	{ 0 },
};

const struct cmd cmd_submit = {
	.name = "submit",
	.group = QUEUE_GROUP,
	.summary = "put a task into the queue and print its id",
	.args = SUBMIT_ARGS,
	.description =
		"The script's text is taken along: later changes of the file do not matter; - reads it "
		"from standard input. So are the directory and the environment. The id is printed when the task is safe on disk; no "
		"agent has to run. More GPUs than any node has are refused, where an agent runs and "
		"says how many there are; where a node may come back that has them it is a warning.",
	.examples = submit_examples,
	.opts = submit_opts,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.flags = CMD_STOP_AT_WORD,
	.run = run_submit,
};
