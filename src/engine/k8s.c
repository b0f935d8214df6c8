/* SPDX-License-Identifier: MIT */
/*
 * Kubernetes as an engine: what runs `kubectl`. Manifests and answers are k8s_text.c's.
 *
 * A job's name is its token's, and the server takes no name twice, so a submission without an
 * answer can be repeated. One command lists jobs and pods together; its status is looked at before
 * its text, because without a server kubectl prints an empty list.
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "engine/command.h"
#include "engine/engine.h"
#include "engine/k8s_manifest.h"
#include "engine/k8s_text.h"

/* What would be printed otherwise, and asked through another program. */
static const char *const cleared[] = { "KUBECTL_EXTERNAL_DIFF=", "KUBECTL_COMMAND_HEADERS=", NULL };

/* Where kubectl looks for a server if nothing tells it of one. */
#define UNCONFIGURED "server localhost:8080 was refused"

/* One command with these words behind its verb (to NULL). 0: it has worked; else its code, and
 * *ret is what it said. */
static int ask(const struct engine_env *env, const struct text_list *settings, const char *verb,
	       const char *const *words, const char *input, struct command_output *ret,
	       struct err *e)
{
	struct command how = {
		.environ = env->environ, .clear = cleared, .input = input, .limit_ms = env->limit_ms
	};
	struct text_list argv = { .n = 0 };
	int r;

	k8s_text_command(settings, verb, &argv);
	for (; *words; words++)
		text_list_add(&argv, *words);
	text_list_take(&argv, NULL);
	r = command_run((const char *const *)argv.texts, &how, ret, e);
	if (r == 0 && ret->status != 0 && command_said(ret, UNCONFIGURED))
		r = err_set(
			e, -ENOENT,
			"kubectl is here, and no cluster: neither KUBECONFIG nor ~/.kube/config "
			"names one");
	else if (r == 0 && ret->status != 0)
		r = command_failed((const char *const *)argv.texts, ret, -EIO, e);
	text_list_clear(&argv);
	return r;
}

static int k8s_probe(const struct engine_env *env, struct err *e)
{
	static const char *const words[] = { "jobs", "-l", K8S_LABEL, "-o", "name", NULL };
	struct command_output o;
	int r = ask(env, env->settings, "get", words, NULL, &o, e);

	command_output_clear(&o);
	return r;
}

static int k8s_render(const struct engine_request *req, struct strbuf *script, struct err *e)
{
	return k8s_manifest(req, script, e);
}

static int k8s_submit(const struct engine_env *env, const struct engine_request *req,
		      const char *script, char **ret_id, struct err *e)
{
	static const char *const words[] = { "--validate=false", "-f", "-", "-o", "name", NULL };
	const char *const ours[] = { req->name, req->title, NULL };
	struct command_output o;
	int r = ask(env, req->settings, "create", words, script, &o, e);
	cleanup_free char *said = command_text(&o, ours);
	char *id = r == 0 ? k8s_text_created(strbuf_str(&o.out)) : NULL;

	if (r == 0 && !id)
		r = command_failed((const char *const[]){ "kubectl", NULL }, &o, ENGINE_UNSURE, e);
	else if (r == -ETIMEDOUT)
		r = ENGINE_UNSURE;
	else if (r == -EIO && o.status > 0)
		r = k8s_text_refusal(said);
	/* It is ours: nobody else has this token. */
	if (r == -EEXIST) {
		id = xstrdup(req->name);
		r = 0;
	}
	if (r == 0)
		*ret_id = id;
	command_output_clear(&o);
	return r;
}

/* A job whose pod a quota forbids waits without one, and only an event says why. Who may not see
 * events does without. */
static void explain(const struct engine_env *env, struct engine_jobs *jobs)
{
	static const char *const words[] = {
		"events", "--field-selector=involvedObject.kind=Job,reason=FailedCreate", "-o",
		"json", NULL
	};
	struct command_output o;

	if (ask(env, env->settings, "get", words, NULL, &o, NULL) == 0)
		k8s_text_events(strbuf_str(&o.out), o.out.len, jobs);
	command_output_clear(&o);
}

static int k8s_jobs(const struct engine_env *env, const char *prefix, struct engine_jobs *ret,
		    struct err *e)
{
	static const char *const words[] = { "jobs,pods", "-l", K8S_LABEL, "-o", "json", NULL };
	struct engine_jobs jobs = { .n = 0 };
	struct command_output o;
	int r = ask(env, env->settings, "get", words, NULL, &o, e);

	if (r == 0)
		r = k8s_text_jobs(strbuf_str(&o.out), o.out.len, prefix,
				  k8s_setting(env->settings, "gpu_resource"), &jobs, e);
	if (r == 0 && k8s_text_lacks_pods(&jobs))
		explain(env, &jobs);
	if (r == 0)
		*ret = jobs;
	command_output_clear(&o);
	return r;
}

static int k8s_cancel(const struct engine_env *env, const struct text_list *ids, struct err *e)
{
	struct text_list words = { .n = 0 };
	struct command_output o = { .status = -1 };
	int r = 0;

	text_list_add(&words, "job");
	text_list_add(&words, "--wait=false");
	text_list_add(&words, "--ignore-not-found");
	for (size_t i = 0; i < ids->n; i++)
		text_list_add(&words, ids->texts[i]);
	text_list_take(&words, NULL);
	if (ids->n)
		r = ask(env, env->settings, "delete", (const char *const *)words.texts, NULL, &o,
			e);
	text_list_clear(&words);
	command_output_clear(&o);
	return r;
}

/* What pods have; nobody may see them: the nodes say so, and that is no error. */
static int use_pods(const struct engine_env *env, struct engine_nodes *nodes, struct err *e)
{
	cleanup_free char *lines = k8s_text_pod_lines(env->settings);
	const char *const words[] = {
		"pods", "-A", "--field-selector=status.phase!=Succeeded,status.phase!=Failed",
		lines, NULL
	};
	struct command_output o;
	int r = ask(env, env->settings, "get", words, NULL, &o, e);

	if (r == 0) {
		k8s_text_use(strbuf_str(&o.out), nodes);
	} else if (r == -EIO && k8s_text_is_forbidden(strbuf_str(&o.err))) {
		k8s_text_use(NULL, nodes);
		r = 0;
	}
	command_output_clear(&o);
	return r;
}

static int k8s_inventory(const struct engine_env *env, struct engine_nodes *ret, struct err *e)
{
	cleanup_free char *lines = k8s_text_node_lines(env->settings);
	const char *const words[] = { "nodes", lines, NULL };
	struct engine_nodes nodes = { .n = 0 };
	struct command_output o;
	int r = ask(env, env->settings, "get", words, NULL, &o, e);

	if (r == -EIO && k8s_text_is_forbidden(strbuf_str(&o.err)))
		r = err_set(e, -ENOTSUP, "unknown: you may not list the nodes of this cluster");
	if (r == 0)
		r = k8s_text_nodes(strbuf_str(&o.out), &nodes, e);
	if (r == 0)
		r = use_pods(env, &nodes, e);
	if (r < 0)
		engine_nodes_clear(&nodes);
	else
		*ret = nodes;
	command_output_clear(&o);
	return r;
}

/* It has no estimate; of one that waits its pod says for what. */
static int k8s_when(const struct engine_env *env, const struct engine_request *req, const char *id,
		    uint64_t *ret_ns, struct strbuf *words, struct err *e)
{
	struct engine_jobs jobs = { .n = 0 };
	int r;

	(void)req;
	if (!id)
		return err_set(e, -ENOTSUP, "Kubernetes does not say when a job would start");
	r = k8s_jobs(env, id, &jobs, e);
	for (size_t i = 0; r == 0 && i < jobs.n; i++)
		if (strcmp(jobs.all[i].id, id) == 0)
			strbuf_addf(words, "%s%s%s", engine_job_state_name(jobs.all[i].state),
				    jobs.all[i].reason ? ": " : "",
				    jobs.all[i].reason ? jobs.all[i].reason : "");
	engine_jobs_clear(&jobs);
	if (r == 0)
		*ret_ns = 0;
	return r;
}

static int k8s_inside(const char *const *variables, struct engine_here *ret, struct err *e)
{
	return k8s_text_inside(variables, ret, e);
}

/* A pod may not ask for its job. Its deadline is the pool's --time, which the agent is told as
 * well.
 */
static int k8s_deadline(const struct engine_env *env, const struct engine_here *here,
			uint64_t *ret_ns, struct err *e)
{
	(void)env, (void)here, (void)e;
	*ret_ns = 0;
	return 0;
}

static const char *const cluster_variables[] = { "KUBECONFIG", "KUBERNETES_SERVICE_HOST", NULL };

const struct engine engine_k8s = {
	.name = "k8s",
	.title = "Kubernetes: a Job for each node, by its command kubectl",
	.as_root = true,
	.keys = k8s_keys,
	.cluster_variables = cluster_variables,
	.cluster_command = "kubectl",
	.cluster_file = ".kube/config",
	.probe = k8s_probe,
	.render = k8s_render,
	.submit = k8s_submit,
	.jobs = k8s_jobs,
	.cancel = k8s_cancel,
	.inventory = k8s_inventory,
	.when = k8s_when,
	.inside = k8s_inside,
	.deadline = k8s_deadline,
};
