/* SPDX-License-Identifier: MIT */
/*
 * SCO ACP as an engine: what runs `sco`. What it is told and what it answers is sco_text.c's.
 *
 * A job is one worker that runs one script of ours from the shared disk; its name is ours, so that
 * who has had no answer can look for it. There is no wall time: an agent leaves by its own limit.
 * The server forgets nothing, so lists are asked for by the beginning of what people call the job,
 * and where a list is full the states that live are asked for one by one.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/command.h"
#include "engine/engine.h"
#include "engine/sco_text.h"
#include "engine/script.h"

#define PAGE	 500 /* jobs of a list */
#define PAGE_ARG "--page-size=500"

/* -------- running it -------- */

/* A proxy of the user's does not reach it. SCO_LAUNCHED_BY stays as the user has it. */
static const char *const cleared[] = { "http_proxy=", "https_proxy=", "all_proxy=",
				       "no_proxy=",   "HTTP_PROXY=",  "HTTPS_PROXY=",
				       "ALL_PROXY=",  "NO_PROXY=",    NULL };

/* Where its own installer puts it; NULL. The caller frees it. */
static char *own_dir(const struct engine_env *env)
{
	const char *home = script_variable(env->environ, "HOME=");

	return home && home[0] ? xasprintf("%s/.sco/bin", home) : NULL;
}

/* Nobody has said with what it is to be asked, so there is no cluster of it here: -ENOENT. */
static int not_told(const struct engine_env *env, const char *key, const char *what, struct err *e)
{
	cleanup_free char *path = own_dir(env);

	if (!command_is_there("sco", &(struct command){ .environ = env->environ, .path = path }))
		return err_set(e, -ENOENT, "sco: there is no such command on PATH here");
	return err_set(e, -ENOENT,
		       "sco is here, and needs to be told %s= (%s): by engine: sco and "
		       "engine_settings in the config, or tenure up --set",
		       key, what);
}

static int run(const struct engine_env *env, struct text_list *argv, struct command_output *ret,
	       struct err *e)
{
	cleanup_free char *path = own_dir(env);
	struct command how = {
		.environ = env->environ, .clear = cleared, .path = path, .limit_ms = env->limit_ms
	};

	text_list_take(argv, NULL);
	return command_run((const char *const *)argv->texts, &how, ret, e);
}

static int failed(const struct command_output *o, int code, struct err *e)
{
	size_t n;
	const char *line = sco_text_cause(strbuf_str(&o->out), strbuf_str(&o->err), &n);

	if (!n)
		return err_set(e, code, "sco ended with status %d and said nothing", o->status);
	return err_set(e, code, "sco: %.*s", (int)n, line);
}

/* "acp jobs describe": one of its commands, with these words behind it (to NULL). */
static int ask(const struct engine_env *env, const struct text_list *settings, const char *verb,
	       const char *const *words, struct command_output *ret, struct err *e)
{
	struct text_list argv = { .n = 0 };
	int r = sco_text_command(settings, verb, &argv, e);

	*ret = (struct command_output){ .status = -1 };
	for (; *words; words++)
		text_list_add(&argv, *words);
	if (r == 0)
		r = run(env, &argv, ret, e);
	text_list_clear(&argv);
	return r;
}

/* -------- jobs -------- */

/* One list: what is known of its jobs stands behind those that are there. */
static int list(const struct engine_env *env, const char *const *words, const char *prefix,
		struct engine_jobs *jobs, size_t *listed, struct err *e)
{
	struct command_output o;
	int r = ask(env, env->settings, "acp jobs list", words, &o, e);

	if (r == 0 && o.status != 0)
		r = failed(&o, -EIO, e);
	if (r == 0)
		r = sco_text_jobs(strbuf_str(&o.out), o.out.len, prefix, jobs, listed, e);
	command_output_clear(&o);
	return r;
}

static bool has_job(const struct engine_jobs *jobs, const char *id)
{
	for (size_t i = 0; i < jobs->n; i++)
		if (strcmp(jobs->all[i].id, id) == 0)
			return true;
	return false;
}

/* Those that are not there yet; more has nothing any more. */
static void add_new(struct engine_jobs *jobs, struct engine_jobs *more)
{
	for (size_t k = 0; k < more->n; k++)
		if (!has_job(jobs, more->all[k].id)) {
			*engine_jobs_add(jobs) = more->all[k];
			more->all[k] = (struct engine_job){ .id = NULL };
		}
	engine_jobs_clear(more);
}

/* A list was cut: what lives is asked for by its state, so that nothing that runs is missed. */
static int list_by_state(const struct engine_env *env, const char *display, const char *prefix,
			 struct engine_jobs *jobs, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r == 0 && sco_text_live_states[i]; i++) {
		cleanup_free char *state = xasprintf("--state=%s", sco_text_live_states[i]);
		const char *const words[] = { "-o", "json", PAGE_ARG, state, display, NULL };
		struct engine_jobs more = { .n = 0 };
		size_t listed;

		r = list(env, words, prefix, &more, &listed, e);
		add_new(jobs, &more);
	}
	return r;
}

/* Of those that people call so; first "": of all. */
static int list_called(const struct engine_env *env, const char *first, const char *prefix,
		       struct engine_jobs *jobs, struct err *e)
{
	cleanup_free char *display = first[0] ? xasprintf("--display-name=%s", first) : NULL;
	const char *const words[] = { "-o", "json", PAGE_ARG, display, NULL };
	struct engine_jobs more = { .n = 0 };
	size_t listed;
	int r = list(env, words, prefix, &more, &listed, e);

	add_new(jobs, &more);
	return r == 0 && listed >= PAGE ? list_by_state(env, display, prefix, jobs, e) : r;
}

static int sco_jobs(const struct engine_env *env, const char *prefix, struct engine_jobs *ret,
		    struct err *e)
{
	/* What people call the job begins as its name does, up to the first "-" at least: as we
	 * write it, and as somebody else may. */
	cleanup_free char *first = xasprintf("%.*s", (int)strcspn(prefix, "-"), prefix);
	cleanup_free char *ours = xstrdup(first);
	struct engine_jobs jobs = { .n = 0 };
	int r;

	for (char *p = ours; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	r = list_called(env, ours, prefix, &jobs, e);
	if (r == 0 && strcmp(first, ours) != 0)
		r = list_called(env, first, prefix, &jobs, e);
	if (r < 0)
		engine_jobs_clear(&jobs);
	else
		*ret = jobs;
	return r;
}

static int sco_probe(const struct engine_env *env, struct err *e)
{
	static const char *const words[] = { "-o", "json", "--page-size=1", NULL };
	struct engine_jobs jobs = { .n = 0 };
	size_t listed;
	int r;

	if (!engine_key_value(sco_keys, env->settings, "workspace"))
		return not_told(env, "workspace", "the workspace's name", e);
	r = list(env, words, "", &jobs, &listed, e);
	engine_jobs_clear(&jobs);
	return r;
}

/* -------- submitting -------- */

static int sco_render(const struct engine_request *req, struct strbuf *script, struct err *e)
{
	return sco_text_script(req, script, e);
}

/* Where it lies on the shared disk: beside what the job prints. */
static char *script_path(const struct engine_request *req)
{
	int n = (int)strlen(req->output);

	return xasprintf("%.*s.sh", str_has_suffix(req->output, ".out") ? n - 4 : n, req->output);
}

static int judge(const struct engine_request *req, const struct command_output *o, char **ret_id,
		 struct err *e)
{
	const char *const ours[] = { req->name, req->title, NULL };
	cleanup_free char *said = command_text(o, ours);
	cleanup_free char *id = sco_text_created(strbuf_str(&o->out));

	if (o->status == 0 && id) {
		*ret_id = take_ptr(id);
		return 0;
	}
	return failed(o, sco_text_refusal(said), e);
}

static int sco_submit(const struct engine_env *env, const struct engine_request *req,
		      const char *script, char **ret_id, struct err *e)
{
	cleanup_free char *file = script_path(req);
	struct text_list argv = { .n = 0 };
	struct command_output o = { .status = -1 };
	int r = sco_text_command(req->settings, "acp jobs create", &argv, e);

	if (r == 0)
		r = fs_write_atomic(file, script, strlen(script), 0700, e);
	if (r == 0) {
		sco_text_add_flags(script, file, req->name, &argv);
		r = run(env, &argv, &o, e);
		if (r == 0)
			r = judge(req, &o, ret_id, e);
		else if (r == -ETIMEDOUT)
			r = ENGINE_UNSURE;
	}
	text_list_clear(&argv);
	command_output_clear(&o);
	return r;
}

/* -------- ending -------- */

/* Several ids at once; *unknown: it has no job of one of them, and nobody knows of which. */
static int end(const struct engine_env *env, char *const *ids, size_t n, bool *unknown,
	       struct err *e)
{
	const char *how = sco_text_end(env->settings);
	struct command_output o = { .status = -1 };
	struct text_list argv = { .n = 0 }, ours = { .n = 0 };
	int r = sco_text_command(env->settings, how, &argv, e);

	for (size_t i = 0; i < n; i++) {
		text_list_add(&argv, ids[i]);
		text_list_add(&ours, ids[i]);
	}
	text_list_take(&ours, NULL);
	if (r == 0)
		r = run(env, &argv, &o, e);

	cleanup_free char *said = command_text(&o, (const char *const *)ours.texts);

	*unknown = r == 0 && sco_text_is_unknown_job(said);
	if (r == 0 && !*unknown && (o.status != 0 || sco_text_is_failure(said)))
		r = failed(&o, -EIO, e);
	text_list_clear(&argv);
	text_list_clear(&ours);
	command_output_clear(&o);
	return r;
}

static int sco_cancel(const struct engine_env *env, const struct text_list *ids, struct err *e)
{
	bool unknown = false;
	int r = ids->n ? end(env, ids->texts, ids->n, &unknown, e) : 0, worst = 0;

	if (r < 0 || !unknown || ids->n == 1)
		return r;
	/* One that is gone may have kept it from ending the others. */
	for (size_t i = 0; i < ids->n; i++) {
		r = end(env, ids->texts + i, 1, &unknown, e);
		if (r < 0)
			worst = r;
	}
	return worst;
}

/* -------- what there is, and when -------- */

static int usage(const struct engine_env *env, unsigned int *total, unsigned int *idle,
		 const char **cluster, struct err *e)
{
	struct command_output o;
	int r;

	*cluster = engine_key_value(sco_keys, env->settings, "aec2");
	if (!*cluster)
		return not_told(env, "aec2", "the name of the computing cluster", e);

	cleanup_free char *name = xasprintf("--name=%s", *cluster);
	const char *const words[] = { name, NULL };

	r = ask(env, env->settings, "aec2 clusters usage", words, &o, e);
	if (r == 0 && o.status != 0)
		r = failed(&o, -EIO, e);
	if (r == 0)
		r = sco_text_usage(strbuf_str(&o.out), total, idle, e);
	command_output_clear(&o);
	return r;
}

/* The cluster as one, for it does not tell of nodes. */
static int sco_inventory(const struct engine_env *env, struct engine_nodes *ret, struct err *e)
{
	unsigned int total, idle;
	const char *cluster;
	int r = usage(env, &total, &idle, &cluster, e);

	if (r < 0)
		return r;

	struct engine_nodes nodes = { .n = 0 };
	struct engine_node *node = engine_nodes_add(&nodes);

	node->name = xstrdup(cluster);
	node->free = idle;
	node->total = total > idle ? total : idle;
	node->used = node->total - idle;
	node->usable = true;
	*ret = nodes;
	return 0;
}

/* What the server says of one that waits or starts, and the worker of it. */
static int add_description(const struct engine_env *env, const char *id, struct strbuf *words,
			   struct err *e)
{
	const char *const args[] = { "-o", "json", id, NULL };
	struct engine_jobs jobs = { .n = 0 };
	struct command_output o;
	size_t listed;
	int r = ask(env, env->settings, "acp jobs describe", args, &o, e);

	if (r == 0 && o.status != 0)
		r = failed(&o, -EIO, e);
	if (r == 0)
		r = sco_text_jobs(strbuf_str(&o.out), o.out.len, "", &jobs, &listed, e);
	if (r == 0 && jobs.n)
		strbuf_addf(words, "%s is %s%s%s%s", id, engine_job_state_name(jobs.all[0].state),
			    jobs.all[0].reason ? " (" : "",
			    jobs.all[0].reason ? jobs.all[0].reason : "",
			    jobs.all[0].reason ? ")" : "");
	engine_jobs_clear(&jobs);
	command_output_clear(&o);
	return r;
}

static void add_worker(const struct engine_env *env, const char *id, struct strbuf *words)
{
	const char *const args[] = { id, NULL };
	struct command_output o;

	if (ask(env, env->settings, "acp jobs get-workers", args, &o, NULL) == 0 && o.status == 0) {
		cleanup_free char *worker = sco_text_worker(strbuf_str(&o.out));

		if (worker)
			strbuf_addf(words, ", its worker %s", worker);
	}
	command_output_clear(&o);
}

/* There is no estimate; what is known is where it stands and how many GPUs are idle. */
static int sco_when(const struct engine_env *env, const struct engine_request *req, const char *id,
		    uint64_t *ret_ns, struct strbuf *words, struct err *e)
{
	unsigned int total, idle;
	const char *cluster;
	int r = 0;

	(void)req;
	if (id) {
		r = add_description(env, id, words, e);
		if (r == 0)
			add_worker(env, id, words);
	}
	if (r == 0)
		r = usage(env, &total, &idle, &cluster, e);
	if (r < 0)
		return r;
	strbuf_addf(words, "%s%u of the %u GPUs of %s are idle", words->len ? "; " : "", idle,
		    total > idle ? total : idle, cluster);
	*ret_ns = 0;
	return 0;
}

static int sco_inside(const char *const *variables, struct engine_here *ret, struct err *e)
{
	return sco_text_inside(variables, ret, e);
}

static int sco_deadline(const struct engine_env *env, const struct engine_here *here,
			uint64_t *ret_ns, struct err *e)
{
	(void)env, (void)here, (void)e;
	*ret_ns = 0;
	return 0;
}

const struct engine engine_sco = {
	.name = "sco",
	.title = "SCO ACP: training jobs of a SenseCore workspace, by its command sco",
	.as_root = true,
	.keys = sco_keys,
	.cluster_command = "sco",
	.probe = sco_probe,
	.render = sco_render,
	.submit = sco_submit,
	.jobs = sco_jobs,
	.cancel = sco_cancel,
	.inventory = sco_inventory,
	.when = sco_when,
	.inside = sco_inside,
	.deadline = sco_deadline,
};
