/* SPDX-License-Identifier: MIT */

/*
 * What a task used is the time of its attempts, times the devices that each had, as the records of
 * their ends say. A record without a beginning (the attempt never came to run, or when it was
 * interrupted is not known) counts nothing. A batch counts with what has ended of it, be it over or
 * not.
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
#include "spool/lines.h"
#include "spool/usage.h"

#define DAY_NS (86400 * NS_PER_S)

static const struct opt history_opts[] = {
	{ .name = "since",
	  .spec = { VALUE_STRING },
	  .arg = "WHEN",
	  .def = "1d",
	  .help = "what ended in that time (7d, 12h), or since then: 08:00, 2026-11-20, "
		  "'2026-11-20 08:00'" },
	{ .name = "lane",
	  .short_name = 'l',
	  .spec = { VALUE_STRING },
	  .arg = "NAME",
	  .help = "only this lane" },
	{ .name = "name",
	  .short_name = 'n',
	  .spec = { VALUE_STRING },
	  .arg = "NAME",
	  .help = "only names that begin so" },
	{ .name = "json", .spec = { VALUE_FLAG }, .help = "print JSON" },
	{ 0 },
};

struct history {
	const struct cmd_ctx *ctx;
	const struct spool *sp;
	uint64_t since_ns;
	enum spool_dir dir;
	size_t unknown; /* with all GPUs of a node, whose number was not recorded */
	json_t *tasks, *lanes, *names;
};

/* ---- what the records say ---- */

static void add_line(void *data, const char *line, size_t len)
{
	json_t *o = str_has_prefix(line, "{\"event\"") ? json_loadb(line, len, 0, NULL) : NULL;

	usage_add(data, o);
	json_decref(o);
}

static void add_file(struct usage *u, const struct spool *sp, const char *path)
{
	off_t offset = 0;

	(void)lines_read(sp, path, &offset, add_line, u, NULL);
}

struct journals {
	const struct spool *sp;
	const char *dir;
	struct usage *used;
};

static int add_journal(void *data, const char *file, unsigned char type)
{
	struct journals *j = data;
	char path[SPOOL_PATH_MAX];

	add_file(j->used, j->sp, str_print(path, sizeof(path), "%.60s/%s", j->dir, file));
	return 0;
}

static void read_used(const struct spool *sp, const struct task_name *n, const char *path,
		      struct usage *u)
{
	char dir[SPOOL_PATH_MAX];
	struct journals j = { .sp = sp, .dir = dir, .used = u };

	if (!n->count) {
		add_file(u, sp, path);
		return;
	}
	(void)str_print(dir, sizeof(dir), "ends/%" PRIu64, n->id);
	(void)spool_each(sp, dir, add_journal, &j, NULL);
}

/* ---- rows and sums ---- */

static void add_hours(json_t *sums, const char *key, double hours)
{
	double so_far = json_number_value(json_object_get(sums, key));

	(void)json_object_set_new(sums, key, json_real(so_far + hours));
}

static void add_row(struct history *h, const struct task_name *n, const struct usage *u)
{
	bool no_number = u->unknown || (n->gpus == SPEC_ALL && !u->gpus);
	uint64_t ended_ns = n->ended_s ? n->ended_s * NS_PER_S : u->ended_ns;
	char when[CLOCK_TEXT_MAX];
	double hours = u->gpu_seconds / 3600;
	json_t *o = json_pack(
		"{s:I, s:s, s:s, s:s?, s:I, s:s, s:I, s:f, s:o, s:o}", "id", (json_int_t)n->id,
		"name", n->name, "state", queue_state(n, h->dir), "lane",
		n->lane[0] ? n->lane : NULL, "elements", (json_int_t)n->count, "ended",
		clock_format_iso(ended_ns, when), "exit", (json_int_t)n->exit, "ran_s", u->seconds,
		"gpus",
		no_number ? json_string("all")
			  : json_integer(u->gpus ? (json_int_t)u->gpus : (json_int_t)n->gpus),
		"gpu_hours", u->unknown ? json_null() : json_real(hours));

	if (u->peak_bytes) {
		(void)json_object_set_new(o, "gpu_peak_bytes",
					  json_integer((json_int_t)u->peak_bytes));
		(void)json_object_set_new(
			o, "gpu_utilisation",
			json_real(u->watched > 0 ? 100 * u->busy / u->watched : 0));
	}
	h->unknown += u->unknown;
	(void)json_array_append_new(h->tasks, o);
	add_hours(h->lanes, n->lane[0] ? n->lane : "-", hours);
	add_hours(h->names, n->name, hours);
}

static int add_task(void *data, const struct task_name *n, const char *dir)
{
	struct history *h = data;
	const char *lane = opts_text(h->ctx->opts, "lane"), *name = opts_text(h->ctx->opts, "name");
	struct usage u = { .asked = n->gpus, .since_ns = n->ended_s ? 0 : h->since_ns };
	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];

	if (n->element || (n->ended_s ? n->ended_s * NS_PER_S < h->since_ns : !n->count) ||
	    (lane && strcmp(lane, n->lane) != 0) || (name && !str_has_prefix(n->name, name)))
		return 0;
	(void)str_print(path, sizeof(path), "%.40s/%s", dir, name_format(n, file));
	read_used(h->sp, n, path, &u);
	if (n->ended_s || u.ended_ns)
		add_row(h, n, &u);
	return 0;
}

static int collect(struct history *h, struct err *e)
{
	static const enum spool_dir dirs[] = { SPOOL_PENDING, SPOOL_FAILED, SPOOL_CANCELLED };
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(dirs) && r == 0; i++) {
		h->dir = dirs[i];
		r = scan_dir(h->sp, spool_dir_name(h->dir), add_task, h, e);
	}
	h->dir = SPOOL_DONE;
	return r == 0 ? scan_done(h->sp, add_task, h, e) : r;
}

static int by_end(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	int r = strcmp(json_string_value(json_object_get(x, "ended")),
		       json_string_value(json_object_get(y, "ended")));
	json_int_t i = json_integer_value(json_object_get(x, "id")),
		   k = json_integer_value(json_object_get(y, "id"));

	return r ? r : (i > k) - (i < k);
}

/* In the order in which they ended. */
static void sort_tasks(struct history *h)
{
	size_t n = json_array_size(h->tasks);
	cleanup_free json_t **all = xcalloc(n + 1, sizeof(json_t *));
	json_t *sorted = json_array();

	for (size_t i = 0; i < n; i++)
		all[i] = json_array_get(h->tasks, i);
	qsort(all, n, sizeof(json_t *), by_end);
	for (size_t i = 0; i < n; i++)
		(void)json_array_append(sorted, all[i]);
	json_decref(h->tasks);
	h->tasks = sorted;
}

/* ---- for people ---- */

static void print_task(struct table *t, const json_t *o)
{
	const json_t *gpus = json_object_get(o, "gpus"), *hours = json_object_get(o, "gpu_hours");
	const json_t *peak = json_object_get(o, "gpu_peak_bytes");
	const char *lane = json_string_value(json_object_get(o, "lane"));
	const char *ended = json_string_value(json_object_get(o, "ended"));
	uint64_t ran_ms = (uint64_t)(json_number_value(json_object_get(o, "ran_s")) * MS_PER_S);
	char id[24], n[24], used[32], ran[UNIT_TEXT_MAX], when[24], most[UNIT_TEXT_MAX], util[16];

	(void)str_print(id, sizeof(id), "%lld",
			(long long)json_integer_value(json_object_get(o, "id")));
	(void)str_print(n, sizeof(n), "%lld", (long long)json_integer_value(gpus));
	(void)str_print(used, sizeof(used), "%.2f", json_number_value(hours));
	(void)str_print(util, sizeof(util), "%.0f%%",
			json_number_value(json_object_get(o, "gpu_utilisation")));
	(void)str_print(when, sizeof(when), "%.10s %.8s", ended, ended + 11);
	table_add(t, TABLE_PLAIN, id, json_string_value(json_object_get(o, "state")),
		  json_is_string(gpus) ? "all" : n, unit_format_duration(ran_ms, ran),
		  json_is_null(hours) ? "?" : used,
		  peak ? unit_format_gib((uint64_t)json_integer_value(peak), most) : "-",
		  peak ? util : "-", lane ? lane : "-",
		  json_string_value(json_object_get(o, "name")), when);
}

static void print_tasks(const json_t *tasks)
{
	static const struct table_column columns[] = { { "ID", true },
						       { "STATE" },
						       { "GPUS", true, 2 },
						       { "RAN", true },
						       { "GPU-H", true },
						       { "PEAK", true, 3 },
						       { "UTIL", true, 4 },
						       { "LANE", false, 1, 6 },
						       { "NAME", .cut = 8 },
						       { "ENDED" },
						       { 0 } };
	struct table *t = table_new(columns);
	size_t i;
	json_t *o;

	json_array_foreach(tasks, i, o) print_task(t, o);
	table_print(t, stdout);
	(void)table_free(t);
}

struct sum {
	const char *key;
	double hours;
};

static int by_hours(const void *a, const void *b)
{
	const struct sum *x = a, *y = b;

	return x->hours != y->hours ? (x->hours < y->hours) - (x->hours > y->hours)
				    : strcmp(x->key, y->key);
}

static void print_sums(const char *title, json_t *sums)
{
	struct table_column columns[] = { { "GPU-H", true }, { title }, { 0 } };
	cleanup_free struct sum *all = xcalloc(json_object_size(sums) + 1, sizeof(*all));
	struct table *t = table_new(columns);
	const char *key;
	json_t *value;
	size_t n = 0;

	json_object_foreach(sums, key, value) all[n++] =
		(struct sum){ key, json_number_value(value) };
	qsort(all, n, sizeof(*all), by_hours);
	for (size_t i = 0; i < n; i++) {
		char text[32];

		table_add(t, TABLE_PLAIN, str_print(text, sizeof(text), "%.2f", all[i].hours),
			  all[i].key);
	}
	(void)putchar('\n');
	table_print(t, stdout);
	(void)table_free(t);
}

static void print_all(struct history *h)
{
	if (!json_array_size(h->tasks)) {
		printf("Nothing of instance \"%s\"%s has ended in that time.\n", h->sp->instance,
		       opts_given(h->ctx->opts, "lane") || opts_given(h->ctx->opts, "name")
			       ? " that is meant"
			       : "");
		return;
	}
	print_tasks(h->tasks);
	print_sums("LANE", h->lanes);
	print_sums("NAME", h->names);
	if (h->unknown)
		printf("\n%zu had all GPUs of a node; how many is not recorded, and not in the "
		       "sums.\n",
		       h->unknown);
}

/* A time back from now, or a moment that has passed. */
static int parse_since(const char *text, uint64_t *ret_ns, struct err *e)
{
	uint64_t now = clock_wall_ns(), ms, ns;
	int r = unit_parse_duration(text, &ms, NULL);

	if (r == 0) {
		*ret_ns = ms < now / NS_PER_MS ? now - ms * NS_PER_MS : 0;
		return 0;
	}
	r = unit_parse_time(text, now - DAY_NS, &ns, e); /* 18:30: the last one */
	if (r == -ERANGE)
		r = unit_parse_time(text, NS_PER_S, &ns, e);
	if (r < 0)
		return err_set(e, -EINVAL,
			       "--since: \"%s\" is no time; write it like 7d, 12h, 08:00, "
			       "2026-11-20 or '2026-11-20 08:00'",
			       text);
	if (ns > now)
		return err_set(e, -EINVAL, "--since: \"%s\" is yet to come", text);
	*ret_ns = ns;
	return 0;
}

static int run_history(const struct cmd_ctx *ctx, struct err *e)
{
	const char *since = opts_text(ctx->opts, "since");
	struct history h = { .ctx = ctx };
	struct spool *sp = NULL;
	int r;

	if (parse_since(since ? since : "1d", &h.since_ns, e) < 0)
		return CMD_USAGE;
	r = queue_open(ctx, SPOOL_LOOK, &sp, e);
	h.sp = sp;
	h.tasks = json_array();
	h.lanes = json_object();
	h.names = json_object();
	if (r == 0)
		r = collect(&h, e);
	if (r == 0)
		sort_tasks(&h);
	if (r == 0 && opts_flag(ctx->opts, "json"))
		print_json(json_pack("{s:O, s:O, s:O}", "tasks", h.tasks, "gpu_hours_by_lane",
				     h.lanes, "gpu_hours_by_name", h.names));
	else if (r == 0)
		print_all(&h);
	json_decref(h.tasks);
	json_decref(h.lanes);
	json_decref(h.names);
	sp = spool_close(sp);
	return r;
}

static const struct cmd_example history_examples[] = {
	{ "tenure history", "what ended in the last day, with its GPU-hours" },
	{ "tenure history --since 2026-11-01 -l week", "a lane, since that day" },
	{ "tenure history --since 7d --json | jq .gpu_hours_by_lane", "a week, for scripts" },
	{ 0 },
};

const struct cmd cmd_history = {
	.name = "history",
	.group = QUEUE_GROUP,
	.summary = "what has ended, and how many GPU-hours it took",
	.description =
		"GPU-hours are the time of all attempts, times the GPUs that each had, by lane and by "
		"name. PEAK is the most memory that a task used on all its GPUs together, UTIL their "
		"mean utilisation. Of an array or another batch that is not over, what has ended of "
		"it is counted.",
	.examples = history_examples,
	.opts = history_opts,
	.setting_groups = SETTING_GROUP_QUEUE,
	.run = run_history,
};
