/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/task/taskstate.h"
#include "cli/task/view.h"
#include "cli/term.h"
#include "spool/lane.h"
#include "spool/record.h"

/* ---- for people ---- */

#define TEXT_COLUMN 14

static void print_line(const char *key, const char *text)
{
	cleanup_free char *line = utf8_clean(xstrdup(text));

	printf("%-13s ", key);
	term_print_wrapped(stdout, line, TEXT_COLUMN);
}

/* A line of somebody's text, which may be anything; its tabs are kept. */
static void print_clean(char *line)
{
	char *part, *rest = line;

	while ((part = strsep(&rest, "\t")))
		printf("%s%s", utf8_clean(part), rest ? "\t" : "\n");
}

/* A script, set off from what is said behind it. */
static void print_lines(const char *key, const char *text)
{
	printf("%s:\n", key);
	while (*text) {
		size_t len = strcspn(text, "\n");
		cleanup_free char *line = xasprintf("%.*s", (int)len, text);

		printf("%s", len ? "    " : "");
		print_clean(line);
		text += len + (text[len] == '\n');
	}
}

static void print_value(const char *key, const json_t *value)
{
	const char *coded = json_get_str(value, "base64");
	cleanup_free char *text = json_is_string(value) ? xstrdup(json_string_value(value))
				  : coded		? str_from_base64(coded)
							: json_dumps(value, JSON_ENCODE_ANY);

	if (text && strchr(text, '\n'))
		print_lines(key, text);
	else
		print_line(key, text ? text : "?");
}

/* ---- members of the view; value is their JSON ---- */

/* When and how. */
static void print_end(const struct task_view *v, const json_t *value)
{
	const struct spool_end *end = &v->run.end;
	char when[CLOCK_TEXT_MAX], how[TASKSTATE_EXIT_MAX], peak[UNIT_TEXT_MAX];
	cleanup_free char *text = NULL;

	(void)taskstate_format_exit(end->exit, how);
	text = xasprintf("%s, %s", clock_format_local(end->ended_ns, when),
			 v->run.unstarted ? "before it started" : how);
	print_line("ended", text);
	if (end->reason[0] && strcmp(end->reason, result_name(end->result)) != 0)
		print_line("because", end->reason);
	if (!end->use.gpu_peak_bytes)
		return;
	printf("%-13s %u GPU%s, peak memory %s, mean utilisation %.0f%%\n", "used", end->use.gpus,
	       end->use.gpus == 1 ? "" : "s", unit_format_gib(end->use.gpu_peak_bytes, peak),
	       end->use.gpu_util_permille / 10.0);
}

static void print_counts(const struct task_view *v, const json_t *value)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	const char *state;
	json_t *n;

	json_object_foreach((json_t *)(uintptr_t)value, state, n) if (json_integer_value(n))
		strbuf_addf(&b, "%s%lld %s", b.len ? ", " : "", (long long)json_integer_value(n),
			    state);
	print_line("elements", strbuf_str(&b));
}

/* As the shell takes them. */
static void print_words(const char *key, const json_t *value)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	size_t i;
	json_t *word;

	json_array_foreach(value, i, word)
	{
		const char *coded = json_get_str(word, "base64");
		cleanup_free char *bytes = coded ? str_from_base64(coded) : NULL;

		if (json_is_string(word))
			strbuf_add_word(&b, json_string_value(word));
		else if (bytes)
			strbuf_add_word(&b, bytes);
	}
	if (strchr(strbuf_str(&b), '\n'))
		printf("%s:\n%s\n", key, strbuf_str(&b));
	else
		printf("%-13s %s\n", key, strbuf_str(&b)); /* whole, to be copied */
}

static void print_env(const char *key, const json_t *value)
{
	printf("%-13s %zu variables (--json shows them)\n", key, json_array_size(value));
}

static void print_how_many(const char *key, const json_t *value)
{
	printf("%-13s %zu (--json shows them)\n", key, json_array_size(value));
}

static void print_when(const char *key, const json_t *value)
{
	const char *text = json_string_value(value);

	printf("%-13s %.10s %.8s\n", key, text, strlen(text) > 11 ? text + 11 : "");
}

static void print_begin(const struct task_view *v, const json_t *value)
{
	print_when("not_before", value);
}

static void print_started(const struct task_view *v, const json_t *value)
{
	print_when("started", value);
}

static void print_ending(const struct task_view *v, const json_t *value)
{
	print_when("ending since", value);
}

static void print_agent(const struct task_view *v, const json_t *value)
{
	print_line("node", json_string_value(value));
}

static void print_ran(const struct task_view *v, const json_t *value)
{
	char ran[UNIT_TEXT_MAX];

	print_line("ran", unit_format_duration((uint64_t)(json_number_value(value) * 1e3), ran));
}

static void print_log(const struct task_view *v, const json_t *value)
{
	cleanup_free char *path = fs_show_path(json_string_value(value));

	print_line("log", path);
}

static void print_log_error(const struct task_view *v, const json_t *value)
{
	print_line("warning", json_string_value(value));
}

/* By their numbers, or else by their UUIDs. */
static void print_devices(const struct task_view *v, const json_t *value)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	strbuf_adds(&b, json_array_size(value) ? "GPU " : "");
	json_add_list(value, ", ", &b);
	print_line("devices", b.len ? strbuf_str(&b) : "none");
}

static void print_uuids(const struct task_view *v, const json_t *value)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	for (size_t i = 0; i < v->uuids.n; i++)
		strbuf_addf(&b, "%s%s", i ? ", " : "", v->uuids.texts[i]);
	if (!v->gpus)
		print_line("devices", strbuf_str(&b));
}

/* How many it may have and why it has so many; and the last change. */
static void print_scaling(const struct task_view *v, const json_t *value)
{
	const json_t *last = json_object_get(value, "last");
	const char *when = json_get_str(last, "time"), *what = json_get_str(last, "text");

	if (v->run.scaling[0])
		print_line("scaling", v->run.scaling);
	if (what && when && strlen(when) > 19) {
		cleanup_free char *text = xasprintf("%.10s %.8s: %s", when, when + 11, what);

		print_line("scaled", text);
	}
}

static void print_procs(const struct task_view *v, const json_t *value)
{
	cleanup_free char *procs = taskrun_format_procs(&v->look.procs);

	if (procs[0])
		print_line("processes", procs);
}

static void print_command_exit(const struct task_view *v, const json_t *value)
{
	char how[TASKSTATE_EXIT_MAX];
	cleanup_free char *text = xasprintf("has ended, with %s; what it has left behind runs on",
					    taskstate_format_exit(v->look.exit, how));

	print_line("command", text);
}

/* It has ended, and no agent has committed that. */
static void print_left(const struct task_view *v, const json_t *value)
{
	char how[TASKSTATE_EXIT_MAX];
	cleanup_free char *text = NULL;

	(void)taskstate_format_exit(v->run.left_exit, how);
	text = v->run.unfiled[0] ? xasprintf("with %s, which its agent cannot commit yet: %s", how,
					     v->run.unfiled)
				 : xasprintf("with %s, which no agent has committed yet", how);
	print_line("ended", text);
}

static void print_earlier(const struct task_view *v, const json_t *value)
{
	print_line("earlier", json_string_value(value));
}

static void print_parameters(const struct task_view *v, const json_t *value)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	const char *name;
	json_t *one;

	json_object_foreach((json_t *)(uintptr_t)value, name, one)
		strbuf_addf(&b, "%s%s=%s", b.len ? " " : "", name, json_string_value(one));
	print_line("parameters", strbuf_str(&b));
}

static void print_failed(const struct task_view *v, const json_t *value)
{
	cleanup_free char *text = taskstate_format_failed(v->name.id, &v->failed);

	print_line("failed", text);
}

static void print_auto_memory(const struct task_view *v, const json_t *value)
{
	print_line("asks for", json_get_str(value, "text"));
}

/* What was submitted. Of an array the environment, and whatever else is the same for all, is in the
 * file. */
static void print_task(const struct task_view *v, const json_t *value)
{
	static const struct {
		const char *key;
		void (*print)(const char *key, const json_t *value); /* NULL: nothing */
	} printers[] = {
		{ "argv", print_words },
		{ "args", print_words },
		{ "env", print_env },
		{ "commands", print_how_many },
		{ "submitted", print_when },
		{ "version", NULL },
		{ "raw", NULL },
	};
	const char *key;
	json_t *one;

	json_object_foreach((json_t *)(uintptr_t)value, key, one)
	{
		const struct task_option *row = task_option_find(key);
		size_t i = 0;

		/* The name of the file says these, whatever was submitted. */
		if (row && row->flags & OPTION_IN_NAME)
			continue;
		while (i < ARRAY_LEN(printers) && strcmp(printers[i].key, key) != 0)
			i++;
		if (i == ARRAY_LEN(printers))
			print_value(key, one);
		else if (printers[i].print)
			printers[i].print(key, one);
	}
}

static void print_mustered(const struct task_view *v, const json_t *value)
{
	print_line("rank", "waits for the others to have their GPUs");
}

static void print_lane_paused(const struct task_view *v, const json_t *value)
{
	cleanup_free char *why = lane_reason(v->sp, v->name.lane);
	cleanup_free char *text = xasprintf("%s: %s", v->name.lane, why ? why : "paused");

	print_line("lane", text);
}

/* Part of the id, said below or with its end. */
static void print_nothing(const struct task_view *v, const json_t *value)
{
}

/* In the order in which they are shown; print NULL: the value as it is. */
static const struct {
	enum taskview_member member;
	void (*print)(const struct task_view *v, const json_t *value);
} rows[] = {
	{ VIEW_ID, print_nothing },
	{ VIEW_ELEMENT, print_nothing },
	{ VIEW_STATE },
	{ VIEW_LANE_PAUSED, print_lane_paused },
	{ VIEW_FILE },
	{ VIEW_PRIORITY },
	{ VIEW_ATTEMPTS },
	{ VIEW_EPOCH, print_nothing },
	{ VIEW_NOT_BEFORE, print_begin },
	{ VIEW_AGAIN_BECAUSE, print_earlier },
	{ VIEW_PARAMETERS, print_parameters },
	{ VIEW_INDEX },
	{ VIEW_COMMAND },
	{ VIEW_AGENT, print_agent },
	{ VIEW_DEVICES, print_devices },
	{ VIEW_UUIDS, print_uuids },
	{ VIEW_SCALING, print_scaling },
	{ VIEW_MUSTERED, print_mustered },
	{ VIEW_PROCESSES, print_procs },
	{ VIEW_COMMAND_EXIT, print_command_exit },
	{ VIEW_STARTED, print_started },
	{ VIEW_ENDING_SINCE, print_ending },
	{ VIEW_RAN, print_ran },
	{ VIEW_LOG, print_log },
	{ VIEW_LOG_ERROR, print_log_error },
	{ VIEW_OUTPUT },
	{ VIEW_ERROR },
	{ VIEW_ON_END_LOG },
	{ VIEW_END, print_end },
	{ VIEW_UNFILED, print_left },
	{ VIEW_LEFT_EXIT, print_left },
	{ VIEW_UNSTARTED, print_nothing },
	{ VIEW_ELEMENTS, print_counts },
	{ VIEW_FAILED, print_failed },
	{ VIEW_AUTO_MEMORY, print_auto_memory },
	{ VIEW_TASK, print_task },
};

static void print_text(const struct task_view *v)
{
	char id[SELECT_ID_MAX];

	print_line("id", select_format_id(v->name.id, v->place.element, id));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		json_t *value = taskview_member(v, rows[i].member);

		if (value && rows[i].print)
			rows[i].print(v, value);
		else if (value)
			print_value(taskview_key(rows[i].member), value);
		json_decref(value);
	}
}

static void print_doc(const struct task_view *v)
{
	enum taskview_member order[ARRAY_LEN(rows)];
	json_t *doc;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		order[i] = rows[i].member;
	doc = taskview_json(v, order, ARRAY_LEN(order));
	(void)json_dumpf(doc, stdout, JSON_INDENT(2) | TIME_DIGITS);
	(void)putchar('\n');
	json_decref(doc);
}

static int show_found(const struct cmd_ctx *ctx, const struct spool *sp, const struct task_place *f,
		      struct err *e)
{
	struct task_view v;
	int r = taskview_load(ctx, sp, f, &v, e);

	if (r == 0 && opts_flag(ctx->opts, "json"))
		print_doc(&v);
	else if (r == 0)
		print_text(&v);
	taskview_clear(&v);
	return r;
}

static int run_show(const struct cmd_ctx *ctx, struct err *e)
{
	return select_with(ctx, show_found, e);
}

static const struct cmd_example show_examples[] = {
	{ "tenure show 42", "what task 42 is and how it stands" },
	{ "tenure show 43.7", "the same of element 7 of an array" },
	{ "tenure show 42 --json | jq -r .task.script", "the script that was taken along" },
	{ 0 },
};

const struct cmd cmd_show = {
	.name = "show",
	.group = QUEUE_GROUP,
	.summary = "what a task is and how it stands",
	.args = "[ID|NAME|last]",
	.words = { WORDS_ANY_TASKS },
	.max_args = 1,
	.description =
		"Without one, or with last, of the task that you submitted last. Also of ended ones, by their id. Of what runs on this node also its "
		"processes, and, where an agent runs here, its GPUs. Elements of an array "
		"(42.7) count from 1, whatever its indices are. Works without an agent.",
	.examples = show_examples,
	.flags = CMD_JSON,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.run = run_show,
};
