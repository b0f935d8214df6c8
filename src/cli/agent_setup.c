/* SPDX-License-Identifier: MIT */
#include "cli/agent_setup.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/node/policy.h"
#include "agent/reload.h"
#include "base/clock.h"
#include "base/endpoint.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "cli/agent_client.h"
#include "cli/notifier.h"
#include "cli/serving.h"
#include "hold/endpoint_names.h"
#include "spool/agent_status.h"
#include "spool/heartbeat.h"
#include "spool/ident.h"
#include "spool/instance.h"
#include "task/launch_spec.h"

#define ENDING "When to end"

#define LEAVE_LEAST_MS                                                                             \
	(2 * MS_PER_MIN) /* to end tasks, file that, and be gone before the engine kills */

#define LOOK_LIMIT_S	 3
#define RIVAL_LIMIT_MS	 2000 /* less than that */
#define RIVAL_STEP_US	 50000
#define HEARTBEATS_LEAST 5 /* so many in the time after which a claim expires */

#define OPT_FOR                                                                                     \
	{                                                                                           \
		.name = "for", .spec = { VALUE_DURATION, .min = 1 }, .arg = "DURATION",             \
		.group = ENDING,                                                                    \
		.help = "let go of everything and end after so long, sleep of the machine included" \
	}
#define OPT_UNTIL                                                                                  \
	{                                                                                          \
		.name = "until", .spec = { VALUE_TIME }, .arg = "TIME", .group = ENDING,           \
		.help = "the same at a time: 18:30, or 2026-11-22 08:00"                           \
	}
#define OPT_NO_HOLD                                                                                \
	{                                                                                          \
		.name = "no-hold", .spec = { VALUE_FLAG }, .help = "only watch, hold nothing"      \
	}
#define OPT_TOKEN                                                                                  \
	{                                                                                          \
		.name = "token", .spec = { VALUE_STRING }, .arg = "TOKEN", .flags = OPT_HIDDEN,    \
		.help = "what tells the job that it runs in from all others of its pool"           \
	}
#define OPT_POOL                                                                                   \
	{                                                                                          \
		.name = "pool", .words = WORDS_POOLS, .spec = { VALUE_STRING }, .arg = "NAME",     \
		.flags = OPT_HIDDEN, .help = "the pool that has submitted the job that it runs in" \
	}
#define OPT_POOL_ONLY                                                                              \
	{                                                                                          \
		.name = "pool-only", .spec = { VALUE_FLAG }, .flags = OPT_HIDDEN,                  \
		.help = "tasks that do not name that pool do not run here"                         \
	}
#define OPT_TIME                                                                                   \
	{                                                                                          \
		.name = "time", .spec = { VALUE_DURATION, .min = 1 }, .arg = "DURATION",           \
		.flags = OPT_HIDDEN, .help = "the job that it runs in ends after so long"          \
	}
#define OPT_SIGNAL_LEAD                                                                            \
	{                                                                                          \
		.name = "signal-lead", .spec = { VALUE_DURATION }, .arg = "DURATION",              \
		.flags = OPT_HIDDEN,                                                               \
		.help = "the engine's warning comes so long before the end of the job"             \
	}

const struct opt agent_setup_opts[] = { OPT_FOR, OPT_UNTIL, { 0 } };
const struct opt agent_setup_opts_change[] = { OPT_NO_HOLD, OPT_FOR, OPT_UNTIL, { 0 } };
const struct opt agent_setup_opts_serves[] = { OPT_NO_HOLD, OPT_FOR,	     OPT_UNTIL,
					       OPT_TOKEN,   OPT_POOL,	     OPT_POOL_ONLY,
					       OPT_TIME,    OPT_SIGNAL_LEAD, { 0 } };

char *agent_setup_state_dir(const struct settings *s)
{
	const char *dir = settings_str(s, SET_STATE_DIR);

	return dir ? xstrdup(dir) : fs_state_dir();
}

static bool may_hold(const struct cmd_ctx *ctx)
{
	return !(ctx->cmd->flags & CMD_SERVES) || !opts_flag(ctx->opts, "no-hold");
}

static void take_lanes(struct agent_setup *r, const struct settings *s)
{
	char name[SETTINGS_LANE_MAX];
	uint32_t width;

	while (settings_lane_width(s, r->n_lanes, name, &width)) {
		r->lanes = xrealloc(r->lanes, r->n_lanes + 1, sizeof(*r->lanes));
		r->lanes[r->n_lanes++] =
			(struct lane_width){ .name = xstrdup(name), .width = width };
	}
}

static char *join_words(const struct text_list *l)
{
	struct strbuf b = STRBUF_INIT;

	for (size_t i = 0; i < l->n; i++)
		strbuf_addf(&b, "%s%s", i ? "," : "", l->texts[i]);
	return strbuf_take(&b);
}

static int check_command(const struct settings *s, struct err *e)
{
	const char *command = settings_str(s, SET_WORKLOAD);

	if (command && !command[strspn(command, " \t\n")])
		return err_set(e, -EINVAL, "workload: there is no command");
	return 0;
}

static int check_log_limit(const struct settings *s, struct err *e)
{
	uint64_t log_limit = settings_num(s, SET_LOG_LIMIT);

	if (log_limit && log_limit < LAUNCH_LOG_LEAST)
		return err_set(
			e, -EINVAL,
			"log_limit: %llu bytes are too few for a beginning and an end; it is "
			"at least %llu, or 0 for no limit",
			(unsigned long long)log_limit, (unsigned long long)LAUNCH_LOG_LEAST);
	return 0;
}

static int check_expire(const struct settings *s, struct err *e)
{
	if (settings_num(s, SET_EXPIRE) < HEARTBEATS_LEAST * settings_num(s, SET_BEAT))
		return err_set(e, -EINVAL, "expire: it is at least %d times beat",
			       HEARTBEATS_LEAST);
	return 0;
}

static int check_policy(const struct settings *s, struct err *e)
{
	struct hold_policy policy;

	return policy_from_settings(s, true, &policy, e);
}

const struct settings_rule agent_setup_rules[] = {
	{ check_log_limit, { SET_LOG_LIMIT, SET_LOG_LIMIT } },
	{ check_expire, { SET_EXPIRE, SET_BEAT } },
	{ check_command, { SET_WORKLOAD, SET_WORKLOAD } },
	{ check_policy, { SET_UTIL, SET_UTIL_BAND } },
	{ NULL },
};

/* In a file it is for the days on which something is held; on one line they contradict. */
static int check_workload(const struct cmd_ctx *ctx, struct err *e)
{
	const struct settings *s = ctx->settings;

	if (settings_str(s, SET_WORKLOAD) && !may_hold(ctx) &&
	    settings_origin(s, SET_WORKLOAD)->layer == SETTING_FROM_COMMAND_LINE)
		return err_set(e, -EINVAL,
			       "--workload runs where a GPU would be held, and with --no-hold none "
			       "is: leave one of them out");
	return 0;
}

static int check_settings(const struct settings *s, struct err *e)
{
	int r = 0;

	for (const struct settings_rule *rule = agent_setup_rules; rule->check && r == 0; rule++)
		if (rule->check != check_policy)
			r = rule->check(s, e);
	return r;
}

struct look {
	char *root;
	const char *instance, *node_name, *dev_dir, *job;
	struct spool_trust trust;
	struct err e;
	int code;
};

/* An agent with our name runs on this node; which the name of its socket would tell as well, but
 * for one that has it elsewhere. */
static bool has_rival(const struct look *l, const struct spool *sp, const char *agent, pid_t *ret)
{
	char path[SPOOL_PATH_MAX], name[SOCKET_NAME_MAX];
	struct heartbeat b;
	int fd;

	if (heartbeat_read(sp, heartbeat_agent_path(agent, path), &b, NULL, NULL) < 0 || b.ended ||
	    strcmp(b.who.boot, spool_boot(sp)) != 0 || !proc_alive(&b.who.proc))
		return false;
	(void)agent_socket_name(name, sizeof(name), l->instance, l->dev_dir, l->job);
	fd = endpoint_connect(name, 0, NULL);
	*ret = b.who.proc.pid;
	if (fd >= 0)
		(void)fd_close(fd);
	return fd == -ECONNREFUSED; /* else that is in the way, and says more */
}

/* One that was told to end has its name in the spool for a moment longer than its socket. */
static int look_for_rival(const struct look *l, const struct spool *sp, struct err *e)
{
	uint64_t until = clock_mono_ns() + RIVAL_LIMIT_MS * NS_PER_MS;
	char agent[NAME_AGENT_MAX + 1];
	pid_t pid;

	(void)heartbeat_agent_name(l->node_name, spool_host(sp), l->job, agent);
	while (has_rival(l, sp, agent, &pid)) {
		if (clock_mono_ns() >= until)
			return err_set(e, -EADDRINUSE,
				       "another agent on this node serves instance %s already: PID "
				       "%d, which was started with another --runtime-dir or "
				       "--dev-dir than this one; tenure off with those ends it. "
				       "Where it has other GPUs, --node-name gives this one a name "
				       "of its own",
				       l->instance, (int)pid);
		(void)usleep(RIVAL_STEP_US);
	}
	return 0;
}

static void *look_at_queue(void *data)
{
	struct look *l = data;
	struct spool *sp = NULL;

	l->code = spool_open(l->root, l->instance, &l->trust, SPOOL_CREATE, &sp, &l->e);
	if (l->code == 0)
		l->code = look_for_rival(l, sp, &l->e);
	(void)spool_close(sp);
	return NULL;
}

/*
 * A queue that the agent will not serve is an error here, where somebody reads it. The agent looks
 * for itself; so where the filesystem does not answer, it is not waited for.
 */
static int check_queue(const struct agent_setup *r, const struct settings *s, struct err *e)
{
	struct look *l = xcalloc(1, sizeof(*l));
	const struct timespec until = clock_timespec(clock_mono_ns() + LOOK_LIMIT_S * NS_PER_S);
	pthread_t thread;

	*l = (struct look){ .root = xstrdup(r->root),
			    .instance = settings_str(s, SET_INSTANCE),
			    .node_name = settings_str(s, SET_NODE_NAME),
			    .dev_dir = settings_str(s, SET_DEV_DIR),
			    .job = r->config.job ? r->config.job->key : NULL,
			    .trust = trust_from_settings(s) };
	if (pthread_create(&thread, NULL, look_at_queue, l) != 0) {
		free(l->root);
		free(l);
		return 0;
	}
	if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) != 0) {
		(void)pthread_detach(thread); /* it has l */
		return 0;
	}

	int code = l->code == -EPERM				 ? CMD_DENIED
		   : l->code == -ELOOP || l->code == -EADDRINUSE ? CMD_FAILED
								 : 0;

	if (code)
		*e = l->e;
	free(l->root);
	free(l);
	return code;
}

/* 1: a device node of NVIDIA is there; 0; negative: that cannot be seen. */
static int has_nodes(const char *path)
{
	const struct dirent *entry;
	DIR *dir = opendir(path);
	bool found = false;

	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	while (!found && (entry = readdir(dir)))
		found = str_has_prefix(entry->d_name, "nvidia");
	(void)closedir(dir);
	return found;
}

/* Of the cards in /dev another directory says nothing, and would be a way around max_devices. */
static int check_dev_dir(const char *name, struct err *e)
{
	cleanup_free char *real = fs_real_dir(name, "/dev");
	int found = strcmp(real, "/dev") == 0 ? 1 : has_nodes(real);

	if (found < 0)
		return err_set(e, found, "dev_dir: %s cannot be read: %s", name, strerror(-found));
	return found ? 0
		     : err_set(e, -EINVAL,
			       "dev_dir: there are no device nodes of NVIDIA in %s; where they are "
			       "in /dev, leave dev_dir out",
			       name);
}

/* A job that says nothing of GPUs has all that it sees, in a container or on a node of its own; but
 * one that a pool has submitted (--token) would say so, had it asked for any. */
static void take_job(const struct engine *engine, const struct engine_here *here, const char *token,
		     struct agent_config *c)
{
	c->job = here;
	c->engine = engine;
	c->devices = !here->gpus && !here->n_gpus && token ? "" : here->gpus;
	c->n_devices = here->n_gpus;
}

/* What a pool has given us, and in which job we are. 0, CMD_USAGE or CMD_FAILED. */
static int look_at_job(const struct cmd_ctx *ctx, struct agent_setup *r, struct err *e)
{
	bool serves = ctx->cmd->flags & CMD_SERVES;
	const char *token = serves ? opts_text(ctx->opts, "token") : NULL;
	const char *pool = serves ? opts_text(ctx->opts, "pool") : NULL;
	const struct value *time = serves ? opts_value(ctx->opts, "time") : NULL;
	const struct value *lead = serves ? opts_value(ctx->opts, "signal-lead") : NULL;
	const struct engine *engine;
	int code;

	if (token && !agent_status_is_token(token))
		return err_set(e, CMD_USAGE,
			       "--token %s: a token is 1 to %d lower-case letters and digits, a "
			       "letter first",
			       token, AGENT_STATUS_TOKEN_MAX);
	if (pool && !ident_is_name(pool))
		return err_set(e, CMD_USAGE, "--pool %s: that is no name of a pool", pool);
	code = engine_inside((const char *const *)environ, &engine, &r->here, e);
	if (code < 0 && code != -ENOENT)
		return CMD_FAILED;
	*e = (struct err)ERR_INIT;
	/* Until the agent itself listens to them. */
	if (code == 0 &&
	    (signal(SIGUSR1, SIG_IGN) == SIG_ERR || signal(SIGUSR2, SIG_IGN) == SIG_ERR))
		return err_sys(e, errno, "signal");
	if (code == 0)
		take_job(engine, &r->here, token, &r->config);
	r->config.job_time_ms = time ? time->num : 0;
	r->config.leave_ms = lead && lead->num > LEAVE_LEAST_MS ? lead->num : LEAVE_LEAST_MS;
	r->config.token = token;
	r->config.pool = pool;
	r->config.pool_only = pool && opts_flag(ctx->opts, "pool-only");
	return 0;
}

static json_t *value_of(const struct settings *s, enum setting_id id)
{
	const struct value *v = settings_value(s, id);
	cleanup_free char *text = v ? value_format(&setting_row(id)->opt.spec, v) : NULL;

	return json_pack("[s?i]", text, (int)settings_origin(s, id)->layer);
}

/* The document of agent/reload.h; takes the reference to helpers. The caller frees it. */
static char *describe_given(const struct cmd_ctx *ctx, json_t *helpers)
{
	const struct settings *s = ctx->settings;
	const struct value *limit = opts_value(ctx->opts, "for");
	const struct value *until = opts_value(ctx->opts, "until");
	json_t *values = json_object(), *options = json_object(), *variables = json_object(), *doc;
	char *text;

	for (int i = 0; i < SET_MAX; i++) {
		const struct setting *row = setting_row((enum setting_id)i);
		const char *variable = settings_variable(s, (enum setting_id)i);
		json_t *one;

		if (!(row->groups & AGENT_SETTING_GROUPS) || row->flags & SETTING_SITE_ONLY)
			continue;
		one = value_of(s, (enum setting_id)i);
		if (settings_origin(s, (enum setting_id)i)->layer == SETTING_FROM_COMMAND_LINE)
			(void)json_object_set(options, row->key, json_array_get(one, 0));
		if (variable)
			(void)json_object_set_new(variables, row->key, json_string(variable));
		(void)json_object_set_new(values, row->key, one);
	}
	if (!may_hold(ctx))
		(void)json_object_set_new(options, AGENT_SETUP_NO_HOLD, json_true());
	doc = json_pack("{s:b, s:o, s:I, s:o, s:o, s:I, s:I, s:o}", "hold", may_hold(ctx), "values",
			values, "site_devices", (json_int_t)settings_limit_num(s, SET_MAX_DEVICES),
			"options", options, "variables", variables, "for_ms",
			(json_int_t)(limit ? limit->num : 0), "until_ns",
			(json_int_t)(until ? until->num : 0), "helpers", helpers);
	text = json_dumps(doc, JSON_COMPACT);
	json_decref(doc);
	return text;
}

/* Who tells people, who serves HTTP: those that are wanted. */
static int describe_helpers(const struct cmd_ctx *ctx, const char *state_dir, json_t **ret,
			    struct err *e)
{
	json_t *serving = NULL, *notifier;
	int r = serving_spec(ctx, &serving, e);

	if (r < 0)
		return r;
	*ret = json_array();
	notifier = notifier_spec(ctx, state_dir);
	if (notifier)
		(void)json_array_append_new(*ret, notifier);
	if (serving)
		(void)json_array_append_new(*ret, serving);
	return 0;
}

int agent_setup_prepare(const struct cmd_ctx *ctx, struct agent_setup *r, struct err *e)
{
	const struct settings *s = ctx->settings;
	const struct value *limit = opts_value(ctx->opts, "for");
	const struct value *until = opts_value(ctx->opts, "until");
	struct hold_policy policy;
	json_t *helpers = NULL;

	/* The guard and the tasks outlive us, and whoever waits for these. */
	proc_fds_keep_private();
	if (check_settings(s, e) < 0 || check_workload(ctx, e) < 0 ||
	    check_dev_dir(settings_str(s, SET_DEV_DIR), e) < 0)
		return CMD_USAGE;
	if (policy_from_settings(s, may_hold(ctx), &policy, e) < 0)
		return CMD_USAGE;
	r->state_dir = agent_setup_state_dir(s);
	if (describe_helpers(ctx, r->state_dir, &helpers, e) < 0)
		return CMD_FAILED;
	/* `hold` is for holding alone. */
	r->root = ctx->cmd->flags & CMD_SERVES ? spool_root(settings_str(s, SET_ROOT)) : NULL;
	take_lanes(r, s);
	r->sweep_spare = join_words(&settings_value(s, SET_SWEEP_SPARE)->words);
	r->cwd = getcwd(NULL, 0);
	r->options = agent_name_options(s);
	r->config = (struct agent_config){
		.workload = r->root && may_hold(ctx) ? settings_str(s, SET_WORKLOAD) : NULL,
		.workload_cwd = r->cwd,
		.lanes = r->lanes,
		.n_lanes = r->n_lanes,
		.instance = settings_str(s, SET_INSTANCE),
		.options = r->options,
		.dev_dir = settings_str(s, SET_DEV_DIR),
		.state_dir = r->state_dir,
		.log_level = (enum log_level)settings_num(s, SET_LOG_LEVEL),
		.policy = policy,
		.root = r->root,
		.trust = trust_from_settings(s),
		.node_name = settings_str(s, SET_NODE_NAME),
		.heartbeat_ms = settings_num(s, SET_BEAT),
		.expire_ms = settings_num(s, SET_EXPIRE),
		.gang_address = settings_str(s, SET_GANG_ADDRESS),
		.sweep_spare = r->sweep_spare,
		.on_end = settings_str(s, SET_ON_END),
		.for_ms = limit ? limit->num : 0,
		.until_wall_ns = until ? until->num : 0,
		.show_json = opts_flag(ctx->opts, "json"),
	};
	reload_take(&r->config, s, r->root != NULL, helpers);
	r->given = describe_given(ctx, helpers);
	r->config.given = r->given;
	settings_gang_ports(s, &r->config.gang_port_first, &r->config.gang_port_last);

	int code = look_at_job(ctx, r, e);

	return code == 0 && r->root ? check_queue(r, s, e) : code;
}

void agent_setup_clear(struct agent_setup *r)
{
	for (size_t i = 0; i < r->n_lanes; i++)
		free(r->lanes[i].name);
	free(take_ptr(r->lanes));
	free(take_ptr(r->cwd));
	free(take_ptr(r->options));
	free(take_ptr(r->state_dir));
	free(take_ptr(r->root));
	free(take_ptr(r->sweep_spare));
	free(take_ptr(r->given));
	engine_here_clear(&r->here);
}

int agent_setup_exit_code(enum agent_end end)
{
	static const enum cmd_exit codes[] = {
		[AGENT_ENDED] = CMD_OK,	      [AGENT_REFUSED] = CMD_USAGE,
		[AGENT_RUNNING] = CMD_FAILED, [AGENT_NO_GPUS] = CMD_FAILED,
		[AGENT_FAILED] = CMD_FAILED,  [AGENT_UNREAD] = CMD_UNREAD,
	};

	return (int)codes[end];
}
