/* SPDX-License-Identifier: MIT */
#include "tui/frame.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "base/utf8.h"

#define BAR	     12
#define TREND	     8	 /* columns of a device's history; each has two samples */
#define WIDE	     120 /* from so many columns on, why a device is as it is stands beside it */
#define EVENTS_LEAST 3
#define TASKS_LEAST  4

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_get_str(o, key);

	return text ? text : "";
}

static bool is_known(const json_t *o, const char *key)
{
	return json_is_number(json_object_get(o, key));
}

/* "GPU 2", "2/1" of an instance of it */
static const char *label_of(const json_t *d, char *buf, size_t size)
{
	const json_t *mig = json_object_get(d, "mig");

	return json_is_integer(mig) ? str_print(buf, size, "%u/%u", json_get_small(d, "gpu", 999),
						json_get_small(d, "mig", 99))
				    : str_print(buf, size, "%u", json_get_small(d, "gpu", 999));
}

static const char *duration(double s, char buf[UNIT_TEXT_MAX])
{
	return unit_format_duration((uint64_t)(s < 0 ? 0 : s) * 1000, buf);
}

/* -------- history -------- */

static struct frame_history *history_of(struct frame_ui *ui, const char *uuid)
{
	for (size_t i = 0; i < ui->n_histories; i++)
		if (strcmp(ui->histories[i].uuid, uuid) == 0)
			return &ui->histories[i];
	if (ui->n_histories == FRAME_DEVICES)
		return NULL;
	(void)str_copy(ui->histories[ui->n_histories].uuid, sizeof(ui->histories[0].uuid), uuid);
	return &ui->histories[ui->n_histories++];
}

void frame_sample(struct frame_ui *ui, const struct model_snapshot *s)
{
	const json_t *d;
	size_t i;

	json_array_foreach(json_object_get(s->status, "devices"), i, d)
	{
		struct frame_history *h = history_of(ui, text_of(d, "uuid"));

		if (h)
			h->util[h->n++ % FRAME_HISTORY] =
				is_known(d, "utilisation")
					? (unsigned char)json_get_small(d, "utilisation", 100)
					: FRAME_UNKNOWN;
	}
}

/* The i-th sample before the last one. */
static unsigned int sample_before(const struct frame_history *h, size_t i)
{
	return h && i < h->n && i < FRAME_HISTORY ? h->util[(h->n - 1 - i) % FRAME_HISTORY]
						  : FRAME_UNKNOWN;
}

/* Dots from the bottom up, of the left and of the right column of a Braille character. */
static unsigned int dots(unsigned int util, bool left)
{
	static const unsigned char marks[2][4] = { { 0x80, 0x20, 0x10, 0x08 },
						   { 0x40, 0x04, 0x02, 0x01 } };
	unsigned int n = util == FRAME_UNKNOWN ? 0 : util >= 88 ? 4 : (util + 12) / 25, all = 0;

	for (unsigned int i = 0; i < n; i++)
		all |= marks[left][i];
	return all;
}

static void draw_trend(struct canvas *c, size_t x, size_t y, const struct frame_history *h,
		       bool ascii)
{
	static const char levels[] = " .:|#";

	for (size_t i = 0; i < TREND; i++) {
		unsigned int right = sample_before(h, 2 * i), left = sample_before(h, 2 * i + 1);
		unsigned int code = 0x2800 + (dots(left, true) | dots(right, false));
		char text[4] = { (char)(0xe0 | code >> 12), (char)(0x80 | (code >> 6 & 63)),
				 (char)(0x80 | (code & 63)), '\0' };
		char plain[2] = { right == FRAME_UNKNOWN ? ' ' : levels[(right + 12) / 25 % 5],
				  '\0' };

		(void)canvas_put(c, x + TREND - 1 - i, y, INK_PLAIN, ascii ? plain : text, 1);
	}
}

/* -------- devices -------- */

static enum ink state_ink(const char *state)
{
	static const struct {
		const char *state;
		enum ink ink;
	} all[] = { { "held", INK_HELD },     { "holding", INK_HELD }, { "workload", INK_TASK },
		    { "lent", INK_TASK },     { "lending", INK_TASK }, { "busy", INK_FOREIGN },
		    { "yielding", INK_WARN }, { "unseen", INK_BAD },   { "left", INK_DIM } };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (strcmp(state, all[i].state) == 0)
			return all[i].ink;
	return INK_PLAIN;
}

/* Whose the memory is: ours, a task's, somebody else's, nobody's. */
static void draw_memory(struct canvas *c, size_t x, size_t y, const json_t *d, bool ascii)
{
	static const char *const marks[2][4] = { { "█", "▓", "▒", "·" }, { "#", "=", "x", "." } };
	static const enum ink inks[4] = { INK_HELD, INK_TASK, INK_FOREIGN, INK_DIM };
	uint64_t total = json_get_u64(d, "memory_total_bytes");
	uint64_t used = json_get_u64(d, "memory_used_bytes"), held = json_get_u64(d, "held_bytes");
	bool task = str_has_prefix(text_of(d, "use"), "in use") ||
		    strcmp(text_of(d, "state"), "workload") == 0;
	bool ours = str_has_prefix(text_of(d, "state"), "hold") ||
		    strcmp(text_of(d, "state"), "held") == 0;
	uint64_t others, ends[4];

	held = ours ? used : held; /* with our context; nobody else is there */
	others = used > held ? used - held : 0;

	if (!total || !is_known(d, "memory_used_bytes")) {
		(void)canvas_put(c, x, y, INK_DIM, "not known", BAR);
		return;
	}
	ends[0] = held < total ? held : total;
	ends[1] = ends[0] + (task ? others : 0);
	ends[2] = ends[0] + others;
	ends[3] = UINT64_MAX;
	for (size_t i = 0, part = 0; i < BAR; i++) {
		while ((2 * i + 1) * (total / (2 * BAR)) >= ends[part])
			part++;
		(void)canvas_put(c, x + i, y, inks[part], marks[ascii][part], 1);
	}
}

static enum ink util_ink(const json_t *d, unsigned int util)
{
	const json_t *band = json_object_get(d, "utilisation_band");
	json_int_t low = json_integer_value(json_array_get(band, 0));
	json_int_t high = json_integer_value(json_array_get(band, 1));

	if (!json_is_array(band))
		return INK_PLAIN;
	return util >= low && util <= high ? INK_GOOD : INK_WARN;
}

static void draw_figures(struct canvas *c, size_t x, size_t y, const json_t *d, struct frame_ui *ui)
{
	char text[64];
	unsigned int util = json_get_small(d, "utilisation", 100);

	(void)str_print(text, sizeof(text), "%.1f/%.1f",
			(double)json_get_u64(d, "memory_used_bytes") / (double)(1ULL << 30),
			(double)json_get_u64(d, "memory_total_bytes") / (double)(1ULL << 30));
	canvas_right(c, x, y, INK_PLAIN, is_known(d, "memory_used_bytes") ? text : "?", 11);
	(void)str_print(text, sizeof(text), "%u%%", util);
	canvas_right(c, x + 12, y, util_ink(d, util), is_known(d, "utilisation") ? text : "?", 4);
	draw_trend(c, x + 17, y, history_of(ui, text_of(d, "uuid")), ui->ascii);
	(void)str_print(text, sizeof(text), "%.0f", json_get_num(d, "power_w"));
	canvas_right(c, x + 18 + TREND, y, INK_PLAIN, is_known(d, "power_w") ? text : "?", 4);
	(void)str_print(text, sizeof(text), "%u", json_get_small(d, "temperature_c", 999));
	canvas_right(c, x + 23 + TREND, y, INK_PLAIN, is_known(d, "temperature_c") ? text : "?", 3);
}

/* Why it is as it is. */
static void draw_why(struct canvas *c, size_t x, size_t y, const json_t *d)
{
	const char *use = text_of(d, "use"), *reason = text_of(d, "reason");
	char time[UNIT_TEXT_MAX];
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	strbuf_adds(&b, use);
	if (reason[0])
		strbuf_addf(&b, "%s%s", b.len ? "; " : "", reason);
	if (is_known(d, "hold_in_s"))
		strbuf_addf(&b, "%sto be held in %s", b.len ? "; " : "",
			    duration(json_get_num(d, "hold_in_s"), time));
	(void)canvas_put(c, x, y, use[0] ? INK_TASK : INK_DIM, strbuf_str(&b), c->width);
}

static void draw_device(struct canvas *c, size_t y, const json_t *d, struct frame_ui *ui)
{
	char label[16], time[UNIT_TEXT_MAX];
	const char *state = text_of(d, "state"), *name = text_of(d, "name");

	name = str_has_prefix(name, "NVIDIA ") ? name + strlen("NVIDIA ") : name;
	canvas_right(c, 0, y, INK_BOLD, label_of(d, label, sizeof(label)), 4);
	(void)canvas_put(c, 5, y, INK_PLAIN, name, 8);
	(void)canvas_put(c, 14, y, state_ink(state), state, 8);
	canvas_right(c, 22, y, INK_DIM, duration(json_get_num(d, "for_s"), time), 7);
	draw_memory(c, 30, y, d, ui->ascii);
	draw_figures(c, 30 + BAR + 1, y, d, ui);
	if (ui->device_lines == 2)
		draw_why(c, 14, y + 1, d);
	else if (c->width >= WIDE)
		draw_why(c, 79, y, d);
	if (ui->part == PART_DEVICES && strcmp(text_of(d, "uuid"), ui->uuid) == 0)
		canvas_tint(c, 0, y, 29, INK_CHOSEN);
}

/* The first row behind them. */
static size_t draw_devices(struct canvas *c, size_t y, const struct model_snapshot *s,
			   struct frame_ui *ui)
{
	const json_t *devices = json_object_get(s->status, "devices"), *d;
	size_t n = json_array_size(devices),
	       room = c->height / 2 > y + 2 ? c->height / 2 - y - 1 : 1;
	size_t i;

	(void)canvas_put(
		c, 0, y, INK_HEAD,
		" GPU NAME     STATE        FOR MEMORY         USED/GiB UTIL HISTORY    W  °C",
		c->width);
	canvas_tint(c, 0, y, c->width, INK_HEAD);
	y++;
	ui->first_device_y = y;
	ui->device_lines = c->width < WIDE && n * 2 <= room ? 2 : 1;
	ui->n_device_rows = n * ui->device_lines <= room ? n : room / ui->device_lines;
	if (!n)
		(void)canvas_put(c, 5, y++, INK_DIM, s->trouble[0] ? s->trouble : "none is known",
				 c->width);
	json_array_foreach(devices, i, d)
	{
		if (i == ui->n_device_rows)
			break;
		draw_device(c, y, d, ui);
		y += ui->device_lines;
	}
	if (n > ui->n_device_rows)
		(void)canvas_print(c, 5, y++, INK_DIM, ".. and %zu more", n - ui->n_device_rows);
	return y;
}

/* -------- the queue -------- */

static bool contains(const char *text, const char *part)
{
	size_t n = strlen(part);

	for (; *text; text++)
		if (strncasecmp(text, part, n) == 0)
			return true;
	return false;
}

static bool passes(const struct row *row, const char *filter)
{
	char id[64];

	(void)str_print(id, sizeof(id), "%" PRIu64, row->name.id);
	return !filter[0] || contains(row->name.name, filter) || contains(row->name.lane, filter) ||
	       contains(row->name.agent, filter) || str_has_prefix(id, filter) ||
	       contains(taskstate_name(row->state), filter);
}

/* What runs comes first, whatever else they are sorted by. */
static int by_running(const struct row *a, const struct row *b)
{
	return (b->dir == SPOOL_RUNNING) - (a->dir == SPOOL_RUNNING);
}

static int compare_ids(const struct row *a, const struct row *b)
{
	if (a->name.id != b->name.id)
		return a->name.id < b->name.id ? -1 : 1;
	return a->name.element < b->name.element ? -1 : a->name.element > b->name.element;
}

static int by_plan(const void *x, const void *y)
{
	const struct row *a = *(const struct row *const *)x, *b = *(const struct row *const *)y;
	int r = by_running(a, b);

	return r ? r : a < b ? -1 : a > b; /* as they are */
}

static int by_ids(const void *x, const void *y)
{
	return compare_ids(*(const struct row *const *)x, *(const struct row *const *)y);
}

static int by_names(const void *x, const void *y)
{
	const struct row *a = *(const struct row *const *)x, *b = *(const struct row *const *)y;
	int r = strcmp(a->name.name, b->name.name);

	return r ? r : compare_ids(a, b);
}

static int by_times(const void *x, const void *y)
{
	const struct row *a = *(const struct row *const *)x, *b = *(const struct row *const *)y;
	int r = by_running(a, b);

	if (r || a->started_ns == b->started_ns)
		return r ? r : compare_ids(a, b);
	return a->started_ns < b->started_ns ? -1 : 1;
}

static size_t add_rows(const struct rows *rows, const struct frame_ui *ui, const struct row **to)
{
	size_t n = 0;

	for (size_t i = 0; i < rows->n; i++)
		if (passes(&rows->all[i], ui->filter))
			to[n++] = &rows->all[i];
	return n;
}

size_t frame_tasks(const struct model_snapshot *s, const struct frame_ui *ui,
		   const struct row ***ret)
{
	static int (*const orders[SORT_MAX])(const void *, const void *) = {
		[SORT_PLAN] = by_plan,
		[SORT_ID] = by_ids,
		[SORT_NAME] = by_names,
		[SORT_TIME] = by_times,
	};
	const struct row **all = xcalloc(s->rows.n + s->ended.n + 1, sizeof(*all));
	size_t n = add_rows(&s->rows, ui, all);

	if (n)
		qsort(all, n, sizeof(*all), orders[ui->sort]);
	if (ui->ended)
		n += add_rows(&s->ended, ui, all + n);
	*ret = all;
	return n;
}

static enum ink task_ink(const struct row *row)
{
	static const enum ink inks[TASKSTATE_MAX] = {
		[TASKSTATE_PENDING] = INK_PLAIN, [TASKSTATE_PAUSED] = INK_DIM,
		[TASKSTATE_RUNNING] = INK_TASK,	 [TASKSTATE_DONE] = INK_DIM,
		[TASKSTATE_FAILED] = INK_BAD,	 [TASKSTATE_CANCELLED] = INK_DIM,
	};

	return inks[row->state];
}

static void add_devices(const json_t *run, struct strbuf *b)
{
	const json_t *devices = json_object_get(run, "devices"), *gpu;
	size_t i;

	json_array_foreach(devices, i, gpu) strbuf_addf(b, "%s%" JSON_INTEGER_FORMAT,
							i	 ? ","
							: b->len ? ", GPU "
								 : "GPU ",
							json_integer_value(gpu));
}

static void add_counts(const struct row *row, struct strbuf *b)
{
	const struct batch_counts *n = &row->counts;

	strbuf_addf(b, "%" PRIu64 " elements", row->name.count);
	if (row->counted)
		strbuf_addf(b,
			    ": %" PRIu64 " wait, %" PRIu64 " run, %" PRIu64 " done, %" PRIu64
			    " failed",
			    n->waiting, n->running, n->done, n->failed);
}

/* Where and on what it runs, why it waits and when it starts, how it has ended. */
static void add_note(const struct row *row, struct strbuf *b)
{
	const char *reason = text_of(row->reason, "text"), *when = text_of(row->forecast, "text");
	char time[CLOCK_TEXT_MAX];

	if (row->name.count)
		add_counts(row, b);
	if (row->dir == SPOOL_RUNNING && row->name.agent[0])
		strbuf_addf(b, "%son %s", b->len ? ", " : "", row->name.agent);
	add_devices(row->run, b);
	if (reason[0])
		strbuf_addf(b, "%s%s", b->len ? "; " : "", reason);
	if (when[0])
		strbuf_addf(b, "%s%s", b->len ? "; " : "", when);
	if (row->name.ended_s)
		strbuf_addf(b, "%s%s", b->len ? "; " : "",
			    clock_format_local(row->name.ended_s * NS_PER_S, time));
	if (row->name.ended_s && row->name.exit && !row->name.count)
		strbuf_addf(b, ", %s %u", row->name.exit >= NAME_SIGNALLED ? "signal" : "exit",
			    row->name.exit & (NAME_SIGNALLED - 1));
}

static void draw_task(struct canvas *c, size_t y, const struct row *row, const struct frame_ui *ui,
		      uint64_t now_ns)
{
	char text[UNIT_TEXT_MAX * 2];
	cleanup_strbuf struct strbuf note = STRBUF_INIT;
	enum ink ink = task_ink(row);

	(void)str_print(text, sizeof(text), row->name.element ? "%" PRIu64 ".%" PRIu64 : "%" PRIu64,
			row->name.id, row->name.element);
	canvas_right(c, 0, y, INK_BOLD, text, 9);
	(void)canvas_put(c, 10, y, ink, taskstate_name(row->state), 9);
	(void)str_print(text, sizeof(text), "%" PRIu64, row->name.gpus);
	canvas_right(c, 20, y, INK_PLAIN, row->name.gpus == SPEC_ALL ? "all" : text, 4);
	(void)canvas_put(c, 25, y, INK_PLAIN, row->name.lane[0] ? row->name.lane : "-", 7);
	(void)canvas_put(c, 33, y, INK_PLAIN, row->name.name, 14);
	if (row->started_ns && now_ns > row->started_ns)
		canvas_right(c, 48, y, INK_PLAIN,
			     duration((double)(now_ns - row->started_ns) / 1e9, text), 8);
	if (is_known(row->run, "timeout_s"))
		strbuf_addf(&note, "of %s",
			    unit_format_duration_exact(
				    (uint64_t)(json_get_num(row->run, "timeout_s") * 1e3), text));
	add_note(row, &note);
	(void)canvas_put(c, 57, y, INK_DIM, strbuf_str(&note), c->width);
	if (ui->part == PART_TASKS && row->name.id == ui->task && row->name.element == ui->element)
		canvas_tint(c, 0, y, c->width, INK_CHOSEN);
}

/* The chosen row stays where it can be seen. */
static void scroll_to_chosen(struct frame_ui *ui, const struct row **tasks, size_t n, size_t room)
{
	for (size_t i = 0; i < n; i++) {
		if (tasks[i]->name.id != ui->task || tasks[i]->name.element != ui->element)
			continue;
		if (i < ui->scroll)
			ui->scroll = i;
		else if (i >= ui->scroll + room)
			ui->scroll = i - room + 1;
		return;
	}
	if (ui->scroll + room > n)
		ui->scroll = n > room ? n - room : 0;
}

static void draw_queue_head(struct canvas *c, size_t y, const struct model_snapshot *s,
			    const struct frame_ui *ui)
{
	static const char *const sorts[SORT_MAX] = { "", ", by id", ", by name", ", by start" };
	size_t running = 0;
	char text[160];

	for (size_t i = 0; i < s->rows.n; i++)
		running += s->rows.all[i].dir == SPOOL_RUNNING;
	canvas_tint(c, 0, y, c->width, INK_HEAD);
	(void)canvas_put(c, 0, y, INK_HEAD,
			 "       ID STATE     GPUS LANE    NAME            ELAPSED", c->width);
	(void)str_print(text, sizeof(text), "%zu run, %zu wait%s%s%s", running, s->rows.n - running,
			sorts[ui->sort], ui->filter[0] ? ", with " : "", ui->filter);
	if (c->width > 57)
		canvas_right(c, 57, y, INK_HEAD, text, c->width - 57);
}

static size_t draw_queue(struct canvas *c, size_t y, size_t room, const struct model_snapshot *s,
			 struct frame_ui *ui, uint64_t now_ns)
{
	const struct row **tasks;
	size_t n = frame_tasks(s, ui, &tasks);

	draw_queue_head(c, y++, s, ui);
	room--;
	ui->first_task_y = y;
	ui->n_tasks = n;
	scroll_to_chosen(ui, tasks, n, room);
	ui->n_task_rows = n - ui->scroll < room ? n - ui->scroll : room;
	for (size_t i = 0; i < ui->n_task_rows; i++)
		draw_task(c, y + i, tasks[ui->scroll + i], ui, now_ns);
	if (!n)
		(void)canvas_put(c, 10, y, INK_DIM,
				 s->queue_trouble[0] ? s->queue_trouble
				 : !s->read	     ? "the queue is being read"
				 : ui->filter[0]     ? "nothing is like that"
						     : "nothing waits or runs",
				 c->width);
	free(tasks);
	return y + room;
}

/* -------- the rest -------- */

static void draw_header(struct canvas *c, const struct model_snapshot *s, const char *instance,
			uint64_t now_ns)
{
	char time[CLOCK_TEXT_MAX];
	const char *clock = strchr(clock_format_local(now_ns, time), ' ') + 1;
	size_t x = canvas_print(c, 0, 0, INK_BOLD, "tenure %s", instance);

	if (s->status)
		x = canvas_print(c, x, 0, INK_PLAIN, " on %s: ", text_of(s->status, "host"));
	else
		x = canvas_put(c, x, 0, INK_PLAIN, ": ", 2);
	(void)canvas_put(c, x, 0, s->connected ? INK_PLAIN : INK_WARN,
			 s->connected ? text_of(s->status, "sentence") : s->trouble,
			 c->width > x + 10 ? c->width - x - 10 : 0);
	canvas_right(c, c->width > 9 ? c->width - 9 : 0, 0, INK_DIM, clock, 9);
}

static size_t draw_nodes(struct canvas *c, size_t y, const struct model_snapshot *s)
{
	const json_t *node;
	size_t i, x = 0;

	if (json_array_size(s->nodes) < 2)
		return y;
	canvas_tint(c, 0, y, c->width, INK_HEAD);
	(void)canvas_print(c, 0, y++, INK_HEAD, " %zu NODES", json_array_size(s->nodes));
	json_array_foreach(s->nodes, i, node)
	{
		const char *state = text_of(node, "state");
		char text[160];

		(void)str_print(
			text, sizeof(text), " %s %s, %u GPUs, %u held, %u run ",
			text_of(node, "agent"), state, json_get_small(node, "devices", 9999),
			json_get_small(node, "held", 9999), json_get_small(node, "running", 99999));
		if (x && x + utf8_columns(text) > c->width)
			break;
		x = canvas_put(c, x, y, strcmp(state, "alive") == 0 ? INK_PLAIN : INK_WARN, text,
			       c->width);
	}
	return y + 1;
}

static enum ink level_ink(const char *level)
{
	return strcmp(level, "error") == 0     ? INK_BAD
	       : strcmp(level, "warning") == 0 ? INK_WARN
	       : strcmp(level, "debug") == 0   ? INK_DIM
					       : INK_PLAIN;
}

static void draw_events(struct canvas *c, size_t y, size_t room, char *const *events, size_t n)
{
	size_t from;

	if (room < 2)
		return;
	canvas_tint(c, 0, y, c->width, INK_HEAD);
	(void)canvas_put(c, 0, y++, INK_HEAD, " EVENTS", c->width);
	from = n > room - 1 ? n - (room - 1) : 0;
	for (size_t i = from; i < n; i++) {
		json_t *o = json_loads(events[i], 0, NULL);
		const char *iso = text_of(o, "time"); /* "2026-11-25T18:30:00.000+01:00" */
		char time[16];

		(void)str_print(time, sizeof(time), "%.8s", strlen(iso) > 19 ? iso + 11 : "");
		(void)canvas_put(c, 1, y, INK_DIM, time, 8);
		(void)canvas_put(c, 10, y++, level_ink(text_of(o, "level")), text_of(o, "text"),
				 c->width);
		json_decref(o);
	}
}

static void draw_footer(struct canvas *c, const struct frame_ui *ui)
{
	size_t y = c->height - 1;

	if (ui->typing)
		(void)canvas_print(c, 0, y, INK_BOLD, "/%s_   Enter: take it, Esc: all",
				   ui->filter);
	else if (ui->message[0])
		(void)canvas_put(c, 0, y, ui->message_is_bad ? INK_BAD : INK_GOOD, ui->message,
				 c->width);
	else
		(void)canvas_put(
			c, 0, y, INK_DIM,
			"q end  h help  / filter  o order  e ended  Tab GPUs  l log  w why  "
			"s stop  p pause  +- priority",
			c->width);
}

static void draw_help(struct canvas *c)
{
	static const char *const lines[] = {
		"Keys",
		"  up, down, PgUp, PgDn, Home, End   choose a task (or, after Tab, a GPU)",
		"  Tab        between tasks and GPUs; a click chooses, too",
		"  /          only what contains what you type: names, lanes, ids, states, nodes",
		"  o          order: as planned, by id, by name, by start",
		"  e          with or without what has ended",
		"  l, Enter   follow the task's log; Ctrl-C comes back",
		"  w          why it waits, or how a GPU is",
		"  s          stop it (asks first)      p   pause it, or let it go on",
		"  + -        before, or behind, what waits with the same priority",
		"  q, Ctrl-C  end; nothing else ends with it",
		"",
		"Memory: ours is given back to whoever comes; then tasks of ours, others, free.",
		"Any key goes back.",
	};

	for (size_t i = 0; i < ARRAY_LEN(lines) && i < c->height; i++)
		(void)canvas_put(c, 2, i, i ? INK_PLAIN : INK_BOLD, lines[i], c->width);
}

void frame_draw(struct canvas *c, const struct model_snapshot *s, char *const *events,
		size_t n_events, struct frame_ui *ui, const char *instance, uint64_t now_ns)
{
	size_t y, room, events_room;

	if (ui->help) {
		draw_help(c);
		return;
	}
	draw_header(c, s, instance, now_ns);
	y = draw_devices(c, 1, s, ui);
	y = draw_nodes(c, y, s);
	room = c->height > y + 1 ? c->height - y - 1 : 0;
	events_room = room / 4 > EVENTS_LEAST ? room / 4 : EVENTS_LEAST;
	if (room < events_room + TASKS_LEAST)
		events_room = room > TASKS_LEAST ? room - TASKS_LEAST : 0;
	if (room > events_room)
		y = draw_queue(c, y, room - events_room, s, ui, now_ns);
	draw_events(c, y, events_room, events, n_events);
	draw_footer(c, ui);
}
