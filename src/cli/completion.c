/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/completion.h"
#include "base/mem.h"
#include "cli/commands.h"

static void add_command(struct completion *c, const struct cmd *cmd, const char *above)
{
	cleanup_free char *path = xasprintf("%s%s%s", above, above[0] ? " " : "", cmd->name);
	unsigned int flags = cmd->flags & CMD_STOP_AT_WORD ? COMPLETION_STOPS : 0;

	if (cmd->flags & CMD_HIDDEN)
		return;
	completion_add(c, path, cmd->summary, cmd_opts(cmd), cmd->words, flags);
	for (size_t i = 0; cmd->subs && cmd->subs[i]; i++)
		add_command(c, cmd->subs[i], path);
}

/* Before any command: `tenure --version`. */
static struct opts *overview_opts(void)
{
	static const struct opt rows[] = {
		{ .name = "help",
		  .short_name = 'h',
		  .spec = { VALUE_FLAG },
		  .help = "list the commands" },
		{ .name = "version",
		  .short_name = 'V',
		  .spec = { VALUE_FLAG },
		  .help = "print the version" },
		{ 0 },
	};
	struct opts *o = opts_new();

	opts_add_rows(o, rows);
	return o;
}

static int run_completion(const struct cmd_ctx *ctx, struct err *e)
{
	enum completion_shell shell = completion_shell_of(opts_arg(ctx->opts, 0));
	struct completion *c;

	if (shell == COMPLETION_SHELL_MAX) {
		(void)err_set(e, -EINVAL, "\"%s\" is none of bash, zsh and fish",
			      opts_arg(ctx->opts, 0));
		return CMD_USAGE;
	}
	c = completion_new("tenure");
	completion_add(c, "", NULL, overview_opts(), NULL, 0);
	for (size_t i = 0; commands[i]; i++)
		add_command(c, commands[i], "");

	cleanup_free char *text = completion_script(c, shell);

	(void)fputs(text, stdout);
	c = completion_free(c);
	return CMD_OK;
}

static const struct cmd_example examples[] = {
	{ "tenure completion fish | source", "in this fish; in config.fish: in every one" },
	{ "source <(tenure completion bash)", "in this bash; in ~/.bashrc: in every one" },
	{ "source <(tenure completion zsh)", "the same in zsh, behind compinit" },
	{ 0 },
};

const struct cmd cmd_completion = {
	.name = "completion",
	.group = "About",
	.summary = "print what completes commands in a shell",
	.args = "bash|zsh|fish",
	.words = { WORDS_SHELLS },
	.min_args = 1,
	.max_args = 1,
	.description =
		"Prints a script with which bash, zsh or fish complete commands, options, their "
		"values, tasks, lanes, queues, GPUs, pools, allocations, nodes and paths. An "
		"installed tenure has put it where these shells look by themselves (bash: with the "
		"package bash-completion).",
	.examples = examples,
	.flags = CMD_NO_SETTINGS,
	.run = run_completion,
};
