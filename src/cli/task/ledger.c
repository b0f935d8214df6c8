/* SPDX-License-Identifier: MIT */
#include "cli/task/ledger.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/settings.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/agent_client.h"
#include "cli/agent_setup.h"
#include "cli/event_file.h"
#include "cli/table.h"

#define FILE_MAX   (64UL << 20) /* bytes, well above where event files are rotated */
#define NUMBER_MAX 32
#define STATUS_MS  1000
#define J_PER_KWH  3.6e6
#define S_PER_H	   3600
#define TASKS_MAX  50	/* in a text, those with the most GPU-hours */
#define PART	   0.95 /* what is known of less than that is known of a part */

/* GPU-seconds, and energy with the GPU-seconds of which it is known. */
struct amount {
	size_t tasks;
	double used_s, empty_s, seen_s, energy_j, energy_s;
	double held_s, yielded_s, held_j, held_energy_s;
	size_t unknown; /* tasks that had all GPUs of a node, whose number was not recorded */
};

enum line_kind { LINE_TASK, LINE_LANE, LINE_USER, LINE_TOTAL, LINE_KIND_MAX };

static const char *const kind_names[LINE_KIND_MAX] = {
	[LINE_TASK] = "task", [LINE_LANE] = "lane", [LINE_USER] = "user", [LINE_TOTAL] = "total"
};

struct line {
	enum line_kind kind;
	uint64_t id; /* of a task */
	char *name, *lane, *user;
	struct amount sum;
};

struct ledger {
	const struct cmd_ctx *ctx;
	uint64_t since_ns, until_ns;
	bool holds; /* they are in it */
	size_t n;
	struct line *lines;
	struct amount total;
};

struct ledger *ledger_new(const struct cmd_ctx *ctx, uint64_t since_ns, uint64_t until_ns)
{
	struct ledger *l = xcalloc(1, sizeof(*l));

	*l = (struct ledger){ .ctx = ctx, .since_ns = since_ns, .until_ns = until_ns };
	return l;
}

struct ledger *ledger_free(struct ledger *l)
{
	for (size_t i = 0; l && i < l->n; i++) {
		free(l->lines[i].name);
		free(l->lines[i].lane);
		free(l->lines[i].user);
	}
	if (l)
		free(l->lines);
	free(l);
	return NULL;
}

/* ---- what is added up ---- */

static struct line *add_line(struct ledger *l, enum line_kind kind)
{
	l->lines = xgrow(l->lines, l->n, sizeof(*l->lines));
	l->lines[l->n] = (struct line){ .kind = kind };
	return &l->lines[l->n++];
}

/* Of lanes and users there are few. */
static struct amount *sum_of(struct ledger *l, enum line_kind kind, const char *key)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct line *x = &l->lines[i];

		if (x->kind == kind && strcmp(kind == LINE_LANE ? x->lane : x->user, key) == 0)
			return &l->lines[i].sum;
	}

	struct line *x = add_line(l, kind);

	*(kind == LINE_LANE ? &x->lane : &x->user) = xstrdup(key);
	return &x->sum;
}

static void add_used(struct amount *a, const struct usage *u)
{
	a->tasks++;
	a->used_s += u->gpu_seconds;
	a->empty_s += u->empty_s;
	a->seen_s += u->seen_s;
	a->energy_j += u->energy_j;
	a->energy_s += u->energy_s;
	a->unknown += u->unknown;
}

void ledger_add(struct ledger *l, uint64_t id, const char *name, const char *lane, const char *user,
		const struct usage *used)
{
	struct line *x = add_line(l, LINE_TASK);

	x->id = id;
	x->name = xstrdup(name);
	x->lane = xstrdup(lane);
	x->user = xstrdup(user);
	add_used(&x->sum, used);
	add_used(sum_of(l, LINE_LANE, lane), used);
	add_used(sum_of(l, LINE_USER, user), used);
	add_used(&l->total, used);
}

/* ---- what was held ---- */

/* Of what lies partly within the time that is meant: as if it had been the same all the time. */
static double share_of(const struct ledger *l, uint64_t end_ns, double for_s)
{
	double from = (double)end_ns / 1e9 - for_s, to = (double)end_ns / 1e9;
	double since = (double)l->since_ns / 1e9, until = (double)l->until_ns / 1e9;
	double begin = from > since ? from : since, end = to < until ? to : until;

	return end <= begin || for_s <= 0 ? 0 : (end - begin) / for_s;
}

static void add_held(struct amount *a, const json_t *gpu, double share)
{
	a->held_s += share * json_get_num(gpu, "held_s");
	a->yielded_s += share * json_get_num(gpu, "yielded_s");
	if (!json_is_number(json_object_get(gpu, "held_energy_j")))
		return;
	a->held_j += share * json_get_num(gpu, "held_energy_j");
	a->held_energy_s += share * json_get_num(gpu, "held_energy_s");
}

/* for_s and gpus, of a time that ended then. */
static void take_meter(struct ledger *l, struct amount *mine, const json_t *o, uint64_t end_ns)
{
	const json_t *gpu;
	size_t i;
	double share = share_of(l, end_ns, json_get_num(o, "for_s"));

	json_array_foreach(json_object_get(o, "gpus"), i, gpu) if (share > 0)
	{
		add_held(mine, gpu, share);
		add_held(&l->total, gpu, share);
	}
}

static const char *kind_of(const json_t *event)
{
	const char *kind = json_get_str(event, "event");

	return kind ? kind : "";
}

static int read_file(struct ledger *l, const char *path, struct amount *mine, struct err *e)
{
	static const char mark[] = "\"meter\"";
	cleanup_free char *text = NULL;
	size_t len;
	int r = fs_read_file(path, FILE_MAX, &text, &len, e);

	if (r < 0)
		return r == -ENOENT ? 0 : r; /* it was rotated */
	for (const char *p = text, *nl; (nl = memchr(p, '\n', len - (size_t)(p - text)));
	     p = nl + 1) {
		json_t *o = memmem(p, (size_t)(nl - p), mark, strlen(mark))
				    ? json_loadb(p, (size_t)(nl - p), 0, NULL)
				    : NULL;

		if (o && strcmp(kind_of(o), "meter") == 0)
			take_meter(l, mine, o, event_file_time(o));
		json_decref(o);
	}
	return 0;
}

/* What the agent here has not written down yet. */
static void ask_agent(struct ledger *l, struct amount *mine)
{
	json_t *status = agent_status(l->ctx, STATUS_MS, NULL);

	take_meter(l, mine, json_object_get(status, "meter"), clock_wall_ns());
	json_decref(status);
}

/* "n7.jsonl", and its older ones "n7.jsonl.1". */
static bool is_event_file(const char *file)
{
	const char *end = strstr(file, ".jsonl");

	return file[0] != '.' && end && (!end[6] || end[6] == '.');
}

int ledger_read_meters(struct ledger *l, struct err *e)
{
	cleanup_free char *state = agent_setup_state_dir(l->ctx->settings);
	cleanup_free char *dir =
		xasprintf("%s/%s/events", state, settings_str(l->ctx->settings, SET_INSTANCE));
	struct amount mine = { .tasks = 0 }, *user;
	DIR *d = opendir(dir);
	const struct dirent *entry;
	char name[64];
	int r = 0;

	l->holds = true;
	if (!d && errno != ENOENT)
		return err_sys(e, errno, "open %s", dir);
	while (d && r == 0 && (entry = readdir(d))) {
		cleanup_free char *path = xasprintf("%s/%s", dir, entry->d_name);

		r = is_event_file(entry->d_name) ? read_file(l, path, &mine, e) : 0;
	}
	if (d)
		(void)closedir(d);
	if (r == 0)
		ask_agent(l, &mine);
	if (mine.held_s > 0 || mine.yielded_s > 0) {
		user = sum_of(l, LINE_USER, user_name(getuid(), name, sizeof(name)));
		user->held_s = mine.held_s;
		user->yielded_s = mine.yielded_s;
		user->held_j = mine.held_j;
		user->held_energy_s = mine.held_energy_s;
	}
	return r;
}

/* ---- for programs ---- */

/* Where nothing is known of what there was. */
static bool is_unknown(double known_s, double of_s)
{
	return known_s <= 0 && of_s > 0;
}

static json_t *number_or_null(double number, bool unknown)
{
	return unknown ? json_null() : json_real(number);
}

static json_t *used_json(const struct amount *a)
{
	return json_pack("{so so sf so sf}", "used_gpu_s",
			 number_or_null(a->used_s, a->unknown && a->unknown == a->tasks),
			 "empty_gpu_s",
			 number_or_null(a->empty_s, is_unknown(a->seen_s, a->used_s)),
			 "empty_known_gpu_s", a->seen_s, "energy_j",
			 number_or_null(a->energy_j, is_unknown(a->energy_s, a->used_s)),
			 "energy_known_gpu_s", a->energy_s);
}

static json_t *held_json(const struct amount *a)
{
	return json_pack("{sf so sf}", "gpu_s", a->held_s, "energy_j",
			 number_or_null(a->held_j, is_unknown(a->held_energy_s, a->held_s)),
			 "energy_known_gpu_s", a->held_energy_s);
}

static json_t *line_json(const struct ledger *l, const struct line *x)
{
	json_t *o = used_json(&x->sum);

	if (x->kind == LINE_TASK) {
		(void)json_object_set_new(o, "id", json_integer((json_int_t)x->id));
		(void)json_object_set_new(o, "name", json_new_text(x->name));
	} else {
		(void)json_object_set_new(o, "tasks", json_integer((json_int_t)x->sum.tasks));
	}
	if (x->lane)
		(void)json_object_set_new(o, "lane",
					  x->lane[0] ? json_new_text(x->lane) : json_null());
	if (x->user)
		(void)json_object_set_new(o, "user", json_new_text(x->user));
	if (x->kind == LINE_USER && l->holds) {
		(void)json_object_set_new(o, "held", held_json(&x->sum));
		(void)json_object_set_new(o, "yielded_gpu_s", json_real(x->sum.yielded_s));
	}
	return o;
}

static void print_json(const struct ledger *l)
{
	json_t *lists[LINE_KIND_MAX] = { json_array(), json_array(), json_array(), json_array() };
	char since[CLOCK_TEXT_MAX], until[CLOCK_TEXT_MAX];
	const struct amount *t = &l->total;

	for (size_t i = 0; i < l->n; i++)
		(void)json_array_append_new(lists[l->lines[i].kind], line_json(l, &l->lines[i]));
	json_decref(lists[LINE_TOTAL]);
	cmd_print_json(json_pack("{si ss ss so so so so so so sI}", "format", 1, "since",
				 clock_format_iso(l->since_ns, since), "until",
				 clock_format_iso(l->until_ns, until), "tasks", lists[LINE_TASK],
				 "lanes", lists[LINE_LANE], "users", lists[LINE_USER], "used",
				 used_json(t), "held", l->holds ? held_json(t) : json_null(),
				 "yielded_gpu_s", l->holds ? json_real(t->yielded_s) : json_null(),
				 "tasks_of_unknown_gpus", (json_int_t)t->unknown));
}

static void csv_text(const char *text)
{
	bool quoted = text && strpbrk(text, ",\"\r\n");

	if (quoted)
		(void)putchar('"');
	for (const char *p = text ? text : ""; *p; p++) {
		if (*p == '"')
			(void)putchar('"');
		(void)putchar(*p);
	}
	if (quoted)
		(void)putchar('"');
}

/* Empty where it is not known. */
static void csv_number(double number, bool unknown)
{
	if (unknown)
		(void)putchar(',');
	else
		printf(",%.6f", number);
}

static void print_csv_line(const struct ledger *l, enum line_kind kind, const struct line *x,
			   const struct amount *a)
{
	bool holds = l->holds && (kind == LINE_USER || kind == LINE_TOTAL);

	printf("%s,", kind_names[kind]);
	if (x && x->kind == LINE_TASK)
		printf("%" PRIu64, x->id);
	(void)putchar(',');
	csv_text(x ? x->name : NULL);
	(void)putchar(',');
	csv_text(x ? x->lane : NULL);
	(void)putchar(',');
	csv_text(x ? x->user : NULL);
	printf(",%zu", a->tasks);
	csv_number(a->used_s / S_PER_H, a->unknown && a->unknown == a->tasks);
	csv_number(a->empty_s / S_PER_H, is_unknown(a->seen_s, a->used_s));
	csv_number(a->energy_j / J_PER_KWH, is_unknown(a->energy_s, a->used_s));
	csv_number(a->energy_s / S_PER_H, false);
	csv_number(a->held_s / S_PER_H, !holds);
	csv_number(a->held_j / J_PER_KWH, !holds || is_unknown(a->held_energy_s, a->held_s));
	csv_number(a->held_energy_s / S_PER_H, !holds);
	csv_number(a->yielded_s / S_PER_H, !holds);
	(void)putchar('\n');
}

static void print_csv(const struct ledger *l)
{
	printf("kind,id,name,lane,user,tasks,used_gpu_h,empty_gpu_h,energy_kwh,energy_known_gpu_h,"
	       "held_gpu_h,held_energy_kwh,held_energy_known_gpu_h,yielded_gpu_h\n");
	for (enum line_kind kind = LINE_TASK; kind < LINE_TOTAL; kind++)
		for (size_t i = 0; i < l->n; i++)
			if (l->lines[i].kind == kind)
				print_csv_line(l, kind, &l->lines[i], &l->lines[i].sum);
	print_csv_line(l, LINE_TOTAL, NULL, &l->total);
}

/* ---- for people ---- */

/* "12.4", "0.0021", "?" and, of what is known in part, "12.4+". */
static const char *figure(double value, double known_s, double of_s, char buf[NUMBER_MAX])
{
	int digits = value >= 0.1 || value <= 0 ? 2 : value >= 0.001 ? 4 : 6;

	if (is_unknown(known_s, of_s))
		return "?";
	return str_print(buf, NUMBER_MAX, "%.*f%s", value <= 0 ? 0 : digits, value,
			 known_s < PART * of_s ? "+" : "");
}

enum cell {
	CELL_ID,
	CELL_TASKS,
	CELL_USED,
	CELL_EMPTY,
	CELL_KWH,
	CELL_HELD,
	CELL_HELD_KWH,
	CELL_YIELDED,
	CELL_LANE,
	CELL_USER,
	CELL_NAME,
	CELL_MAX
};

static const struct table_column cell_columns[CELL_MAX] = {
	[CELL_ID] = { "ID", true },
	[CELL_TASKS] = { "TASKS", true },
	[CELL_USED] = { "USED", true },
	[CELL_EMPTY] = { "EMPTY", true, 2 },
	[CELL_KWH] = { "KWH", true },
	[CELL_HELD] = { "HELD", true },
	[CELL_HELD_KWH] = { "HELD-KWH", true },
	[CELL_YIELDED] = { "YIELDED", true, 1 },
	[CELL_LANE] = { "LANE" },
	[CELL_USER] = { "USER" },
	[CELL_NAME] = { "NAME", .cut = 8 },
};

/* CELL_MAX behind the last. */
static const enum cell cells_of[LINE_TOTAL][CELL_MAX] = {
	[LINE_TASK] = { CELL_ID, CELL_USED, CELL_EMPTY, CELL_KWH, CELL_LANE, CELL_USER, CELL_NAME,
			CELL_MAX },
	[LINE_LANE] = { CELL_TASKS, CELL_USED, CELL_EMPTY, CELL_KWH, CELL_LANE, CELL_MAX },
	[LINE_USER] = { CELL_TASKS, CELL_USED, CELL_EMPTY, CELL_KWH, CELL_HELD, CELL_HELD_KWH,
			CELL_YIELDED, CELL_USER, CELL_MAX },
};

static void add_row(struct table *t, const struct line *x, bool holds)
{
	const struct amount *a = &x->sum;
	char text[CELL_MAX][NUMBER_MAX];
	const char *all[CELL_MAX], *cells[CELL_MAX + 1];
	size_t n = 0;

	all[CELL_ID] = str_print(text[CELL_ID], NUMBER_MAX, "%" PRIu64, x->id);
	all[CELL_TASKS] = str_print(text[CELL_TASKS], NUMBER_MAX, "%zu", a->tasks);
	all[CELL_USED] = a->unknown && a->unknown == a->tasks
				 ? "?"
				 : figure(a->used_s / S_PER_H, 1, 0, text[CELL_USED]);
	all[CELL_EMPTY] = figure(a->empty_s / S_PER_H, a->seen_s, a->used_s, text[CELL_EMPTY]);
	all[CELL_KWH] = figure(a->energy_j / J_PER_KWH, a->energy_s, a->used_s, text[CELL_KWH]);
	all[CELL_HELD] = holds ? figure(a->held_s / S_PER_H, 1, 0, text[CELL_HELD]) : "-";
	all[CELL_HELD_KWH] = holds ? figure(a->held_j / J_PER_KWH, a->held_energy_s, a->held_s,
					    text[CELL_HELD_KWH])
				   : "-";
	all[CELL_YIELDED] = holds ? figure(a->yielded_s / S_PER_H, 1, 0, text[CELL_YIELDED]) : "-";
	all[CELL_LANE] = x->lane && x->lane[0] ? x->lane : "-";
	all[CELL_USER] = x->user;
	all[CELL_NAME] = x->name;
	for (const enum cell *c = cells_of[x->kind]; *c != CELL_MAX; c++)
		cells[n++] = all[*c];
	cells[n] = NULL;
	table_add_cells(t, TABLE_PLAIN, cells);
}

static int by_used(const void *a, const void *b)
{
	const struct line *x = *(const struct line *const *)a, *y = *(const struct line *const *)b;

	if (x->sum.used_s != y->sum.used_s)
		return x->sum.used_s < y->sum.used_s ? 1 : -1;
	return (x->id > y->id) - (x->id < y->id);
}

/* The largest ones. */
static void print_kind(const struct ledger *l, enum line_kind kind, size_t most)
{
	struct table_column columns[CELL_MAX + 1] = { { NULL } };
	cleanup_free const struct line **sorted = xcalloc(l->n + 1, sizeof(*sorted));
	size_t n = 0, n_columns = 0;
	struct table *t;

	for (const enum cell *c = cells_of[kind]; *c != CELL_MAX; c++)
		columns[n_columns++] = cell_columns[*c];
	t = table_new(columns);
	for (size_t i = 0; i < l->n; i++)
		if (l->lines[i].kind == kind)
			sorted[n++] = &l->lines[i];
	if (n)
		qsort(sorted, n, sizeof(*sorted), by_used);
	for (size_t i = 0; i < n && i < most; i++)
		add_row(t, sorted[i], l->holds);
	if (n)
		table_print(t, stdout);
	if (n > most)
		printf("%zu more with fewer GPU-hours; --all shows them\n", n - most);
	if (n)
		(void)putchar('\n');
	(void)table_free(t);
}

static void print_total(const struct ledger *l)
{
	const struct amount *t = &l->total;
	char used[NUMBER_MAX], empty[NUMBER_MAX], kwh[NUMBER_MAX];

	printf("used by tasks  %s GPU-hours, %s kWh; empty or idle %s of them\n",
	       figure(t->used_s / S_PER_H, 1, 0, used),
	       figure(t->energy_j / J_PER_KWH, t->energy_s, t->used_s, kwh),
	       figure(t->empty_s / S_PER_H, t->seen_s, t->used_s, empty));
	if (l->holds)
		printf("held           %s GPU-hours, %s kWh\n",
		       figure(t->held_s / S_PER_H, 1, 0, used),
		       figure(t->held_j / J_PER_KWH, t->held_energy_s, t->held_s, kwh));
	if (l->holds)
		printf("yielded        %s GPU-hours\n", figure(t->yielded_s / S_PER_H, 1, 0, used));
	if (t->unknown)
		printf("%zu task%s had all GPUs of a node; how many is not recorded, and not in "
		       "the sums\n",
		       t->unknown, t->unknown == 1 ? "" : "s");
	if (t->energy_s < PART * t->used_s || t->held_energy_s < PART * t->held_s ||
	    t->seen_s < PART * t->used_s)
		puts("?: it is not known; +: there is more, of which it is not known");
}

void ledger_print(const struct ledger *l)
{
	char since[CLOCK_TEXT_MAX], until[CLOCK_TEXT_MAX];

	if (opts_flag(l->ctx->opts, "json")) {
		print_json(l);
		return;
	}
	if (opts_flag(l->ctx->opts, "csv")) {
		print_csv(l);
		return;
	}
	printf("From %.19s to %.19s, in GPU-hours and kWh:\n\n",
	       clock_format_local(l->since_ns, since), clock_format_local(l->until_ns, until));
	print_kind(l, LINE_TASK, opts_flag(l->ctx->opts, "all") ? SIZE_MAX : TASKS_MAX);
	print_kind(l, LINE_LANE, SIZE_MAX);
	print_kind(l, LINE_USER, SIZE_MAX);
	print_total(l);
}
