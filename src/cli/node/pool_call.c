/* SPDX-License-Identifier: MIT */
#include "cli/node/pool_call.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "cli/pools.h"

/* The word of the command line; what begins with a dash is the engine's. */
const char *pool_call_word(const struct cmd_ctx *ctx)
{
	const char *word = opts_arg(ctx->opts, 0);

	return word && word[0] != '-' ? word : NULL;
}

const char *pool_call_instance(const struct cmd_ctx *ctx)
{
	const char *word = pool_call_word(ctx);

	return word ? word : settings_str(ctx->settings, SET_INSTANCE);
}

const char *pool_call_pool(const struct cmd_ctx *ctx)
{
	return opts_value(ctx->opts, "pool")->str;
}

int pool_call_check(const struct cmd_ctx *ctx, struct err *e)
{
	const char *word = pool_call_word(ctx);
	struct value v;

	if (word && strcmp(word, settings_str(ctx->settings, SET_INSTANCE)) != 0 &&
	    settings_origin(ctx->settings, SET_INSTANCE)->layer == SETTING_FROM_COMMAND_LINE) {
		(void)err_set(e, -EINVAL, "%s and --instance %s: one of them is enough", word,
			      settings_str(ctx->settings, SET_INSTANCE));
		return CMD_USAGE;
	}
	if (word && value_parse(&setting_row(SET_INSTANCE)->opt.spec, word, &v, e) < 0)
		return CMD_USAGE;
	if (word)
		value_clear(&v);
	if (pool_is_name(pool_call_pool(ctx)))
		return CMD_OK;
	(void)err_set(e, -EINVAL, "--pool %s: a pool's name has up to %d letters, digits and . _ -",
		      pool_call_pool(ctx), POOL_NAME_MAX);
	return CMD_USAGE;
}

int pool_call_open(const struct cmd_ctx *ctx, unsigned int flags, struct spool **ret, struct err *e)
{
	cleanup_free char *root = spool_root(settings_str(ctx->settings, SET_ROOT));
	struct spool_trust trust = trust_from_settings(ctx->settings);

	return spool_open(root, pool_call_instance(ctx), &trust, flags, ret, e);
}

char *pool_call_text(const struct cmd_ctx *ctx, const char *command, bool pool)
{
	const char *program = program_invocation_name;
	struct strbuf b = STRBUF_INIT;

	strbuf_add_word(&b, strchr(program, '/') ? program : "tenure");
	strbuf_add_word(&b, command);
	strbuf_add_word(&b, pool_call_instance(ctx));
	if (pool && strcmp(pool_call_pool(ctx), POOL_CALL_MAIN) != 0) {
		strbuf_add_word(&b, "--pool");
		strbuf_add_word(&b, pool_call_pool(ctx));
	}
	if (settings_origin(ctx->settings, SET_ROOT)->layer == SETTING_FROM_COMMAND_LINE) {
		strbuf_add_word(&b, "--root");
		strbuf_add_word(&b, settings_str(ctx->settings, SET_ROOT));
	}
	return strbuf_take(&b);
}

int pool_call_tick(const struct cmd_ctx *ctx, const struct spool *sp, const struct pool *p,
		   struct pool_report *report, struct err *e)
{
	cleanup_free char *root = spool_root(settings_str(ctx->settings, SET_ROOT));
	struct pool_caller caller = pools_caller(ctx, root);

	/* Who says so after an agent was killed does not wait until it has expired. */
	caller.silent_ms = pools_silent_ms(ctx);
	caller.patience_ms = p->down ? POOL_CALL_PATIENCE_MS : POOLS_PATIENCE_MS;
	return pool_tick(sp, p->name, &caller, report, e);
}

int pool_call_own(const struct spool *sp, const char *pool, struct pool_owner *ret, struct err *e)
{
	static const struct timespec pause = { .tv_nsec = 20000000 };
	cleanup_free char *name = xasprintf("%s,said", pool);
	uint64_t end_ns = clock_mono_ns() + POOL_CALL_PATIENCE_MS * NS_PER_MS;
	int r = spool_make_dir(sp, SPOOL_POOLS, e);

	while (r == 0 && (r = pool_own(sp, name, ret, e)) == POOL_BUSY) {
		if (clock_mono_ns() > end_ns)
			return err_set(e, -EBUSY,
				       "somebody else calls up or down for pool %s at this moment: "
				       "try again",
				       pool);
		(void)nanosleep(&pause, NULL);
		r = 0;
	}
	return r;
}
