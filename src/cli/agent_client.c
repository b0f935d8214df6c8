/* SPDX-License-Identifier: MIT */
#include "cli/agent_client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/queue/order.h"
#include "base/clock.h"
#include "base/endpoint.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "engine/engine.h"
#include "hold/endpoint_names.h"
#include "spool/files.h"
#include "spool/instance.h"
#include "task/sweep.h"

#define ABOUT_LIMIT_MS 3000
#define OTHERS_TOLD    5

/* What an answer says of itself, and where it does not, missing. 0 or negative. */
static int answer_code(const json_t *answer, int missing, const char *refused, struct err *e)
{
	const json_t *code = json_object_get(answer, "code");
	const char *why = json_get_str(answer, "error");
	int r = json_is_integer(code) ? (int)json_integer_value(code) : missing;

	return r < 0 ? err_set(e, r, "%s", why ? why : refused) : 0;
}

/* ---- the agent here, by its socket ---- */

static const char *socket_name(const struct cmd_ctx *ctx, char name[SOCKET_NAME_MAX])
{
	return agent_socket_name(name, SOCKET_NAME_MAX, settings_str(ctx->settings, SET_INSTANCE),
				 settings_str(ctx->settings, SET_DEV_DIR), ctx->job);
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
		its = json_get_str(doc, "root");
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
	char job[SOCKET_NAME_MAX]; /* in which an agent of `own` runs, where we are in none */
};

/* "@KEY/INSTANCE/agent" */
static void add_job(struct others *o, const char *name)
{
	size_t len = strcspn(name, "/");
	cleanup_free char *want = xasprintf("/%s/agent", o->own);

	if (!o->job[0] && strcmp(name + len, want) == 0)
		(void)str_print(o->job, sizeof(o->job), "%.*s", (int)(len - 1), name + 1);
}

static void add_other(void *data, const char *name)
{
	struct others *o = data;
	char instance[SOCKET_NAME_MAX];
	size_t len;

	(void)str_copy(instance, sizeof(instance), name + strlen(o->prefix));
	if (instance[0] == '@')
		add_job(o, instance);
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

char *agent_others(const struct cmd_ctx *ctx)
{
	char prefix[SOCKET_NAME_MAX];
	struct others o = { .prefix = prefix, .own = settings_str(ctx->settings, SET_INSTANCE) };
	struct strbuf b = STRBUF_INIT;

	(void)agent_socket_name(prefix, sizeof(prefix), "",
				settings_str(ctx->settings, SET_DEV_DIR), ctx->job);
	prefix[strlen(prefix) - strlen("/agent")] = '\0';
	(void)endpoint_each(prefix, add_other, &o);
	if (!o.n && o.job[0])
		return xasprintf("in job %s there is one, which " ENGINE_KEY_VARIABLE "=%s finds",
				 o.job, o.job);
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

/* Those of the n directories that the command line has. */
static char *options_of(const struct settings *s, const char *instance, const enum setting_id *dirs,
			size_t n)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	if (strcmp(instance, "default") != 0)
		strbuf_addf(&b, " -i %s", instance);
	for (size_t i = 0; i < n; i++) {
		if (settings_origin(s, dirs[i])->layer != SETTING_FROM_COMMAND_LINE)
			continue;
		strbuf_addf(&b, " --%s", setting_row(dirs[i])->opt.name);
		strbuf_add_word(&b, settings_str(s, dirs[i]));
	}
	return xstrdup(strbuf_str(&b));
}

/* The root last: without it, it is an agent's name. */
static const enum setting_id agent_dirs[] = { SET_RUNTIME_DIR, SET_DEV_DIR, SET_ROOT };

char *agent_options(const struct settings *s, const char *instance)
{
	return options_of(s, instance ? instance : settings_str(s, SET_INSTANCE), agent_dirs,
			  ARRAY_LEN(agent_dirs));
}

char *agent_name_options(const struct settings *s)
{
	return options_of(s, settings_str(s, SET_INSTANCE), agent_dirs, ARRAY_LEN(agent_dirs) - 1);
}

/* What came of asking the agent. */
static int code_of(const struct cmd_ctx *ctx, int r, struct err *e)
{
	cleanup_free char *others = r == -ECONNREFUSED ? agent_others(ctx) : NULL;
	cleanup_free char *options = agent_options(ctx->settings, NULL);

	if (r != -ECONNREFUSED)
		return r < 0 ? CMD_FAILED : CMD_OK;
	(void)err_set(e, r,
		      "tenure is not running for instance %s%s%s%s; start it with: tenure on%s",
		      settings_str(ctx->settings, SET_INSTANCE), others ? " (" : "",
		      others ? others : "", others ? ")" : "", options);
	return CMD_NOTHING_RUNS;
}

int agent_ask(const struct cmd_ctx *ctx, const struct ctl_request *req, int timeout_ms,
	      json_t **ret, int *ret_fd, struct err *e)
{
	enum setting_layer from = settings_origin(ctx->settings, SET_ROOT)->layer;
	char name[SOCKET_NAME_MAX];

	/* Letting go must not fail for a file or a variable that says otherwise by now. */
	if (from == SETTING_FROM_COMMAND_LINE && serves_another(ctx, e))
		return CMD_NOTHING_RUNS;
	return code_of(ctx, ctl_ask_about(socket_name(ctx, name), req, timeout_ms, ret, ret_fd, e),
		       e);
}

int agent_ask_with(const struct cmd_ctx *ctx, enum ctl_verb verb, const char *payload,
		   int timeout_ms, json_t **ret, struct err *e)
{
	char name[SOCKET_NAME_MAX];

	return code_of(ctx, ctl_ask_with(socket_name(ctx, name), verb, payload, timeout_ms, ret, e),
		       e);
}

json_t *agent_status(const struct cmd_ctx *ctx, int timeout_ms, struct err *e)
{
	json_t *doc = NULL;

	return agent_ask(ctx, AGENT_VERB(CTL_STATUS), timeout_ms, &doc, NULL, e) == CMD_OK ? doc
											   : NULL;
}

const json_t *agent_helper(const json_t *status, const char *name)
{
	const json_t *h;
	size_t i;

	json_array_foreach(json_object_get(status, "helpers"), i, h)
	{
		const char *its = json_get_str(h, "name");

		if (its && strcmp(its, name) == 0)
			return h;
	}
	return NULL;
}

char *agent_ask_text(const json_t *ask)
{
	const char *message = json_get_str(ask, "message"), *name = json_get_str(ask, "name");
	const char *user = json_get_str(ask, "user"), *left = json_get_str(ask, "left_to");
	const struct order_task task = { .id = json_get_u64(ask, "task"),
					 .element = json_get_u64(ask, "element") };
	struct strbuf b = STRBUF_INIT;
	char id[ORDER_ID_MAX];

	if (user)
		strbuf_adds(&b, user);
	else
		strbuf_addf(&b, "uid %llu", (unsigned long long)json_get_u64(ask, "uid"));
	strbuf_addf(&b, " asks for GPU %llu", (unsigned long long)json_get_u64(ask, "gpu"));
	if (task.id)
		strbuf_addf(&b, ", which task %s%s%s has", order_format_task(&task, id),
			    name ? " " : "", name ? name : "");
	else if (left)
		strbuf_addf(&b, ", which is left to %s", left);
	if (message && message[0])
		strbuf_addf(&b, ": %s", message);
	return strbuf_take(&b);
}

const json_t *agent_tasks(const json_t *status)
{
	return json_object_get(json_object_get(status, "queue"), "tasks");
}

struct agent_task agent_task_of(const json_t *task)
{
	const json_t *unfiled = json_object_get(task, "unfiled");

	return (struct agent_task){
		.id = json_get_u64(task, "id"),
		.element = json_get_u64(task, "element"),
		.name = json_get_str(task, "name"),
		.unfiled = json_get_str(unfiled, "why"),
	};
}

int agent_ask_about(const struct cmd_ctx *ctx, const struct order *o, json_t **ret, struct err *e)
{
	static const enum ctl_verb verbs[ORDER_COMMAND_MAX] = {
		[ORDER_STOP] = CTL_STOP, [ORDER_WHY] = CTL_WHY
	};
	const struct ctl_request req = {
		.verb = verbs[o->command],
		.task = o->tasks[0].id,
		.element = (uint32_t)o->tasks[0].element,
		.now = o->now,
		.sweep = o->sweep == SPEC_CLEAN_GPU ? SWEEP_BIT(SWEEP_GPU) : 0,
	};
	char name[SOCKET_NAME_MAX];
	json_t *doc = NULL;
	int r;

	if (serves_another(ctx, e))
		return -ECONNREFUSED;
	r = ctl_ask_about(socket_name(ctx, name), &req, ABOUT_LIMIT_MS, &doc, NULL, e);
	if (r == -EPIPE) /* it ended at that moment; there may be another one, or none */
		r = ctl_ask_about(socket_name(ctx, name), &req, ABOUT_LIMIT_MS, &doc, NULL, e);
	if (r == 0)
		r = answer_code(doc, 0, "the agent refused", e);
	if (r == 0 && ret)
		*ret = json_incref(doc);
	json_decref(doc);
	return r;
}

void agent_look(const struct cmd_ctx *ctx)
{
	char name[SOCKET_NAME_MAX];

	ctl_ring(socket_name(ctx, name), CTL_RESCAN);
}

/* ---- agents of other nodes, through the spool ---- */

#define LOOK_US	 50000
#define TAKEN_MS 3000 /* who has taken an order answers it at once */

int agents_send(struct agents_call *o, const char *agent, const struct order *order, void *data,
		struct err *e)
{
	struct agent_called one = { .state = CALLED_SENT, .data = data };
	json_t *doc = order_json(order);
	int r = control_send(o->sp, agent, doc, one.path, e);

	if (r < 0) {
		json_decref(doc);
		return r;
	}
	one.order = doc;
	(void)str_copy(one.agent, sizeof(one.agent), agent);
	o->sent_ns = o->n ? o->sent_ns : clock_mono_ns();
	o->all = xrealloc(o->all, o->n + 1, sizeof(*o->all));
	o->all[o->n++] = one;
	return 0;
}

static int nothing(void *data, const char *file, unsigned char type)
{
	return 1;
}

/* Its agent began just then, and obeys nothing that was there before it. */
static bool send_again(struct agents_call *o, struct agent_called *one, const json_t *answer)
{
	return agents_answer_code(answer, NULL) == -EAGAIN &&
	       control_send(o->sp, one->agent, one->order, one->path, NULL) == 0;
}

/* How many are still waited for. */
static size_t look(struct agents_call *o, agents_fn fn, void *user)
{
	size_t left = 0;

	/* Opening the directory is what makes a network filesystem see what is new in it. */
	(void)spool_each(o->sp, spool_dir_name(SPOOL_CONTROL), nothing, NULL, NULL);
	for (size_t i = 0; i < o->n; i++) {
		struct agent_called *one = &o->all[i];
		json_t *answer = NULL;

		if (one->state == CALLED_ANSWERED || one->state == CALLED_IGNORED)
			continue;
		if (control_answer_read(o->sp, one->path, &answer, NULL) != 0) {
			left++;
			continue;
		}
		if (send_again(o, one, answer)) {
			left++;
		} else {
			one->state = CALLED_ANSWERED;
			fn(user, one, answer);
		}
		json_decref(answer);
	}
	return left;
}

/* Those that nobody has taken. How many have been. */
static size_t take_back(struct agents_call *o)
{
	size_t taken = 0;

	for (size_t i = 0; i < o->n; i++) {
		struct agent_called *one = &o->all[i];

		if (one->state != CALLED_SENT)
			continue;
		one->state = control_take_back(o->sp, one->path) ? CALLED_IGNORED : CALLED_TAKEN;
		taken += one->state == CALLED_TAKEN;
	}
	return taken;
}

static void tell_silent(struct agents_call *o, agents_fn fn, void *user)
{
	for (size_t i = 0; i < o->n; i++)
		if (o->all[i].state != CALLED_ANSWERED)
			fn(user, &o->all[i], NULL);
}

size_t agents_poll(struct agents_call *o, uint64_t limit_ms, agents_fn fn, void *user)
{
	size_t left = look(o, fn, user);
	uint64_t now = clock_mono_ns();

	if (left && !o->back_ns && now - o->sent_ns >= limit_ms * NS_PER_MS) {
		o->back_ns = now;
		left = take_back(o);
	}
	if (left && o->back_ns && now - o->back_ns >= TAKEN_MS * NS_PER_MS)
		left = 0;
	if (!left)
		tell_silent(o, fn, user);
	return left;
}

void agents_wait(struct agents_call *o, uint64_t limit_ms, agents_fn fn, void *user)
{
	o->sent_ns = clock_mono_ns();
	while (agents_poll(o, limit_ms, fn, user))
		(void)usleep(LOOK_US);
}

void agents_clear(struct agents_call *o)
{
	for (size_t i = 0; i < o->n; i++) {
		if (o->all[i].state != CALLED_ANSWERED)
			(void)control_give_up(o->sp, o->all[i].path);
		json_decref(o->all[i].order);
	}
	free(o->all);
	*o = (struct agents_call){ .sp = o->sp };
}

int agents_answer_code(const json_t *answer, struct err *e)
{
	return answer_code(answer, -EPROTO, "it refused", e);
}
