/* SPDX-License-Identifier: MIT */
#include "cli/ask_agent.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "hold/names.h"
#include "spool/spool.h"

#define ABOUT_LIMIT_MS 3000

static const char *socket_name(const struct cmd_ctx *ctx, char name[SOCKET_NAME_MAX])
{
	return agent_socket_name(name, SOCKET_NAME_MAX, settings_str(ctx->settings, SET_INSTANCE),
				 settings_str(ctx->settings, SET_DEV_DIR));
}

static bool is_same_dir(const char *a, const char *b)
{
	struct stat sa, sb;

	return !strcmp(a, b) || (stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
				 sa.st_ino == sb.st_ino);
}

/* The agent of that name here serves the queue of another root, where the same ids are others'
 * tasks. The text of e says so. */
static bool serves_another(const struct cmd_ctx *ctx, struct err *e)
{
	const struct ctl_request ping = { .verb = CTL_PING };
	cleanup_free char *root = spool_root(settings_str(ctx->settings, SET_ROOT));
	char name[SOCKET_NAME_MAX];
	json_t *doc = NULL;
	const char *its;
	bool another = false;

	if (ctl_ask_about(socket_name(ctx, name), &ping, ABOUT_LIMIT_MS, &doc, NULL, NULL) == 0) {
		its = json_string_value(json_object_get(doc, "root"));
		another = !its || !is_same_dir(its, root);
		if (another)
			(void)err_set(e, -EXDEV,
				      "the agent of instance %s (PID %d) serves %s%s, not %s",
				      settings_str(ctx->settings, SET_INSTANCE),
				      (int)json_integer_value(json_object_get(doc, "pid")),
				      its ? "the queue in " : "no queue", its ? its : "", root);
	}
	json_decref(doc);
	return another;
}

static int ask(const struct cmd_ctx *ctx, const struct ctl_request *req, int timeout_ms,
	       json_t **ret, int *ret_fd, struct err *e)
{
	const char *instance = settings_str(ctx->settings, SET_INSTANCE);
	enum setting_layer from = settings_origin(ctx->settings, SET_ROOT)->layer;
	char name[SOCKET_NAME_MAX];
	int r;

	/* Letting go must not fail for a file or a variable that says otherwise by now. */
	if (from == SETTING_FROM_COMMAND_LINE && serves_another(ctx, e))
		return CMD_NOTHING_RUNS;
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
	const char *why;
	int r;

	if (serves_another(ctx, e))
		return -ECONNREFUSED;
	r = ctl_ask_about(socket_name(ctx, name), req, ABOUT_LIMIT_MS, &doc, NULL, e);
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
