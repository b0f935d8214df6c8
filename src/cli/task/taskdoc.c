/* SPDX-License-Identifier: MIT */
#include "cli/task/taskdoc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/ask_agent.h"
#include "cli/task/taskrun.h"
#include "cli/task/view.h"
#include "cli/task/watch.h"
#include "spool/elements.h"
#include "spool/instance.h"

#define STATUS_MS 1000
#define VALUE_MAX 4096

struct doc {
	const struct cmd_ctx *ctx;
	const struct spool *sp;
	const struct task_place *place;
	struct task_file file;
	struct taskrun run;
	json_t *o;
};

static void set(json_t *o, const char *key, json_t *value)
{
	(void)json_object_set_new(o, key, value);
}

static json_t *time_json(uint64_t wall_ns)
{
	char when[CLOCK_TEXT_MAX];

	return json_string(clock_format_iso(wall_ns, when));
}

json_t *taskdoc_tasks(const struct cmd_ctx *ctx)
{
	json_t *doc = NULL, *found = json_object(), *t;
	size_t i;

	if (ask_agent(ctx, CTL_STATUS, STATUS_MS, &doc, NULL, NULL) != CMD_OK)
		return found;
	json_array_foreach(json_object_get(json_object_get(doc, "queue"), "tasks"), i, t)
	{
		char id[SELECT_ID_MAX];
		uint64_t element = (uint64_t)json_integer_value(json_object_get(t, "element"));

		(void)select_format_id((uint64_t)json_integer_value(json_object_get(t, "id")),
				       element, id);
		(void)json_object_set(found, id, t);
	}
	json_decref(doc);
	return found;
}

/* ---- the parts ---- */

static void add_state(const struct doc *d)
{
	const struct task_name *n = &d->place->name;

	set(d->o, "id", json_integer((json_int_t)n->id));
	if (d->place->element)
		set(d->o, "element", json_integer((json_int_t)d->place->element));
	set(d->o, "state", json_string(taskview_state(n, d->place->dir)));
	set(d->o, "file", json_string(d->place->path));
	set(d->o, "priority", json_integer((json_int_t)n->priority));
	if (d->place->element || !n->count)
		set(d->o, "attempts",
		    json_integer(d->place->element ? d->run.attempt : d->file.history.attempts));
	set(d->o, "epoch", json_integer((json_int_t)d->run.name.epoch));
	if (n->begin_s)
		set(d->o, "not_before", time_json(n->begin_s * NS_PER_S));
	if (d->file.history.reason[0])
		set(d->o, "again_because", json_string(d->file.history.reason));
}

static void add_procs(const struct doc *d, const struct taskrun_look *look)
{
	json_t *list = json_array();

	for (size_t i = 0; i < look->procs.n; i++)
		if (look->procs.procs[i].state != 'Z')
			(void)json_array_append_new(
				list,
				json_pack("{s:i, s:s}", "pid", (int)look->procs.procs[i].id.pid,
					  "command", look->procs.procs[i].comm));
	set(d->o, "processes", list);
	if (look->command_ended)
		set(d->o, "command_exit", json_integer(look->exit));
}

void taskdoc_ask(const struct cmd_ctx *ctx, struct taskrun *run)
{
	char id[SELECT_ID_MAX];
	json_t *all = taskdoc_tasks(ctx);

	(void)select_format_id(run->name.id, run->name.element, id);
	taskrun_take_agents(run, json_object_get(all, id));
	json_decref(all);
}

static json_t *unfiled_json(const struct taskrun *run)
{
	return json_pack("{si ss}", "exit", (int)run->left_exit, "why", run->unfiled);
}

void taskdoc_add_left(const struct taskrun *run, json_t *o)
{
	if (run->left && run->unfiled[0])
		set(o, "unfiled", unfiled_json(run));
	else if (run->left)
		set(o, "left_exit", json_integer(run->left_exit));
}

/* What the agent here knows beyond the files. */
static void ask_about_run(struct doc *d)
{
	char id[SELECT_ID_MAX];
	json_t *all = taskdoc_tasks(d->ctx);
	json_t *own = json_object_get(all, select_format_id(d->run.name.id, d->place->element, id));
	json_t *gpus = json_object_get(own, "gpus");

	if (gpus)
		(void)json_object_set(d->o, "devices", gpus);
	taskrun_take_agents(&d->run, own);
	json_decref(all);
}

static void add_uuids(const struct doc *d)
{
	struct text_list uuids = { .n = 0 };
	json_t *list = json_array();

	taskrun_devices(d->sp, &d->run, &uuids);
	for (size_t i = 0; i < uuids.n; i++)
		(void)json_array_append_new(list, json_string(uuids.texts[i]));
	if (uuids.n)
		(void)json_object_set(d->o, "device_uuids", list);
	text_list_clear(&uuids);
	json_decref(list);
}

/* In place of one in the spool. */
static void add_log_away(const struct doc *d)
{
	struct log_away log;
	cleanup_free char *text = NULL;

	if (!d->run.attempt || taskrun_log_away(d->sp, d->place, d->run.attempt, &log, NULL) != 1)
		return;
	text = taskrun_format_away(d->sp, &log);
	if (log.file[0])
		set(d->o, "log", json_string(log.file));
	set(d->o, "log_error", json_string(text));
}

/* What runs it, or has run it last. */
static void add_run(struct doc *d)
{
	const struct taskrun *run = &d->run;
	struct taskrun_look look;
	uint64_t started_ns = run->started_ns, until_ns;

	if (run->who.agent[0])
		set(d->o, "agent", json_string(run->who.agent));
	if (run->running || d->place->dir == SPOOL_RUNNING)
		ask_about_run(d);
	until_ns = run->ended	  ? run->end.ended_ns
		   : run->left	  ? run->left_ns
		   : run->running ? clock_wall_ns()
				  : run->again_ns;
	if (run->running || run->ended)
		add_uuids(d);
	if (taskrun_look(d->sp, run, &look)) {
		started_ns = look.started_ns;
		add_procs(d, &look);
		taskrun_look_clear(&look);
	}
	if (started_ns)
		set(d->o, "started", time_json(started_ns));
	if (started_ns && until_ns >= started_ns)
		set(d->o, "ran_s", json_real((double)((until_ns - started_ns) / NS_PER_MS) / 1e3));
	if (run->log[0]) {
		cleanup_free char *path = xasprintf("%s/%s", spool_path_of(d->sp), run->log);

		set(d->o, "log", json_string(path));
	}
	add_log_away(d);
	if (run->ended)
		set(d->o, "end", record_end(&run->end));
	taskdoc_add_left(run, d->o);
	if (run->unstarted)
		set(d->o, "unstarted", json_true());
}

/* ---- of a batch, and of one of its elements ---- */

static json_t *failed_json(const struct doc *d, const struct element_end *f)
{
	return json_pack("{s:I, s:I, s:i, s:s, s:s}", "id", (json_int_t)d->place->name.id,
			 "element", (json_int_t)f->element, "exit", (int)f->end.exit, "agent",
			 f->agent, "reason", f->end.reason);
}

static int add_failed(const struct doc *d, struct err *e)
{
	struct element_ends failed;
	int r = taskview_failed(d->sp, &d->place->name, &failed, e);
	json_t *list = json_array();

	for (size_t i = 0; r == 0 && i < failed.n; i++)
		(void)json_array_append_new(list, failed_json(d, &failed.ends[i]));
	if (json_array_size(list))
		(void)json_object_set(d->o, "failed", list);
	json_decref(list);
	free(failed.ends);
	return r;
}

static int add_batch(const struct doc *d, struct err *e)
{
	struct task_set active = { .n = 0 };
	struct batch_counts n;
	int r = select_all(d->sp, &active, e);

	if (r == 0)
		r = taskview_counts(d->sp, &d->place->name, &active, &n, e);
	if (r == 0)
		set(d->o, "elements", taskview_counts_json(&n));
	free(active.tasks);
	return r == 0 && n.failed && !d->place->element ? add_failed(d, e) : r;
}

static int add_element_state(const struct doc *d, struct err *e)
{
	const char *state = NULL;
	int r = taskwatch_state_of(d->sp, d->place, &state, e);

	if (r == 0)
		set(d->o, "state", json_string(state));
	return r;
}

/* What makes it another one than the rest of its batch. */
static void add_own(const struct doc *d)
{
	const struct spool_spec *spec = d->file.spec;
	uint64_t element = d->place->element;
	cleanup_free char *value = xmalloc(VALUE_MAX);
	char name[SPEC_NAME_MAX + 1];
	json_t *own = json_object();

	for (size_t i = 0; element_parameter(&spec->sweep, element, i, name, value, VALUE_MAX); i++)
		set(own, name, json_string(value));
	if (json_object_size(own))
		(void)json_object_set(d->o, "parameters", own);
	json_decref(own);
	if (spec->array.set)
		set(d->o, "index", json_integer((json_int_t)element_index(&spec->array, element)));
	if (element <= spec->commands.n)
		set(d->o, "command", json_string(spec->commands.texts[element - 1]));
}

static int fill(struct doc *d, struct err *e)
{
	int r = 0;

	add_state(d);
	if (d->place->element)
		r = add_element_state(d, e);
	if (d->place->element && r == 0)
		add_own(d);
	add_run(d);
	if (r == 0 && d->place->name.count)
		r = add_batch(d, e);
	set(d->o, "task", spec_json(d->file.spec));
	return r;
}

int taskdoc_make(const struct cmd_ctx *ctx, const struct spool *sp, const struct task_place *place,
		 json_t **ret, struct err *e)
{
	struct doc d = { .ctx = ctx, .sp = sp, .place = place };
	int r = task_file_read(sp, place->path, &d.file, e);

	if (r < 0)
		return r;
	d.o = json_object();
	taskrun_read(sp, place, &d.file.history, &d.run);
	r = fill(&d, e);
	task_file_clear(&d.file);
	if (r == 0)
		*ret = d.o;
	else
		json_decref(d.o);
	return r;
}
