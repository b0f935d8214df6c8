/* SPDX-License-Identifier: MIT */

/*
 * What a task used is the time of its attempts: from a claim to the requeue or the end behind it.
 * Of the elements of a batch the last attempt of each counts, as their journals say no more.
 */

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/print_json.h"
#include "cli/queue.h"
#include "cli/table.h"
#include "spool/record.h"

#define DAY_S 86400U

static const struct opt history_opts[] = {
	{ .name = "since",
	  .spec = { VALUE_DURATION, .min = 1 },
	  .arg = "DURATION",
	  .def = "1d",
	  .help = "what ended in that time" },
	{ .name = "json", .spec = { VALUE_FLAG }, .help = "print JSON" },
	{ 0 },
};

struct history {
	const struct spool *sp;
	uint64_t since_s;
	const char *state;
	size_t unknown; /* with all GPUs of a node, whose number is not known any more */
	json_t *tasks, *lanes, *names;
};

/* Sums up the lines of a file. */
static double seconds_in(const struct spool *sp, const char *path)
{
	cleanup_free char *text = NULL;
	double sum = 0, claimed = 0;
	size_t len;

	if (spool_read(sp, path, SPEC_FILE_MAX, &text, &len, NULL) < 0)
		return 0;
	for (char *line = text, *next; *line; line = next) {
		json_t *o = NULL;
		const char *event;
		double time, begun;

		next = line + strcspn(line, "\n");
		if (str_has_prefix(line, "{\"event\""))
			o = json_loadb(line, (size_t)(next - line), 0, NULL);
		next += *next == '\n';
		event = json_string_value(json_object_get(o, "event"));
		time = json_number_value(json_object_get(o, "time"));
		begun = json_number_value(json_object_get(o, "begun"));
		if (event && strcmp(event, "claim") == 0) {
			claimed = time;
		} else if (event && strcmp(event, "end") == 0) {
			sum += begun > 0 && time > begun ? time - begun : 0;
			claimed = 0;
		} else if (event && strcmp(event, "requeue") == 0 && claimed > 0) {
			sum += time > claimed ? time - claimed : 0;
			claimed = 0;
		}
		json_decref(o);
	}
	return sum;
}

struct summing {
	const struct spool *sp;
	const char *dir;
	double sum;
};

static int add_journal(void *data, const char *file, unsigned char type)
{
	struct summing *s = data;
	char path[SPOOL_PATH_MAX];

	s->sum += seconds_in(s->sp, str_print(path, sizeof(path), "%.60s/%s", s->dir, file));
	return 0;
}

static double seconds_of(const struct spool *sp, const struct task_name *n, const char *path)
{
	char dir[SPOOL_PATH_MAX];
	struct summing s = { .sp = sp, .dir = dir };

	if (!n->count)
		return seconds_in(sp, path);
	(void)str_print(dir, sizeof(dir), "ends/%" PRIu64, n->id);
	(void)spool_each(sp, dir, add_journal, &s, NULL);
	return s.sum;
}

static void add_hours(json_t *sums, const char *key, double hours)
{
	double so_far = json_number_value(json_object_get(sums, key));

	(void)json_object_set_new(sums, key, json_real(so_far + hours));
}

static int add_task(void *data, const struct task_name *n, const char *dir)
{
	struct history *h = data;
	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX], when[CLOCK_TEXT_MAX];
	bool all = n->gpus == SPEC_ALL;
	double seconds, hours;
	json_t *o;

	if (!n->ended_s || n->ended_s < h->since_s || n->element)
		return 0;
	(void)str_print(path, sizeof(path), "%.40s/%s", dir, name_format(n, file));
	seconds = seconds_of(h->sp, n, path);
	hours = all ? 0 : seconds * (double)n->gpus / 3600;
	h->unknown += all && seconds > 0;
	o = json_pack("{s:I, s:s, s:s, s:s*, s:I, s:s, s:I, s:f}", "id", (json_int_t)n->id, "name",
		      n->name, "state", h->state, "lane", n->lane[0] ? n->lane : NULL, "elements",
		      (json_int_t)n->count, "ended", clock_format_iso(n->ended_s * NS_PER_S, when),
		      "exit", (json_int_t)n->exit, "ran_s", seconds);
	(void)json_object_set_new(o, "gpus",
				  all ? json_string("all") : json_integer((json_int_t)n->gpus));
	(void)json_object_set_new(o, "gpu_hours", all ? json_null() : json_real(hours));
	(void)json_array_append_new(h->tasks, o);
	add_hours(h->lanes, n->lane[0] ? n->lane : "-", hours);
	add_hours(h->names, n->name, hours);
	return 0;
}

static int collect(struct history *h, struct err *e)
{
	int r;

	h->state = "failed";
	r = scan_dir(h->sp, spool_dir_name(SPOOL_FAILED), add_task, h, e);
	h->state = "cancelled";
	if (r == 0)
		r = scan_dir(h->sp, spool_dir_name(SPOOL_CANCELLED), add_task, h, e);
	h->state = "done";
	return r == 0 ? scan_done(h->sp, add_task, h, e) : r;
}

static void print_tasks(const json_t *tasks)
{
	static const struct table_column columns[] = {
		{ "ID", true },	 { "STATE" },	    { "GPUS", true },
		{ "RAN", true }, { "GPU-H", true }, { "LANE" },
		{ "NAME" },	 { "ENDED" },	    { 0 }
	};
	struct table *t = table_new(columns);
	size_t i;
	json_t *o;

	json_array_foreach(tasks, i, o)
	{
		const json_t *gpus = json_object_get(o, "gpus");
		const json_t *hours = json_object_get(o, "gpu_hours");
		const char *lane = json_string_value(json_object_get(o, "lane"));
		const char *ended = json_string_value(json_object_get(o, "ended"));
		char id[24], n[24], used[32], ran[UNIT_TEXT_MAX], when[24];

		(void)str_print(id, sizeof(id), "%lld",
				(long long)json_integer_value(json_object_get(o, "id")));
		(void)str_print(n, sizeof(n), "%lld", (long long)json_integer_value(gpus));
		(void)str_print(used, sizeof(used), "%.2f", json_number_value(hours));
		(void)str_print(when, sizeof(when), "%.10s %.8s", ended, ended + 11);
		table_add(t, TABLE_PLAIN, id, json_string_value(json_object_get(o, "state")),
			  json_is_string(gpus) ? "all" : n,
			  unit_format_duration(
				  (uint64_t)json_number_value(json_object_get(o, "ran_s")) * 1000,
				  ran),
			  json_is_null(hours) ? "?" : used, lane ? lane : "-",
			  json_string_value(json_object_get(o, "name")), when);
	}
	table_print(t, stdout);
	(void)table_free(t);
}

static void print_sums(const char *title, json_t *sums)
{
	struct table_column columns[] = { { "GPU-H", true }, { title }, { 0 } };
	struct table *t = table_new(columns);
	const char *key;
	json_t *value;

	json_object_foreach(sums, key, value)
	{
		char text[32];

		table_add(t, TABLE_PLAIN,
			  str_print(text, sizeof(text), "%.2f", json_number_value(value)), key);
	}
	(void)putchar('\n');
	table_print(t, stdout);
	(void)table_free(t);
}

static int run_history(const struct cmd_ctx *ctx, struct err *e)
{
	uint64_t now_s = clock_wall_ns() / NS_PER_S;
	const struct value *since = opts_value(ctx->opts, "since");
	uint64_t age_s = since ? since->num / 1000 : DAY_S;
	struct spool *sp = NULL;
	int r = queue_open(ctx, 0, &sp, e);
	struct history h = { .sp = sp,
			     .since_s = age_s < now_s ? now_s - age_s : 0,
			     .tasks = json_array(),
			     .lanes = json_object(),
			     .names = json_object() };

	if (r == 0)
		r = collect(&h, e);
	if (r == 0 && opts_flag(ctx->opts, "json")) {
		print_json(json_pack("{s:O, s:O, s:O}", "tasks", h.tasks, "gpu_hours_by_lane",
				     h.lanes, "gpu_hours_by_name", h.names));
	} else if (r == 0 && !json_array_size(h.tasks)) {
		printf("Nothing of instance \"%s\" has ended in that time.\n", sp->instance);
	} else if (r == 0) {
		print_tasks(h.tasks);
		print_sums("LANE", h.lanes);
		print_sums("NAME", h.names);
		if (h.unknown)
			printf("\n%zu had all GPUs of a node; how many is not recorded, and not "
			       "in the sums.\n",
			       h.unknown);
	}
	json_decref(h.tasks);
	json_decref(h.lanes);
	json_decref(h.names);
	sp = spool_close(sp);
	return r;
}

static const struct cmd_example history_examples[] = {
	{ "tenure history", "what ended in the last day, with its GPU-hours" },
	{ "tenure history --since 7d --json | jq .gpu_hours_by_lane", "a week, for scripts" },
	{ 0 },
};

const struct cmd cmd_history = {
	.name = "history",
	.group = QUEUE_GROUP,
	.summary = "what has ended, and how many GPU-hours it took",
	.description =
		"GPU-hours are the number of GPUs times the time of all attempts, by lane and by "
		"name; of arrays and other batches the last attempt of each element counts.",
	.examples = history_examples,
	.opts = history_opts,
	.setting_groups = SETTING_GROUP_QUEUE,
	.run = run_history,
};
