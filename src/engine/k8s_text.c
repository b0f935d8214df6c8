/* SPDX-License-Identifier: MIT */
#include "engine/k8s_text.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/k8s_manifest.h"
#include "engine/script.h"

#define GPUS_MAX     4096
#define NODE_COLUMNS 5
#define POD_COLUMNS  2

/* -------- the command line -------- */

void k8s_text_command(const struct text_list *settings, const char *verb, struct text_list *argv)
{
	const char *context = k8s_setting(settings, "context"),
		   *space = k8s_setting(settings, "namespace");

	text_list_add(argv, "kubectl");
	text_list_add(argv, "--request-timeout=10s");
	if (context)
		text_list_take(argv, xasprintf("--context=%s", context));
	if (space)
		text_list_take(argv, xasprintf("--namespace=%s", space));
	text_list_add(argv, verb);
}

/* "nvidia.com/gpu" as a member's name in a path. */
static char *member(const char *name)
{
	struct strbuf b = STRBUF_INIT;

	for (; *name; name++) {
		if (*name == '.')
			strbuf_addc(&b, '\\');
		strbuf_addc(&b, *name);
	}
	return strbuf_take(&b);
}

#define TAB "{\"\\t\"}"

char *k8s_text_node_lines(const struct text_list *settings)
{
	cleanup_free char *gpu = member(k8s_setting(settings, "gpu_resource"));
	cleanup_free char *label = member(k8s_setting(settings, "gpu_label"));

	return xasprintf("-o=jsonpath={range .items[*]}{.metadata.name}" TAB
			 "{.spec.unschedulable}" TAB
			 "{.status.conditions[?(@.type==\"Ready\")].status}" TAB
			 "{.status.allocatable.%s}" TAB "{.metadata.labels.%s}{\"\\n\"}{end}",
			 gpu, label);
}

char *k8s_text_pod_lines(const struct text_list *settings)
{
	cleanup_free char *gpu = member(k8s_setting(settings, "gpu_resource"));

	return xasprintf("-o=jsonpath={range .items[*]}{.spec.nodeName}" TAB
			 "{.spec.containers[*].resources.limits.%s}{\"\\n\"}{end}",
			 gpu);
}

/* -------- jobs -------- */

static uint64_t time_of(const json_t *object, const char *key)
{
	const char *text = json_get_str(object, key);
	struct tm tm = { .tm_isdst = 0 };
	const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
	time_t t = end ? timegm(&tm) : -1;

	return t > 0 ? (uint64_t)t * NS_PER_S : 0;
}

/* A condition that is true: its reason and text. */
static const json_t *condition(const json_t *status, const char *type, const char *is)
{
	const json_t *all = json_object_get(status, "conditions"), *one;
	size_t i;

	json_array_foreach(all, i, one)
	{
		const char *name = json_get_str(one, "type"), *state = json_get_str(one, "status");

		if (name && state && strcmp(name, type) == 0 && strcmp(state, is) == 0)
			return one;
	}
	return NULL;
}

/* "Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu." */
static char *words_of(const json_t *object)
{
	const char *reason = json_get_str(object, "reason");
	const char *message = json_get_str(object, "message");

	if (!reason || !reason[0])
		return message && message[0] ? xstrdup(message) : NULL;
	return message && message[0] ? xasprintf("%s: %s", reason, message) : xstrdup(reason);
}

static bool is_one_of(const char *text, const char *const *words)
{
	for (; text && *words; words++)
		if (strcmp(text, *words) == 0)
			return true;
	return false;
}

/* What a container waits for, where nobody but people can help it. */
static const json_t *stuck(const json_t *status)
{
	static const char *const reasons[] = { "ErrImagePull",
					       "ImagePullBackOff",
					       "InvalidImageName",
					       "ErrImageNeverPull",
					       "CreateContainerConfigError",
					       "CreateContainerError",
					       "RunContainerError",
					       NULL };
	const json_t *all = json_object_get(status, "containerStatuses"), *one;
	size_t i;

	json_array_foreach(all, i, one)
	{
		const json_t *waits = json_object_get(json_object_get(one, "state"), "waiting");

		if (is_one_of(json_get_str(waits, "reason"), reasons))
			return waits;
	}
	return NULL;
}

static void set(struct engine_job *job, enum engine_job_state state, const json_t *words)
{
	job->state = state;
	free(job->reason);
	job->reason = words_of(words);
}

/* How its container ended, which a pod without a reason of its own does not say otherwise; NULL. */
static char *ended_words(const json_t *status)
{
	const json_t *all = json_object_get(status, "containerStatuses"), *one;
	size_t i;

	json_array_foreach(all, i, one)
	{
		const json_t *end = json_object_get(json_object_get(one, "state"), "terminated");
		const long long code = json_integer_value(json_object_get(end, "exitCode"));
		cleanup_free char *words = words_of(end);

		if (code)
			return xasprintf("%s (exit code %lld)", words ? words : "Error", code);
	}
	return NULL;
}

/* How the pod ended, if it has, and then what the condition of the job says of it. */
static void set_failed(struct engine_job *job, const json_t *condition)
{
	cleanup_free char *pod = job->state == ENGINE_JOB_FAILED ? take_ptr(job->reason) : NULL;

	set(job, ENGINE_JOB_FAILED, condition);
	if (!pod)
		return;
	cleanup_free char *words = take_ptr(job->reason);

	job->reason = words ? xasprintf("%s: %s", pod, words) : take_ptr(pod);
}

/* A pod that has failed by no fault of what ran in it. */
static bool was_taken_away(const json_t *status)
{
	static const char *const reasons[] = { "Evicted",    "Preempting",	 "Preempted",
					       "NodeLost",   "NodeShutdown",	 "Shutdown",
					       "Terminated", "DeadlineExceeded", NULL };

	return is_one_of(json_get_str(status, "reason"), reasons) ||
	       condition(status, "DisruptionTarget", "True");
}

static void set_pending(const json_t *status, struct engine_job *job)
{
	const json_t *placed = condition(status, "PodScheduled", "False");
	const json_t *waits = stuck(status);

	if (waits)
		set(job, ENGINE_JOB_HELD, waits);
	else if (placed || !job->node)
		set(job, ENGINE_JOB_WAITING, placed);
	else
		set(job, ENGINE_JOB_STARTING, NULL);
}

static bool is_deleted(const json_t *object)
{
	return json_get_str(json_object_get(object, "metadata"), "deletionTimestamp");
}

/* Its agent is told to leave; where nobody is there who could tell it so, on a node that is lost,
 * the pod stays so for good. */
static void set_deleted(const json_t *status, bool replaced, struct engine_job *job)
{
	bool begun = job->state == ENGINE_JOB_RUNNING;

	set(job, ENGINE_JOB_ENDING, NULL);
	if (!begun || (!replaced && !condition(status, "Ready", "False")))
		return;
	job->state = ENGINE_JOB_EXPIRED;
	job->reason = xstrdup("its pod was deleted, by somebody or with its node");
}

/* What the pod of a job says of it. replaced: there is a newer one. */
static void take_pod(const json_t *pod, bool replaced, struct engine_job *job)
{
	const json_t *status = json_object_get(pod, "status");
	const char *phase = json_get_str(status, "phase");
	const char *node = json_get_str(json_object_get(pod, "spec"), "nodeName");

	phase = phase ? phase : "";
	if (node && node[0] && !job->node)
		job->node = xstrdup(node);
	if (!job->start_ns)
		job->start_ns = time_of(status, "startTime");
	if (strcmp(phase, "Pending") == 0)
		set_pending(status, job);
	else if (strcmp(phase, "Running") == 0)
		set(job, ENGINE_JOB_RUNNING, NULL);
	else if (strcmp(phase, "Succeeded") == 0)
		set(job, ENGINE_JOB_DONE, NULL);
	else if (strcmp(phase, "Failed") == 0)
		set(job, was_taken_away(status) ? ENGINE_JOB_EXPIRED : ENGINE_JOB_FAILED, status);
	else
		set(job, ENGINE_JOB_UNKNOWN, status);
	if (job->state == ENGINE_JOB_FAILED && !job->reason)
		job->reason = ended_words(status);
	if (!engine_job_is_over(job->state) && is_deleted(pod))
		set_deleted(status, replaced, job);
}

/* What the job's own conditions say, behind which its pod does not count. */
static void take_job(const json_t *object, struct engine_job *job)
{
	const json_t *status = json_object_get(object, "status"), *failed, *held;
	const char *reason;

	failed = condition(status, "Failed", "True");
	held = condition(status, "Suspended", "True");
	reason = failed ? json_get_str(failed, "reason") : NULL;
	if (condition(status, "Complete", "True"))
		set(job, ENGINE_JOB_DONE, NULL);
	else if (reason && strcmp(reason, "DeadlineExceeded") == 0)
		set(job, ENGINE_JOB_EXPIRED, failed);
	else if (failed && job->state != ENGINE_JOB_EXPIRED)
		set_failed(job, failed);
	else if (held)
		set(job, ENGINE_JOB_HELD, held);
	else if (!engine_job_is_over(job->state) && is_deleted(object))
		set(job, ENGINE_JOB_ENDING, NULL);
}

static const char *name_of(const json_t *object)
{
	const char *name = json_get_str(json_object_get(object, "metadata"), "name");

	return name ? name : "";
}

static bool is_kind(const json_t *object, const char *kind)
{
	const char *own = json_get_str(object, "kind");

	return own && strcmp(own, kind) == 0;
}

static struct engine_job *find_job(struct engine_jobs *jobs, const char *name)
{
	for (size_t i = 0; name && i < jobs->n; i++)
		if (strcmp(jobs->all[i].name, name) == 0)
			return &jobs->all[i];
	return NULL;
}

static const char *job_of_pod(const json_t *pod)
{
	const json_t *labels = json_object_get(json_object_get(pod, "metadata"), "labels");
	const char *name = json_get_str(labels, "batch.kubernetes.io/job-name");

	return name ? name : json_get_str(labels, "job-name");
}

static bool has_begun(const json_t *pod)
{
	const char *phase = json_get_str(json_object_get(pod, "status"), "phase");

	return phase && strcmp(phase, "Pending") != 0;
}

static const char *made_at(const json_t *pod)
{
	const char *at = json_get_str(json_object_get(pod, "metadata"), "creationTimestamp");

	return at ? at : "";
}

/* Of two pods of one job the one that counts: the first that has begun, because no other one does
 * after it; where none has, the last. */
static bool counts_more(const json_t *a, const json_t *b)
{
	if (has_begun(a) != has_begun(b))
		return has_begun(a);
	return has_begun(a) ? strcmp(made_at(a), made_at(b)) < 0
			    : strcmp(made_at(a), made_at(b)) >= 0;
}

static void take_pods(const json_t *items, struct engine_job *job)
{
	const json_t *one, *best = NULL, *last = NULL;
	const char *name;
	size_t i;

	json_array_foreach(items, i, one)
	{
		name = is_kind(one, "Pod") ? job_of_pod(one) : NULL;
		if (!name || strcmp(name, job->name) != 0)
			continue;
		if (!best || counts_more(one, best))
			best = one;
		if (!last || strcmp(made_at(one), made_at(last)) >= 0)
			last = one;
	}
	if (best)
		take_pod(best, last != best, job);
}

static const char no_pod[] = "it has no pod yet";

static unsigned int count_of(const char *text)
{
	uint64_t n;

	return str_to_u64(text, &n) == 0 && n <= GPUS_MAX ? (unsigned int)n : 0;
}

/* Of the resource, in all containers of all its pods. */
static void read_gpus(const json_t *object, const char *resource, struct engine_job *job)
{
	const json_t *spec = json_object_get(object, "spec"), *one;
	const json_t *pod = json_object_get(json_object_get(spec, "template"), "spec");
	unsigned int pods = json_get_small(spec, "parallelism", GPUS_MAX);
	size_t i;

	job->gpus_known = json_is_object(pod);
	json_array_foreach(json_object_get(pod, "containers"), i, one)
	{
		const json_t *limits = json_object_get(json_object_get(one, "resources"), "limits");
		const char *text = json_get_str(limits, resource);

		job->gpus += text ? count_of(text) : json_get_small(limits, resource, GPUS_MAX);
	}
	job->gpus *= pods ? pods : 1;
}

/* Jobs first, whatever their order, then what their pods say, then what they say themselves. */
static void take_items(const json_t *items, const char *prefix, const char *resource,
		       struct engine_jobs *jobs)
{
	const json_t *one;
	struct engine_job *job;
	size_t i;

	json_array_foreach(items, i, one) if (is_kind(one, "Job") && name_of(one)[0] &&
					      engine_name_begins(name_of(one), prefix) &&
					      !find_job(jobs, name_of(one)))
	{
		job = engine_jobs_add(jobs);
		job->id = xstrdup(name_of(one));
		job->name = xstrdup(name_of(one));
		job->state = ENGINE_JOB_WAITING;
		job->reason = xstrdup(no_pod);
		read_gpus(one, resource, job);
	}
	for (i = 0; i < jobs->n; i++)
		take_pods(items, &jobs->all[i]);
	json_array_foreach(items, i, one)
	{
		job = is_kind(one, "Job") ? find_job(jobs, name_of(one)) : NULL;
		if (job)
			take_job(one, job);
	}
}

int k8s_text_jobs(const char *text, size_t len, const char *prefix, const char *resource,
		  struct engine_jobs *jobs, struct err *e)
{
	json_error_t wrong;
	json_t *answer = json_loadb(text, len, 0, &wrong);

	if (!json_is_array(json_object_get(answer, "items"))) {
		json_decref(answer);
		return err_set(e, -EBADMSG, "kubectl's answer is no list: line %d: %s",
			       answer ? 1 : wrong.line, answer ? "no items" : wrong.text);
	}
	take_items(json_object_get(answer, "items"), prefix, resource, jobs);
	json_decref(answer);
	return 0;
}

static bool lacks_pod(const struct engine_job *job)
{
	return job->state == ENGINE_JOB_WAITING && job->reason &&
	       str_has_prefix(job->reason, no_pod);
}

bool k8s_text_lacks_pods(const struct engine_jobs *jobs)
{
	for (size_t i = 0; i < jobs->n; i++)
		if (lacks_pod(&jobs->all[i]))
			return true;
	return false;
}

void k8s_text_events(const char *text, size_t len, struct engine_jobs *jobs)
{
	json_t *answer = json_loadb(text, len, 0, NULL), *one;
	size_t i;

	json_array_foreach(json_object_get(answer, "items"), i, one)
	{
		const json_t *of = json_object_get(one, "involvedObject");
		struct engine_job *job = find_job(jobs, json_get_str(of, "name"));
		const char *message = json_get_str(one, "message");

		if (!job || !lacks_pod(job) || !message)
			continue;
		free(job->reason);
		job->reason = xasprintf("%s: %s", no_pod, message);
	}
	json_decref(answer);
}

/* -------- sentences -------- */

static bool says(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (strcasestr(text, *words))
			return true;
	return false;
}

char *k8s_text_created(const char *text)
{
	const char *p = strstr(text, "job.batch/");
	size_t n;

	if (!p)
		return NULL;
	p += strlen("job.batch/");
	n = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789.-");
	return n ? xasprintf("%.*s", (int)n, p) : NULL;
}

bool k8s_text_is_forbidden(const char *text)
{
	static const char *const words[] = { "(Forbidden)", "is forbidden", NULL };

	return says(text, words);
}

int k8s_text_refusal(const char *text)
{
	static const struct {
		const char *words[12];
		int code;
	} kinds[] = {
		{ { "AlreadyExists", "already exists", NULL }, -EEXIST },
		{ { "exceeded quota", NULL }, -EDQUOT },
		/* Nothing was sent. */
		{ { "was refused", "connection refused", "no such host", "no route to host", NULL },
		  -ECONNREFUSED },
		{ { "Unauthorized", "must be logged in", "provide credentials", "no configuration",
		    NULL },
		  -EACCES },
		{ { "timeout", "timed out", "deadline exceeded", "EOF", "InternalError",
		    "TooManyRequests", "ServiceUnavailable", NULL },
		  ENGINE_UNSURE },
		{ { "forbidden", "invalid", "not found", "NotFound", "error parsing",
		    "cannot unmarshal", "no matches for kind", "BadRequest", "unknown flag", NULL },
		  ENGINE_REFUSED },
	};

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (says(text, kinds[i].words))
			return kinds[i].code;
	return ENGINE_UNSURE;
}

/* -------- nodes -------- */

/* The line's columns, which tabs separate, into fields of its own copy; how many there are. */
static size_t split(char *line, char **fields, size_t most)
{
	size_t n = 0;

	for (char *p = line; p && n < most;) {
		fields[n++] = p;
		p = strchr(p, '\t');
		if (p)
			*p++ = '\0';
	}
	return n;
}

static void add_node(char *const fields[NODE_COLUMNS], struct engine_nodes *nodes)
{
	struct engine_node *node = engine_nodes_add(nodes);

	node->name = xstrdup(fields[0]);
	node->type = fields[4][0] ? xstrdup(fields[4]) : NULL;
	node->total = count_of(fields[3]);
	node->usable = strcmp(fields[1], "true") != 0 && strcmp(fields[2], "True") == 0;
	node->free = node->usable ? node->total : 0;
	if (strcmp(fields[1], "true") == 0)
		node->why = xstrdup("cordoned");
	else if (!node->usable)
		node->why = xstrdup("not ready");
}

int k8s_text_nodes(const char *text, struct engine_nodes *nodes, struct err *e)
{
	while (*text) {
		size_t n = strcspn(text, "\n");
		cleanup_free char *line = xasprintf("%.*s", (int)n, text);
		char *fields[NODE_COLUMNS];

		if (n && split(line, fields, NODE_COLUMNS) < NODE_COLUMNS)
			return err_set(e, -EBADMSG, "kubectl's line of a node is none: %.100s",
				       line);
		if (n && fields[0][0] && count_of(fields[3]))
			add_node(fields, nodes);
		text += n + (text[n] == '\n');
	}
	return 0;
}

static struct engine_node *find_node(struct engine_nodes *nodes, const char *name)
{
	for (size_t i = 0; i < nodes->n; i++)
		if (strcmp(nodes->all[i].name, name) == 0)
			return &nodes->all[i];
	return NULL;
}

/* "2 1": of each container that has some. */
static unsigned int sum_of(const char *text)
{
	unsigned int sum = 0;

	while (*text) {
		size_t n = strcspn(text, " ");
		cleanup_free char *one = xasprintf("%.*s", (int)n, text);

		sum += count_of(one);
		text += n;
		text += strspn(text, " ");
	}
	return sum < GPUS_MAX ? sum : GPUS_MAX;
}

static void use_line(const char *text, size_t n, struct engine_nodes *nodes)
{
	cleanup_free char *line = xasprintf("%.*s", (int)n, text);
	char *fields[POD_COLUMNS];
	struct engine_node *node;
	unsigned int gpus;

	if (split(line, fields, POD_COLUMNS) < POD_COLUMNS)
		return;
	node = find_node(nodes, fields[0]);
	gpus = sum_of(fields[1]);
	if (!node)
		return;
	node->used += gpus < node->total - node->used ? gpus : node->total - node->used;
	node->free = node->usable ? node->total - node->used : 0;
}

void k8s_text_use(const char *pods, struct engine_nodes *nodes)
{
	for (size_t i = 0; !pods && i < nodes->n; i++) {
		struct engine_node *node = &nodes->all[i];

		node->free = 0;
		node->unknown = true;
		if (node->usable)
			node->why =
				xstrdup("unknown: you may not list the pods of other namespaces");
		node->usable = false;
	}
	while (pods && *pods) {
		size_t n = strcspn(pods, "\n");

		use_line(pods, n, nodes);
		pods += n + (pods[n] == '\n');
	}
}

/* -------- inside -------- */

int k8s_text_inside(const char *const *variables, struct engine_here *ret, struct err *e)
{
	const char *job = script_variable(variables, K8S_JOB_VARIABLE "=");
	const char *pod = script_variable(variables, K8S_POD_VARIABLE "=");
	const char *node = script_variable(variables, K8S_NODE_VARIABLE "=");
	const char *count = script_variable(variables, K8S_GPUS_VARIABLE "=");
	const char *gpus = script_variable(variables, "NVIDIA_VISIBLE_DEVICES=");

	if (!job || !job[0])
		return err_set(e, -ENOENT, "no " K8S_JOB_VARIABLE ": this is in no pod of ours");
	*ret = (struct engine_here){ .engine = "k8s", .id = xstrdup(job) };
	ret->key = xasprintf("k8s.%s", pod && pod[0] ? pod : job);
	for (char *p = ret->key; *p; p++)
		*p = isalnum((unsigned char)*p) || *p == '.' ? (char)tolower((unsigned char)*p)
							     : '-';
	ret->node = node && node[0] ? xstrdup(node) : NULL;
	/* Its numbers are those of the node; in the container they begin at 0. */
	if (gpus && (str_has_prefix(gpus, "GPU-") || str_has_prefix(gpus, "MIG-")))
		ret->gpus = xstrdup(gpus);
	else if (count && strcmp(count, "0") == 0)
		ret->gpus = xstrdup(""); /* none, and it is said */
	ret->n_gpus = count ? count_of(count) : 0;
	return 0;
}
