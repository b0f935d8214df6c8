/* SPDX-License-Identifier: MIT */
#include "cli/ask_agent.h"

#include <errno.h>

#include "hold/names.h"

int ask_agent(const struct cmd_ctx *ctx, enum ctl_verb verb, int timeout_ms, json_t **ret,
	      int *ret_fd, struct err *e)
{
	const char *instance = settings_str(ctx->settings, SET_INSTANCE);
	char name[SOCKET_NAME_MAX];
	int r;

	(void)agent_socket_name(name, sizeof(name), instance,
				settings_str(ctx->settings, SET_DEV_DIR));
	r = ctl_ask(name, verb, timeout_ms, ret, ret_fd, e);
	if (r == -ECONNREFUSED) {
		(void)err_set(e, r,
			      "tenure is not running for instance %s; start it with: tenure on",
			      instance);
		return CMD_NOTHING_RUNS;
	}
	return r < 0 ? CMD_FAILED : CMD_OK;
}
