/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/task/taskdoc.h"
#include "cli/task/view.h"
#include "cli/term.h"
#include "spool/record.h"

#define PROCS_SHOWN 6

static const struct opt show_opts[] = {
	{ .name = "json", .spec = { VALUE_FLAG }, .help = "print JSON" },
	{ 0 },
};

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
	const char *coded = json_string_value(json_object_get(value, "base64"));
	cleanup_free char *text = json_is_string(value) ? xstrdup(json_string_value(value))
				  : coded		? str_from_base64(coded)
							: json_dumps(value, JSON_ENCODE_ANY);

	if (text && strchr(text, '\n'))
		print_lines(key, text);
	else
		print_line(key, text ? text : "?");
}

/* When and how; a doc of an element, or of a task. */
static void print_end(const char *key, const json_t *value)
{
	char when[CLOCK_TEXT_MAX], how[TASKVIEW_EXIT_MAX], peak[UNIT_TEXT_MAX];
	cleanup_free char *text = NULL;
	struct spool_end end;

	if (!end_from_json(value, &end))
		return;
	(void)taskview_format_exit(end.exit, how);
	if (end.result == RESULT_CANCELLED && !end.attempt)
		(void)str_copy(how, sizeof(how), "before it started");
	text = xasprintf("%s, %s", clock_format_local(end.ended_ns, when), how);
	print_line("ended", text);
	if (end.reason[0] && strcmp(end.reason, result_name(end.result)) != 0)
		print_line("because", end.reason);
	if (!end.use.gpu_peak_bytes)
		return;
	printf("%-13s %u GPU%s, peak memory %s, mean utilisation %.0f%%\n", "used", end.use.gpus,
	       end.use.gpus == 1 ? "" : "s", unit_format_gib(end.use.gpu_peak_bytes, peak),
	       end.use.gpu_util_permille / 10.0);
}

static void print_counts(const char *key, const json_t *value)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	const char *state;
	json_t *n;

	json_object_foreach((json_t *)(uintptr_t)value, state, n) if (json_integer_value(n))
		strbuf_addf(&b, "%s%lld %s", b.len ? ", " : "", (long long)json_integer_value(n),
			    state);
	print_line(key, strbuf_str(&b));
}

/* As the shell takes them. */
static void print_words(const char *key, const json_t *value)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	size_t i;
	json_t *word;

	json_array_foreach(value, i, word)
	{
		const char *coded = json_string_value(json_object_get(word, "base64"));
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

static void print_agent(const char *key, const json_t *value)
{
	print_line("node", json_string_value(value));
}

static void print_ran(const char *key, const json_t *value)
{
	char ran[UNIT_TEXT_MAX];

	print_line("ran", unit_format_duration((uint64_t)(json_number_value(value) * 1e3), ran));
}

static void print_path(const char *key, const json_t *value)
{
	cleanup_free char *path = fs_show_path(json_string_value(value));

	print_line(key, path);
}

static void print_warning(const char *key, const json_t *value)
{
	print_line("warning", json_string_value(value));
}

static void print_devices(const char *key, const json_t *value)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	size_t i;
	json_t *gpu;

	json_array_foreach(value, i, gpu)
	{
		strbuf_addf(&b, "%s%lld", i ? ", " : "GPU ", (long long)json_integer_value(gpu));
	}
	print_line(key, b.len ? strbuf_str(&b) : "none");
}

static void print_uuids(const char *key, const json_t *value)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	size_t i;
	json_t *uuid;

	json_array_foreach(value, i, uuid)
	{
		strbuf_addf(&b, "%s%s", i ? ", " : "", json_string_value(uuid));
	}
	print_line("devices", strbuf_str(&b));
}

static void print_procs(const char *key, const json_t *value)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	size_t i, n = json_array_size(value);
	json_t *p;

	json_array_foreach(value, i, p)
	{
		if (i >= PROCS_SHOWN)
			break;
		strbuf_addf(&b, "%s%lld (%s)", i ? ", " : "PID ",
			    (long long)json_integer_value(json_object_get(p, "pid")),
			    json_string_value(json_object_get(p, "command")));
	}
	if (n > PROCS_SHOWN)
		strbuf_addf(&b, " and %zu more", n - PROCS_SHOWN);
	if (n)
		print_line(key, strbuf_str(&b));
}

static void print_command_exit(const char *key, const json_t *value)
{
	char how[TASKVIEW_EXIT_MAX];
	cleanup_free char *text =
		xasprintf("has ended, with %s; what it has left behind runs on",
			  taskview_format_exit((unsigned int)json_integer_value(value), how));

	print_line("command", text);
}

static void print_unfiled(const char *key, const json_t *value)
{
	unsigned int exit = (unsigned int)json_integer_value(json_object_get(value, "exit"));
	char how[TASKVIEW_EXIT_MAX];
	cleanup_free char *text = xasprintf("with %s, which its agent cannot file yet: %s",
					    taskview_format_exit(exit, how),
					    json_string_value(json_object_get(value, "why")));

	print_line("ended", text);
}

static void print_left_exit(const char *key, const json_t *value)
{
	char how[TASKVIEW_EXIT_MAX];
	cleanup_free char *text =
		xasprintf("with %s, which an agent has to file yet",
			  taskview_format_exit((unsigned int)json_integer_value(value), how));

	print_line("ended", text);
}

static void print_earlier(const char *key, const json_t *value)
{
	print_line("earlier", json_string_value(value));
}

static void print_parameters(const char *key, const json_t *value)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)value, name, v)
		strbuf_addf(&b, "%s%s=%s", b.len ? " " : "", name, json_string_value(v));
	print_line(key, strbuf_str(&b));
}

static void print_failed(const char *key, const json_t *value)
{
	struct element_ends failed = { .n = json_array_size(value) };
	const json_t *id = json_object_get(json_array_get(value, 0), "id");

	failed.ends = xcalloc(failed.n, sizeof(*failed.ends));
	for (size_t i = 0; i < failed.n; i++) {
		const json_t *o = json_array_get(value, i);
		const char *reason = json_string_value(json_object_get(o, "reason"));

		failed.ends[i].element =
			(uint64_t)json_integer_value(json_object_get(o, "element"));
		failed.ends[i].end.exit =
			(unsigned int)json_integer_value(json_object_get(o, "exit"));
		(void)str_copy(failed.ends[i].end.reason, RECORD_REASON_MAX, reason ? reason : "");
	}

	cleanup_free char *text = taskview_format_failed((uint64_t)json_integer_value(id), &failed);

	print_line(key, text);
	free(failed.ends);
}

/* Of the others the value as it is; print NULL: nothing. */
static const struct {
	const char *key;
	void (*print)(const char *key, const json_t *value);
} printers[] = {
	{ "end", print_end },
	{ "agent", print_agent },
	{ "ran_s", print_ran },
	{ "started", print_when },
	{ "log", print_path },
	{ "log_error", print_warning },
	{ "devices", print_devices },
	{ "device_uuids", print_uuids },
	{ "processes", print_procs },
	{ "command_exit", print_command_exit },
	{ "left_exit", print_left_exit },
	{ "unfiled", print_unfiled },
	{ "again_because", print_earlier },
	{ "parameters", print_parameters },
	{ "elements", print_counts },
	{ "argv", print_words },
	{ "args", print_words },
	{ "env", print_env },
	{ "commands", print_how_many },
	{ "submitted", print_when },
	{ "not_before", print_when },
	{ "element", NULL },	    /* part of the id, */
	{ "failed", print_failed }, /* said below, */
	{ "unstarted", NULL },	    /* and with its end */
	{ "epoch", NULL },
	{ "version", NULL },
	{ "raw", NULL },
};

static void print_member(const char *key, const json_t *value)
{
	size_t i = 0;

	while (i < ARRAY_LEN(printers) && strcmp(printers[i].key, key) != 0)
		i++;
	if (i == ARRAY_LEN(printers))
		print_value(key, value);
	else if (printers[i].print)
		printers[i].print(key, value);
}

/* Of an array the environment, and whatever else is the same for all, is in the file. */
static void print_text(const struct task_place *place, const json_t *doc)
{
	bool numbers = json_object_get(doc, "devices");
	char id[SELECT_ID_MAX];
	const char *key;
	json_t *value;

	print_line("id", select_format_id(place->name.id, place->element, id));
	json_object_foreach((json_t *)(uintptr_t)doc, key, value)
	{
		if (strcmp(key, "task") != 0 && strcmp(key, "id") != 0 &&
		    !(numbers && strcmp(key, "device_uuids") == 0))
			print_member(key, value);
	}
	json_object_foreach(json_object_get(doc, "task"), key, value)
	{
		/* The name of the file says these, whatever was submitted. */
		if (strcmp(key, "priority") != 0 && strcmp(key, "paused") != 0 &&
		    strcmp(key, "begin") != 0)
			print_member(key, value);
	}
}

static int show_found(const struct cmd_ctx *ctx, const struct spool *sp, const struct task_place *f,
		      struct err *e)
{
	json_t *doc = NULL;
	int r = taskdoc_make(ctx, sp, f, &doc, e);

	if (r < 0)
		return r;
	if (opts_flag(ctx->opts, "json")) {
		(void)json_dumpf(doc, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(16));
		(void)putchar('\n');
	} else {
		print_text(f, doc);
	}
	json_decref(doc);
	return 0;
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
	.args = "ID|NAME",
	.min_args = 1,
	.max_args = 1,
	.description = "Also of ended ones, by their id. Of what runs on this node also its "
		       "processes, and, where an agent runs here, its GPUs. Elements of an array "
		       "(42.7) count from 1, whatever its indices are. Works without an agent.",
	.examples = show_examples,
	.opts = show_opts,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.run = run_show,
};
