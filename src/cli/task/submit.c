/* SPDX-License-Identifier: MIT */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "cli/agent_client.h"
#include "cli/commands.h"
#include "cli/instance.h"
#include "cli/node_agents.h"
#include "cli/pools.h"
#include "cli/task/outcome.h"
#include "cli/task/submit_options.h"
#include "spool/elements.h"
#include "spool/instance.h"

static void print_id(const struct cmd_ctx *ctx, const struct task_spec *s, uint64_t id)
{
	uint64_t n = 0;

	(void)spec_count(s, &n, NULL);
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

static bool somebody_serves(const struct cmd_ctx *ctx)
{
	struct spool *sp = NULL;
	bool serves = instance_open(ctx, 0, &sp, NULL) < 0 || node_agents_one_serves(ctx, sp);

	sp = spool_close(sp);
	return serves;
}

/* For a person, who may wait for what nobody will start; a script may start the agent later. */
static void note_no_agent(const struct cmd_ctx *ctx, uint64_t id)
{
	if (!isatty(STDERR_FILENO) || somebody_serves(ctx))
		return;

	cleanup_free char *options = agent_options(ctx->settings, NULL);

	(void)fflush(stdout);
	cmd_warn("note",
		 "task %llu waits: no agent serves instance \"%s\"; start one with: tenure on%s",
		 (unsigned long long)id, settings_str(ctx->settings, SET_INSTANCE), options);
}

/* The ids come first: what an engine is asked may take its time. Where nobody reads them a node is
 * wanted all the same, and the end by SIGPIPE comes behind that. */
static int tell_and_tick(const struct cmd_ctx *ctx, const struct submitted *s, int r, struct err *e)
{
	void (*was)(int) = signal(SIGPIPE, SIG_IGN);

	for (size_t i = 0; i < s->n; i++)
		print_id(ctx, s->specs.specs[i], s->ids[i]);
	r = outcome_tell_made(s->ids, s->n, r, e);
	(void)signal(SIGPIPE, was);
	if (s->n)
		pools_tick_after_submit(ctx, s->sp);
	if (s->n && r < 0)
		(void)fs_stdout_is_read(NULL);
	return r;
}

static int run_submit(const struct cmd_ctx *ctx, struct err *e)
{
	struct submitted s;
	int r = submit_all_from_options(ctx, &s, e);

	r = tell_and_tick(ctx, &s, r, e);
	if (r == 0)
		note_no_agent(ctx, s.id);
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
	{ "tenure submit --from tasks.jsonl",
	  "lines like {\"command\":\"./a\",\"gpus\":2,\"name\":\"a\"}: an id each" },
	{ 0 },
};

const struct cmd cmd_submit = {
	.name = "submit",
	.group = QUEUE_GROUP,
	.summary = "put a task into the queue and print its id",
	.args = SUBMIT_ARGS,
	.words = { WORDS_FILES, WORDS_FILES, WORDS_COMMAND },
	.description =
		"The script's text is taken along: later changes of the file do not matter. So are the "
		"directory and the environment. A script without a #! line, or such a command, is run by python3 where its "
		"name ends in .py, else by /bin/sh. As a script, - is standard input. The id is printed "
		"when the task is safe on disk; no agent has to run. More GPUs than any node has are refused, where an agent runs and "
		"says how many there are; where a node may come back that has them it is a warning.\n"
		"\n"
		"Lines at the head of a script that begin with #TENURE have options as they stand here, in "
		"any comment lines before the first command: #TENURE --gpus 2 --name my-run. An option "
		"of the command line goes before them. What is no option is an error that names file and "
		"line.\n"
		"\n"
		"What the #SBATCH lines of a script ask for is taken as options where there is the same "
		"here (--job-name, --array, --gres=gpu, --gpus, --gpus-per-node, --time, --begin, --chdir, "
		"--hold, --no-requeue, --output, --error), and told; the others are named in a warning. Options of the "
		"command line and of #TENURE lines go before them.\n"
		"\n"
		"--from reads a shell command per line; empty lines and those that begin with # are "
		"passed over. A line that begins with [\" is a list of words, one that begins with {\" "
		"an object with \"command\" (for the shell) or \"argv\" (a list of words). All lines "
		"are elements of one task. Where an object has other keys, of those in docs/spool.md "
		"(\"name\", \"gpus\", \"memory\", \"lane\", \"after\", \"script\" with "
		"\"args\"), each line is a task with an id of its own instead, and the options are for "
		"what it does not say; its \"env\" is added to the environment.",
	.examples = submit_examples,
	.variables = submit_variables,
	.add_opts = submit_add_opts,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.flags = CMD_STOP_AT_WORD,
	.run = run_submit,
};
