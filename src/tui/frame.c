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
#include "cli/agent_client.h"

#define BAR	    12
#define TREND	    8  /* columns of a device's history at least, */
#define TREND_MORE  52 /* and so many more */
#define TREND_WIDE  140
#define WIDE	    120 /* from so many columns on, why a device is as it is stands beside it */
#define NAME	    14	/* columns of a task's name at least, */
#define NAME_MORE   40	/* and so many more */
#define NAME_WIDE   100
#define SILENT_NS   (5 * NS_PER_S) /* it tells its status every second */
#define SHARE_LEAST 3		   /* lines of a part, with its heading */
#define TASKS_LEAST 4

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

void frame_clear(struct frame_ui *ui)
{
	listing_clear(&ui->listing);
	trends_clear(&ui->trends);
}

/* -------- history -------- */

void frame_sample(struct frame_ui *ui, const struct frame_look *l)
{
	trends_sample(&ui->trends, json_object_get(l->s->status, "devices"), l->now_ns);
}

/* Dots from the bottom up, of the left and of the right column of a Braille character. */
static unsigned int dots(unsigned int util, bool left)
{
	static const unsigned char marks[2][4] = { { 0x80, 0x20, 0x10, 0x08 },
						   { 0x40, 0x04, 0x02, 0x01 } };
	unsigned int n = util == TREND_UNKNOWN ? 0 : util >= 88 ? 4 : (util + 12) / 25, all = 0;

	for (unsigned int i = 0; i < n; i++)
		all |= marks[left][i];
	return all;
}

/* Columns of a device's history, each of two steps: what a wide terminal has room for. */
static size_t trend_columns(const struct canvas *c)
{
	size_t more = c->width > TREND_WIDE ? (c->width - TREND_WIDE) / 2 : 0;

	return TREND + (more < TREND_MORE ? more : TREND_MORE);
}

static void draw_trend(struct canvas *c, size_t x, size_t y, const struct trend *t, uint64_t now_ns,
		       bool ascii)
{
	static const char levels[] = " .:|#";
	size_t n = trend_columns(c);

	for (size_t i = 0; i < n; i++) {
		unsigned int right = trend_before(t, now_ns, 2 * i);
		unsigned int left = trend_before(t, now_ns, 2 * i + 1);
		unsigned int code = 0x2800 + (dots(left, true) | dots(right, false));
		unsigned int level = right == TREND_UNKNOWN ? left : right;
		char text[4] = { (char)(0xe0 | code >> 12), (char)(0x80 | (code >> 6 & 63)),
				 (char)(0x80 | (code & 63)), '\0' };
		char plain[2] = { level == TREND_UNKNOWN ? ' ' : levels[(level + 12) / 25 % 5],
				  '\0' };

		(void)canvas_put(c, x + n - 1 - i, y, INK_PLAIN, ascii ? plain : text, 1);
	}
}

/* -------- what is chosen -------- */

size_t frame_tasks(const struct model_snapshot *s, struct frame_ui *ui,
		   const struct row *const **ret)
{
	listing_of(&ui->listing, s, &ui->wanted);
	*ret = ui->listing.all;
	return ui->listing.n;
}

static size_t find_text(const json_t *list, const char *key, const char *text)
{
	const json_t *o;
	size_t i;

	json_array_foreach(list, i, o)
	{
		if (strcmp(text_of(o, key), text) == 0)
			return i;
	}
	return SIZE_MAX;
}

static const json_t *devices_of(const struct frame_look *l)
{
	return json_object_get(l->s->status, "devices");
}

static bool is_chosen_task(const struct frame_ui *ui, const struct row *row)
{
	return row->name.id == ui->task && row->name.element == ui->element;
}

/* Most often it is where it was. */
static size_t find_task(const struct frame_look *l, struct frame_ui *ui)
{
	const struct row *const *tasks;
	size_t n = frame_tasks(l->s, ui, &tasks);

	if (!ui->task)
		return SIZE_MAX;
	if (ui->chosen_hint < n && is_chosen_task(ui, tasks[ui->chosen_hint]))
		return ui->chosen_hint;
	for (size_t i = 0; i < n; i++)
		if (is_chosen_task(ui, tasks[i]))
			return ui->chosen_hint = i;
	return SIZE_MAX;
}

size_t frame_rows(const struct frame_look *l, struct frame_ui *ui, enum frame_part part)
{
	const struct row *const *tasks;
	size_t nodes = json_array_size(l->s->nodes);

	switch (part) {
	case PART_TASKS:
		return frame_tasks(l->s, ui, &tasks);
	case PART_DEVICES:
		return json_array_size(devices_of(l));
	case PART_NODES:
		return nodes > 1 ? nodes : 0;
	default:
		return l->n_events;
	}
}

size_t frame_chosen(const struct frame_look *l, struct frame_ui *ui, enum frame_part part)
{
	switch (part) {
	case PART_TASKS:
		return find_task(l, ui);
	case PART_DEVICES:
		return ui->uuid[0] ? find_text(devices_of(l), "uuid", ui->uuid) : SIZE_MAX;
	case PART_NODES:
		return ui->node[0] ? find_text(l->s->nodes, "agent", ui->node) : SIZE_MAX;
	default: /* what is kept no more leaves the first one that is */
		if (!l->n_events)
			return SIZE_MAX;
		if (!ui->event || ui->event >= l->first_event + l->n_events)
			return l->n_events - 1;
		return ui->event < l->first_event ? 0 : ui->event - l->first_event;
	}
}

void frame_choose(const struct frame_look *l, struct frame_ui *ui, enum frame_part part, size_t i)
{
	const struct row *const *tasks;

	if (i >= frame_rows(l, ui, part))
		return;
	switch (part) {
	case PART_TASKS:
		(void)frame_tasks(l->s, ui, &tasks);
		ui->task = tasks[i]->name.id;
		ui->element = tasks[i]->name.element;
		break;
	case PART_DEVICES:
		json_get_text(json_array_get(devices_of(l), i), "uuid", ui->uuid, sizeof(ui->uuid));
		break;
	case PART_NODES:
		json_get_text(json_array_get(l->s->nodes, i), "agent", ui->node, sizeof(ui->node));
		break;
	default:
		ui->event = l->first_event + i;
	}
}

enum frame_part frame_at(const struct frame_look *l, struct frame_ui *ui, size_t y, size_t *ret)
{
	for (enum frame_part part = 0; part < PART_MAX; part++) {
		const struct frame_pane *p = &ui->panes[part];

		if (y < p->y || y >= p->y + p->rows * p->lines)
			continue;
		*ret = p->scroll + (y - p->y) / p->lines;
		return *ret < frame_rows(l, ui, part) ? part : PART_MAX;
	}
	return PART_MAX;
}

json_t *frame_thing(const struct frame_look *l, struct frame_ui *ui, enum frame_part part)
{
	size_t i = frame_chosen(l, ui, part);

	if (i >= frame_rows(l, ui, part) || part == PART_TASKS)
		return NULL;
	if (part == PART_EVENTS)
		return json_loads(l->events[i], 0, NULL);
	return json_incref(json_array_get(part == PART_DEVICES ? devices_of(l) : l->s->nodes, i));
}

/* -------- devices -------- */

static enum ink state_ink(const char *state)
{
	static const struct {
		const char *state;
		enum ink ink;
	} all[] = { { "held", INK_HELD },     { "holding", INK_HELD }, { "workload", INK_TASK },
		    { "lent", INK_TASK },     { "lending", INK_TASK }, { "busy", INK_FOREIGN },
		    { "yielding", INK_WARN }, { "unseen", INK_BAD },   { "left", INK_DIM },
		    { "mig", INK_DIM } };

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
	bool mig = strcmp(text_of(d, "state"), "mig") == 0; /* drawn with its instances */
	bool task = str_has_prefix(text_of(d, "use"), "in use") ||
		    strcmp(text_of(d, "state"), "workload") == 0;
	bool ours = str_has_prefix(text_of(d, "state"), "hold") ||
		    strcmp(text_of(d, "state"), "held") == 0;
	uint64_t others, ends[4];

	held = ours ? used : held; /* with our context; nobody else is there */
	others = used > held ? used - held : 0;

	if (mig || !total || !is_known(d, "memory_used_bytes")) {
		(void)canvas_put(c, x, y, INK_DIM, mig ? "in parts:" : "not known", BAR);
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

/* Whether it is where its load is to keep it, for those too who see no colours. */
static void draw_band(struct canvas *c, size_t x, size_t y, const json_t *d)
{
	const json_t *band = json_object_get(d, "utilisation_band");
	json_int_t low = json_integer_value(json_array_get(band, 0));
	json_int_t high = json_integer_value(json_array_get(band, 1));
	json_int_t util = json_get_small(d, "utilisation", 100);
	bool within = util >= low && util <= high;

	if (!json_is_array(band) || !is_known(d, "utilisation"))
		return;
	canvas_tint(c, x - 4, y, 4, within ? INK_GOOD : INK_WARN);
	(void)canvas_put(c, x, y, within ? INK_GOOD : INK_WARN,
			 within	      ? "="
			 : util < low ? "<"
				      : ">",
			 1);
}

static void draw_figures(struct canvas *c, size_t x, size_t y, const json_t *d,
			 const struct frame_ui *ui, uint64_t now_ns)
{
	size_t trend = trend_columns(c);
	char text[64];

	(void)str_print(text, sizeof(text), "%.1f/%.1f",
			(double)json_get_u64(d, "memory_used_bytes") / (double)(1ULL << 30),
			(double)json_get_u64(d, "memory_total_bytes") / (double)(1ULL << 30));
	canvas_right(c, x, y, INK_PLAIN, is_known(d, "memory_used_bytes") ? text : "?", 11);
	(void)str_print(text, sizeof(text), "%u%%", json_get_small(d, "utilisation", 100));
	canvas_right(c, x + 12, y, INK_PLAIN, is_known(d, "utilisation") ? text : "?", 4);
	draw_band(c, x + 16, y, d);
	draw_trend(c, x + 17, y, trends_find(&ui->trends, text_of(d, "uuid")), now_ns,
		   ui->ascii || ui->no_braille);
	(void)str_print(text, sizeof(text), "%.0f", json_get_num(d, "power_w"));
	canvas_right(c, x + 18 + trend, y, INK_PLAIN, is_known(d, "power_w") ? text : "?", 4);
	(void)str_print(text, sizeof(text), "%u", json_get_small(d, "temperature_c", 999));
	canvas_right(c, x + 23 + trend, y, INK_PLAIN, is_known(d, "temperature_c") ? text : "?", 3);
}

/* Why it is as it is. */
static void draw_why(struct canvas *c, size_t x, size_t y, const json_t *d)
{
	const char *use = text_of(d, "use"), *reason = text_of(d, "reason");
	const json_t *band = json_object_get(d, "utilisation_band");
	char time[UNIT_TEXT_MAX];
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	strbuf_adds(&b, use);
	if (reason[0] && !(use[0] && strcmp(text_of(d, "state"), "lent") == 0)) /* as use says */
		strbuf_addf(&b, "%s%s", b.len ? "; " : "", reason);
	if (is_known(d, "hold_in_s"))
		strbuf_addf(&b, "%sto be held in %s", b.len ? "; " : "",
			    duration(json_get_num(d, "hold_in_s"), time));
	if (json_is_array(band))
		strbuf_addf(&b,
			    "%sto be kept at %" JSON_INTEGER_FORMAT "-%" JSON_INTEGER_FORMAT " %%",
			    b.len ? "; " : "", json_integer_value(json_array_get(band, 0)),
			    json_integer_value(json_array_get(band, 1)));
	(void)canvas_put(c, x, y, use[0] ? INK_TASK : INK_DIM, strbuf_str(&b), c->width);
}

static void draw_device(struct canvas *c, size_t y, const json_t *d, const struct frame_ui *ui,
			uint64_t now_ns)
{
	char label[16], time[UNIT_TEXT_MAX];
	const char *state = text_of(d, "state"), *name = text_of(d, "name");

	name = str_has_prefix(name, "NVIDIA ") ? name + strlen("NVIDIA ") : name;
	canvas_right(c, 0, y, INK_BOLD, label_of(d, label, sizeof(label)), 4);
	(void)canvas_put(c, 5, y, INK_PLAIN, name, 8);
	(void)canvas_put(c, 14, y, state_ink(state), state, 8);
	canvas_right(c, 22, y, INK_DIM, duration(json_get_num(d, "for_s"), time), 7);
	draw_memory(c, 30, y, d, ui->ascii);
	draw_figures(c, 30 + BAR + 1, y, d, ui, now_ns);
	if (ui->panes[PART_DEVICES].lines == 2)
		draw_why(c, 14, y + 1, d);
	else if (c->width >= WIDE)
		draw_why(c, 71 + trend_columns(c), y, d);
	if (ui->part == PART_DEVICES && strcmp(text_of(d, "uuid"), ui->uuid) == 0)
		canvas_tint(c, 0, y, 29, INK_CHOSEN);
}

/* The heading of a part; that of the one that keys are about is marked. */
static void draw_head(struct canvas *c, size_t y, const struct frame_ui *ui, enum frame_part part,
		      const char *text)
{
	canvas_tint(c, 0, y, c->width, INK_HEAD);
	(void)canvas_put(c, 0, y, INK_HEAD, text, c->width);
	if (ui->part == part)
		(void)canvas_put(c, 0, y, INK_HEAD, ">", 1);
}

/* The rows of a part that are shown: the chosen one is among them. */
static struct frame_pane *place(const struct frame_look *l, struct frame_ui *ui,
				enum frame_part part, size_t y, size_t room)
{
	struct frame_pane *p = &ui->panes[part];
	size_t n = frame_rows(l, ui, part), at = frame_chosen(l, ui, part);

	p->lines = p->lines ? p->lines : 1;
	p->y = y;
	room /= p->lines;
	if (at < n && at < p->scroll)
		p->scroll = at;
	else if (at < n && at >= p->scroll + room)
		p->scroll = at - room + (room > 0);
	if (p->scroll + room > n)
		p->scroll = n > room ? n - room : 0;
	p->rows = n - p->scroll < room ? n - p->scroll : room;
	return p;
}

static void draw_devices_head(struct canvas *c, size_t y, const struct frame_ui *ui)
{
	size_t trend = trend_columns(c);

	draw_head(c, y, ui, PART_DEVICES,
		  " GPU NAME     STATE        FOR MEMORY         USED/GiB UTIL HISTORY");
	canvas_right(c, 61 + trend, y, INK_HEAD, "W", 4);
	canvas_right(c, 66 + trend, y, INK_HEAD, ui->ascii ? "C" : "°C", 3);
}

#define ASKS_MOST 3

/* Who asks for a GPU of a task: a line each, in front of all else. */
static size_t draw_asks(struct canvas *c, size_t y, const struct frame_look *l)
{
	const json_t *asks = json_object_get(l->s->status, "asks"), *ask;
	size_t n = json_array_size(asks), i;

	json_array_foreach(asks, i, ask)
	{
		cleanup_free char *text = agent_ask_text(ask);

		if (i == ASKS_MOST - 1 && n > ASKS_MOST) {
			(void)canvas_print(c, 0, y++, INK_WARN, " .. and %zu more ask", n - i);
			break;
		}
		(void)canvas_print(c, 0, y++, INK_WARN, " %s%s", i ? "   " : "a: ", text);
	}
	return y;
}

/* The first row behind them. */
static size_t draw_devices(struct canvas *c, size_t y, const struct frame_look *l,
			   struct frame_ui *ui)
{
	const json_t *devices = json_object_get(l->s->status, "devices");
	size_t n = json_array_size(devices),
	       room = c->height / 2 > y + 2 ? c->height / 2 - y - 1 : 1;
	struct frame_pane *p = &ui->panes[PART_DEVICES];

	draw_devices_head(c, y++, ui);
	p->lines = c->width < WIDE && n * 2 <= room ? 2 : 1;
	(void)place(l, ui, PART_DEVICES, y, room);
	if (!n)
		(void)canvas_put(c, 5, y++, INK_DIM,
				 l->s->trouble[0] ? l->s->trouble : "none is known", c->width);
	for (size_t i = 0; i < p->rows; i++, y += p->lines)
		draw_device(c, y, json_array_get(devices, p->scroll + i), ui, l->now_ns);
	if (n > p->rows)
		(void)canvas_print(c, 5, y++, INK_DIM, ".. and %zu more", n - p->rows);
	return y;
}

/* -------- the queue -------- */

static enum ink task_ink(const struct row *row)
{
	static const enum ink inks[TASKSTATE_MAX] = {
		[TASKSTATE_PENDING] = INK_PLAIN, [TASKSTATE_PAUSED] = INK_DIM,
		[TASKSTATE_RUNNING] = INK_TASK,	 [TASKSTATE_DONE] = INK_DIM,
		[TASKSTATE_FAILED] = INK_BAD,	 [TASKSTATE_CANCELLED] = INK_DIM,
	};

	return inks[row->state];
}

/* It was told to end, and has its grace time. */
static bool is_ending(const struct row *row)
{
	return text_of(row->run, "ending_since")[0];
}

static void add_devices(const json_t *run, struct strbuf *b)
{
	const json_t *devices = json_object_get(run, "devices");

	if (!json_array_size(devices))
		return;
	strbuf_adds(b, b->len ? ", GPU " : "GPU ");
	json_add_list(devices, ",", b);
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
	if (is_ending(row))
		strbuf_addf(b, "%ssince %.8s", b->len ? ", " : "",
			    text_of(row->run, "ending_since") + strlen("2026-11-25T"));
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
	if (row->name.ended_s && row->because && row->because[0])
		strbuf_addf(b, ", %s", row->because);
	else if (row->name.ended_s && row->name.exit && !row->name.count)
		strbuf_addf(b, ", %s %u", row->name.exit >= NAME_SIGNALLED ? "signal" : "exit",
			    row->name.exit & (NAME_SIGNALLED - 1));
}

/* Columns of names of tasks: what a wide terminal has room for. */
static size_t name_columns(const struct canvas *c)
{
	size_t more = c->width > NAME_WIDE ? (c->width - NAME_WIDE) / 3 : 0;

	return NAME + (more < NAME_MORE ? more : NAME_MORE);
}

static void draw_task(struct canvas *c, size_t y, const struct row *row, const struct frame_ui *ui,
		      uint64_t mono_ns)
{
	char text[UNIT_TEXT_MAX * 2];
	cleanup_strbuf struct strbuf note = STRBUF_INIT;
	enum ink ink = is_ending(row) ? INK_WARN : task_ink(row);
	size_t name = name_columns(c), x = 34 + name;

	(void)str_print(text, sizeof(text), row->name.element ? "%" PRIu64 ".%" PRIu64 : "%" PRIu64,
			row->name.id, row->name.element);
	canvas_right(c, 0, y, INK_BOLD, text, 9);
	(void)canvas_put(c, 10, y, ink, is_ending(row) ? "ending" : taskstate_name(row->state), 9);
	(void)str_print(text, sizeof(text), "%" PRIu64, row->name.gpus);
	canvas_right(c, 20, y, INK_PLAIN, row->name.gpus == SPEC_ALL ? "all" : text, 4);
	(void)canvas_put(c, 25, y, INK_PLAIN, row->name.lane[0] ? row->name.lane : "-", 7);
	(void)canvas_put(c, 33, y, INK_PLAIN, row->name.name, name);
	if (row->started_ns && (int64_t)mono_ns >= row->began_ns)
		canvas_right(c, x, y, INK_PLAIN,
			     duration((double)((int64_t)mono_ns - row->began_ns) / 1e9, text), 8);
	if (is_known(row->run, "timeout_s"))
		strbuf_addf(&note, "of %s",
			    unit_format_duration_exact(
				    (uint64_t)(json_get_num(row->run, "timeout_s") * 1e3), text));
	add_note(row, &note);
	(void)canvas_put(c, x + 9, y, INK_DIM, strbuf_str(&note), c->width);
	if (ui->part == PART_TASKS && row->name.id == ui->task && row->name.element == ui->element)
		canvas_tint(c, 0, y, c->width, INK_CHOSEN);
}

static void draw_queue_head(struct canvas *c, size_t y, const struct model_snapshot *s,
			    const struct frame_ui *ui)
{
	static const char *const sorts[SORT_MAX] = { "", ", by id", ", by name", ", by start" };
	const char *filter = ui->wanted.filter;
	size_t x = 34 + name_columns(c);
	char text[160];

	draw_head(c, y, ui, PART_TASKS, "       ID STATE     GPUS LANE    NAME");
	canvas_right(c, x, y, INK_HEAD, "ELAPSED", 8);
	(void)str_print(text, sizeof(text), "%zu run, %zu wait%s%s%s", ui->listing.running,
			ui->listing.waiting, sorts[ui->wanted.sort], filter[0] ? ", /" : "",
			filter);
	if (c->width > x + 9)
		canvas_right(c, x + 9, y, INK_HEAD, text, c->width - x - 9);
}

static size_t draw_queue(struct canvas *c, size_t y, size_t room, const struct frame_look *l,
			 struct frame_ui *ui)
{
	const struct model_snapshot *s = l->s;
	const struct row *const *tasks;
	size_t n = frame_tasks(s, ui, &tasks);
	const struct frame_pane *p = place(l, ui, PART_TASKS, y + 1, room - 1);

	draw_queue_head(c, y++, s, ui);
	for (size_t i = 0; i < p->rows; i++)
		draw_task(c, y + i, tasks[p->scroll + i], ui, l->mono_ns);
	if (!n)
		(void)canvas_put(c, 10, y, INK_DIM,
				 s->queue_trouble[0]	? s->queue_trouble
				 : !s->read		? "the queue is being read"
				 : ui->wanted.filter[0] ? "nothing is like that"
							: "nothing waits or runs",
				 c->width);
	return y + room - 1;
}

/* -------- the rest -------- */

/* Seconds since the agent has said how things are; 0: it does so, or it is not known. */
static uint64_t silence_s(const struct model_snapshot *s, uint64_t now_ns)
{
	const char *time = json_get_str(s->status, "time");
	uint64_t at_ns;

	if (!s->connected || !time || unit_parse_time(time, 0, &at_ns, NULL) < 0)
		return 0;
	return now_ns > at_ns + SILENT_NS ? (now_ns - at_ns) / NS_PER_S : 0;
}

static void draw_header(struct canvas *c, const struct model_snapshot *s, const char *instance,
			uint64_t now_ns)
{
	char time[CLOCK_TEXT_MAX], span[UNIT_TEXT_MAX], text[ERR_TEXT_MAX];
	uint64_t silent_s = silence_s(s, now_ns);
	const char *clock = strchr(clock_format_local(now_ns, time), ' ') + 1;
	size_t x = canvas_print(c, 0, 0, INK_BOLD, "tenure %s", instance);

	if (s->status)
		x = canvas_print(c, x, 0, INK_PLAIN, " on %s: ", text_of(s->status, "host"));
	else
		x = canvas_put(c, x, 0, INK_PLAIN, ": ", 2);
	if (silent_s)
		(void)str_print(text, sizeof(text), "the agent has said nothing for %s; before: %s",
				duration((double)silent_s, span), text_of(s->status, "sentence"));
	else
		(void)str_copy(text, sizeof(text),
			       s->connected ? text_of(s->status, "sentence") : s->trouble);
	(void)canvas_put(c, x, 0, s->connected && !silent_s ? INK_PLAIN : INK_WARN, text,
			 c->width > x + 10 ? c->width - x - 10 : 0);
	if (c->width > x + 9)
		canvas_right(c, c->width - 9, 0, INK_DIM, clock, 9);
}

/* Also while nothing of the queue can be read: since it was, its heartbeat has not grown younger.
 */
static double heartbeat_age_s(const struct frame_look *l, const json_t *node)
{
	uint64_t since = l->mono_ns > l->s->nodes_ns ? l->mono_ns - l->s->nodes_ns : 0;

	return json_get_num(node, "age_s") + (double)since / (double)NS_PER_S;
}

static void draw_node(struct canvas *c, size_t y, const struct frame_look *l, const json_t *node,
		      const struct frame_ui *ui)
{
	const char *state = text_of(node, "state"), *name = text_of(node, "agent");
	const char *version = text_of(node, "version");
	enum ink ink = strcmp(state, "alive") == 0 ? INK_PLAIN : INK_WARN;
	cleanup_strbuf struct strbuf note = STRBUF_INIT;
	char time[UNIT_TEXT_MAX];
	static const char *const counts[] = { "devices", "held", "lent", "idle", "running" };

	(void)canvas_put(c, 1, y, INK_BOLD, name, 19);
	(void)canvas_put(c, 21, y, ink, state, 8);
	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		char text[16];

		(void)str_print(text, sizeof(text), "%u", json_get_small(node, counts[i], 99999));
		canvas_right(c, 29 + 5 * i, y, INK_PLAIN, text, 5);
	}
	strbuf_adds(&note, json_get_flag(node, "draining") ? "it drains; " : "");
	if (json_get_flag(node, "here"))
		strbuf_adds(&note, "this one");
	else if (is_known(node, "age_s"))
		strbuf_addf(&note, "heard of %s ago", duration(heartbeat_age_s(l, node), time));
	if (version[0])
		strbuf_addf(&note, "%sversion %s", note.len ? "; " : "", version);
	(void)canvas_put(c, 56, y, INK_DIM, strbuf_str(&note), c->width);
	if (ui->part == PART_NODES && strcmp(name, ui->node) == 0)
		canvas_tint(c, 0, y, c->width, INK_CHOSEN);
}

static size_t draw_nodes(struct canvas *c, size_t y, size_t room, const struct frame_look *l,
			 struct frame_ui *ui)
{
	const struct frame_pane *p;
	char text[160];

	if (room < 2)
		return y;
	(void)str_print(text, sizeof(text), " %-19.19s STATE     GPUS HELD LENT IDLE  RUN", "NODE");
	draw_head(c, y++, ui, PART_NODES, text);
	p = place(l, ui, PART_NODES, y, room - 1);
	(void)str_print(text, sizeof(text), "%zu nodes", json_array_size(l->s->nodes));
	if (c->width > 57)
		canvas_right(c, 57, y - 1, INK_HEAD, text, c->width - 57);
	for (size_t i = 0; i < p->rows; i++)
		draw_node(c, y + i, l, json_array_get(l->s->nodes, p->scroll + i), ui);
	return y + p->rows;
}

static enum ink level_ink(const char *level)
{
	return strcmp(level, "error") == 0     ? INK_BAD
	       : strcmp(level, "warning") == 0 ? INK_WARN
	       : strcmp(level, "debug") == 0   ? INK_DIM
					       : INK_PLAIN;
}

static void draw_event(struct canvas *c, size_t y, const char *event)
{
	json_t *o = json_loads(event, 0, NULL);
	const char *iso = text_of(o, "time"); /* "2026-11-25T18:30:00.000+01:00" */
	char time[16];

	(void)str_print(time, sizeof(time), "%.8s", strlen(iso) > 19 ? iso + 11 : "");
	(void)canvas_put(c, 1, y, INK_DIM, time, 8);
	(void)canvas_put(c, 10, y, level_ink(text_of(o, "level")), text_of(o, "text"), c->width);
	json_decref(o);
}

static void draw_events(struct canvas *c, size_t y, size_t room, const struct frame_look *l,
			struct frame_ui *ui)
{
	const struct frame_pane *p;

	if (room < 2)
		return;
	draw_head(c, y++, ui, PART_EVENTS, " EVENTS");
	p = place(l, ui, PART_EVENTS, y, room - 1);
	for (size_t i = 0; i < p->rows; i++) {
		draw_event(c, y + i, l->events[p->scroll + i]);
		if (ui->part == PART_EVENTS && p->scroll + i == frame_chosen(l, ui, PART_EVENTS))
			canvas_tint(c, 0, y + i, c->width, INK_CHOSEN);
	}
}

/* Whole ones, between which there are two blanks. The caller frees them. */
static char *hints_that_fit(const char *hints, size_t width)
{
	size_t len = strlen(hints);

	while (len > width) {
		do
			len--;
		while (len && strncmp(hints + len, "  ", 2) != 0);
	}
	return xasprintf("%.*s", (int)len, hints);
}

static void draw_footer(struct canvas *c, const struct frame_ui *ui)
{
	static const char *const keys[PART_MAX] = {
		[PART_TASKS] = ("h help  q end  Tab GPUs  l log  w why  s stop  p pause  / filter  "
				"o order  e ended  +- priority"),
		[PART_DEVICES] = ("h help  q end  Tab on  Enter all of it  w why  l log of its task"
				  "  s stop that"),
		[PART_NODES] = "h help  q end  Tab on  Enter all of it",
		[PART_EVENTS] = ("h help  q end  Tab on  Enter all of it  w why  l log of its task"
				 "  s stop that"),
	};
	cleanup_free char *shown = hints_that_fit(keys[ui->part], c->width);
	size_t y = c->height - 1;

	if (ui->typing)
		(void)canvas_print(c, 0, y, INK_BOLD, "/%s_   Enter: take it, Esc: all",
				   ui->wanted.filter);
	else if (ui->message[0])
		(void)canvas_put(c, 0, y, ui->message_is_bad ? INK_BAD : INK_GOOD, ui->message,
				 c->width);
	else
		(void)canvas_put(c, 0, y, INK_DIM, shown, c->width);
}

static void draw_help(struct canvas *c)
{
	static const char *const lines[] = {
		"Keys",
		"  Tab        from the queue to GPUs, nodes, events, and back; so does a click",
		"  up, down, PgUp, PgDn, Home, End, wheel   choose a row there",
		"  /          names, lanes, ids, states, nodes with what you type; Esc: all",
		"  o          order: as planned, by id, by name, by start",
		"  e          with or without what has ended",
		"  l          follow the task's log; q comes back",
		"  w          why it waits, or how the GPU is; of an event what it is about",
		"  Enter      of a task its log, of a GPU, node or event all that is known",
		"  s          stop it (asks first)      p   pause it, or let it go on",
		"  + -        before, or behind, what waits with the same priority",
		"  a          answer who asks for the GPU of a task: give it, or refuse",
		"  q, Ctrl-C  end; nothing else ends with it",
		"",
		"Memory: ours is given back to whoever comes; then tasks of ours, others, free.",
		"Utilisation: = is within the band that it is kept in, < below it, > above it.",
		"History: ten seconds a dot, the last one on the right.",
		"Any key goes back.",
	};

	for (size_t i = 0; i < ARRAY_LEN(lines) && i < c->height; i++)
		(void)canvas_put(c, 2, i, i ? INK_PLAIN : INK_BOLD, lines[i], c->width);
}

/* Lines of a part with its heading; the one that keys are about gets more of what there is. */
static size_t share_of(const struct frame_ui *ui, enum frame_part part, size_t room)
{
	static const unsigned char shares[PART_MAX][2] = {
		[PART_NODES] = { 6, 3 }, [PART_EVENTS] = { 4, 2 }
	};
	size_t n = room / shares[part][ui->part == part];

	return n > SHARE_LEAST ? n : SHARE_LEAST;
}

void frame_draw(struct canvas *c, const struct frame_look *l, struct frame_ui *ui)
{
	size_t y, room, nodes_room, events_room, nodes = frame_rows(l, ui, PART_NODES);

	c->ascii = ui->ascii;
	for (size_t i = 0; i < PART_MAX; i++)
		ui->panes[i].rows = 0;
	if (ui->help) {
		draw_help(c);
		return;
	}
	draw_header(c, l->s, l->instance, l->now_ns);
	y = draw_devices(c, draw_asks(c, 1, l), l, ui);
	room = c->height > y + 1 ? c->height - y - 1 : 0;
	nodes_room = nodes ? share_of(ui, PART_NODES, room) : 0;
	nodes_room = nodes_room > nodes + 1 ? nodes + 1 : nodes_room;
	if (room < nodes_room + TASKS_LEAST)
		nodes_room = 0;
	y = draw_nodes(c, y, nodes_room, l, ui);
	room -= nodes_room;
	events_room = share_of(ui, PART_EVENTS, room);
	if (room < events_room + TASKS_LEAST)
		events_room = room > TASKS_LEAST ? room - TASKS_LEAST : 0;
	if (room > events_room)
		y = draw_queue(c, y, room - events_room, l, ui);
	draw_events(c, y, events_room, l, ui);
	draw_footer(c, ui);
}
