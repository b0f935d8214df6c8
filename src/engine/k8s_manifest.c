/* SPDX-License-Identifier: MIT */
#include "engine/k8s_manifest.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/script.h"

#define GRACE_S 60

const struct engine_key k8s_keys[] = {
	{ "image", "the container's image, with the programs that tasks need", NULL, true },
	{ "mounts",
	  "CLAIM:DIR of the shared disk's volume claim, or /DIR:DIR of a directory that the nodes "
	  "have",
	  NULL, true },
	{ "namespace", "kubectl's own where it is not set", NULL, false },
	{ "context", "kubectl's own where it is not set", NULL, false },
	{ "node_selector", "LABEL=VALUE,.. of the nodes", NULL, false },
	{ "labels", "LABEL=VALUE,.. of jobs and pods, as a queueing system wants them", NULL,
	  false },
	{ "run_as", "UID or UID:GID in the container", NULL, false },
	{ "pull_secret", "the secret with which the image is got", NULL, false },
	{ "service_account", "of the pods", NULL, false },
	{ "priority_class", "of the pods", NULL, false },
	{ "gpu_resource", "what the nodes call their GPUs", "nvidia.com/gpu", false },
	{ "gpu_label", "the label that says their type", "nvidia.com/gpu.product", false },
	{ NULL, NULL, NULL, false },
};

const char *k8s_setting(const struct text_list *settings, const char *key)
{
	return engine_key_value(k8s_keys, settings, key);
}

/* -------- the manifest's parts -------- */

/* On one line, as YAML takes it, too. NULL: a text in it is no UTF-8. The caller frees it. */
static char *line_of(json_t *json)
{
	char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	json_decref(json);
	return text;
}

/* The next piece of a list with commas: 0 and its length; *p behind it. */
static size_t piece(const char **p, const char **ret)
{
	size_t n = strcspn(*p, ",");

	*ret = *p;
	*p += n + ((*p)[n] == ',');
	return n;
}

/* "a=b,c=d" into an object. */
static int add_pairs(json_t *object, const char *key, const char *text, struct err *e)
{
	const char *one;

	while (text && *text) {
		size_t n = piece(&text, &one);
		const char *equals = memchr(one, '=', n);

		if (!equals || equals == one)
			return err_set(e, -EINVAL, "%s: \"%.*s\" is no LABEL=VALUE", key, (int)n,
				       one);

		cleanup_free char *name = xasprintf("%.*s", (int)(equals - one), one);

		(void)json_object_set_new(object, name,
					  json_stringn(equals + 1, n - (size_t)(equals - one) - 1));
	}
	return 0;
}

/* A volume and where it is: "CLAIM:/mnt/shared" or "/mnt/afs:/mnt/afs". */
static int add_mount(json_t *volumes, json_t *mounts, const char *text, size_t n, struct err *e)
{
	cleanup_free char *from = xasprintf("%.*s", (int)n, text);
	char *dir = strchr(from, ':');
	cleanup_free char *name = xasprintf("v%zu", json_array_size(mounts));

	if (!dir || dir == from || dir[1] != '/')
		return err_set(e, -EINVAL, "mounts: \"%s\" is neither CLAIM:/DIR nor /DIR:/DIR",
			       from);
	*dir++ = '\0';
	(void)json_array_append_new(mounts, json_pack("{ss ss}", "name", name, "mountPath", dir));
	(void)json_array_append_new(
		volumes, from[0] == '/'
				 ? json_pack("{ss s{ss}}", "name", name, "hostPath", "path", from)
				 : json_pack("{ss s{ss}}", "name", name, "persistentVolumeClaim",
					     "claimName", from));
	return 0;
}

static int make_mounts(const struct text_list *settings, json_t *volumes, json_t *mounts,
		       struct err *e)
{
	const char *text = k8s_setting(settings, "mounts"), *one;
	int r = 0;

	if (strcmp(text, "none") == 0)
		text = "";
	while (r == 0 && *text) {
		size_t n = piece(&text, &one);

		r = add_mount(volumes, mounts, one, n, e);
	}
	/* What processes share, as frameworks want it: the 64 MiB of a container are too small. */
	(void)json_array_append_new(mounts,
				    json_pack("{ss ss}", "name", "shm", "mountPath", "/dev/shm"));
	(void)json_array_append_new(
		volumes, json_pack("{ss s{ss}}", "name", "shm", "emptyDir", "medium", "Memory"));
	return r;
}

static json_t *make_resources(const struct engine_request *req)
{
	const char *gpu = k8s_setting(req->settings, "gpu_resource");
	unsigned int many = req->gpus ? req->gpus : 1;
	unsigned int cpus = req->cpus ? req->cpus : many * ENGINE_CPUS_PER_GPU;
	uint64_t mem = req->mem_mib ? req->mem_mib : many * (uint64_t)ENGINE_MEM_PER_GPU_MIB;
	cleanup_free char *mem_text = xasprintf("%lluMi", (unsigned long long)mem);
	json_t *limits = json_object();

	if (req->gpus)
		(void)json_object_set_new(limits, gpu, json_integer(req->gpus));
	return json_pack("{so s{si ss}}", "limits", limits, "requests", "cpu", (int)cpus, "memory",
			 mem_text);
}

static void add_field(json_t *env, const char *name, const char *path)
{
	(void)json_array_append_new(env, json_pack("{ss s{s{ss}}}", "name", name, "valueFrom",
						   "fieldRef", "fieldPath", path));
}

static json_t *make_env(const struct engine_request *req)
{
	cleanup_free char *gpus = xasprintf("%u", req->gpus);
	json_t *env = json_array();

	(void)json_array_append_new(
		env, json_pack("{ss ss}", "name", K8S_JOB_VARIABLE, "value", req->name));
	(void)json_array_append_new(env,
				    json_pack("{ss ss}", "name", K8S_GPUS_VARIABLE, "value", gpus));
	add_field(env, K8S_POD_VARIABLE, "metadata.name");
	add_field(env, K8S_NODE_VARIABLE, "spec.nodeName");
	return env;
}

/* What it prints goes where people find it, as with other engines. A pod that is deleted is
 * replaced by the server at once, whatever backoffLimit says, and the pool has given up this job by
 * then: so only the first one begins, which is the one that makes the file. */
static const char first_alone[] =
	"(set -C; : >\"$0\") 2>/dev/null || if [ -e \"$0\" ]; then echo \"pod $" K8S_POD_VARIABLE
	" does not begin: an earlier one of its job has\" >>\"$0\"; exit 1; fi; exec >>\"$0\" 2>&1; "
	"exec \"$@\"";

static json_t *make_command(const struct engine_request *req)
{
	json_t *argv = json_pack("[s, s, s, s]", "/bin/sh", "-c", first_alone, req->output);

	for (const char *const *word = req->agent; argv && *word; word++)
		(void)json_array_append_new(argv, json_string(*word));
	return argv;
}

static int make_labels(const struct engine_request *req, json_t *labels, struct err *e)
{
	int r = add_pairs(labels, "label", K8S_LABEL, e);

	if (r == 0)
		r = add_pairs(labels, "labels", k8s_setting(req->settings, "labels"), e);
	return r;
}

static int make_selector(const struct engine_request *req, json_t *selector, struct err *e)
{
	if (req->type)
		(void)json_object_set_new(selector, k8s_setting(req->settings, "gpu_label"),
					  json_string(req->type));
	return add_pairs(selector, "node_selector", k8s_setting(req->settings, "node_selector"), e);
}

static json_t *make_affinity(const struct engine_request *req)
{
	json_t *nodes = json_array();

	for (size_t i = 0; req->exclude && i < req->exclude->n; i++)
		(void)json_array_append_new(nodes, json_string(req->exclude->texts[i]));
	if (!json_array_size(nodes)) {
		json_decref(nodes);
		return json_object();
	}
	return json_pack("{s{s{s[{s[{ss ss so}]}]}}}", "nodeAffinity",
			 "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms",
			 "matchExpressions", "key", "kubernetes.io/hostname", "operator", "NotIn",
			 "values", nodes);
}

static int make_user(const struct text_list *settings, json_t *user, struct err *e)
{
	static const char *const names[] = { "runAsUser", "runAsGroup" };
	const char *text = k8s_setting(settings, "run_as");

	for (size_t i = 0; text && i < ARRAY_LEN(names); i++) {
		size_t n = strcspn(text, ":");
		cleanup_free char *number = xasprintf("%.*s", (int)n, text);
		uint64_t id;

		if (str_to_u64(number, &id) < 0 || id > UINT32_MAX)
			return err_set(e, -EINVAL, "run_as: \"%s\" is neither UID nor UID:GID",
				       k8s_setting(settings, "run_as"));
		(void)json_object_set_new(user, names[i], json_integer((json_int_t)id));
		text = text[n] ? text + n + 1 : NULL;
	}
	return text ? err_set(e, -EINVAL, "run_as: \"%s\" is neither UID nor UID:GID",
			      k8s_setting(settings, "run_as"))
		    : 0;
}

static json_t *make_secrets(const struct text_list *settings)
{
	const char *name = k8s_setting(settings, "pull_secret");

	return name ? json_pack("[{ss}]", "name", name) : json_array();
}

/* -------- the manifest -------- */

/* The deadline is the pod's, which counts from its start: a job's counts while it waits. A pod that
 * is deleted is not replaced before it has ended (1.29; older servers pass over it, see
 * first_alone).
 */
static const char own_head[] = "apiVersion: batch/v1\n"
			       "kind: Job\n"
			       "metadata:\n"
			       "  name: {name}\n"
			       "  labels: {labels}\n"
			       "spec:\n"
			       "  backoffLimit: 0\n"
			       "  podReplacementPolicy: Failed\n"
			       "  ttlSecondsAfterFinished: 600\n"
			       "  parallelism: 1\n"
			       "  completions: 1\n"
			       "  template:\n"
			       "    metadata:\n"
			       "      labels: {labels}\n"
			       "    spec:\n"
			       "      restartPolicy: Never\n"
			       "      activeDeadlineSeconds: {seconds}\n"
			       "      terminationGracePeriodSeconds: {grace}\n"
			       "      nodeSelector: {node_selector}\n"
			       "      affinity: {affinity}\n"
			       "      securityContext: {security_context}\n"
			       "      imagePullSecrets: {pull_secrets}\n"
			       "      serviceAccountName: {service_account}\n"
			       "      priorityClassName: {priority_class}\n";
/* Here the user\'s own lines stand. */
static const char own_tail[] = "      containers:\n"
			       "      - name: agent\n"
			       "        image: {image}\n"
			       "        command: {command}\n"
			       "        workingDir: {dir}\n"
			       "        env: {env}\n"
			       "        resources: {resources}\n"
			       "        volumeMounts: {mounts}\n"
			       "      volumes: {volumes}\n";

enum part {
	PART_LABELS,
	PART_SELECTOR,
	PART_AFFINITY,
	PART_USER,
	PART_SECRETS,
	PART_ACCOUNT,
	PART_PRIORITY,
	PART_IMAGE,
	PART_COMMAND,
	PART_AGENT,
	PART_DIR,
	PART_OUTPUT,
	PART_ENV,
	PART_RESOURCES,
	PART_MOUNTS,
	PART_VOLUMES,
	PART_MAX
};

static const char *const part_names[] = {
	[PART_LABELS] = "labels",
	[PART_SELECTOR] = "node_selector",
	[PART_AFFINITY] = "affinity",
	[PART_USER] = "security_context",
	[PART_SECRETS] = "pull_secrets",
	[PART_ACCOUNT] = "service_account",
	[PART_PRIORITY] = "priority_class",
	[PART_IMAGE] = "image",
	[PART_COMMAND] = "command",
	[PART_AGENT] = "agent",
	[PART_DIR] = "dir",
	[PART_OUTPUT] = "output",
	[PART_ENV] = "env",
	[PART_RESOURCES] = "resources",
	[PART_MOUNTS] = "mounts",
	[PART_VOLUMES] = "volumes",
};
_Static_assert(ARRAY_LEN(part_names) == PART_MAX, "a word for every part");

static json_t *text_or_empty(const char *text)
{
	return json_string(text ? text : "");
}

static json_t *make_agent(const struct engine_request *req)
{
	json_t *argv = json_array();

	for (const char *const *word = req->agent; *word; word++)
		(void)json_array_append_new(argv, json_string(*word));
	return argv;
}

static int make_parts(const struct engine_request *req, json_t *parts[PART_MAX], struct err *e)
{
	const struct text_list *settings = req->settings;
	int r;

	for (size_t i = 0; i < PART_MAX; i++)
		parts[i] = NULL;
	parts[PART_LABELS] = json_object();
	parts[PART_SELECTOR] = json_object();
	parts[PART_USER] = json_object();
	parts[PART_MOUNTS] = json_array();
	parts[PART_VOLUMES] = json_array();
	parts[PART_AFFINITY] = make_affinity(req);
	parts[PART_SECRETS] = make_secrets(settings);
	parts[PART_ACCOUNT] = text_or_empty(k8s_setting(settings, "service_account"));
	parts[PART_PRIORITY] = text_or_empty(k8s_setting(settings, "priority_class"));
	parts[PART_IMAGE] = json_string(k8s_setting(settings, "image"));
	parts[PART_COMMAND] = make_command(req);
	parts[PART_AGENT] = make_agent(req);
	parts[PART_DIR] = json_string(req->dir);
	parts[PART_OUTPUT] = json_string(req->output);
	parts[PART_ENV] = make_env(req);
	parts[PART_RESOURCES] = make_resources(req);
	r = make_labels(req, parts[PART_LABELS], e);
	if (r == 0)
		r = make_selector(req, parts[PART_SELECTOR], e);
	if (r == 0)
		r = make_user(settings, parts[PART_USER], e);
	if (r == 0)
		r = make_mounts(settings, parts[PART_VOLUMES], parts[PART_MOUNTS], e);
	return r;
}

/* Each has the indentation of the pod's own members. */
static char *make_options(const struct engine_request *req)
{
	struct strbuf b = STRBUF_INIT;

	for (size_t i = 0; req->options && i < req->options->n; i++)
		strbuf_addf(&b, "      %s\n", req->options->texts[i]);
	return strbuf_take(&b);
}

static bool is_dropped(const struct engine_request *req, const char *line)
{
	line += strspn(line, " -");
	for (size_t i = 0; req->drop && i < req->drop->n; i++)
		if (str_has_prefix(line, req->drop->texts[i]))
			return true;
	return false;
}

/* Without lines that say nothing, and those that the user drops. */
static void add_lines(const struct engine_request *req, const char *text, struct strbuf *manifest)
{
	static const char *const nothing[] = { ": {}", ": []", ": \"\"", ": 0" };

	while (*text) {
		size_t n = strcspn(text, "\n");
		cleanup_free char *line = xasprintf("%.*s", (int)n, text);
		bool empty = false;

		for (size_t i = 0; i < ARRAY_LEN(nothing); i++)
			empty |= str_has_suffix(line, nothing[i]) &&
				 !strstr(line, "backoffLimit"); /* whose 0 says much */
		if (!empty && !is_dropped(req, line))
			strbuf_addf(manifest, "%s\n", line);
		text += n + (text[n] == '\n');
	}
}

static int fill_own(const struct engine_request *req, const struct script_value *values,
		    const char *options, struct strbuf *manifest, struct err *e)
{
	cleanup_strbuf struct strbuf head = STRBUF_INIT, tail = STRBUF_INIT;
	int r = script_fill(own_head, values, &head, e);

	if (r == 0)
		r = script_fill(own_tail, values, &tail, e);
	if (r < 0)
		return r;
	add_lines(req, strbuf_str(&head), manifest);
	strbuf_adds(manifest, options);
	add_lines(req, strbuf_str(&tail), manifest);
	return 0;
}

static int fill(const struct engine_request *req, char *const lines[PART_MAX],
		struct strbuf *manifest, struct err *e)
{
	cleanup_free char *options = make_options(req), *gpus = xasprintf("%u", req->gpus);
	cleanup_free char *seconds = xasprintf("%llu", (unsigned long long)(req->minutes * 60));
	cleanup_free char *grace = xasprintf("%u", req->warn_s ? req->warn_s : GRACE_S);
	struct script_value values[PART_MAX + 8] = { { NULL, NULL } };
	size_t n = 0;

	for (; n < PART_MAX; n++)
		values[n] = (struct script_value){ part_names[n], lines[n] };
	values[n++] = (struct script_value){ "name", req->name };
	values[n++] = (struct script_value){ "title", req->title };
	values[n++] = (struct script_value){ "token", req->token };
	values[n++] = (struct script_value){ "gpus", gpus };
	values[n++] = (struct script_value){ "seconds", seconds };
	values[n++] = (struct script_value){ "grace", grace };
	values[n++] = (struct script_value){ "options", options };
	if (req->template_text)
		return script_fill(req->template_text, values, manifest, e);
	return fill_own(req, values, options, manifest, e);
}

int k8s_manifest(const struct engine_request *req, struct strbuf *manifest, struct err *e)
{
	json_t *parts[PART_MAX];
	char *lines[PART_MAX] = { NULL };
	int r = engine_keys_check("k8s", k8s_keys, req->settings, e);

	if (r < 0)
		return r;
	r = make_parts(req, parts, e);
	for (size_t i = 0; i < PART_MAX; i++) {
		lines[i] = line_of(parts[i]);
		if (!lines[i] && r == 0)
			r = err_set(e, -EINVAL, "%s is no UTF-8, which a manifest has to be",
				    part_names[i]);
	}
	if (r == 0)
		r = fill(req, lines, manifest, e);
	for (size_t i = 0; i < PART_MAX; i++)
		free(lines[i]);
	return r;
}
