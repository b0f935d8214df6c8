/* SPDX-License-Identifier: MIT */
#include "cli/ask_agent.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/endpoint.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "hold/names.h"
#include "spool/files.h"
#include "spool/instance.h"

#define ABOUT_LIMIT_MS 3000
#define OTHERS_TOLD    5

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

/* Instances other than own, of the names that begin with prefix: "NAME/agent" behind it. */
struct others {
	const char *prefix, *own;
	size_t n;
	char names[OTHERS_TOLD][SOCKET_NAME_MAX];
};

static void add_other(void *data, const char *name)
{
	struct others *o = data;
	char instance[SOCKET_NAME_MAX];
	size_t len;

	(void)str_copy(instance, sizeof(instance), name + strlen(o->prefix));
	len = strcspn(instance, "/");
	if (strcmp(instance + len, "/agent") != 0)
		return;
	instance[len] = '\0';
	for (size_t i = 0; i < o->n; i++)
		if (!strcmp(o->names[i], instance))
			return;
	if (strcmp(instance, o->own) != 0 && o->n < OTHERS_TOLD)
		(void)str_copy(o->names[o->n++], SOCKET_NAME_MAX, instance);
}

char *ask_agent_others(const struct cmd_ctx *ctx)
{
	char prefix[SOCKET_NAME_MAX];
	struct others o = { .prefix = prefix, .own = settings_str(ctx->settings, SET_INSTANCE) };
	struct strbuf b = STRBUF_INIT;

	(void)agent_socket_name(prefix, sizeof(prefix), "",
				settings_str(ctx->settings, SET_DEV_DIR));
	prefix[strlen(prefix) - strlen("/agent")] = '\0';
	(void)endpoint_each(prefix, add_other, &o);
	if (!o.n)
		return NULL;
	for (size_t i = 0; i < o.n; i++)
		strbuf_addf(&b, "%s%s",
			    i	       ? ", "
			    : o.n == 1 ? "instance "
				       : "instances ",
			    o.names[i]);
	strbuf_addf(&b, " run%s; --instance %s", o.n == 1 ? "s" : "", o.names[0]);
	return strbuf_take(&b);
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
		cleanup_free char *others = ask_agent_others(ctx);

		(void)err_set(
			e, r,
			"tenure is not running for instance %s%s%s%s; start it with: tenure on",
			instance, others ? " (" : "", others ? others : "", others ? ")" : "");
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
