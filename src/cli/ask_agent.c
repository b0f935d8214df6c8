/* SPDX-License-Identifier: MIT */
#include "cli/ask_agent.h"

#include <errno.h>
#include <limits.h>

#include "hold/names.h"

#define ABOUT_LIMIT_MS 3000

static const char *socket_name(const struct cmd_ctx *ctx, char name[SOCKET_NAME_MAX])
{
	return agent_socket_name(name, SOCKET_NAME_MAX, settings_str(ctx->settings, SET_INSTANCE),
				 settings_str(ctx->settings, SET_DEV_DIR));
}

static int ask(const struct cmd_ctx *ctx, const struct ctl_request *req, int timeout_ms,
	       json_t **ret, int *ret_fd, struct err *e)
{
	const char *instance = settings_str(ctx->settings, SET_INSTANCE);
	char name[SOCKET_NAME_MAX];
	int r;

	r = ctl_ask_about(socket_name(ctx, name), req, timeout_ms, ret, ret_fd, e);
	if (r == -ECONNREFUSED) {
		(void)err_set(e, r,
			      "tenure is not running for instance %s; start it with: tenure on",
			      instance);
		return CMD_NOTHING_RUNS;
	}
	return r < 0 ? CMD_FAILED : CMD_OK;
}

int ask_agent(const struct cmd_ctx *ctx, enum ctl_verb verb, int timeout_ms, json_t **ret,
	      int *ret_fd, struct err *e)
{
	return ask(ctx, &(struct ctl_request){ .verb = verb }, timeout_ms, ret, ret_fd, e);
}

int ask_agent_long(const struct cmd_ctx *ctx, const struct ctl_request *req, json_t **ret,
		   int *ret_fd, struct err *e)
{
	return ask(ctx, req, INT_MAX, ret, ret_fd, e);
}

int ask_agent_about(const struct cmd_ctx *ctx, const struct ctl_request *req, json_t **ret,
		    struct err *e)
{
	char name[SOCKET_NAME_MAX];
	json_t *doc = NULL;
	int r = ctl_ask_about(socket_name(ctx, name), req, ABOUT_LIMIT_MS, &doc, NULL, e);
	const char *why;

	if (r == -EPIPE) /* it ended at that moment; there may be another one, or none */
		r = ctl_ask_about(socket_name(ctx, name), req, ABOUT_LIMIT_MS, &doc, NULL, e);
	if (r < 0)
		return r;
	r = (int)json_integer_value(json_object_get(doc, "code"));
	why = json_string_value(json_object_get(doc, "error"));
	if (r < 0)
		(void)err_set(e, r, "%s", why ? why : "the agent refused");
	if (r >= 0 && ret)
		*ret = json_incref(doc);
	json_decref(doc);
	return r < 0 ? r : 0;
}

void ask_agent_to_look(const struct cmd_ctx *ctx)
{
	char name[SOCKET_NAME_MAX];

	ctl_ring(socket_name(ctx, name), CTL_RESCAN);
}
