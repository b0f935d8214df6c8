/* SPDX-License-Identifier: MIT */
#include "cli/serving.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "cli/agent_client.h"
#include "cli/libexec.h"
#include "cli/term.h"

#define ASK_LIMIT_MS  2000
#define TELL_LIMIT_MS 6000 /* it tries for some seconds to get a port that somebody has */
#define TELL_STEP_US  50000

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

const json_t *serving_helper(const json_t *status)
{
	return agent_helper(status, SERVE_PROGRAM);
}

/* False: it is not known yet. */
static bool tell_once(const json_t *h)
{
	const char *text = json_get_str(h, "text"), *trouble = json_get_str(h, "trouble");

	if (!h)
		return true;
	if (trouble)
		cmd_warn("warning",
			 "nothing is served yet: %s. The agent tries it again and again; tenure "
			 "status shows how that goes",
			 trouble);
	else if (text)
		term_print_wrapped(stdout, text, 0);
	return trouble || text;
}

void serving_tell(const struct cmd_ctx *ctx)
{
	uint64_t end = clock_mono_ns() + TELL_LIMIT_MS * NS_PER_MS;
	bool told = false;

	while (!told && clock_mono_ns() < end) {
		struct err e = ERR_INIT;
		json_t *status = agent_status(ctx, ASK_LIMIT_MS, &e);

		told = status ? tell_once(serving_helper(status))
			      : e.code != -ETIMEDOUT && e.code != -EAGAIN;
		json_decref(status);
		if (!told)
			(void)usleep(TELL_STEP_US);
	}
}
