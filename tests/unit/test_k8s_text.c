/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/k8s_manifest.h"
#include "engine/k8s_text.h"

static const char *const agent[] = { "/mnt/afs/tenure", "agent", "--instance", "a \"b\"", NULL };

struct world {
	struct text_list settings, options, drop, exclude;
	struct engine_request req;
	struct strbuf manifest;
	struct err e;
};

static int set_up(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	text_list_add(&w->settings, "image=registry/ours:v1");
	text_list_add(&w->settings, "mounts=shared:/mnt/shared,/mnt/afs:/mnt/afs");
	w->req = (struct engine_request){ .name = "ydj-exp1-tok1",
					  .title = "ydj-exp1",
					  .token = "tok1",
					  .gpus = 2,
					  .dir = "/mnt/shared/q",
					  .output = "/mnt/shared/q/p,tok1.out",
					  .agent = agent,
					  .options = &w->options,
					  .drop = &w->drop,
					  .exclude = &w->exclude,
					  .settings = &w->settings };
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	text_list_clear(&w->settings);
	text_list_clear(&w->options);
	text_list_clear(&w->drop);
	text_list_clear(&w->exclude);
	strbuf_clear(&w->manifest);
	free(w);
	return 0;
}

static int manifest(struct world *w)
{
	strbuf_reset(&w->manifest);
	return k8s_manifest(&w->req, &w->manifest, &w->e);
}

static bool has(const struct world *w, const char *line)
{
	bool found = strstr(strbuf_str(&w->manifest), line);

	if (!found)
		print_error("%s\n", strbuf_str(&w->manifest));
	return found;
}

#define LABELS "{\"app.kubernetes.io/managed-by\":\"tenure\"}"
#define COMMAND                                                                                    \
	"[\"/bin/sh\",\"-c\",\"(set -C; : >\\\"$0\\\") 2>/dev/null || if [ -e \\\"$0\\\" ]; then " \
	"echo \\\"pod $TENURE_K8S_POD does not begin: an earlier one of its job has\\\" "          \
	">>\\\"$0\\\"; exit 1; fi; exec >>\\\"$0\\\" 2>&1; exec \\\"$@\\\"\","

static void a_job_is_one_pod_with_its_gpus(void **state)
{
	struct world *w = *state;

	assert_int_equal(manifest(w), 0);
	assert_string_equal(
		strbuf_str(&w->manifest),
		"apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: ydj-exp1-tok1\n"
		"  labels: " LABELS "\nspec:\n  backoffLimit: 0\n  podReplacementPolicy: Failed\n"
		"  ttlSecondsAfterFinished: 600\n"
		"  parallelism: 1\n  completions: 1\n  template:\n    metadata:\n"
		"      labels: " LABELS "\n    spec:\n      restartPolicy: Never\n"
		"      terminationGracePeriodSeconds: 60\n      containers:\n      - name: agent\n"
		"        image: \"registry/ours:v1\"\n"
		"        command: " COMMAND
		"\"/mnt/shared/q/p,tok1.out\",\"/mnt/afs/tenure\",\"agent\",\"--instance\",\"a "
		"\\\"b\\\"\"]\n"
		"        workingDir: \"/mnt/shared/q\"\n"
		"        env: [{\"name\":\"TENURE_K8S_JOB\",\"value\":\"ydj-exp1-tok1\"},"
		"{\"name\":\"TENURE_K8S_GPUS\",\"value\":\"2\"},"
		"{\"name\":\"TENURE_K8S_POD\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"metadata."
		"name\"}}},{\"name\":\"TENURE_K8S_NODE\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":"
		"\"spec.nodeName\"}}}]\n"
		"        resources: {\"limits\":{\"nvidia.com/gpu\":2},\"requests\":{\"cpu\":8,"
		"\"memory\":\"32768Mi\"}}\n"
		"        volumeMounts: [{\"name\":\"v0\",\"mountPath\":\"/mnt/shared\"},{\"name\":\"v1\","
		"\"mountPath\":\"/mnt/afs\"},{\"name\":\"shm\",\"mountPath\":\"/dev/shm\"}]\n"
		"      volumes: [{\"name\":\"v0\",\"persistentVolumeClaim\":{\"claimName\":\"shared\"}},"
		"{\"name\":\"v1\",\"hostPath\":{\"path\":\"/mnt/afs\"}},{\"name\":\"shm\",\"emptyDir\":{"
		"\"medium\":\"Memory\"}}]\n");
}

static void what_is_set_stands_in_it(void **state)
{
	static const char *const settings[] = {
		"labels=queue=research",    "node_selector=zone=a,rack=7", "run_as=1000:100",
		"pull_secret=regcred",	    "service_account=jobs",	   "priority_class=low",
		"gpu_resource=amd.com/gpu", "gpu_label=gpu/kind"
	};
	static const char *const lines[] = {
		"      labels: {\"app.kubernetes.io/managed-by\":\"tenure\",\"queue\":\"research\"}\n",
		"      nodeSelector: {\"gpu/kind\":\"a10\",\"zone\":\"a\",\"rack\":\"7\"}\n",
		"      securityContext: {\"runAsUser\":1000,\"runAsGroup\":100}\n",
		"      imagePullSecrets: [{\"name\":\"regcred\"}]\n",
		"      serviceAccountName: \"jobs\"\n",
		"      priorityClassName: \"low\"\n",
		"      hostNetwork: true\n      tolerations: []\n      containers:\n",
		"\"limits\":{\"amd.com/gpu\":2},\"requests\":{\"cpu\":3,\"memory\":\"1024Mi\"}",
		"      activeDeadlineSeconds: 3600\n",
		"      terminationGracePeriodSeconds: 180\n",
		"\"operator\":\"NotIn\",\"values\":[\"gpu-a\",\"gpu-b\"]",
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(settings); i++)
		text_list_add(&w->settings, settings[i]);
	text_list_add(&w->options, "hostNetwork: true");
	text_list_add(&w->options, "tolerations: []");
	text_list_add(&w->drop, "workingDir");
	text_list_add(&w->exclude, "gpu-a");
	text_list_add(&w->exclude, "gpu-b");
	w->req.type = "a10";
	w->req.cpus = 3;
	w->req.mem_mib = 1024;
	w->req.minutes = 60;
	w->req.warn_s = 180;
	assert_int_equal(manifest(w), 0);
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		assert_true(has(w, lines[i]));
	assert_null(strstr(strbuf_str(&w->manifest), "workingDir"));
	w->req.gpus = 0;
	assert_int_equal(manifest(w), 0);
	assert_true(has(w, "\"limits\":{}"));
}

static void a_sites_own_manifest_stands_in_place_of_ours(void **state)
{
	struct world *w = *state;

	w->req.template_text = "kind: Job\nname: {name}\nargv: {agent}\nx: {{}\n{options}";
	text_list_add(&w->options, "a: b");
	assert_int_equal(manifest(w), 0);
	assert_string_equal(strbuf_str(&w->manifest),
			    "kind: Job\nname: ydj-exp1-tok1\nargv: [\"/mnt/afs/tenure\",\"agent\","
			    "\"--instance\",\"a \\\"b\\\"\"]\nx: {}\n      a: b\n");
	w->req.template_text = "{nothing}";
	assert_int_equal(manifest(w), -EINVAL);
}

static void what_is_wrong_or_missing_is_named(void **state)
{
	static const struct {
		const char *setting, *text;
	} cases[] = {
		{ "mounts=shared", "\"shared\" is neither CLAIM:/DIR nor /DIR:/DIR" },
		{ "mounts=a:/b,:/c", "\":/c\" is neither" },
		{ "run_as=root", "run_as: \"root\" is neither UID nor UID:GID" },
		{ "run_as=1:2:3", "neither UID nor UID:GID" },
		{ "labels=a", "labels: \"a\" is no LABEL=VALUE" },
		{ "node_selector==b", "\"=b\" is no LABEL=VALUE" },
		{ "namspace=x", "k8s has no setting \"namspace\"; did you mean namespace?" },
		{ "image=\xff", "image is no UTF-8" },
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		text_list_add(&w->settings, cases[i].setting);
		assert_int_equal(manifest(w), -EINVAL);
		if (!strstr(w->e.text, cases[i].text))
			print_error("%s\n", w->e.text);
		assert_non_null(strstr(w->e.text, cases[i].text));
		free(w->settings.texts[--w->settings.n]);
	}
	text_list_clear(&w->settings);
	assert_int_equal(manifest(w), -EINVAL);
	assert_non_null(strstr(w->e.text, "k8s needs to be told image= ("));
	assert_non_null(strstr(w->e.text, "mounts= ("));
}

/* -------- answers -------- */

#define JOB(name, status)                                                                          \
	"{\"kind\":\"Job\",\"metadata\":{\"name\":\"" name "\"},\"status\":" status "}"
#define POD(job, spec, status)                                                                     \
	"{\"kind\":\"Pod\",\"metadata\":{\"name\":\"" job "-x1\",\"labels\":{\"job-name\":\"" job  \
	"\"}},\"spec\":" spec ",\"status\":" status "}"
#define ON "{\"nodeName\":\"gpu-a\"}"
#define CONDITION(type, status, reason, message)                                                   \
	"\"conditions\":[{\"type\":\"" type "\",\"status\":\"" status "\",\"reason\":\"" reason    \
	"\",\"message\":\"" message "\"}]"

#define ENDED(more, code)                                                                          \
	"\"containerStatuses\":[7,{\"state\":{\"terminated\":{" more ",\"exitCode\":" code "}}}]"

static void a_job_is_what_its_pod_is(void **state)
{
	static const struct {
		const char *job, *pod;
		enum engine_job_state state;
		const char *node, *reason;
	} cases[] = {
		{ JOB("t-a", "{\"active\":1}"), "null", ENGINE_JOB_WAITING, NULL,
		  "it has no pod yet" },
		{ JOB("t-a", "{\"active\":1}"),
		  POD("t-a", "{}",
		      "{\"phase\":\"Pending\"," CONDITION("PodScheduled", "False", "Unschedulable",
							  "1 Insufficient nvidia.com/gpu") "}"),
		  ENGINE_JOB_WAITING, NULL, "Unschedulable: 1 Insufficient nvidia.com/gpu" },
		{ JOB("t-a", "{}"), POD("t-a", ON, "{\"phase\":\"Pending\"}"), ENGINE_JOB_STARTING,
		  "gpu-a", NULL },
		{ JOB("t-a", "{}"),
		  POD("t-a", ON,
		      "{\"phase\":\"Pending\",\"containerStatuses\":[{\"state\":{\"waiting\":{"
		      "\"reason\":\"ImagePullBackOff\",\"message\":\"Back-off\"}}}]}"),
		  ENGINE_JOB_HELD, "gpu-a", "ImagePullBackOff: Back-off" },
		{ JOB("t-a", "{}"), POD("t-a", ON, "{\"phase\":\"Running\"}"), ENGINE_JOB_RUNNING,
		  "gpu-a", NULL },
		{ JOB("t-a", "{" CONDITION("Complete", "True", "", "") "}"),
		  POD("t-a", ON, "{\"phase\":\"Succeeded\"}"), ENGINE_JOB_DONE, "gpu-a", NULL },
		{ JOB("t-a", "{" CONDITION("Failed", "True", "BackoffLimitExceeded", "m") "}"),
		  POD("t-a", ON, "{\"phase\":\"Failed\"}"), ENGINE_JOB_FAILED, "gpu-a",
		  "BackoffLimitExceeded: m" },
		/* Its pod has ended before it is told so. */
		{ JOB("t-a", "{\"active\":1}"),
		  POD("t-a", ON,
		      "{\"phase\":\"Failed\"," ENDED("\"reason\":\"OOMKilled\"", "137") "}"),
		  ENGINE_JOB_FAILED, "gpu-a", "OOMKilled (exit code 137)" },
		{ JOB("t-a", "{" CONDITION("Failed", "True", "BackoffLimitExceeded", "m") "}"),
		  POD("t-a", ON, "{\"phase\":\"Failed\"," ENDED("\"message\":\"e\"", "1") "}"),
		  ENGINE_JOB_FAILED, "gpu-a", "e (exit code 1): BackoffLimitExceeded: m" },
		{ JOB("t-a", "{\"active\":1}"),
		  POD("t-a", ON, "{\"phase\":\"Failed\"," ENDED("\"reason\":7", "2") "}"),
		  ENGINE_JOB_FAILED, "gpu-a", "Error (exit code 2)" },
		{ JOB("t-a", "{\"active\":1}"),
		  POD("t-a", ON,
		      "{\"phase\":\"Failed\"," ENDED("\"reason\":\"Completed\"", "0") "}"),
		  ENGINE_JOB_FAILED, "gpu-a", NULL },
		{ JOB("t-a", "{" CONDITION("Failed", "True", "BackoffLimitExceeded", "m") "}"),
		  POD("t-a", ON, "{\"phase\":\"Failed\",\"reason\":\"Evicted\"}"),
		  ENGINE_JOB_EXPIRED, "gpu-a", "Evicted" },
		{ JOB("t-a", "{" CONDITION("Failed", "True", "DeadlineExceeded", "m") "}"), "7",
		  ENGINE_JOB_EXPIRED, NULL, "DeadlineExceeded: m" },
		{ JOB("t-a", "{" CONDITION("Suspended", "True", "JobSuspended", "m") "}"), "[]",
		  ENGINE_JOB_HELD, NULL, "JobSuspended: m" },
		{ JOB("t-a", "{}"), POD("t-a", ON, "{\"phase\":\"Hibernating\"}"),
		  ENGINE_JOB_UNKNOWN, "gpu-a", NULL },
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		/* The pod may stand before its job. */
		cleanup_free char *text = xasprintf("{\"items\":[%s,%s,%s]}", cases[i].pod,
						    cases[i].job, JOB("other", "{}"));
		struct engine_jobs jobs = { .n = 0 };

		assert_int_equal(
			k8s_text_jobs(text, strlen(text), "t-", "nvidia.com/gpu", &jobs, &w->e), 0);
		assert_int_equal(jobs.n, 1);
		assert_string_equal(jobs.all[0].id, "t-a");
		assert_string_equal(jobs.all[0].name, "t-a");
		assert_int_equal(jobs.all[0].state, cases[i].state);
		assert_true(!jobs.all[0].node == !cases[i].node);
		assert_true(!jobs.all[0].reason == !cases[i].reason);
		if (cases[i].reason)
			assert_string_equal(jobs.all[0].reason, cases[i].reason);
		engine_jobs_clear(&jobs);
	}
}

/* In all containers of all pods, of the resource that counts. */
static void gpus_of_a_job(void **state)
{
	static const struct {
		const char *spec;
		bool known;
		unsigned int gpus;
	} cases[] = {
		{ "{\"template\":{\"spec\":{\"containers\":[{\"resources\":{\"limits\":"
		  "{\"nvidia.com/gpu\":2}}}]}}}",
		  true, 2 },
		{ "{\"parallelism\":3,\"template\":{\"spec\":{\"containers\":[{\"resources\":"
		  "{\"limits\":{\"nvidia.com/gpu\":\"2\"}}},{\"resources\":{\"limits\":"
		  "{\"nvidia.com/gpu\":1,\"cpu\":9}}},{}]}}}",
		  true, 9 },
		{ "{\"template\":{\"spec\":{\"containers\":[{\"resources\":{\"limits\":"
		  "{\"amd.com/gpu\":2}}}]}}}",
		  true, 0 },
		{ "{}", false, 0 },
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *text =
			xasprintf("{\"items\":[{\"kind\":\"Job\",\"metadata\":{\"name\":"
				  "\"t-a\"},\"spec\":%s}]}",
				  cases[i].spec);
		struct engine_jobs jobs = { .n = 0 };

		assert_int_equal(
			k8s_text_jobs(text, strlen(text), "t-", "nvidia.com/gpu", &jobs, &w->e), 0);
		assert_int_equal(jobs.n, 1);
		assert_int_equal(jobs.all[0].gpus_known, cases[i].known);
		assert_int_equal(jobs.all[0].gpus, cases[i].gpus);
		engine_jobs_clear(&jobs);
	}
}

static void a_pod_that_is_deleted_is_ending(void **state)
{
	static const char text[] =
		"{\"items\":[{\"kind\":\"Job\",\"metadata\":{\"name\":\"t-a\"}},{\"kind\":\"Pod\","
		"\"metadata\":{\"deletionTimestamp\":\"2026-11-24T10:00:00Z\",\"labels\":{\"batch."
		"kubernetes.io/job-name\":\"t-a\"}},\"status\":{\"phase\":\"Running\",\"startTime\":"
		"\"1970-01-01T00:01:00Z\"}}]}";
	struct world *w = *state;
	struct engine_jobs jobs = { .n = 0 };

	assert_int_equal(k8s_text_jobs(text, strlen(text), "t-", "nvidia.com/gpu", &jobs, &w->e),
			 0);
	assert_int_equal(jobs.all[0].state, ENGINE_JOB_ENDING);
	assert_int_equal(jobs.all[0].start_ns, 60 * NS_PER_S);
	engine_jobs_clear(&jobs);
}

#define MADE(name, at, deleted)                                                                    \
	"{\"kind\":\"Pod\",\"metadata\":{\"name\":\"" name                                         \
	"\",\"creationTimestamp\":\"2026-11-24T" at "Z\"" deleted                                  \
	",\"labels\":{\"job-name\":\"t-a\"}},\"spec\":{\"nodeName\":\"" name "\"},\"status\":"
#define DELETED ",\"deletionTimestamp\":\"2026-11-24T10:09:00Z\""
#define UNREADY                                                                                    \
	"{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\"}]}}"

/* As Kubernetes 1.20 lists them: what is deleted is replaced at once, what was on a lost node
 * stays. */
static void of_several_pods_the_first_that_began_counts(void **state)
{
	static const struct {
		const char *old, *new;
		enum engine_job_state want;
		const char *node;
	} cases[] = {
		{ MADE("a", "10:00:00", DELETED) "{\"phase\":\"Running\"}}",
		  MADE("b", "10:05:00", "") "{\"phase\":\"Running\"}}", ENGINE_JOB_EXPIRED, "a" },
		{ MADE("a", "10:00:00", DELETED) "{\"phase\":\"Running\"}}",
		  MADE("b", "10:05:00", "") "{\"phase\":\"Pending\"}}", ENGINE_JOB_EXPIRED, "a" },
		{ MADE("a", "10:00:00", DELETED) "{\"phase\":\"Pending\"}}",
		  MADE("b", "10:05:00", "") "{\"phase\":\"Pending\"}}", ENGINE_JOB_STARTING, "b" },
		{ MADE("a", "10:00:00", DELETED) "{\"phase\":\"Pending\"}}",
		  MADE("b", "10:05:00", "") "{\"phase\":\"Running\"}}", ENGINE_JOB_RUNNING, "b" },
		{ MADE("a", "10:00:00", "") "{\"phase\":\"Failed\"}}",
		  MADE("b", "10:05:00", "") "{\"phase\":\"Running\"}}", ENGINE_JOB_FAILED, "a" },
		{ MADE("a", "10:00:00", DELETED) UNREADY, "7", ENGINE_JOB_EXPIRED, "a" },
		{ MADE("a", "10:00:00", "") UNREADY, "7", ENGINE_JOB_RUNNING, "a" },
	};
	struct world *w = *state;

	for (size_t i = 0; i < 2 * ARRAY_LEN(cases); i++) {
		bool turned = i % 2; /* they come by their names, which are random */
		cleanup_free char *text = xasprintf(
			"{\"items\":[%s,%s,%s]}", turned ? cases[i / 2].new : cases[i / 2].old,
			JOB("t-a", "{}"), turned ? cases[i / 2].old : cases[i / 2].new);
		struct engine_jobs jobs = { .n = 0 };

		assert_int_equal(
			k8s_text_jobs(text, strlen(text), "t-", "nvidia.com/gpu", &jobs, &w->e), 0);
		assert_int_equal(jobs.n, 1);
		assert_int_equal(jobs.all[0].state, cases[i / 2].want);
		assert_string_equal(jobs.all[0].node, cases[i / 2].node);
		assert_true(jobs.all[0].state != ENGINE_JOB_EXPIRED ||
			    strstr(jobs.all[0].reason, "deleted"));
		engine_jobs_clear(&jobs);
	}
}

#define EVENT(name, message)                                                                       \
	"{\"kind\":\"Event\",\"involvedObject\":{\"kind\":\"Job\",\"name\":\"" name                \
	"\"},\"message\":\"" message "\"}"

static void a_job_without_a_pod_says_why(void **state)
{
	static const char listed[] = "{\"items\":[" JOB("t-a", "{}") "," JOB("t-b", "{}") "," JOB(
		"t-c", "{}") "," POD("t-c", "{}", "{\"phase\":\"Pending\"}") "]}";
	static const char events[] = "{\"items\":[" EVENT("t-gone", "x") "," EVENT(
		"t-a", "exceeded quota: gpus") ",7," EVENT("t-c", "of the first try") "]}";
	struct world *w = *state;
	struct engine_jobs jobs = { .n = 0 };

	assert_int_equal(
		k8s_text_jobs(listed, strlen(listed), "t-", "nvidia.com/gpu", &jobs, &w->e), 0);
	assert_true(k8s_text_lacks_pods(&jobs));
	k8s_text_events("", 0, &jobs);
	k8s_text_events(events, strlen(events), &jobs);
	assert_string_equal(jobs.all[0].reason, "it has no pod yet: exceeded quota: gpus");
	assert_string_equal(jobs.all[1].reason, "it has no pod yet");
	assert_null(jobs.all[2].reason);
	engine_jobs_clear(&jobs);
	assert_false(k8s_text_lacks_pods(&jobs));
}

static void what_is_no_list_is_an_error(void **state)
{
	static const char *const texts[] = {
		"", "{}", "[]", "{\"items\":{}}", "{\"items\":[", "error: You must be logged in"
	};
	struct world *w = *state;
	struct engine_jobs jobs = { .n = 0 };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		assert_int_equal(k8s_text_jobs(texts[i], strlen(texts[i]), "t-", "nvidia.com/gpu",
					       &jobs, &w->e),
				 -EBADMSG);
	assert_int_equal(jobs.n, 0);
}

static void a_failure_is_for_good_or_for_now(void **state)
{
	static const struct {
		const char *text;
		int code;
	} cases[] = {
		{ "Error from server (AlreadyExists): error when creating \"STDIN\": jobs.batch \"x\" "
		  "already exists",
		  -EEXIST },
		{ "Error from server (Forbidden): pods \"x\" is forbidden: exceeded quota: gpus",
		  -EDQUOT },
		{ "The connection to the server 127.0.0.1:1 was refused - did you specify the right "
		  "host or port?",
		  -ECONNREFUSED },
		{ "Unable to connect to the server: net/http: request canceled", ENGINE_UNSURE },
		{ "error: You must be logged in to the server (Unauthorized)", -EACCES },
		{ "Error from server (Forbidden): jobs.batch is forbidden: User \"u\" cannot create",
		  ENGINE_REFUSED },
		{ "The Job \"x\" is invalid: spec.template.spec.containers[0].image: Required value",
		  ENGINE_REFUSED },
		{ "Error from server (NotFound): namespaces \"x\" not found", ENGINE_REFUSED },
		{ "what nobody has seen", ENGINE_UNSURE },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(k8s_text_refusal(cases[i].text), cases[i].code);
}

static void the_name_is_behind_its_kind(void **state)
{
	cleanup_free char *name = k8s_text_created("Warning: x\njob.batch/ydj-a-tok1\n");

	(void)state;
	assert_string_equal(name, "ydj-a-tok1");
	assert_null(k8s_text_created("job.batch/\n"));
	assert_null(k8s_text_created(""));
}

#define NODES                                                                                      \
	"gpu-a\t\tTrue\t4\tNVIDIA-A10\ngpu-b\ttrue\tTrue\t8\t\ngpu-c\t\tUnknown\t8\tNVIDIA-H200\n" \
	"login\t\tTrue\t\t\n"

static void what_is_free_is_what_no_pod_has(void **state)
{
	struct world *w = *state;
	struct engine_nodes nodes = { .n = 0 };

	assert_int_equal(k8s_text_nodes(NODES, &nodes, &w->e), 0);
	k8s_text_use("gpu-a\t1 2\n\t4\nnowhere\t1\ngpu-b\t3\ngpu-a\t\n", &nodes);
	assert_int_equal(nodes.n, 3);
	assert_string_equal(nodes.all[0].name, "gpu-a");
	assert_string_equal(nodes.all[0].type, "NVIDIA-A10");
	assert_int_equal(nodes.all[0].used, 3);
	assert_int_equal(nodes.all[0].free, 1);
	assert_true(nodes.all[0].usable);
	assert_string_equal(nodes.all[1].why, "cordoned");
	assert_null(nodes.all[1].type);
	assert_int_equal(nodes.all[1].used, 3);
	assert_int_equal(nodes.all[1].free, 0);
	assert_string_equal(nodes.all[2].why, "not ready");
	engine_nodes_clear(&nodes);
	assert_int_equal(k8s_text_nodes("gpu-a\tx\n", &nodes, &w->e), -EBADMSG);
	engine_nodes_clear(&nodes);
}

/* More than there is, where pods and nodes were listed at different times. */
static void no_node_has_less_than_nothing(void **state)
{
	struct world *w = *state;
	struct engine_nodes nodes = { .n = 0 };

	assert_int_equal(k8s_text_nodes(NODES, &nodes, &w->e), 0);
	k8s_text_use("gpu-a\t4\ngpu-a\t4\n", &nodes);
	assert_int_equal(nodes.all[0].used, 4);
	assert_int_equal(nodes.all[0].free, 0);
	engine_nodes_clear(&nodes);
}

static void what_may_not_be_seen_is_unknown_and_not_free(void **state)
{
	struct world *w = *state;
	struct engine_nodes nodes = { .n = 0 };

	assert_int_equal(k8s_text_nodes(NODES, &nodes, &w->e), 0);
	k8s_text_use(NULL, &nodes);
	assert_int_equal(nodes.all[0].total, 4);
	assert_int_equal(nodes.all[0].free, 0);
	assert_false(nodes.all[0].usable);
	assert_non_null(strstr(nodes.all[0].why, "unknown"));
	assert_string_equal(nodes.all[1].why, "cordoned");
	engine_nodes_clear(&nodes);
}

static void a_pod_knows_its_job(void **state)
{
	static const char *const none[] = { "KUBERNETES_SERVICE_HOST=10.0.0.1", "HOSTNAME=x",
					    NULL };
	static const char *const own[] = { "TENURE_K8S_JOB=ydj-a-tok1",
					   "TENURE_K8S_POD=ydj-a-tok1-x9z",
					   "TENURE_K8S_NODE=gpu-a",
					   "TENURE_K8S_GPUS=2",
					   "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-2",
					   NULL };
	struct world *w = *state;
	struct engine_here here;

	assert_int_equal(k8s_text_inside(none, &here, &w->e), -ENOENT);
	assert_int_equal(k8s_text_inside(own, &here, &w->e), 0);
	assert_string_equal(here.id, "ydj-a-tok1");
	assert_string_equal(here.key, "k8s.ydj-a-tok1-x9z");
	assert_string_equal(here.node, "gpu-a");
	assert_string_equal(here.gpus, "GPU-1,GPU-2");
	assert_int_equal(here.n_gpus, 2);
	engine_here_clear(&here);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define ROW(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
		ROW(a_job_is_one_pod_with_its_gpus),
		ROW(what_is_set_stands_in_it),
		ROW(a_sites_own_manifest_stands_in_place_of_ours),
		ROW(what_is_wrong_or_missing_is_named),
		ROW(a_job_is_what_its_pod_is),
		ROW(gpus_of_a_job),
		ROW(a_pod_that_is_deleted_is_ending),
		ROW(of_several_pods_the_first_that_began_counts),
		ROW(a_job_without_a_pod_says_why),
		ROW(what_is_no_list_is_an_error),
		ROW(a_failure_is_for_good_or_for_now),
		ROW(the_name_is_behind_its_kind),
		ROW(what_is_free_is_what_no_pod_has),
		ROW(no_node_has_less_than_nothing),
		ROW(what_may_not_be_seen_is_unknown_and_not_free),
		ROW(a_pod_knows_its_job),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
