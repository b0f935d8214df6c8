/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/table.h"
#include "engine/engine.h"

extern char **environ;

#define WORDS_MAX 64

/* What the config says of the engine that it names. */
static struct text_list settings_of(const struct cmd_ctx *ctx, const struct engine *eng)
{
	const char *name = settings_str(ctx->settings, SET_ENGINE);
	struct text_list own = { .n = 0 };

	if (name && strcmp(name, eng->name) == 0)
		text_list_add_lines(&own, settings_str(ctx->settings, SET_ENGINE_SETTINGS));
	return own;
}

/* Whether it answers here: "ready", "absent", or "fails"; e: why not. */
static const char *state_of(const struct cmd_ctx *ctx, const struct engine *eng, struct err *e)
{
	struct text_list settings = settings_of(ctx, eng);
	const struct engine_env env = { .environ = (const char *const *)environ,
					.settings = &settings };
	int r = eng->probe(&env, e);

	text_list_clear(&settings);
	return r == 0 ? "ready" : r == -ENOENT ? "absent" : "fails";
}

static void print_engines(const struct cmd_ctx *ctx)
{
	static const struct table_column columns[] = { { "ENGINE" }, { "HERE" }, { "" }, { 0 } };
	struct table *t = table_new(columns);
	const struct engine *eng;
	bool any = false;

	for (size_t i = 0; (eng = engine_at(i)); i++) {
		struct err e = ERR_INIT;
		const char *state = state_of(ctx, eng, &e);

		any = any || (e.code == 0 && eng != &engine_local);
		table_add(t,
			  e.code == 0	      ? TABLE_PLAIN
			  : e.code == -ENOENT ? TERM_DIM
					      : TERM_YELLOW,
			  eng->name, state, e.code == 0 ? eng->title : e.text);
	}
	table_print(t, stdout);
	(void)table_free(t);
	if (!any)
		printf("\nNo cluster answers here. It takes its commands on PATH (Slurm's sbatch, Grid "
		       "Engine's qsub, sco or\nkubectl), which a login node has, often after "
		       "\"module load\"; docs/cluster.md tells of each.\n");
}

static json_t *engine_json(const struct cmd_ctx *ctx, const struct engine *eng)
{
	struct err e = ERR_INIT;
	const char *state = state_of(ctx, eng, &e);

	return json_pack("{s:s, s:s, s:s, s:s?}", "name", eng->name, "title", eng->title, "state",
			 state, "error", e.code ? e.text : NULL);
}

static void print_engines_json(const struct cmd_ctx *ctx)
{
	json_t *all = json_array();
	const struct engine *eng;

	for (size_t i = 0; (eng = engine_at(i)); i++)
		(void)json_array_append_new(all, engine_json(ctx, eng));
	cmd_print_json(json_pack("{s:o}", "engines", all));
}

/* -------- the command -------- */

/* What showed its nodes in earlier versions. */
static int tell_nodes(const char *name, struct err *e)
{
	(void)err_set(e, -EINVAL, "tenure nodes %s shows what its nodes have", name);
	return CMD_USAGE;
}

static int run_engines(const struct cmd_ctx *ctx, struct err *e)
{
	const char *name = opts_arg(ctx->opts, 0);

	if (name && engine_find(name))
		return tell_nodes(name, e);
	if (name) {
		(void)err_set(e, -EINVAL,
			      "unexpected argument \"%s\"; tenure engines lists all engines, and "
			      "tenure nodes ENGINE shows the nodes of one",
			      name);
		return CMD_USAGE;
	}
	if (opts_flag(ctx->opts, "json"))
		print_engines_json(ctx);
	else
		print_engines(ctx);
	return CMD_OK;
}

static const struct cmd_example engines_examples[] = {
	{ "tenure engines", "which engines answer on this machine, and why others do not" },
	{ "tenure nodes slurm",
	  "the nodes of one, and how many of their GPUs a job could get now" },
	{ 0 },
};

const struct cmd cmd_engines = {
	.name = "engines",
	.group = QUEUE_GROUP,
	.summary = "where more nodes come from",
	.max_args = WORDS_MAX,
	.description =
		"An engine (Slurm, Grid Engine, SCO ACP, Kubernetes) is asked by its own commands, "
		"each for 15 seconds at most. \"ready\": it answers here. \"absent\": its commands, "
		"or what tells them where it is (of sco: engine_settings), are not on this machine. "
		"\"fails\": it is here, and does not answer now. What its nodes have is shown by tenure nodes.",
	.examples = engines_examples,
	.flags = CMD_JSON,
	.run = run_engines,
};
