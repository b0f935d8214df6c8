/* SPDX-License-Identifier: MIT */

/*
 * Calls one function of an engine's and prints what it gives, as JSON, for functional tests:
 *
 *	enginedrv ENGINE probe|inventory|inside|deadline
 *	enginedrv ENGINE render|submit|when		the request on standard input, as JSON
 *	enginedrv ENGINE jobs PREFIX
 *	enginedrv ENGINE cancel|when-job ID...
 *
 * With ENGINE_GPUS jobs are asked for their GPUs, whatever it takes.
 *
 * {"r": what it returned, "error": its text, ..}. ENGINE_LIMIT_MS limits each command;
 * ENGINE_SETTINGS are a pool's, one in a line, for what has no request.
 */

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/textlist.h"
#include "engine/engine.h"

extern char **environ;

static json_t *result;

static json_t *text(const char *s)
{
	return s ? json_string(s) : json_null();
}

static void put(const char *key, json_t *value)
{
	(void)json_object_set_new(result, key, value);
}

static struct text_list list(const json_t *doc, const char *key)
{
	struct text_list l = { .n = 0 };
	json_t *item;
	size_t i;

	json_array_foreach(json_object_get(doc, key), i, item)
		text_list_add(&l, json_string_value(item));
	return l;
}

static unsigned int number(const json_t *doc, const char *key)
{
	return (unsigned int)json_integer_value(json_object_get(doc, key));
}

static void read_settings(struct text_list *ret)
{
	const char *said = getenv("ENGINE_SETTINGS");
	cleanup_free char *all = xstrdup(said ? said : "");
	char *save = NULL;

	for (char *line = strtok_r(all, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		text_list_add(ret, line);
}

struct request {
	json_t *doc;
	struct text_list agent, options, drop, exclude, settings;
	struct engine_request req;
};

static int read_request(struct request *q)
{
	json_error_t error;
	json_t *doc = json_loadf(stdin, 0, &error);

	if (!doc) {
		(void)fprintf(stderr, "the request: %s\n", error.text);
		return -1;
	}
	q->doc = doc;
	q->agent = list(doc, "agent");
	text_list_take(&q->agent, NULL);
	q->options = list(doc, "options");
	q->drop = list(doc, "drop");
	q->exclude = list(doc, "exclude");
	q->settings = list(doc, "settings");
	q->req = (struct engine_request){
		.name = json_string_value(json_object_get(doc, "name")),
		.title = json_string_value(json_object_get(doc, "title")),
		.token = json_string_value(json_object_get(doc, "token")),
		.gpus = number(doc, "gpus"),
		.cpus = number(doc, "cpus"),
		.mem_mib = number(doc, "mem_mib"),
		.minutes = number(doc, "minutes"),
		.warn_s = number(doc, "warn_s"),
		.type = json_string_value(json_object_get(doc, "type")),
		.dir = json_string_value(json_object_get(doc, "dir")),
		.output = json_string_value(json_object_get(doc, "output")),
		.agent = (const char *const *)q->agent.texts,
		.options = &q->options,
		.drop = &q->drop,
		.exclude = &q->exclude,
		.template_text = json_string_value(json_object_get(doc, "template")),
		.settings = &q->settings,
	};
	return 0;
}

/* render, submit, when */
static int with_request(const struct engine *eng, struct engine_env *env, const char *verb,
			struct err *e)
{
	struct request q = { .doc = NULL };
	cleanup_strbuf struct strbuf script = STRBUF_INIT, words = STRBUF_INIT;
	char *id = NULL;
	uint64_t ns = 0;
	int r;

	if (read_request(&q) < 0)
		exit(2);
	env->settings = &q.settings;
	r = eng->render(&q.req, &script, e);
	put("script", text(strbuf_str(&script)));
	if (r == 0 && strcmp(verb, "submit") == 0) {
		r = eng->submit(env, &q.req, strbuf_str(&script), &id, e);
		put("id", text(id));
	}
	if (r == 0 && strcmp(verb, "when") == 0) {
		r = eng->when(env, &q.req, NULL, &ns, &words, e);
		put("ns", json_integer((json_int_t)ns));
		put("words", text(strbuf_str(&words)));
	}
	free(id);
	text_list_clear(&q.agent);
	text_list_clear(&q.options);
	text_list_clear(&q.drop);
	text_list_clear(&q.exclude);
	text_list_clear(&q.settings);
	json_decref(q.doc);
	return r;
}

static int tell_jobs(const struct engine *eng, const struct engine_env *env, const char *prefix,
		     struct err *e)
{
	struct engine_jobs jobs = { .n = 0 };
	json_t *all = json_array();
	int r = eng->jobs(env, prefix, &jobs, e);

	for (size_t i = 0; i < jobs.n; i++) {
		const struct engine_job *j = &jobs.all[i];

		(void)json_array_append_new(
			all,
			json_pack("{s:s, s:s, s:o, s:o, s:s, s:I, s:I, s:o}", "id", j->id, "name",
				  j->name, "node", text(j->node), "reason", text(j->reason),
				  "state", engine_job_state_name(j->state), "start_ns",
				  (json_int_t)j->start_ns, "end_ns", (json_int_t)j->end_ns, "gpus",
				  j->gpus_known ? json_integer(j->gpus) : json_null()));
	}
	put("jobs", all);
	engine_jobs_clear(&jobs);
	return r;
}

static int tell_nodes(const struct engine *eng, const struct engine_env *env, struct err *e)
{
	struct engine_nodes nodes = { .n = 0 };
	json_t *all = json_array();
	int r = eng->inventory(env, &nodes, e);

	for (size_t i = 0; i < nodes.n; i++) {
		const struct engine_node *n = &nodes.all[i];

		(void)json_array_append_new(
			all, json_pack("{s:s, s:o, s:o, s:i, s:i, s:i, s:i, s:b}", "name", n->name,
				       "type", text(n->type), "why", text(n->why), "total",
				       n->total, "used", n->used, "free", n->free, "blocked",
				       n->blocked, "usable", n->usable));
	}
	put("nodes", all);
	engine_nodes_clear(&nodes);
	return r;
}

/* inside, deadline */
static int tell_here(const struct engine *eng, const struct engine_env *env, const char *verb,
		     struct err *e)
{
	struct engine_here here = { .engine = NULL };
	uint64_t ns = 0;
	int r = eng->inside(env->environ, &here, e);

	if (r == 0) {
		put("engine", text(here.engine));
		put("id", text(here.id));
		put("key", text(here.key));
		put("node", text(here.node));
		put("gpus", text(here.gpus));
		put("n_gpus", json_integer(here.n_gpus));
		put("restarts", json_integer(here.restarts));
		put("end_ns", json_integer((json_int_t)here.end_ns));
	}
	if (r == 0 && strcmp(verb, "deadline") == 0) {
		r = eng->deadline(env, &here, &ns, e);
		put("ns", json_integer((json_int_t)ns));
	}
	engine_here_clear(&here);
	return r;
}

static int call(const struct engine *eng, struct engine_env *env, int argc, char **argv,
		struct err *e)
{
	const char *verb = argv[0];
	struct text_list ids = { .n = (size_t)argc - 1, .texts = argv + 1 };
	cleanup_strbuf struct strbuf words = STRBUF_INIT;
	uint64_t ns = 0;
	int r;

	if (strcmp(verb, "probe") == 0)
		return eng->probe(env, e);
	if (strcmp(verb, "inventory") == 0)
		return tell_nodes(eng, env, e);
	if (strcmp(verb, "inside") == 0 || strcmp(verb, "deadline") == 0)
		return tell_here(eng, env, verb, e);
	if (strcmp(verb, "jobs") == 0)
		return tell_jobs(eng, env, argc > 1 ? argv[1] : "", e);
	if (strcmp(verb, "cancel") == 0)
		return eng->cancel(env, &ids, e);
	if (strcmp(verb, "when-job") != 0 || argc < 2)
		return with_request(eng, env, verb, e);
	r = eng->when(env, NULL, argv[1], &ns, &words, e);
	put("ns", json_integer((json_int_t)ns));
	put("words", text(strbuf_str(&words)));
	return r;
}

int main(int argc, char **argv)
{
	const struct engine *eng = argc > 2 ? engine_find(argv[1]) : NULL;
	const char *limit = getenv("ENGINE_LIMIT_MS");
	struct engine_env env = { .environ = (const char *const *)environ,
				  .gpus = getenv("ENGINE_GPUS"),
				  .limit_ms = limit ? strtoull(limit, NULL, 10) : 0 };
	struct text_list settings = { .n = 0 };
	struct err e = ERR_INIT;

	if (!eng) {
		(void)fprintf(stderr, "usage: enginedrv ENGINE VERB [ARG...]\n");
		return 2;
	}
	result = json_object();
	read_settings(&settings);
	env.settings = &settings;

	int r = call(eng, &env, argc - 2, argv + 2, &e);

	put("r", json_integer(r));
	put("error", r ? text(e.text) : json_null());
	(void)json_dumpf(result, stdout, 0);
	(void)putchar('\n');
	json_decref(result);
	text_list_clear(&settings);
	return 0;
}
