/* SPDX-License-Identifier: MIT */
#include "agent/attempt/launch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/keeper.h"
#include "base/mem.h"
#include "base/signame.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "engine/engine.h"
#include "spool/elements.h"
#include "spool/heartbeat.h"

#define VALUE_MAX 4096

struct launch {
	struct launch_spec job;
	struct text_list env, argv;
	char title[160];
	char token[TASK_TOKEN_MAX];
	char claim[SPOOL_PATH_MAX], heartbeat[SPOOL_PATH_MAX];
	char *shown;
	struct strbuf output, error;
};

static void add(struct text_list *l, const char *name, const char *value)
{
	cleanup_free char *text = xasprintf("%s=%s", name, value);

	text_list_add(l, text);
}

static void add_number(struct text_list *l, const char *name, uint64_t value)
{
	char text[24];

	add(l, name, str_print(text, sizeof(text), "%llu", (unsigned long long)value));
}

static bool sets(const char *assignment, const struct text_list *names)
{
	const char *eq = strchr(assignment, '=');

	for (size_t i = 0; eq && i < names->n; i++) {
		size_t len = (size_t)(eq - assignment) + 1;

		if (strncmp(names->texts[i], assignment, len) == 0)
			return true;
	}
	return false;
}

/* The parameters of a sweep, by their names; a task's own variables win over the submitter's. */
static void add_parameters(struct text_list *l, const struct task_spec *spec, uint64_t element)
{
	cleanup_free char *value = xmalloc(VALUE_MAX);
	char name[SPEC_NAME_MAX + 1];

	for (size_t i = 0; element_parameter(&spec->sweep, element, i, name, value, VALUE_MAX); i++)
		add(l, name, value);
}

static void make_env(struct launch *j, const struct task_spec *spec, uint64_t id,
		     const struct launch_with *w)
{
	struct text_list own = { 0 };
	char full[48];

	if (w->element)
		(void)str_print(full, sizeof(full), "%llu.%llu", (unsigned long long)id,
				(unsigned long long)w->element);
	else
		(void)str_print(full, sizeof(full), "%llu", (unsigned long long)id);
	if (!w->idle_workload)
		add(&own, "TENURE_TASK_ID", full);
	add(&own, "TENURE_INSTANCE", w->instance);
	if (w->job)
		add(&own, ENGINE_KEY_VARIABLE, w->job);
	if (spec->allocation && w->libraries)
		add(&own, LIBRARIES_ENV, w->libraries);
	add_number(&own, "TENURE_ATTEMPT", w->attempt);
	add_number(&own, "TENURE_GPU_MEMORY", w->memory);
	if (w->element && !spec_is_gang(spec))
		add_number(&own, "TENURE_ARRAY_INDEX", element_index(&spec->array, w->element));
	add_parameters(&own, spec, w->element);
	if (w->rank.nodes)
		rank_env(&w->rank, &own);
	if (w->by_index)
		add(&own, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
	add(&own, "CUDA_VISIBLE_DEVICES", w->visible);
	if (w->gpus_file)
		add(&own, "TENURE_GPUS_FILE", w->gpus_file);
	for (size_t i = 0; i < spec->env.n; i++)
		if (!sets(spec->env.texts[i], &own))
			text_list_add(&j->env, spec->env.texts[i]);
	for (size_t i = 0; i < own.n; i++)
		text_list_add(&j->env, own.texts[i]);
	for (size_t i = 0; w->login && i < w->login->env.n; i++)
		if (!sets(w->login->env.texts[i], &j->env))
			text_list_add(&j->env, w->login->env.texts[i]);
	text_list_clear(&own);
}

/* alloc/keeper.h */
static void make_keeper(struct launch *j, const struct task_spec *spec, const struct launch_with *w)
{
	cleanup_strbuf struct strbuf accepted = STRBUF_INIT;
	const struct text_list *names = w->trust->accepted;

	for (size_t i = 0; names && i < names->n; i++)
		strbuf_addf(&accepted, "%s%s", i ? "," : "", names->texts[i]);
	text_list_add(&j->argv, "/proc/self/exe");
	text_list_add(&j->argv, KEEPER_VERB);
	text_list_add(&j->argv, w->root);
	text_list_add(&j->argv, w->instance);
	text_list_take(&j->argv, xasprintf("%llu", (unsigned long long)w->id));
	text_list_add(&j->argv, w->run_dir);
	text_list_add(&j->argv, spec->name);
	text_list_add(&j->argv, w->trust->setting == TRUST_DIRECTORY ? "directory" : "owner");
	text_list_add(&j->argv, strbuf_str(&accepted));
}

static int make_command(struct launch *j, const struct task_spec *spec, const struct launch_with *w,
			struct err *e)
{
	if (spec->allocation) {
		make_keeper(j, spec, w);
	} else if (spec->script) {
		j->job.script = spec->script;
		j->job.script_bytes = strlen(spec->script);
		j->job.script_name = spec->script_name ?: spec->name;
		j->argv = text_list_copy(&spec->args);
	} else if (spec->argv.n) {
		j->argv = text_list_copy(&spec->argv);
	} else if (spec->commands.n == 1) { /* spec_for_element() */
		text_list_add(&j->argv, "/bin/sh");
		text_list_add(&j->argv, "-c");
		text_list_add(&j->argv, spec->commands.texts[0]);
	} else {
		return err_set(e, -EINVAL, "there is nothing to run for this element");
	}
	return 0;
}

/* Paths with the names of this one; which there are the spec has checked. */
static void make_outputs(struct launch *j, const struct task_spec *spec,
			 const struct launch_with *w)
{
	const struct output_words words = {
		.id = w->id,
		.element = w->element,
		.index = w->element ? element_index(&spec->array, w->element) : 0,
		.name = spec->name,
		.node = w->node_name,
		.user = spec->user,
	};

	if (spec->output)
		(void)output_path(spec->output, &words, &j->output, NULL);
	if (spec->error)
		(void)output_path(spec->error, &words, &j->error, NULL);
	j->job.output = strbuf_str(&j->output);
	j->job.error = strbuf_str(&j->error);
}

static char *show_command(const struct launch *j, const struct task_spec *spec)
{
	/* As one would write it for a shell. */
	const char *const outputs[][2] = { { " >>", j->job.output }, { " 2>>", j->job.error } };
	struct strbuf text = STRBUF_INIT;

	if (spec->allocation) /* its words say nothing to a person */
		return xstrdup("(an allocation: tenure start runs something in it)");
	if (spec->script)
		strbuf_adds(&text, spec->script_name ?: spec->name);
	for (size_t i = 0; i < j->argv.n; i++)
		strbuf_add_word_in_line(&text, j->argv.texts[i]);
	for (size_t i = 0; i < ARRAY_LEN(outputs); i++) {
		if (!outputs[i][1][0])
			continue;
		strbuf_adds(&text, outputs[i][0]);
		strbuf_add_word_in_line(&text, outputs[i][1]);
	}
	return strbuf_take(&text);
}

/* "task 42.7 train.sh, attempt 2" */
static void make_title(struct launch *j, const struct task_spec *spec, const struct launch_with *w)
{
	char element[24] = "";

	if (w->element)
		(void)str_print(element, sizeof(element), ".%llu", (unsigned long long)w->element);
	if (w->idle_workload)
		(void)str_copy(j->title, sizeof(j->title), spec->name);
	else
		(void)str_print(j->title, sizeof(j->title), "task %llu%s %s, attempt %u",
				(unsigned long long)w->id, element, spec->name, w->attempt);
}

static const char *const *texts(const struct text_list *l)
{
	return (const char *const *)l->texts;
}

int launch_make(const struct task_spec *spec, const char *token, const struct launch_with *w,
		struct launch **ret, struct err *e)
{
	struct launch *j = xcalloc(1, sizeof(*j));
	int r = make_command(j, spec, w, e);

	if (r < 0) {
		launch_free(j);
		return r;
	}
	(void)str_copy(j->token, sizeof(j->token), token);
	make_outputs(j, spec, w);
	j->shown = show_command(j, spec);
	make_title(j, spec, w);
	make_env(j, spec, w->id, w);
	j->job.token = j->token;
	j->job.title = j->title;
	j->job.shown = j->shown;
	j->job.node = w->node;
	j->job.cwd = spec->cwd ? spec->cwd : w->login ? w->login->home : "/";
	j->job.run_dir = w->run_dir;
	j->job.record_dir = w->run_dir;
	j->job.argv = texts(&j->argv);
	j->job.n_argv = (uint32_t)j->argv.n;
	j->job.env = texts(&j->env);
	j->job.n_env = (uint32_t)j->env.n;
	j->job.log_limit = w->log_limit;
	j->job.cgroup = w->cgroup;
	j->job.timeout_ms = spec->timeout;
	j->job.grace_ms = (uint32_t)(spec->grace < UINT32_MAX ? spec->grace : UINT32_MAX - 1);
	if (spec->signal) /* which the spec has checked; 0 is SIGTERM */
		j->job.stop_signal = signal_parse(spec->signal, NULL);
	j->job.umask = spec->umask != SPEC_NO_UMASK ? (uint32_t)spec->umask
		       : w->login		    ? w->login->umask
						    : 022;
	j->job.go_until_ns = w->go_until_ns;
	j->job.flags = (w->go ? LAUNCH_GO : 0) | (w->idle_workload ? LAUNCH_ATTENDED : 0) |
		       (w->job ? LAUNCH_IN_JOB : 0);
	if (w->claim) {
		(void)str_copy(j->claim, sizeof(j->claim), w->claim->path);
		j->job.heartbeat_dir = w->spool_dir;
		j->job.heartbeat_agent = w->agent;
		j->job.heartbeat_file = heartbeat_claim_path(&w->claim->name, j->heartbeat);
		j->job.claim = j->claim;
		j->job.heartbeat_ms = w->heartbeat_ms;
		j->job.fence_timeout_ms = w->fence_timeout_ms;
	}
	*ret = j;
	return 0;
}

struct launch *launch_free(struct launch *j)
{
	if (!j)
		return NULL;
	text_list_clear(&j->env);
	text_list_clear(&j->argv);
	free(j->shown);
	strbuf_clear(&j->output);
	strbuf_clear(&j->error);
	free(j);
	return NULL;
}

const struct launch_spec *launch_get(const struct launch *j)
{
	return &j->job;
}
