/* SPDX-License-Identifier: MIT */

/* What top draws: cells, and a frame of them. */

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "tui/frame.h"
#include "tui/page.h"

/* A row of a canvas, as text. */
static char *row_of(const struct canvas *c, size_t y)
{
	struct strbuf b = STRBUF_INIT;

	for (size_t x = 0; x < c->width; x++)
		strbuf_adds(&b, canvas_at(c, x, y)->text);
	return strbuf_take(&b);
}

static void expect_row(const struct canvas *c, size_t y, const char *expect)
{
	cleanup_free char *row = row_of(c, y);

	assert_string_equal(row, expect);
}

static void texts_are_cut_and_cleaned(void **state)
{
	static const struct {
		const char *text;
		size_t columns;
		const char *row;
	} cases[] = {
		{ "abc", 8, "abc     " },
		{ "abcdefghij", 8, "abcdefg~" },
		{ "abcdefgh", 8, "abcdefgh" },
		{ "abcdefgh", 3, "ab~     " },
		{ "a\033[31mb\n", 8, "a?[31mb?" },
		{ "\xff\xfe", 8, "??      " },
		{ "a\xe2\x80\xae"
		  "b",
		  8, "a???b   " }, /* turns the direction of what follows */
		{ "你好", 8, "你好    " },
		{ "你好吗啊", 7, "你好吗~ " },
		{ "ab你", 3, "ab~     " },
		{ "e\xcc\x81z", 8, "e\xcc\x81z      " }, /* a mark on the one before */
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct canvas *c = canvas_new(8, 1);

		(void)canvas_put(c, 0, 0, INK_PLAIN, cases[i].text, cases[i].columns);
		expect_row(c, 0, cases[i].row);
		c = canvas_free(c);
	}
}

static void nothing_is_written_outside(void **state)
{
	struct canvas *c = canvas_new(4, 1);

	(void)canvas_put(c, 9, 0, INK_PLAIN, "abc", 3);
	(void)canvas_put(c, 0, 1, INK_PLAIN, "abc", 3);
	(void)canvas_put(c, 2, 0, INK_PLAIN, "xyz", 9);
	canvas_tint(c, 3, 0, 9, INK_BAD);
	canvas_right(c, 0, 0, INK_PLAIN, "1", 2);
	expect_row(c, 0, " 1x~");
	assert_null(canvas_at(c, 4, 0));
	c = canvas_free(c);
}

static struct model_snapshot snapshot_of(const char *devices, struct row *rows, size_t n)
{
	cleanup_free char *text = xasprintf("{\"host\": \"n7\", \"sentence\": \"holds\", "
					    "\"guard\": {\"connected\": true}, \"devices\": [%s]}",
					    devices);

	return (struct model_snapshot){ .connected = true,
					.read = true,
					.status = json_loads(text, 0, NULL),
					.rows = { .n = n, .all = rows } };
}

#define NOW_NS (1795000000 * NS_PER_S)

static void draw(struct canvas *c, const struct model_snapshot *s, char *const *events, size_t n,
		 struct frame_ui *ui)
{
	struct frame_look l = { .s = s,
				.events = events,
				.n_events = n,
				.first_event = 1,
				.instance = "default",
				.now_ns = NOW_NS };

	frame_draw(c, &l, ui);
}

static struct row task(uint64_t id, const char *name, enum taskstate state)
{
	struct row r = { .name = { .id = id, .priority = 500, .gpus = 1 },
			 .dir = state == TASKSTATE_RUNNING ? SPOOL_RUNNING : SPOOL_PENDING,
			 .state = state };

	(void)str_copy(r.name.name, sizeof(r.name.name), name);
	return r;
}

static void memory_shows_whose_it_is(void **state)
{
	static const struct {
		const char *device, *bar;
	} cases[] = {
		{ "{\"state\": \"held\", \"memory_total_bytes\": 120, \"memory_used_bytes\": 60, "
		  "\"held_bytes\": 50}",
		  "######......" },
		{ "{\"state\": \"busy\", \"memory_total_bytes\": 120, \"memory_used_bytes\": 60, "
		  "\"held_bytes\": 0}",
		  "xxxxxx......" },
		{ "{\"state\": \"lent\", \"use\": \"in use by task 2\", \"memory_total_bytes\": 120, "
		  "\"memory_used_bytes\": 120, \"held_bytes\": 0}",
		  "============" },
		{ "{\"state\": \"yielding\", \"memory_total_bytes\": 120, \"memory_used_bytes\": 100, "
		  "\"held_bytes\": 50}",
		  "#####xxxxx.." },
		{ "{\"state\": \"busy\"}", "not known   " },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct model_snapshot s = snapshot_of(cases[i].device, NULL, 0);
		struct canvas *c = canvas_new(80, 24);
		struct frame_ui ui = { .ascii = true };
		cleanup_free char *row = NULL;

		draw(c, &s, NULL, 0, &ui);
		row = row_of(c, 2);
		assert_memory_equal(row + 30, cases[i].bar, 12);
		json_decref(s.status);
		frame_clear(&ui);
		c = canvas_free(c);
	}
}

static void what_runs_comes_first_and_the_chosen_row_is_seen(void **state)
{
	struct row rows[100];
	struct model_snapshot s;
	struct canvas *c = canvas_new(80, 24);
	struct frame_ui ui = { .task = 99 };
	const struct frame_pane *p = &ui.panes[PART_TASKS];
	const struct row *const *tasks;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		rows[i] = task(i + 1, "t", i == 50 ? TASKSTATE_RUNNING : TASKSTATE_PENDING);
	s = snapshot_of("", rows, ARRAY_LEN(rows));
	assert_int_equal(frame_tasks(&s, &ui, &tasks), 100);
	assert_int_equal(tasks[0]->name.id, 51);
	assert_int_equal(tasks[1]->name.id, 1);
	draw(c, &s, NULL, 0, &ui);
	assert_true(p->scroll > 0 && p->scroll + p->rows >= 99);
	(void)str_copy(ui.wanted.filter, sizeof(ui.wanted.filter), "51");
	assert_int_equal(frame_tasks(&s, &ui, &tasks), 1);
	json_decref(s.status);
	frame_clear(&ui);
	c = canvas_free(c);
}

/* However small the window, and however much there is to show. */
static void every_size_is_drawn(void **state)
{
	struct row rows[] = { task(1, "a", TASKSTATE_RUNNING), task(2, "b", TASKSTATE_PENDING) };
	struct model_snapshot s =
		snapshot_of("{\"gpu\": 0, \"uuid\": \"a\"}, {\"gpu\": 1}", rows, 2);
	char *events[] = {
		(char[]){ "{\"time\": \"2026-11-25T18:30:00.000+01:00\", \"text\": \"x\"}" },
		(char[]){ "no JSON" }
	};

	for (size_t w = 1; w < 150; w += 7)
		for (size_t h = 1; h < 60; h += 3) {
			struct canvas *c = canvas_new(w, h);
			struct frame_ui ui = { .message = "m" };

			draw(c, &s, events, 2, &ui);
			frame_clear(&ui);
			c = canvas_free(c);
		}
	json_decref(s.status);
}

/* -------- history -------- */

/* So many steps before now. */
static unsigned int before(const struct trends *t, const char *uuid, size_t steps)
{
	return trend_before(trends_find(t, uuid), NOW_NS, steps);
}

static void history_has_means_at_their_times(void **state)
{
	json_t *all =
		json_loads("[{\"uuid\": \"a\", \"utilisation\": 100}, {\"uuid\": \"b\"}]", 0, NULL);
	json_t *none = json_loads("[{\"uuid\": \"a\", \"utilisation\": 0}]", 0, NULL);
	struct trends t = { 0 };

	for (uint64_t i = 0; i < 2 * TREND_STEPS; i++)
		trends_sample(&t, all, NOW_NS - (2 * TREND_STEPS - i) * TREND_STEP_S * NS_PER_S);
	trends_sample(&t, none, NOW_NS);
	trends_sample(&t, all, NOW_NS);
	assert_int_equal(t.n, 2);
	assert_int_equal(before(&t, "a", 0), 50);
	assert_int_equal(before(&t, "a", 1), 100);
	assert_int_equal(before(&t, "a", TREND_STEPS - 1), 100);
	assert_int_equal(before(&t, "a", TREND_STEPS), TREND_UNKNOWN);
	assert_int_equal(before(&t, "b", 0), TREND_UNKNOWN);
	assert_int_equal(before(&t, "c", 0), TREND_UNKNOWN);
	json_decref(all);
	json_decref(none);
	trends_clear(&t);
}

/* What the agent has kept is there at once; what was seen here is not replaced by it. */
static void history_of_the_agent_is_taken(void **state)
{
	uint64_t now_s = NOW_NS / NS_PER_S;
	cleanup_free char *text = xasprintf(
		"{\"step_s\": 20, \"devices\": [{\"uuid\": \"a\", \"samples\": {\"t\": [%llu, %llu, %llu], "
		"\"util\": [30, null, 60.5]}}, {\"uuid\": \"broken\", \"samples\": {\"t\": [1, \"x\"], "
		"\"util\": [-1]}}, {}]}",
		(unsigned long long)(now_s - 60), (unsigned long long)(now_s - 40),
		(unsigned long long)(now_s - 20));
	json_t *history = json_loads(text, 0, NULL);
	json_t *seen = json_loads("[{\"uuid\": \"a\", \"utilisation\": 10}]", 0, NULL);
	static const unsigned int expect[] = { 10, 10, 60,	     TREND_UNKNOWN, TREND_UNKNOWN,
					       30, 30, TREND_UNKNOWN };
	struct trends t = { 0 };

	trends_sample(&t, seen, NOW_NS - TREND_STEP_S * NS_PER_S);
	trends_sample(&t, seen, NOW_NS);
	trends_take(&t, history);
	for (size_t i = 0; i < ARRAY_LEN(expect); i++)
		assert_int_equal(before(&t, "a", i), expect[i]);
	assert_int_equal(before(&t, "broken", 0), TREND_UNKNOWN);
	trends_take(&t, NULL);
	json_decref(history);
	json_decref(seen);
	trends_clear(&t);
}

static void the_first_frame_has_the_trend(void **state)
{
	struct model_snapshot s = snapshot_of("{\"uuid\": \"a\", \"utilisation\": 0}", NULL, 0);
	struct frame_ui ui = { .ascii = true };
	struct canvas *c = canvas_new(80, 24);
	cleanup_free char *row = NULL;

	for (uint64_t i = 0; i < 32; i++) {
		json_t *d = json_pack("[{ss si}]", "uuid", "a", "utilisation", i < 8 ? 100 : 50);

		trends_sample(&ui.trends, d, NOW_NS - i * TREND_STEP_S * NS_PER_S);
		json_decref(d);
	}
	draw(c, &s, NULL, 0, &ui);
	row = row_of(c, 2);
	assert_memory_equal(row + 60, "::::####", 8);
	json_decref(s.status);
	frame_clear(&ui);
	c = canvas_free(c);
}

/* -------- the band -------- */

static void the_band_is_seen_without_colours(void **state)
{
	static const struct {
		const char *device, *shown;
	} cases[] = {
		{ "\"utilisation\": 75, \"utilisation_band\": [70, 80]", " 75%=" },
		{ "\"utilisation\": 80, \"utilisation_band\": [70, 80]", " 80%=" },
		{ "\"utilisation\": 69, \"utilisation_band\": [70, 80]", " 69%<" },
		{ "\"utilisation\": 100, \"utilisation_band\": [70, 80]", "100%>" },
		{ "\"utilisation\": 75, \"utilisation_band\": null", " 75% " },
		{ "\"utilisation\": null, \"utilisation_band\": [70, 80]", "   ? " },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *device = xasprintf("{\"uuid\": \"a\", %s}", cases[i].device);
		struct model_snapshot s = snapshot_of(device, NULL, 0);
		struct frame_ui ui = { .ascii = i % 2 };
		struct canvas *c = canvas_new(80, 24);
		cleanup_free char *row = NULL, *why = NULL;

		draw(c, &s, NULL, 0, &ui);
		row = row_of(c, 2);
		why = row_of(c, 3);
		assert_non_null(strstr(row, cases[i].shown));
		assert_true((strstr(why, "to be kept at 70-80 %") != NULL) ==
			    (strstr(device, "[70") != NULL));
		json_decref(s.status);
		frame_clear(&ui);
		c = canvas_free(c);
	}
}

/* -------- orders -------- */

static void rows_are_sorted_once_for_a_reading(void **state)
{
	struct row rows[] = { task(5, "train-with-a-long-name-b", TASKSTATE_PENDING),
			      task(2, "train-with-a-long-name-a", TASKSTATE_RUNNING),
			      task(9, "b", TASKSTATE_RUNNING), task(7, "b", TASKSTATE_PENDING),
			      task(1, "\xe4\xbd\xa0", TASKSTATE_PENDING) };
	static const uint64_t expect[SORT_MAX][5] = {
		[SORT_PLAN] = { 2, 9, 5, 7, 1 },
		[SORT_ID] = { 1, 2, 5, 7, 9 },
		[SORT_NAME] = { 7, 9, 2, 5, 1 },
		[SORT_TIME] = { 9, 2, 1, 5, 7 },
	};
	struct model_snapshot s = snapshot_of("", rows, ARRAY_LEN(rows));
	struct frame_ui ui = { 0 };
	const struct row *const *tasks, *const *again;

	rows[1].started_ns = 20;
	rows[2].started_ns = 10;
	for (enum listing_sort sort = 0; sort < SORT_MAX; sort++) {
		ui.wanted.sort = sort;
		assert_int_equal(frame_tasks(&s, &ui, &tasks), 5);
		for (size_t i = 0; i < 5; i++)
			assert_int_equal(tasks[i]->name.id, expect[sort][i]);
		assert_int_equal(ui.listing.running, 2);
		(void)frame_tasks(&s, &ui, &again);
		assert_ptr_equal(tasks, again);
	}
	ui.wanted.sort = SORT_ID;
	(void)frame_tasks(&s, &ui, &tasks);
	rows[0].name.id = 8;
	s.read_ns++;
	(void)frame_tasks(&s, &ui, &tasks);
	assert_int_equal(tasks[3]->name.id, 8);
	(void)str_copy(ui.wanted.filter, sizeof(ui.wanted.filter), "LONG");
	assert_int_equal(frame_tasks(&s, &ui, &tasks), 2);
	json_decref(s.status);
	frame_clear(&ui);
}

/* -------- nodes and events -------- */

static bool shows(const struct canvas *c, const char *text)
{
	bool found = false;

	for (size_t y = 0; y < c->height && !found; y++) {
		cleanup_free char *row = row_of(c, y);

		found = strstr(row, text) != NULL;
	}
	return found;
}

static void a_heartbeat_grows_older_while_the_queue_is_not_read(void **state)
{
	struct model_snapshot s = snapshot_of("{\"uuid\": \"a\"}", NULL, 0);
	struct frame_look l = { .s = &s, .instance = "default", .now_ns = NOW_NS };
	struct frame_ui ui = { .part = PART_NODES };
	struct canvas *c = canvas_new(100, 24);

	s.nodes = json_pack("[{ss ss sf}, {ss ss sf}]", "agent", "n0", "state", "alive", "age_s",
			    1.0, "agent", "n1", "state", "alive", "age_s", 2.0);
	s.nodes_ns = 100 * NS_PER_S;
	l.mono_ns = 140 * NS_PER_S;
	frame_draw(c, &l, &ui);
	assert_true(shows(c, "heard of 41s ago") && shows(c, "heard of 42s ago"));
	json_decref(s.nodes);
	json_decref(s.status);
	frame_clear(&ui);
	c = canvas_free(c);
}

static void nodes_are_rows_to_choose_among(void **state)
{
	struct model_snapshot s = snapshot_of("{\"uuid\": \"a\"}", NULL, 0);
	struct frame_look l = { .s = &s, .instance = "default", .now_ns = NOW_NS };
	struct frame_ui ui = { .part = PART_NODES };
	struct canvas *c = canvas_new(80, 24);
	size_t row = 0, y;
	json_t *node;

	s.nodes = json_array();
	for (int i = 0; i < 40; i++)
		(void)json_array_append_new(
			s.nodes, json_pack("{ss* ss si si sf sb}", "agent", i ? NULL : "n0",
					   "state", i == 30 ? "gone" : "alive", "devices", 8,
					   "held", i, "age_s", 12.0, "draining", i == 30));
	for (size_t i = 1; i < 40; i++) {
		char name[8];

		(void)json_object_set_new(json_array_get(s.nodes, i), "agent",
					  json_string(str_print(name, sizeof(name), "n%zu", i)));
	}
	frame_draw(c, &l, &ui);
	assert_true(shows(c, "n0 ") && !shows(c, "n30 "));
	frame_choose(&l, &ui, PART_NODES, 30);
	frame_draw(c, &l, &ui);
	assert_true(shows(c, "n30 ") && shows(c, "gone") && shows(c, "it drains"));
	y = ui.panes[PART_NODES].y + 1;
	assert_int_equal(frame_at(&l, &ui, y, &row), PART_NODES);
	assert_int_equal(row, ui.panes[PART_NODES].scroll + 1);
	assert_int_equal(frame_at(&l, &ui, 0, &row), PART_MAX);
	node = frame_thing(&l, &ui, PART_NODES);
	assert_int_equal(json_integer_value(json_object_get(node, "held")), 30);
	json_decref(node);
	json_decref(s.nodes);
	json_decref(s.status);
	frame_clear(&ui);
	c = canvas_free(c);
}

/* The last ones are shown as they come, until another one is chosen. */
static void events_are_rows_to_choose_among(void **state)
{
	struct model_snapshot s = snapshot_of("", NULL, 0);
	char *events[100];
	struct frame_look l = { .s = &s,
				.events = events,
				.n_events = 99,
				.first_event = 11,
				.instance = "default",
				.now_ns = NOW_NS };
	struct frame_ui ui = { .part = PART_EVENTS };
	struct canvas *c = canvas_new(80, 24);
	json_t *event;

	for (size_t i = 0; i < ARRAY_LEN(events); i++)
		events[i] = xasprintf("{\"text\": \"it is %zu.\", \"task\": %zu}", i, i);
	frame_draw(c, &l, &ui);
	assert_true(shows(c, "it is 98.") && !shows(c, "it is 5."));
	l.n_events = 100;
	frame_draw(c, &l, &ui);
	assert_true(shows(c, "it is 99."));
	assert_int_equal(frame_chosen(&l, &ui, PART_EVENTS), 99);
	frame_choose(&l, &ui, PART_EVENTS, 5);
	assert_int_equal(ui.event, 16);
	frame_draw(c, &l, &ui);
	assert_true(shows(c, "it is 5.") && !shows(c, "it is 99."));
	event = frame_thing(&l, &ui, PART_EVENTS);
	assert_int_equal(json_integer_value(json_object_get(event, "task")), 5);
	json_decref(event);
	l.first_event = 20; /* it is kept no more */
	assert_int_equal(frame_chosen(&l, &ui, PART_EVENTS), 0);
	frame_choose(&l, &ui, PART_EVENTS, 99); /* it stays so when others come */
	assert_int_equal(ui.event, 119);
	for (size_t i = 0; i < ARRAY_LEN(events); i++)
		free(events[i]);
	json_decref(s.status);
	frame_clear(&ui);
	c = canvas_free(c);
}

/* More GPUs than half a window has room for. */
static void all_gpus_can_be_reached(void **state)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	struct model_snapshot s;
	struct frame_look l = { .s = &s, .instance = "default", .now_ns = NOW_NS };
	struct frame_ui ui = { .part = PART_DEVICES };
	struct canvas *c = canvas_new(80, 24);

	for (int i = 0; i < 32; i++)
		strbuf_addf(&b, "%s{\"gpu\": %d, \"uuid\": \"u%d\", \"name\": \"N%d\"}",
			    i ? "," : "", i, i, i);
	s = snapshot_of(strbuf_str(&b), NULL, 0);
	frame_draw(c, &l, &ui);
	assert_true(shows(c, " N0 ") && !shows(c, " N31 ") && shows(c, ".. and "));
	frame_choose(&l, &ui, PART_DEVICES, 31);
	frame_draw(c, &l, &ui);
	assert_true(shows(c, " N31 ") && !shows(c, " N0 "));
	json_decref(s.status);
	frame_clear(&ui);
	c = canvas_free(c);
}

static void a_wide_terminal_shows_more_of_names_and_history(void **state)
{
	struct row rows[] = { task(1, "a-name-of-thirty-two-characters-", TASKSTATE_RUNNING) };
	struct model_snapshot s =
		snapshot_of("{\"uuid\": \"a\", \"state\": \"lent\", \"use\": \"in use by task 1\", "
			    "\"reason\": \"lent to task 1\", \"utilisation\": 100}",
			    rows, 1);
	struct frame_ui ui = { .no_braille = true };
	struct frame_look l = { .s = &s, .instance = "default", .now_ns = NOW_NS };
	struct canvas *narrow = canvas_new(80, 24), *wide = canvas_new(200, 24);

	for (uint64_t i = 0; i < 60; i++) {
		l.now_ns = NOW_NS - (60 - i) * TREND_STEP_S * NS_PER_S;
		frame_sample(&ui, &l);
	}
	draw(narrow, &s, NULL, 0, &ui);
	draw(wide, &s, NULL, 0, &ui);
	assert_true(shows(narrow, "a-name-of-thi~") && shows(narrow, "########"));
	assert_false(shows(narrow, "#########"));
	assert_true(shows(wide, "a-name-of-thirty-two-characters-"));
	assert_true(shows(wide, "##############################"));
	assert_true(shows(wide, "in use by task 1") && !shows(wide, "lent to task 1"));
	json_decref(s.status);
	frame_clear(&ui);
	narrow = canvas_free(narrow);
	wide = canvas_free(wide);
}

/* An agent that is stopped, or hangs: what is shown is of before. */
static void who_asks_is_in_front(void **state)
{
	struct model_snapshot s = snapshot_of("{\"gpu\": 0, \"uuid\": \"GPU-0\"}", NULL, 0);
	struct canvas *c = canvas_new(80, 24);
	struct frame_ui ui = { .ascii = true };
	json_t *asks = json_array();

	for (int i = 1; i <= 4; i++)
		(void)json_array_append_new(asks,
					    json_pack("{si ss si si ss ss}", "ask", i, "user",
						      "bo\033[31mb", "gpu", i, "task", 42, "name",
						      "train", "message", "\033]0;x\007"));
	(void)json_object_set_new(s.status, "asks", asks);
	draw(c, &s, NULL, 0, &ui);
	cleanup_free char *first = row_of(c, 1), *second = row_of(c, 2), *third = row_of(c, 3);

	assert_non_null(
		strstr(first, " a: bo?[31mb asks for GPU 1, which task 42 train has: ?]0;x?  "));
	assert_non_null(strstr(second, "    bo?[31mb asks for GPU 2"));
	assert_memory_equal(third, " .. and 2 more ask  ", 20);
	assert_int_equal(ui.panes[PART_DEVICES].y, 5);
	json_decref(s.status);
	frame_clear(&ui);
	c = canvas_free(c);
}

static void an_agent_that_is_silent_is_told(void **state)
{
	static const struct {
		uint64_t age_s;
		bool connected, told;
	} cases[] = {
		{ 0, true, false }, { 4, true, false }, { 17, true, true }, { 17, false, false }
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct model_snapshot s = snapshot_of("", NULL, 0);
		struct frame_ui ui = { .ascii = true };
		struct canvas *c = canvas_new(120, 24);
		char time[CLOCK_TEXT_MAX];

		s.connected = cases[i].connected;
		(void)json_object_set_new(
			s.status, "time",
			json_string(clock_format_iso(NOW_NS - cases[i].age_s * NS_PER_S, time)));
		draw(c, &s, NULL, 0, &ui);
		assert_int_equal(shows(c, "the agent has said nothing for 17s; before: holds"),
				 cases[i].told);
		json_decref(s.status);
		frame_clear(&ui);
		c = canvas_free(c);
	}
}

/* -------- terminals of another time -------- */

static void without_utf8_there_is_only_ascii(void **state)
{
	struct row rows[] = { task(1, "\xe8\xae\xad\xe7\xbb\x83x", TASKSTATE_RUNNING) };
	struct model_snapshot s = snapshot_of("{\"uuid\": \"a\"}", rows, 1);
	struct frame_ui ui = { .ascii = true };
	struct canvas *c = canvas_new(80, 24);

	draw(c, &s, NULL, 0, &ui);
	assert_true(shows(c, "????x"));
	for (size_t i = 0; i < c->width * c->height; i++)
		assert_true(c->cells[i].text[0] >= ' ' && c->cells[i].text[0] < 127);
	json_decref(s.status);
	frame_clear(&ui);
	c = canvas_free(c);
}

/* -------- pages -------- */

static void a_page_is_wrapped_and_moves(void **state)
{
	struct page p = { .text = STRBUF_INIT };
	struct canvas *c = canvas_new(10, 4);

	strbuf_adds(&p.text,
		    "one two three four\n\n\xe4\xbd\xa0\xe4\xbd\xa0\xe4\xbd\xa0\xe4\xbd\xa0\xe4"
		    "\xbd\xa0\xe4\xbd\xa0\nend");
	page_draw(&p, c);
	expect_row(c, 0, "one two   ");
	expect_row(c, 1, "three four");
	expect_row(c, 2, "          ");
	assert_int_equal(p.lines, 6);
	assert_true(page_move(&p, 1000));
	page_draw(&p, c);
	expect_row(c, 2, "end       ");
	assert_true(page_move(&p, -1000));
	assert_int_equal(p.top, 0);
	page_close(&p);
	strbuf_adds(&p.text, "short");
	page_draw(&p, c);
	assert_false(page_move(&p, 1));
	page_close(&p);
	c = canvas_free(c);
}

static void a_page_has_what_is_known(void **state)
{
	json_t *o = json_loads("{\"text\": \"a\\u001bb\", \"none\": null, \"list\": [1, \"x\"], "
			       "\"empty\": [], \"health\": {\"energy_j\": 5}, \"ok\": true}",
			       0, NULL);
	struct page p = { .text = STRBUF_INIT };

	page_add_members(&p, o);
	assert_string_equal(strbuf_str(&p.text), "text                  a?b\n"
						 "list                  1, x\n"
						 "health\n"
						 "  energy              5 J\n"
						 "ok                    yes\n");
	json_decref(o);
	page_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_are_cut_and_cleaned),
		cmocka_unit_test(nothing_is_written_outside),
		cmocka_unit_test(memory_shows_whose_it_is),
		cmocka_unit_test(what_runs_comes_first_and_the_chosen_row_is_seen),
		cmocka_unit_test(every_size_is_drawn),
		cmocka_unit_test(history_has_means_at_their_times),
		cmocka_unit_test(history_of_the_agent_is_taken),
		cmocka_unit_test(the_first_frame_has_the_trend),
		cmocka_unit_test(the_band_is_seen_without_colours),
		cmocka_unit_test(rows_are_sorted_once_for_a_reading),
		cmocka_unit_test(a_heartbeat_grows_older_while_the_queue_is_not_read),
		cmocka_unit_test(nodes_are_rows_to_choose_among),
		cmocka_unit_test(events_are_rows_to_choose_among),
		cmocka_unit_test(all_gpus_can_be_reached),
		cmocka_unit_test(a_wide_terminal_shows_more_of_names_and_history),
		cmocka_unit_test(who_asks_is_in_front),
		cmocka_unit_test(an_agent_that_is_silent_is_told),
		cmocka_unit_test(without_utf8_there_is_only_ascii),
		cmocka_unit_test(a_page_is_wrapped_and_moves),
		cmocka_unit_test(a_page_has_what_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
