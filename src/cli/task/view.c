/* SPDX-License-Identifier: MIT */
#include "cli/task/view.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"
#include "cli/agent_client.h"
#include "cli/task/watch.h"
#include "spool/elements.h"
#include "spool/instance.h"
#include "spool/lane.h"
#include "spool/learned.h"
#include "spool/on_end.h"
#include "spool/task_text.h"

#define STATUS_MS 1000
#define VALUE_MAX 4096

/* ---- what is known ---- */

json_t *taskview_agents(const struct cmd_ctx *ctx)
{
	json_t *doc = agent_status(ctx, STATUS_MS, NULL), *found = json_object(), *t;
	size_t i;

	json_array_foreach(agent_tasks(doc), i, t)
	{
		struct agent_task task = agent_task_of(t);
		char id[SELECT_ID_MAX];

		(void)json_object_set(found, select_format_id(task.id, task.element, id), t);
	}
	json_decref(doc);
	return found;
}

static const json_t *agents_word(const json_t *agents, uint64_t id, uint64_t element)
{
	char text[SELECT_ID_MAX];

	return json_object_get(agents, select_format_id(id, element, text));
}

const json_t *taskview_word(const json_t *agents, const struct task_name *n)
{
	return agents_word(agents, n->id, n->element);
}

void taskview_read_run(const struct cmd_ctx *ctx, const struct spool *sp, const struct task_name *n,
		       const char *called, struct taskrun *ret)
{
	json_t *agents = taskview_agents(ctx);

	taskrun_read_claim(sp, n, called, ret);
	taskrun_look_at_gangs(sp, ret);
	taskrun_take_agents(ret, agents_word(agents, n->id, n->element));
	json_decref(agents);
}

static void take_agents(struct task_view *v, const json_t *word)
{
	v->gpus = json_incref(json_object_get(word, "gpus"));
	v->scaling = json_incref(json_object_get(word, "scaling"));
	taskrun_take_agents(&v->run, word);
}

void taskview_load_claim(struct task_view *v, const json_t *agents)
{
	taskrun_read_claim(v->sp, &v->name, v->name.name, &v->run);
	if (v->name.element && v->run.started_ns) { /* its batch may have been edited since */
		taskrun_devices(v->sp, &v->run, &v->uuids);
		v->name.gpus = v->uuids.n;
	}
	if (!v->name.agent[0])
		(void)str_copy(v->name.agent, sizeof(v->name.agent), v->run.who.agent);
	take_agents(v, agents_word(agents, v->name.id, v->name.element));
}

static int load_batch(struct task_view *v, struct err *e)
{
	struct task_set active = { .n = 0 };
	int r = select_all(v->sp, &active, e);

	if (r == 0)
		r = taskstate_counts(v->sp, &v->name, &active, &v->counts, e);
	v->counted = r == 0;
	if (v->counted && !v->place.element && v->place.dir == SPOOL_PENDING)
		taskstate_take_counts(&v->state, &v->counts);
	free(active.tasks);
	return r == 0 && v->counts.failed && !v->place.element
		       ? taskstate_failed(v->sp, &v->name, &v->failed, e)
		       : r;
}

/* What runs it, or has run it last. */
static void load_run(const struct cmd_ctx *ctx, struct task_view *v)
{
	struct taskrun *run = &v->run;

	taskrun_read(v->sp, &v->place, &v->file.history, run);
	if (run->running || v->place.dir == SPOOL_RUNNING) {
		json_t *agents = taskview_agents(ctx);

		take_agents(v, agents_word(agents, run->name.id, v->place.element));
		json_decref(agents);
	}
	if (run->running || run->ended)
		taskrun_devices(v->sp, run, &v->uuids);
	v->looked = taskrun_look(v->sp, run, &v->look);
	v->log_is_away = run->attempt &&
			 taskrun_log_away(v->sp, &v->place, run->attempt, &v->away, NULL) == 1;
}

static void look_at_gang(struct task_view *v)
{
	struct gangs_read gangs;

	if (gang_read_all(v->sp, &gangs, NULL) < 0)
		return;
	taskstate_of_gang(v->name.id, &gangs, &v->state);
	gang_clear(&gangs);
}

int taskview_load(const struct cmd_ctx *ctx, const struct spool *sp, const struct task_place *place,
		  struct task_view *ret, struct err *e)
{
	int r;

	*ret = (struct task_view){ .sp = sp,
				   .place = *place,
				   .name = place->name,
				   .state = taskstate_of(&place->name, place->dir) };
	r = task_file_read(sp, place->path, &ret->file, e);
	if (r == 0 && place->element)
		r = taskwatch_state_of(sp, place, &ret->state, e);
	else if (r == 0 && spec_is_gang(ret->file.spec))
		look_at_gang(ret);
	if (r < 0)
		return r;
	ret->lane_paused = place->dir == SPOOL_PENDING && place->name.lane[0] &&
			   lane_is_paused(sp, place->name.lane);
	load_run(ctx, ret);
	return place->name.count ? load_batch(ret, e) : 0;
}

void taskview_clear(struct task_view *v)
{
	task_file_clear(&v->file);
	json_decref(v->gpus);
	json_decref(v->scaling);
	text_list_clear(&v->uuids);
	if (v->looked)
		taskrun_look_clear(&v->look);
	free(v->failed.ends);
}

/* ---- its members ---- */

static json_t *number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *moment(uint64_t wall_ns)
{
	char when[CLOCK_TEXT_MAX];

	return wall_ns ? json_string(clock_format_iso(wall_ns, when)) : NULL;
}

/* NULL: it is empty, and there is no such member. */
static json_t *text(const char *s)
{
	return s[0] ? json_string(s) : NULL;
}

static json_t *element_json(const struct task_view *v)
{
	uint64_t element = v->place.element ? v->place.element : v->name.element;

	return element ? number(element) : NULL;
}

static json_t *state_json(const struct task_view *v)
{
	return json_string(taskstate_name(v->state));
}

static json_t *lane_json(const struct task_view *v)
{
	return v->name.lane[0] ? json_string(v->name.lane) : json_null();
}

static json_t *gpus_json(const struct task_view *v)
{
	return v->name.gpus == SPEC_ALL ? json_string("all") : number(v->name.gpus);
}

static json_t *attempts_json(const struct task_view *v)
{
	if (v->place.element)
		return number(v->run.attempt);
	return v->name.count ? NULL : number(v->file.history.attempts);
}

/* What makes an element another one than the rest of its batch. */
static json_t *parameters_json(const struct task_view *v)
{
	cleanup_free char *value = xmalloc(VALUE_MAX);
	char name[SPEC_NAME_MAX + 1];
	json_t *own = v->place.element ? json_object() : NULL;

	for (size_t i = 0; own && element_parameter(&v->file.spec->sweep, v->place.element, i, name,
						    value, VALUE_MAX);
	     i++)
		(void)json_object_set_new(own, name, json_string(value));
	if (json_object_size(own))
		return own;
	json_decref(own);
	return NULL;
}

static json_t *index_json(const struct task_view *v)
{
	bool has = v->place.element && v->file.spec->array.set;

	return has ? number(element_index(&v->file.spec->array, v->place.element)) : NULL;
}

static json_t *command_json(const struct task_view *v)
{
	uint64_t element = v->place.element;

	return element && element <= v->file.spec->commands.n
		       ? json_string(v->file.spec->commands.texts[element - 1])
		       : NULL;
}

static json_t *agent_json(const struct task_view *v)
{
	return text(v->run.who.agent[0] ? v->run.who.agent : v->name.agent);
}

static json_t *devices_json(const struct task_view *v)
{
	return json_incref(v->gpus);
}

static json_t *uuids_json(const struct task_view *v)
{
	json_t *list = v->uuids.n ? json_array() : NULL;

	for (size_t i = 0; i < v->uuids.n; i++)
		(void)json_array_append_new(list, json_string(v->uuids.texts[i]));
	return list;
}

static json_t *scaling_json(const struct task_view *v)
{
	return json_incref(v->scaling);
}

static json_t *processes_json(const struct task_view *v)
{
	const struct tree *procs = &v->look.procs;
	json_t *list = v->looked ? json_array() : NULL;

	for (size_t i = 0; list && i < procs->n; i++)
		if (procs->procs[i].state != 'Z')
			(void)json_array_append_new(
				list, json_pack("{s:i, s:s}", "pid", (int)procs->procs[i].id.pid,
						"command", procs->procs[i].comm));
	return list;
}

static json_t *command_exit_json(const struct task_view *v)
{
	return v->looked && v->look.command_ended ? number(v->look.exit) : NULL;
}

static uint64_t started_ns(const struct task_view *v)
{
	return v->looked ? v->look.started_ns : v->run.started_ns;
}

static json_t *started_json(const struct task_view *v)
{
	return moment(started_ns(v));
}

/* What has ended meanwhile waits for nothing but its record. */
static json_t *ending_since_json(const struct task_view *v)
{
	return v->run.running && !v->run.left ? moment(v->run.ending_ns) : NULL;
}

static json_t *ran_json(const struct task_view *v)
{
	uint64_t from_ns = v->run.stepped_ns ? v->run.stepped_ns : started_ns(v),
		 until_ns = v->run.ended     ? v->run.end.ended_ns
			    : v->run.left    ? v->run.left_ns
			    : v->run.running ? clock_wall_ns()
					     : v->run.again_ns;

	return from_ns && until_ns >= from_ns
		       ? json_real((double)((until_ns - from_ns) / NS_PER_MS) / 1e3)
		       : NULL;
}

static json_t *timeout_json(const struct task_view *v)
{
	return v->run.timeout_ms ? json_real((double)v->run.timeout_ms / MS_PER_S) : NULL;
}

static json_t *unfiled_json(const struct task_view *v)
{
	if (!v->run.left || !v->run.unfiled[0])
		return NULL;
	return json_pack("{si ss}", "exit", (int)v->run.left_exit, "why", v->run.unfiled);
}

static json_t *left_exit_json(const struct task_view *v)
{
	return v->run.left && !v->run.unfiled[0] ? number(v->run.left_exit) : NULL;
}

static json_t *log_json(const struct task_view *v)
{
	cleanup_free char *path = NULL;

	if (v->log_is_away && v->away.file[0])
		return json_string(v->away.file);
	if (!v->run.log[0])
		return NULL;
	path = xasprintf("%s/%s", spool_path_of(v->sp), v->run.log);
	return json_string(path);
}

static json_t *log_error_json(const struct task_view *v)
{
	cleanup_free char *why = v->log_is_away ? taskrun_format_away(v->sp, &v->away) : NULL;

	return why ? json_string(why) : NULL;
}

static json_t *outputs_json(const struct task_view *v, bool error)
{
	char *output = NULL, *errors = NULL;
	json_t *found = NULL;

	if (v->name.count && !v->place.element)
		return NULL;
	taskrun_outputs(v->sp, v->file.spec, &v->place, &v->run, &output, &errors);
	if (error ? errors : output)
		found = json_string(utf8_clean(error ? errors : output));
	free(output);
	free(errors);
	return found;
}

static json_t *output_json(const struct task_view *v)
{
	return outputs_json(v, false);
}

static json_t *error_json(const struct task_view *v)
{
	return outputs_json(v, true);
}

/* What the commands that followed its end have printed, or print. */
static json_t *on_end_log_json(const struct task_view *v)
{
	cleanup_free char *log = NULL, *path = NULL;

	if (!v->run.ended && !v->name.ended_s)
		return NULL;
	log = on_end_log(v->name.id, v->file.spec->name, v->run.log);
	if (!spool_exists(v->sp, log))
		return NULL;
	path = xasprintf("%s/%s", spool_path_of(v->sp), log);
	return json_string(path);
}

static json_t *end_json(const struct task_view *v)
{
	return v->run.ended ? record_end(&v->run.end) : NULL;
}

/* What was stopped before it started has none. */
static json_t *exit_json(const struct task_view *v)
{
	if (!v->name.ended_s)
		return NULL;
	return v->name.exit || v->state != TASKSTATE_CANCELLED ? number(v->name.exit) : json_null();
}

static json_t *counts_json(const struct task_view *v)
{
	return v->counted ? taskstate_counts_json(&v->counts) : NULL;
}

static json_t *failed_json(const struct task_view *v)
{
	json_t *list = v->failed.n ? json_array() : NULL;

	for (size_t i = 0; i < v->failed.n; i++) {
		const struct element_end *f = &v->failed.ends[i];

		(void)json_array_append_new(
			list, json_pack("{s:I, s:I, s:i, s:s, s:s}", "id", (json_int_t)v->name.id,
					"element", (json_int_t)f->element, "exit", (int)f->end.exit,
					"agent", f->agent, "reason", f->end.reason));
	}
	return list;
}

json_t *taskview_auto_memory(const struct spool *sp, const struct task_spec *spec)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT;
	struct learned_memory m;
	struct learned *l;
	json_t *o;

	if (spec->memory != SPEC_AUTO)
		return NULL;
	l = learned_new();
	(void)learned_load(l, sp, NULL); /* what cannot be read says nothing */
	m = learned_memory(l, spec->name, spec->gpus);
	learned_memory_text(&m, spec->name, spec->gpus, &text);
	o = json_pack("{s:o, s:I, s:s}", "bytes",
		      m.bytes ? json_integer((json_int_t)m.bytes) : json_null(), "runs",
		      (json_int_t)m.runs, "text", strbuf_str(&text));
	if (m.peak_bytes)
		(void)json_object_set_new(o, "peak_bytes", json_integer((json_int_t)m.peak_bytes));
	if (m.oom_bytes)
		(void)json_object_set_new(o, "oom_bytes", json_integer((json_int_t)m.oom_bytes));
	l = learned_free(l);
	return o;
}

static json_t *auto_memory_json(const struct task_view *v)
{
	bool ended = v->place.dir != SPOOL_PENDING && v->place.dir != SPOOL_RUNNING;

	return ended || !v->file.spec ? NULL : taskview_auto_memory(v->sp, v->file.spec);
}

static json_t *task_json(const struct task_view *v)
{
	return spec_json(v->file.spec);
}

#define AT(field) offsetof(struct task_view, field)

static const struct {
	const char *key;
	json_t *(*json)(const struct task_view *v); /* NULL: it is what lies at */
	enum {
		NUMBER /* uint64_t */,
		TEXT /* "": there is none */,
		FLAG,
		SECONDS /* wall; 0: none */
	} kind;
	size_t offset;
} members[] = {
	[VIEW_ID] = { "id", NULL, NUMBER, AT(name.id) },
	[VIEW_ELEMENT] = { "element", element_json },
	[VIEW_STATE] = { "state", state_json },
	[VIEW_NAME] = { "name", NULL, TEXT, AT(name.name) },
	[VIEW_LANE] = { "lane", lane_json },
	[VIEW_FILE] = { "file", NULL, TEXT, AT(place.path) },
	[VIEW_PRIORITY] = { "priority", NULL, NUMBER, AT(name.priority) },
	[VIEW_GPUS] = { "gpus", gpus_json },
	[VIEW_N_ELEMENTS] = { "elements", NULL, NUMBER, AT(name.count) },
	[VIEW_ATTEMPTS] = { "attempts", attempts_json },
	[VIEW_EPOCH] = { "epoch", NULL, NUMBER, AT(run.name.epoch) },
	[VIEW_NOT_BEFORE] = { "not_before", NULL, SECONDS, AT(name.begin_s) },
	[VIEW_AGAIN_BECAUSE] = { "again_because", NULL, TEXT, AT(file.history.reason) },
	[VIEW_PARAMETERS] = { "parameters", parameters_json },
	[VIEW_INDEX] = { "index", index_json },
	[VIEW_COMMAND] = { "command", command_json },
	[VIEW_LANE_PAUSED] = { "lane_paused", NULL, FLAG, AT(lane_paused) },
	[VIEW_AGENT] = { "agent", agent_json },
	[VIEW_DEVICES] = { "devices", devices_json },
	[VIEW_UUIDS] = { "device_uuids", uuids_json },
	[VIEW_SCALING] = { "scaling", scaling_json },
	[VIEW_PROCESSES] = { "processes", processes_json },
	[VIEW_COMMAND_EXIT] = { "command_exit", command_exit_json },
	[VIEW_STARTED] = { "started", started_json },
	[VIEW_ENDING_SINCE] = { "ending_since", ending_since_json },
	[VIEW_RAN] = { "ran_s", ran_json },
	[VIEW_TIMEOUT] = { "timeout_s", timeout_json },
	[VIEW_UNFILED] = { "unfiled", unfiled_json },
	[VIEW_LEFT_EXIT] = { "left_exit", left_exit_json },
	[VIEW_LOG] = { "log", log_json },
	[VIEW_LOG_ERROR] = { "log_error", log_error_json },
	[VIEW_OUTPUT] = { "output", output_json },
	[VIEW_ERROR] = { "error", error_json },
	[VIEW_ON_END_LOG] = { "on_end_log", on_end_log_json },
	[VIEW_END] = { "end", end_json },
	[VIEW_MUSTERED] = { "waits_for_ranks", NULL, FLAG, AT(run.mustered) },
	[VIEW_UNSTARTED] = { "unstarted", NULL, FLAG, AT(run.unstarted) },
	[VIEW_ENDED] = { "ended", NULL, SECONDS, AT(name.ended_s) },
	[VIEW_EXIT] = { "exit", exit_json },
	[VIEW_ENDED_BECAUSE] = { "ended_because", NULL, TEXT, AT(because) },
	[VIEW_ELEMENTS] = { "elements", counts_json },
	[VIEW_COUNTS] = { "counts", counts_json },
	[VIEW_FAILED] = { "failed", failed_json },
	[VIEW_AUTO_MEMORY] = { "auto_memory", auto_memory_json },
	[VIEW_TASK] = { "task", task_json },
};
_Static_assert(ARRAY_LEN(members) == VIEW_MEMBER_MAX, "every member has a row");

const char *taskview_key(enum taskview_member m)
{
	return members[m].key;
}

json_t *taskview_member(const struct task_view *v, enum taskview_member m)
{
	const void *field = (const char *)v + members[m].offset;

	if (members[m].json)
		return members[m].json(v);
	switch (members[m].kind) {
	case TEXT:
		return text(field);
	case FLAG:
		return *(const bool *)field ? json_true() : NULL;
	case SECONDS:
		return moment(*(const uint64_t *)field * NS_PER_S);
	default:
		return number(*(const uint64_t *)field);
	}
}

json_t *taskview_json(const struct task_view *v, const enum taskview_member *order, size_t n)
{
	json_t *doc = json_object();

	for (size_t i = 0; i < n; i++) {
		json_t *value = taskview_member(v, order[i]);

		if (value)
			(void)json_object_set_new(doc, members[order[i]].key, value);
	}
	return doc;
}

json_t *taskview_list_json(const struct task_view *v)
{
	static const enum taskview_member order[] = {
		VIEW_ID,	   VIEW_STATE,	     VIEW_NAME,	      VIEW_LANE,
		VIEW_PRIORITY,	   VIEW_GPUS,	     VIEW_N_ELEMENTS, VIEW_ELEMENT,
		VIEW_COUNTS,	   VIEW_LANE_PAUSED, VIEW_AGENT,      VIEW_STARTED,
		VIEW_RAN,	   VIEW_TIMEOUT,     VIEW_UNFILED,    VIEW_LEFT_EXIT,
		VIEW_DEVICES,	   VIEW_SCALING,     VIEW_MUSTERED,   VIEW_LOG,
		VIEW_NOT_BEFORE,   VIEW_ENDED,	     VIEW_EXIT,	      VIEW_ENDED_BECAUSE,
		VIEW_ENDING_SINCE,
	};

	return taskview_json(v, order, ARRAY_LEN(order));
}
