/* SPDX-License-Identifier: MIT */
#include "cli/alloc/alloc_pool.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/commands.h"

const struct opt alloc_pool_opts[] = {
	{ .name = "engine",
	  .words = WORDS_ENGINES,
	  .spec = { VALUE_NAME },
	  .arg = "ENGINE",
	  .group = "Nodes of an engine",
	  .help = "ask this engine for a node of its own: slurm, sge, sco, k8s, local; its lines for "
		  "the job stand behind --, as with tenure up" },
	{ .name = "time",
	  .spec = { VALUE_DURATION },
	  .arg = "DURATION",
	  .group = "Nodes of an engine",
	  .help = "of the job" },
	{ .name = "type",
	  .spec = { VALUE_STRING },
	  .arg = "TYPE",
	  .group = "Nodes of an engine",
	  .help = "of the GPUs, in the engine's words" },
	{ .name = "set",
	  .spec = { VALUE_TEXTS },
	  .arg = "KEY=VALUE",
	  .group = "Nodes of an engine",
	  .help = "what the engine needs besides (docs/cluster.md)" },
	{ 0 },
};

/* With "-" for "_", and without those that it ends with. */
char *alloc_pool_prefix(const struct cmd_ctx *ctx)
{
	const char *text = settings_str(ctx->settings, SET_ALLOC_PREFIX);
	char *prefix = xstrdup(text ? text : "");
	size_t n = strlen(prefix);

	for (char *p = prefix; *p; p++)
		*p = *p == '_' ? '-' : *p;
	while (n && prefix[n - 1] == '-')
		prefix[--n] = '\0';
	if (n)
		return prefix;
	free(prefix);
	return NULL;
}

const char *alloc_pool_engine(const struct cmd_ctx *ctx)
{
	const struct value *v =
		opts_has(ctx->opts, "engine") ? opts_value(ctx->opts, "engine") : NULL;

	return v ? v->str : NULL;
}

/* The same instance as this command's. */
static struct text_list words_of(const struct cmd_ctx *ctx, const char *command, const char *pool)
{
	const char *root = settings_str(ctx->settings, SET_ROOT);
	struct text_list words = { .n = 0 };

	text_list_add(&words, command);
	text_list_add(&words, settings_str(ctx->settings, SET_INSTANCE));
	text_list_take(&words, xasprintf("--pool=%s", pool));
	if (root)
		text_list_take(&words, xasprintf("--root=%s", root));
	return words;
}

static void pass_on(const struct cmd_ctx *ctx, const char *name, struct text_list *words)
{
	const struct value *v;

	if (!opts_has(ctx->opts, name) || !opts_given(ctx->opts, name))
		return;
	v = opts_value(ctx->opts, name);
	if (strcmp(name, "set") != 0)
		text_list_take(words, xasprintf("--%s=%s", name, opts_text(ctx->opts, name)));
	else
		for (size_t i = 0; i < v->words.n; i++)
			text_list_take(words, xasprintf("--set=%s", v->words.texts[i]));
}

/* The descriptor that is standard output meanwhile; -1: as it is. */
static int open_words(const struct cmd_ctx *ctx, enum alloc_pool_words words)
{
	if (words == ALLOC_POOL_QUIET)
		return open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (opts_has(ctx->opts, "json") && opts_flag(ctx->opts, "json"))
		return fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	return -1;
}

static int run(const struct cmd_ctx *ctx, const struct cmd *cmd, struct text_list *argv,
	       enum alloc_pool_words words)
{
	cleanup_fd int told = open_words(ctx, words), out = -1;
	int code;

	(void)fflush(stdout);
	if (told >= 0)
		out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (out >= 0)
		(void)dup2(told, STDOUT_FILENO);
	code = cmd_run(cmd, "tenure", (int)argv->n, argv->texts);
	(void)fflush(stdout);
	if (out >= 0)
		(void)dup2(out, STDOUT_FILENO);
	text_list_clear(argv);
	return code;
}

int alloc_pool_up(const struct cmd_ctx *ctx, const char *engine, const char *pool,
		  unsigned int gpus, enum alloc_pool_words told)
{
	static const char *const passed[] = { "time", "type", "set" };
	struct text_list words = words_of(ctx, "up", pool);
	cleanup_free char *prefix = alloc_pool_prefix(ctx);

	text_list_take(&words, xasprintf("--gpus=%u", gpus));
	text_list_take(&words, xasprintf("--engine=%s", engine));
	text_list_add(&words, "--max=1");
	text_list_add(&words, "--only");
	text_list_add(&words, "--at-once");
	if (prefix)
		text_list_take(&words, xasprintf("--prefix=%s", prefix));
	for (size_t i = 0; i < ARRAY_LEN(passed); i++)
		pass_on(ctx, passed[i], &words);
	if (opts_has(ctx->opts, "engine") && opts_argc(ctx->opts) > 1)
		text_list_add(&words, "--");
	for (size_t i = 1; opts_has(ctx->opts, "engine") && i < opts_argc(ctx->opts); i++)
		text_list_add(&words, opts_arg(ctx->opts, i));
	return run(ctx, &cmd_up, &words, told);
}

int alloc_pool_down(const struct cmd_ctx *ctx, const char *pool, enum alloc_pool_words told)
{
	struct text_list words = words_of(ctx, "down", pool);

	return run(ctx, &cmd_down, &words, told);
}
