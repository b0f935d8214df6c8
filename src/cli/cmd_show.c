/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/queue.h"
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
	if (t->history.reason[0])
		(void)json_object_set_new(doc, "again_because", json_string(t->history.reason));
	if (t->history.ended)
		(void)json_object_set_new(doc, "end", record_end(&t->history.end));
	return doc;
}

static void print_value(const char *key, json_t *value)
{
	cleanup_free char *text = json_is_string(value) ? xstrdup(json_string_value(value))
							: json_dumps(value, JSON_ENCODE_ANY);

	if (text && strchr(text, '\n'))
		printf("%s:\n%s%s", key, text, text[strlen(text) - 1] == '\n' ? "" : "\n");
	else
		printf("%-13s %s\n", key, text ? text : "?");
}

static void print_text(json_t *doc)
{
	const char *key;
	json_t *value;

	json_object_foreach(doc, key, value) if (strcmp(key, "task") != 0) print_value(key, value);
	json_object_foreach(json_object_get(doc, "task"), key, value)
	{
		if (strcmp(key, "env") == 0)
			printf("%-13s %zu variables (--json shows them)\n", key,
			       json_array_size(value));
		else if (strcmp(key, "commands") == 0)
			printf("%-13s %zu (--json shows them)\n", key, json_array_size(value));
		else if (strcmp(key, "priority") != 0 && strcmp(key, "version") != 0)
			print_value(key, value);
	}
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
