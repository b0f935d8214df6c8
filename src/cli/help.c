/* SPDX-License-Identifier: MIT */
#include "cli/help.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/table.h"
#include "cli/term.h"
#include "spool/task_spec.h"

#define SUMMARY_COLUMN 14

const struct exit_code exit_codes[] = {
	{ CMD_OK, "it worked" },
	{ CMD_FAILED, "it did not work; the reason is on standard error" },
	{ CMD_USAGE, "wrong option, argument, setting or config file" },
	{ CMD_NOTHING_RUNS, "no agent runs here" },
	{ CMD_DENIED, "this site does not allow it, or the system denies it" },
	{ CMD_UNREAD, "hold: whoever read its output through a pipe went away; all is free" },
	{ 0 },
};

const char *command_group_of(const void *rows, size_t i)
{
	const struct cmd *cmd = ((const struct cmd *const *)rows)[i];

	return cmd->flags & CMD_HIDDEN ? NULL : cmd->group;
}

size_t n_commands(void)
{
	size_t n = 0;

	while (commands[n])
		n++;
	return n;
}

void help_overview(FILE *out)
{
	struct group_walk w = { .group_of = command_group_of, .rows = commands, .n = n_commands() };

	term_print_wrapped(out, "tenure holds idle NVIDIA GPUs and yields them to whoever comes.",
			   0);
	(void)fputs("\nUsage:\n"
		    "  tenure COMMAND [OPTIONS]\n"
		    "  tenure help COMMAND      what it does, with examples\n"
		    "  tenure --version\n",
		    out);
	while (group_next(&w)) {
		if (w.first)
			(void)fprintf(out, "\n%s:\n", w.group);
		(void)fprintf(out, "  %-11s ", commands[w.i]->name);
		term_print_wrapped(out, commands[w.i]->summary, SUMMARY_COLUMN);
	}
	(void)fputc('\n', out);
	term_print_wrapped(
		out, "Your site's policy comes first: hold only what you are allowed to hold.", 0);
}

static int show_exit_codes(void)
{
	puts("Exit codes of all commands:");
	for (size_t i = 0; exit_codes[i].what; i++) {
		int head = printf("  %d  ", exit_codes[i].code);

		term_print_wrapped(stdout, exit_codes[i].what, (size_t)(head > 0 ? head : 0));
	}
	return CMD_OK;
}

/* docs/spool.md has the same table. */
static int show_task_keys(void)
{
	static const struct table_column columns[] = {
		{ "KEY" }, { "TYPE" }, { "MEANING" }, { 0 }
	};
	struct table *t = table_new(columns);
	const struct task_option *row;

	for (size_t i = 0; (row = task_option_at(i)); i++) {
		cleanup_free char *meaning =
			row->help ? xstrdup(row->help) : opt_meaning(&row->opt);
		char type[VALUE_KEY_HINT_MAX];

		table_add(t, TABLE_PLAIN, row->key, value_key_hint(&row->opt.spec, type), meaning);
	}
	table_print(t, stdout);
	(void)table_free(t);
	return CMD_OK;
}

static json_t *option_json(const struct opt *row)
{
	const char shorter[] = { row->short_name, '\0' };
	json_t *o = json_pack("{s:s, s:b, s:s?, s:s?, s:s?, s:s?}", "name", row->name,
			      "takes_value", row->spec.type != VALUE_FLAG, "value", row->arg,
			      "default", row->def, "variable", row->env, "help", row->help);
	json_t *choices = row->spec.choices ? json_array() : NULL;

	if (row->short_name)
		(void)json_object_set_new(o, "short", json_string(shorter));
	for (size_t i = 0; choices && row->spec.choices[i]; i++)
		(void)json_array_append_new(choices, json_string(row->spec.choices[i]));
	if (choices)
		(void)json_object_set_new(o, "choices", choices);
	return o;
}

static json_t *list_json(const struct cmd *const *list);

static json_t *command_json(const struct cmd *cmd)
{
	struct opts *o = cmd_opts(cmd);
	json_t *options = json_array();

	for (size_t i = 0; i < opts_n_rows(o); i++)
		if (!(opts_row(o, i)->flags & OPT_HIDDEN))
			(void)json_array_append_new(options, option_json(opts_row(o, i)));
	(void)opts_free(o);
	return json_pack("{s:s, s:s, s:s?, s:o, s:o}", "name", cmd->name, "summary", cmd->summary,
			 "arguments", cmd->args, "options", options, "commands",
			 list_json(cmd->subs));
}

static json_t *list_json(const struct cmd *const *list)
{
	json_t *all = json_array();

	for (; list && *list; list++)
		if (!((*list)->flags & CMD_HIDDEN))
			(void)json_array_append_new(all, command_json(*list));
	return all;
}

static int run_help(const struct cmd_ctx *ctx, struct err *e)
{
	const char *name = opts_arg(ctx->opts, 0);
	const struct cmd *const *list = commands;
	const struct cmd *cmd = NULL;
	cleanup_free char *parent = xstrdup("tenure");

	if (opts_flag(ctx->opts, "json")) {
		cmd_print_json(json_pack("{s:o}", "commands", list_json(commands)));
		return CMD_OK;
	}
	if (!name) {
		help_overview(stdout);
		return CMD_OK;
	}
	if (strcmp(name, "exit-codes") == 0)
		return show_exit_codes();
	if (strcmp(name, "task-keys") == 0)
		return show_task_keys();
	for (size_t i = 0; i < opts_argc(ctx->opts); i++) {
		const struct cmd *above = cmd;

		name = opts_arg(ctx->opts, i);
		cmd = list ? cmd_find(list, name) : NULL;
		if (!cmd) {
			cleanup_free char *near = list ? cmd_suggest(list, name) : xstrdup("");

			(void)err_set(e, -EINVAL, "there is no command \"%s\"%s", name, near);
			return CMD_USAGE;
		}
		if (above) {
			char *words = xasprintf("%s %s", parent, above->name);

			free(parent);
			parent = words;
		}
		list = cmd->subs;
	}

	cleanup_free char *text = cmd_help_text(cmd, parent);

	(void)fputs(text, stdout);
	return CMD_OK;
}

static const struct cmd_example examples[] = {
	{ "tenure help config", "what `tenure config` does, its options, examples" },
	{ "tenure help exit-codes", "the exit codes that scripts can rely on" },
	{ "tenure help task-keys", "what a task's file, a line of --from or an edit can say" },
	{ 0 },
};

const struct cmd cmd_help = {
	.name = "help",
	.group = "About",
	.summary = "show what a command does, with examples",
	.args = "[COMMAND...]",
	.words = { WORDS_COMMANDS },
	.description =
		"Shows the help of a command, the same as COMMAND --help. Without a command: the "
		"list of all commands. With --json: all commands and their options, for programs.",
	.examples = examples,
	.flags = CMD_NO_SETTINGS | CMD_JSON,
	.run = run_help,
};
