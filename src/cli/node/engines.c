/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/table.h"
#include "engine/engine.h"
#include "engine/keys.h"

extern char **environ;

#define ENGINES_MAX 16
#define KEYS_MAX    32

/* -------- which there are -------- */

/* Whether it answers here: "ready", "absent", or "fails"; e: why not. */
static const char *state_of(const struct engine *eng, const struct engine_env *env, struct err *e)
{
	int r = eng->probe(env, e);

	return r == 0 ? "ready" : r == -ENOENT ? "absent" : "fails";
}

static void print_engines(const struct engine_env *env)
{
	static const struct table_column columns[] = { { "ENGINE" }, { "HERE" }, { "" }, { 0 } };
	struct table *t = table_new(columns);
	const struct engine *eng;
	bool any = false;

	for (size_t i = 0; (eng = engine_at(i)); i++) {
		struct err e = ERR_INIT;
		const char *state = state_of(eng, env, &e);

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

static json_t *engine_json(const struct engine *eng, const struct engine_env *env)
{
	struct err e = ERR_INIT;
	const char *state = state_of(eng, env, &e);

	return json_pack("{s:s, s:s, s:s, s:s?}", "name", eng->name, "title", eng->title, "state",
			 state, "error", e.code ? e.text : NULL);
}

static void print_engines_json(const struct engine_env *env)
{
	json_t *all = json_array();
	const struct engine *eng;

	for (size_t i = 0; (eng = engine_at(i)); i++)
		(void)json_array_append_new(all, engine_json(eng, env));
	cmd_print_json(json_pack("{s:o}", "engines", all));
}

/* -------- what one of them has -------- */

struct sums {
	size_t nodes;
	unsigned int total, used, free, blocked;
};

static struct sums sum_of(const struct engine_nodes *nodes)
{
	struct sums s = { .nodes = 0 };

	for (size_t i = 0; i < nodes->n; i++) {
		const struct engine_node *n = &nodes->all[i];

		/* One with several types is there once for each, one after the other. */
		s.nodes += i == 0 || strcmp(n->name, nodes->all[i - 1].name) != 0;
		s.total += n->total;
		s.used += n->used;
		s.free += n->free;
		s.blocked += n->blocked;
	}
	return s;
}

static const char *number(unsigned int n, char buf[16])
{
	return str_print(buf, 16, "%u", n);
}

static const char *note_of(const struct engine_node *n)
{
	if (n->why)
		return n->why;
	return n->blocked ? "no processor or memory is left for them" : "";
}

static void node_row(struct table *t, const struct engine_node *n)
{
	char total[16], used[16], free_[16], blocked[16];
	unsigned int can = n->free - n->blocked;

	table_add(t,
		  !n->usable ? TERM_DIM
		  : can	     ? TERM_GREEN
			     : TABLE_PLAIN,
		  n->name, n->type ? n->type : "", number(n->total, total), number(n->used, used),
		  number(can, free_), number(n->blocked, blocked), note_of(n));
}

static void print_nodes(const struct engine *eng, const struct engine_nodes *nodes)
{
	static const struct table_column columns[] = {
		{ "NODE" },	  { "TYPE" },	       { "GPUS", true }, { "USED", true },
		{ "FREE", true }, { "BLOCKED", true }, { "" },		 { 0 },
	};
	struct sums s = sum_of(nodes);
	struct table *t = table_new(columns);

	if (!nodes->n)
		printf("No node of %s has GPUs.\n", eng->name);
	for (size_t i = 0; i < nodes->n; i++)
		node_row(t, &nodes->all[i]);
	if (nodes->n)
		table_print(t, stdout);
	if (nodes->n)
		printf("%zu node%s with %u GPUs: %u free, %u blocked, %u in use, %u out of use\n",
		       s.nodes, s.nodes == 1 ? "" : "s", s.total, s.free - s.blocked, s.blocked,
		       s.used, s.total - s.used - s.free);
	(void)table_free(t);
}

static void print_nodes_json(const struct engine *eng, const struct engine_nodes *nodes)
{
	json_t *all = json_array();

	for (size_t i = 0; i < nodes->n; i++) {
		const struct engine_node *n = &nodes->all[i];

		(void)json_array_append_new(
			all, json_pack("{s:s, s:s?, s:i, s:i, s:i, s:i, s:b, s:s?}", "name",
				       n->name, "type", n->type, "total", (int)n->total, "used",
				       (int)n->used, "free", (int)(n->free - n->blocked), "blocked",
				       (int)n->blocked, "usable", n->usable, "why", n->why));
	}
	cmd_print_json(json_pack("{s:s, s:o}", "engine", eng->name, "nodes", all));
}

static int show_nodes(const struct engine *eng, const struct engine_env *env, bool json,
		      struct err *e)
{
	struct engine_nodes nodes = { .n = 0 };
	int r = eng->inventory(env, &nodes, e);

	if (r == 0 && json)
		print_nodes_json(eng, &nodes);
	else if (r == 0)
		print_nodes(eng, &nodes);
	engine_nodes_clear(&nodes);
	return r < 0 ? err_wrap(e, "cannot count the GPUs of %s", eng->name) : CMD_OK;
}

/* -------- the command -------- */

/* The KEY=VALUEs are the engine's. What a job needs, an inventory does not. */
static int check_keys(const struct engine *eng, const struct text_list *settings, struct err *e)
{
	struct engine_key keys[KEYS_MAX] = { { .name = NULL } };

	for (size_t i = 0; eng->keys && eng->keys[i].name && i + 1 < KEYS_MAX; i++) {
		keys[i] = eng->keys[i];
		keys[i].needed = false;
	}
	return engine_keys_check(eng->name, keys, settings, e) < 0 ? CMD_USAGE : CMD_OK;
}

static int unknown_engine(const char *name, struct err *e)
{
	const char *names[ENGINES_MAX] = { NULL };
	cleanup_strbuf struct strbuf known = STRBUF_INIT;
	const char *near;

	for (size_t i = 0; engine_at(i) && i + 1 < ENGINES_MAX; i++) {
		names[i] = engine_at(i)->name;
		strbuf_addf(&known, "%s%s", i ? ", " : "", names[i]);
	}
	near = str_nearest(name, names);
	(void)err_set(e, -EINVAL, "there is no engine \"%s\"%s%s; there are %s", name,
		      near ? ": did you mean " : "", near ? near : "", strbuf_str(&known));
	return CMD_USAGE;
}

static int run_engines(const struct cmd_ctx *ctx, struct err *e)
{
	const char *name = opts_arg(ctx->opts, 0);
	bool json = opts_flag(ctx->opts, "json");
	struct text_list settings = { .n = 0 };
	struct engine_env env = { .environ = (const char *const *)environ, .settings = &settings };
	const struct engine *eng = name ? engine_find(name) : NULL;
	int r;

	if (name && !eng)
		return unknown_engine(name, e);
	if (!name && json)
		print_engines_json(&env);
	else if (!name)
		print_engines(&env);
	if (!name)
		return CMD_OK;
	for (size_t i = 1; i < opts_argc(ctx->opts); i++)
		text_list_add(&settings, opts_arg(ctx->opts, i));
	r = check_keys(eng, &settings, e);
	if (r == CMD_OK)
		r = show_nodes(eng, &env, json, e);
	text_list_clear(&settings);
	return r;
}

static const struct cmd_example engines_examples[] = {
	{ "tenure engines", "which engines answer on this machine, and why others do not" },
	{ "tenure engines slurm", "its nodes, and how many of their GPUs a job could get now" },
	{ "tenure engines slurm partition=long", "those of one partition" },
	{ 0 },
};

const struct cmd cmd_engines = {
	.name = "engines",
	.group = QUEUE_GROUP,
	.summary = "where more nodes come from, and the GPUs that are free there",
	.args = "[NAME [KEY=VALUE...]]",
	.max_args = KEYS_MAX,
	.description =
		"An engine (Slurm, Grid Engine, SCO ACP, Kubernetes) is asked by its own commands, "
		"each for 15 seconds at most. \"ready\": it answers here. \"absent\": its commands, "
		"or what tells them where it is, are not on this machine. \"fails\": it is here, and "
		"does not answer now.\n\n"
		"With a name: how many GPUs its nodes have, as it counts them. \"blocked\" ones are "
		"free, and no job gets them, because no processor or no memory of their node is left. "
		"KEY=VALUE are what a pool would set for that engine (docs/cluster.md).",
	.examples = engines_examples,
	.flags = CMD_JSON | CMD_NO_SETTINGS,
	.run = run_engines,
};
