/* SPDX-License-Identifier: MIT */
#include "cli/serving.h"

#include <errno.h>

#include "base/mem.h"
#include "cli/libexec.h"

/* What it is told of what the agent goes by, wherever that was set. */
static const enum setting_id handed_on[] = { SET_LISTEN,	SET_LISTEN_HOSTS, SET_INSTANCE,
					     SET_ROOT,		SET_DEV_DIR,	  SET_RUNTIME_DIR,
					     SET_ACCEPT_OWNERS, SET_TRUST };

int serving_spec(const struct cmd_ctx *ctx, json_t **ret, struct err *e)
{
	const char *listen = settings_listen(ctx->settings);
	bool asked = settings_origin(ctx->settings, SET_LISTEN)->layer == SETTING_FROM_COMMAND_LINE;
	cleanup_free char *program = NULL;
	struct err why = ERR_INIT;
	json_t *keys;

	*ret = NULL;
	if (!listen || (ctx->job && !asked))
		return 0;
	program = libexec_find(SERVE_PROGRAM, SERVE_NEEDS, &why);
	if (!program && asked)
		return err_set(e, -ENOENT, "--listen %s: %s", listen, why.text);
	if (!program)
		cmd_warn("warning", "nothing listens on %s: %s", listen, why.text);
	keys = json_array();
	for (size_t i = 0; i < ARRAY_LEN(handed_on); i++)
		(void)json_array_append_new(keys, json_string(setting_row(handed_on[i])->key));
	*ret = json_pack("{ss ss? ss? so s[s]}", "name", SERVE_PROGRAM, "program", program,
			 "trouble", program ? NULL : why.text, "settings", keys, "argv",
			 "--" SERVE_WITH_AGENT);
	return 0;
}
