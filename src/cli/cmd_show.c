/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/queue.h"
#include "cli/taskwatch.h"
#include "spool/record.h"

static const struct opt show_opts[] = {
	{ .name = "json", .spec = { VALUE_FLAG }, .help = "print JSON" },
	{ 0 },
};

static int add_counts(const struct spool *sp, const struct queue_place *f, json_t *doc,
		      struct err *e)
{
	struct queue_match active = { .n = 0 };
	struct batch_counts n;
	int r = f->name.count ? queue_all(sp, &active, e) : 0;

	if (r == 0 && f->name.count)
		r = queue_counts(sp, &f->name, &active, &n, e);
	if (r == 0 && f->name.count)
		(void)json_object_set_new(doc, "elements", queue_counts_json(&n));
	free(active.tasks);
	return r;
}

/* The commands of a large batch and the environment are in the file for who wants them. */
static json_t *describe(const struct spool *sp, const struct queue_place *f,
			const struct task_file *t)
{
	char when[CLOCK_TEXT_MAX];
	json_t *doc = json_pack("{s:I, s:s, s:s, s:I, s:i, s:I, s:o}", "id", (json_int_t)f->name.id,
				"state", queue_state(&f->name, f->dir), "file", f->path, "priority",
				(json_int_t)f->name.priority, "attempts", (int)t->history.attempts,
				"epoch", (json_int_t)f->name.epoch, "task", spec_json(t->spec));

	if (f->name.agent[0])
		(void)json_object_set_new(doc, "agent", json_string(f->name.agent));
	if (f->name.begin_s)
		(void)json_object_set_new(
			doc, "not_before",
			json_string(clock_format_iso(f->name.begin_s * NS_PER_S, when)));
	if (f->element)
		(void)json_object_set_new(doc, "element", json_integer((json_int_t)f->element));
	if (t->history.reason[0])
		(void)json_object_set_new(doc, "again_because", json_string(t->history.reason));
	if (t->history.ended)
		(void)json_object_set_new(doc, "end", record_end(&t->history.end));
	return doc;
}

/* ---- for people ---- */

static void print_line(const char *key, const char *text)
{
	printf("%-13s %s\n", key, text);
}

static void print_value(const char *key, const json_t *value)
{
	cleanup_free char *text = json_is_string(value) ? xstrdup(json_string_value(value))
							: json_dumps(value, JSON_ENCODE_ANY);

	if (text && strchr(text, '\n'))
		printf("%s:\n%s%s", key, text, text[strlen(text) - 1] == '\n' ? "" : "\n");
	else
		print_line(key, text ? text : "?");
}

static void print_end(const char *key, const json_t *value)
{
	char when[CLOCK_TEXT_MAX], ran[UNIT_TEXT_MAX], peak[UNIT_TEXT_MAX];
	cleanup_free char *text = NULL;
	struct spool_end end;

	if (!end_from_json(value, &end))
		return;
	text = xasprintf("%s, %s %u", clock_format_local(end.ended_ns, when),
			 end.exit >= NAME_SIGNALLED ? "signal" : "exit code",
			 end.exit & (NAME_SIGNALLED - 1));
	print_line("ended", text);
	if (end.reason[0])
		print_line("because", end.reason);
	if (end.begun_ns && end.ended_ns >= end.begun_ns)
		print_line("ran",
			   unit_format_duration((end.ended_ns - end.begun_ns) / NS_PER_MS, ran));
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
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789%+,-./:=@_";
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	size_t i;
	json_t *word;

	json_array_foreach(value, i, word)
	{
		const char *text = json_string_value(word);

		strbuf_adds(&b, i ? " " : "");
		if (text && *text && !text[strspn(text, plain)])
			strbuf_adds(&b, text);
		else if (text)
			strbuf_add_quoted(&b, text);
	}
	if (strchr(strbuf_str(&b), '\n'))
		printf("%s:\n%s\n", key, strbuf_str(&b));
	else
		print_line(key, strbuf_str(&b));
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

/* Of the others the value as it is; print NULL: nothing. */
static const struct {
	const char *key;
	void (*print)(const char *key, const json_t *value);
} printers[] = {
	{ "end", print_end },
	{ "elements", print_counts },
	{ "argv", print_words },
	{ "args", print_words },
	{ "env", print_env },
	{ "commands", print_how_many },
	{ "submitted", print_when },
	{ "not_before", print_when },
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

static void print_text(json_t *doc)
{
	const char *key;
	json_t *value;

	json_object_foreach(doc, key, value) if (strcmp(key, "task") != 0) print_member(key, value);
	json_object_foreach(json_object_get(doc, "task"), key, value)
	{
		/* The name of the file says these, whatever was submitted. */
		if (strcmp(key, "priority") != 0 && strcmp(key, "paused") != 0 &&
		    strcmp(key, "begin") != 0)
			print_member(key, value);
	}
}

/* Of an element what it does itself. */
static int add_element(const struct spool *sp, const struct queue_place *f, json_t *doc,
		       struct err *e)
{
	struct taskwatch *w = NULL;
	int r = f->element ? taskwatch_open(sp, f, &w, e) : 0;

	if (!w)
		return r;
	r = taskwatch_look(w, e);
	if (r >= 0)
		(void)json_object_set_new(doc, "state", json_string(taskwatch_state(w)));
	(void)taskwatch_close(w);
	return r < 0 ? r : 0;
}

static int show_found(const struct cmd_ctx *ctx, const struct spool *sp,
		      const struct queue_place *f, struct err *e)
{
	struct task_file t;
	int r = task_file_read(sp, f->path, &t, e);

	if (r < 0)
		return r;

	json_t *doc = describe(sp, f, &t);

	r = add_counts(sp, f, doc, e);
	if (r == 0)
		r = add_element(sp, f, doc, e);
	if (r == 0 && opts_flag(ctx->opts, "json")) {
		(void)json_dumpf(doc, stdout, JSON_INDENT(2));
		(void)putchar('\n');
	} else if (r == 0) {
		print_text(doc);
	}
	json_decref(doc);
	task_file_clear(&t);
	return r;
}

static int run_show(const struct cmd_ctx *ctx, struct err *e)
{
	return queue_with_task(ctx, show_found, e);
}

static const struct cmd_example show_examples[] = {
	{ "tenure show 42", "what task 42 is and how it stands" },
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
	.description = "Also of ended ones, by their id. Works without an agent.",
	.examples = show_examples,
	.opts = show_opts,
	.setting_groups = SETTING_GROUP_QUEUE,
	.run = run_show,
};
