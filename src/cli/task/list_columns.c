/* SPDX-License-Identifier: MIT */
#include "cli/task/list_columns.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/task/taskrun.h"
#include "cli/task/taskstate.h"
#include "spool/record.h"

/* -------- words for what is known of a task -------- */

static void add_counts(const struct task_view *r, struct strbuf *b)
{
	const struct {
		uint64_t n;
		const char *word;
	} parts[] = {
		{ r->counts.done, "done" },	      { r->counts.failed, "failed" },
		{ r->counts.cancelled, "cancelled" }, { r->counts.running, "running" },
		{ r->counts.waiting, "left" },
	};
	const char *between = ": ";

	strbuf_addf(b, "%" PRIu64 " element%s", r->name.count, r->name.count == 1 ? "" : "s");
	for (size_t i = 0; r->counted && i < ARRAY_LEN(parts); i++) {
		if (!parts[i].n)
			continue;
		strbuf_addf(b, "%s%" PRIu64 " %s", between, parts[i].n, parts[i].word);
		between = ", ";
	}
}

/* " (1 to 3; the last change: busy)" */
static void add_scaling(const json_t *scaling, struct strbuf *b)
{
	const char *reason = json_get_str(json_object_get(scaling, "last"), "reason");

	if (!scaling)
		return;
	strbuf_addf(b, " (%lld to %lld%s%s)",
		    (long long)json_integer_value(json_object_get(scaling, "min")),
		    (long long)json_integer_value(json_object_get(scaling, "max")),
		    reason ? "; the last change: " : "", reason ? reason : "");
}

static void add_devices(const struct task_view *r, struct strbuf *b)
{
	json_add_list(r->gpus, ",", b);
	for (size_t i = 0; !r->gpus && r->run.ended && i < r->uuids.n; i++)
		strbuf_addf(b, "%s%s", i ? "," : "", r->uuids.texts[i]);
}

/* "on node7, GPU 0,3" */
static void add_run(const struct queue_facts *facts, const struct task_view *r, struct strbuf *b)
{
	cleanup_free char *left = NULL;

	if (json_array_size(r->gpus)) {
		strbuf_adds(b, b->len ? ", GPU " : "GPU ");
		add_devices(r, b);
	}
	add_scaling(r->scaling, b);
	if (r->run.left)
		left = taskrun_format_left(r->sp, facts->options, &r->run);
	if (left || r->run.mustered)
		strbuf_addf(b, "%s%s", b->len ? ", " : "",
			    left ? left : "waits for the other ranks");
}

/* How long it has run, or ran where its end is not filed yet; false: it does not, or that is not
 * known. */
static bool find_elapsed(const struct task_view *r, uint64_t *ret_ms)
{
	uint64_t now_ns = 0, since_ns;

	since_ns = taskrun_since_ns(&r->run);
	if (!since_ns)
		return false;
	if (r->run.ended)
		now_ns = r->run.end.ended_ns;
	else if (r->state == TASKSTATE_RUNNING)
		now_ns = r->run.left && r->run.left_ns ? r->run.left_ns : clock_wall_ns();
	if (since_ns > now_ns)
		return false;
	*ret_ms = (now_ns - since_ns) / NS_PER_S * MS_PER_S;
	return true;
}

static void add_when(const struct queue_facts *facts, const struct task_view *r, struct strbuf *b)
{
	const char *text = json_get_str(queue_facts_forecast(facts, r), "text");

	if (text && text[0])
		strbuf_addf(b, "%s%s", b->len ? ", " : "", text);
}

/* What it waits for, in a few words, unless they are these. Nothing: it does not, or that is not
 * known. */
static void add_reason(const struct queue_facts *facts, const struct task_view *v, const char *but,
		       struct strbuf *b)
{
	json_t *reason = queue_facts_reason(facts, v);
	const char *text = json_get_str(reason, "text");

	if (text && strcmp(text, but) != 0) {
		strbuf_adds(b, b->len ? ", " : "");
		strbuf_adds(b, text);
	}
	json_decref(reason);
}

/* -------- cells and orders -------- */

static int compare_numbers(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

#define CELL(name_)                                                                                \
	static void name_(const struct queue_facts *facts, const struct task_view *v,              \
			  struct strbuf *b)
#define BY(name_, expr_)                                                                           \
	static int name_(const struct list_row *a, const struct list_row *b)                       \
	{                                                                                          \
		return expr_;                                                                      \
	}
#define BY_NUMBER(name_, field_) BY(name_, compare_numbers(a->field_, b->field_))

BY(by_id, a->t->name.id != b->t->name.id ? compare_numbers(a->t->name.id, b->t->name.id)
					 : compare_numbers(a->t->name.element, b->t->name.element))
BY_NUMBER(by_state, state)
BY_NUMBER(by_priority, t->name.priority)
BY_NUMBER(by_gpus, t->name.gpus)
BY(by_lane, strcmp(a->t->name.lane, b->t->name.lane))
BY(by_name, strcmp(a->t->name.name, b->t->name.name))
BY_NUMBER(by_begin, t->name.begin_s)
BY_NUMBER(by_ended, t->name.ended_s)
BY_NUMBER(by_exit, t->name.exit)
BY_NUMBER(by_elements, t->name.count)

/* What has run for the shortest time first, and before that what does not run. */
BY(by_elapsed, compare_numbers(b->started_ns ? b->started_ns : UINT64_MAX,
			       a->started_ns ? a->started_ns : UINT64_MAX))

CELL(id_cell)
{
	char id[SELECT_ID_MAX];

	if (v->name.element)
		strbuf_adds(b, select_format_id(v->name.id, v->name.element, id));
	else
		strbuf_add_u64(b, v->name.id);
}

CELL(state_cell)
{
	strbuf_adds(b, taskstate_name(v->state));
}

CELL(priority_cell)
{
	strbuf_add_u64(b, v->name.priority);
}

CELL(gpus_cell)
{
	if (v->name.gpus == SPEC_ALL)
		strbuf_adds(b, "all");
	else
		strbuf_add_u64(b, v->name.gpus);
}

CELL(lane_cell)
{
	strbuf_adds(b, v->name.lane);
}

CELL(name_cell)
{
	strbuf_adds(b, v->name.name);
}

CELL(elapsed_cell)
{
	char text[UNIT_TEXT_MAX];
	uint64_t ms;

	if (find_elapsed(v, &ms))
		strbuf_adds(b, unit_format_duration(ms, text));
}

static void add_limit(uint64_t ms, struct strbuf *b)
{
	char text[UNIT_TEXT_MAX];

	if (ms)
		strbuf_adds(b, unit_format_duration_exact(ms, text));
}

/* What waits has it in its file, which is read for nothing else. */
CELL(limit_cell)
{
	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	struct task_file t;

	add_limit(v->run.timeout_ms, b);
	if (v->place.dir != SPOOL_PENDING)
		return;
	(void)spool_path(SPOOL_PENDING, name_format(&v->name, file), path);
	if (task_file_read(v->sp, path, &t, NULL) < 0)
		return;
	add_limit(t.spec->timeout, b);
	task_file_clear(&t);
}

CELL(time_cell)
{
	elapsed_cell(facts, v, b);
	if (b->len && v->run.timeout_ms) {
		strbuf_adds(b, " of ");
		add_limit(v->run.timeout_ms, b);
	}
}

CELL(node_cell)
{
	strbuf_adds(b, v->name.agent);
}

CELL(devices_cell)
{
	add_devices(v, b);
}

CELL(reason_cell)
{
	add_reason(facts, v, "", b);
}

CELL(elements_cell)
{
	if (v->name.count)
		add_counts(v, b);
}

static void add_moment(uint64_t s, struct strbuf *b)
{
	char when[CLOCK_TEXT_MAX];

	if (s)
		strbuf_adds(b, clock_format_local(s * NS_PER_S, when));
}

CELL(begin_cell)
{
	add_moment(v->name.begin_s, b);
}

CELL(ended_cell)
{
	add_moment(v->name.ended_s, b);
}

/* A batch has none: its elements ended each in their own way. */
CELL(exit_cell)
{
	const struct task_name *n = &v->name;

	if (n->ended_s && !n->count && (n->exit || v->state != TASKSTATE_CANCELLED))
		strbuf_addf(b, "%s%u", n->exit >= NAME_SIGNALLED ? "signal " : "",
			    n->exit & (NAME_SIGNALLED - 1));
}

CELL(log_cell)
{
	json_t *log = taskview_member(v, VIEW_LOG);

	strbuf_adds(b, log ? json_string_value(log) : "");
	json_decref(log);
}

static void add_failure(const struct task_view *v, struct strbuf *b)
{
	const struct task_name *n = &v->name;
	char why[RECORD_REASON_MAX] = "";

	if (v->state == TASKSTATE_FAILED)
		(void)taskstate_why_failed(v->sp, n, why);
	if (why[0])
		strbuf_addf(b, ", %s", why);
	else
		strbuf_addf(b, ", %s %u", n->exit >= NAME_SIGNALLED ? "signal" : "exit",
			    n->exit & (NAME_SIGNALLED - 1));
}

/* "ending since 14:02:11": it was told to, and has its grace time. */
static void add_ending(const struct task_view *v, struct strbuf *b)
{
	json_t *since = taskview_member(v, VIEW_ENDING_SINCE);
	const char *text = json_string_value(since);

	if (text && strlen(text) > 19)
		strbuf_addf(b, "%sending since %.8s", b->len ? ", " : "", text + 11);
	json_decref(since);
}

CELL(note_cell)
{
	const struct task_name *n = &v->name;

	elements_cell(facts, v, b);
	add_ending(v, b);
	if (n->agent[0])
		strbuf_addf(b, "%son %s", b->len ? ", " : "", n->agent);
	if (v->state == TASKSTATE_RUNNING)
		add_run(facts, v, b);
	add_reason(facts, v, taskstate_name(v->state), b);
	if (n->epoch)
		strbuf_addf(b, "%srequeued %" PRIu64 "x", b->len ? ", " : "", n->epoch);
	if (n->ended_s)
		strbuf_adds(b, b->len ? ", " : "");
	add_moment(n->ended_s, b);
	if (n->ended_s && n->exit && !n->count)
		add_failure(v, b);
	add_when(facts, v, b);
}

static const struct list_column columns[] = {
	{ "id", { "ID", true }, id_cell, by_id },
	{ "state", { "STATE" }, state_cell, by_state },
	{ "priority", { "PRIO", true }, priority_cell, by_priority },
	{ "gpus", { "GPUS", true }, gpus_cell, by_gpus },
	{ "lane", { "LANE", .cut = 6 }, lane_cell, by_lane },
	{ "name", { "NAME", .cut = 8 }, name_cell, by_name },
	{ "time", { "TIME", true }, time_cell, by_elapsed, .of_run = true, .by_start = true },
	{ "elapsed",
	  { "ELAPSED", true },
	  elapsed_cell,
	  by_elapsed,
	  .of_run = true,
	  .by_start = true },
	{ "limit", { "LIMIT", true }, limit_cell, .of_run = true },
	{ "node", { "NODE" }, node_cell },
	{ "devices", { "DEVICES" }, devices_cell, .of_run = true },
	{ "reason", { "REASON" }, reason_cell },
	{ "elements", { "ELEMENTS" }, elements_cell, by_elements },
	{ "begin", { "NOT BEFORE" }, begin_cell, by_begin },
	{ "ended", { "ENDED" }, ended_cell, by_ended },
	{ "exit", { "EXIT", true }, exit_cell, by_exit },
	{ "log", { "LOG" }, log_cell, .of_run = true },
	{ "note", { "WHERE OR WHY" }, note_cell, .may_be_empty = true },
};

const char *list_column_at(size_t i)
{
	return i < ARRAY_LEN(columns) ? columns[i].key : NULL;
}

const char *list_sort_key_at(size_t i)
{
	for (size_t k = 0; k < ARRAY_LEN(columns); k++)
		if (columns[k].compare && !i--)
			return columns[k].key;
	return NULL;
}

const struct list_column *list_column_find(const char *option, const char *key, bool to_sort,
					   struct err *e)
{
	const char *names[ARRAY_LEN(columns) + 1] = { NULL };
	cleanup_strbuf struct strbuf known = STRBUF_INIT;
	const char *near;
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
		if (to_sort && !columns[i].compare)
			continue;
		if (strcmp(columns[i].key, key) == 0)
			return &columns[i];
		strbuf_addf(&known, "%s%s", n ? ", " : "", columns[i].key);
		names[n++] = columns[i].key;
	}
	near = str_nearest(key, names);
	(void)err_set(e, -EINVAL, "--%s: \"%s\" is none of its words%s%s; they are %s", option, key,
		      near ? ": did you mean " : "", near ? near : "", strbuf_str(&known));
	return NULL;
}
