/* SPDX-License-Identifier: MIT */

/* What top draws: cells, and a frame of them. */

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "tui/frame.h"

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

		frame_draw(c, &s, NULL, 0, &ui, "default", 0);
		row = row_of(c, 2);
		assert_memory_equal(row + 30, cases[i].bar, 12);
		json_decref(s.status);
		c = canvas_free(c);
	}
}

static void what_runs_comes_first_and_the_chosen_row_is_seen(void **state)
{
	struct row rows[100];
	struct model_snapshot s;
	struct canvas *c = canvas_new(80, 24);
	struct frame_ui ui = { .task = 99 };
	const struct row **tasks;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		rows[i] = task(i + 1, "t", i == 50 ? TASKSTATE_RUNNING : TASKSTATE_PENDING);
	s = snapshot_of("", rows, ARRAY_LEN(rows));
	assert_int_equal(frame_tasks(&s, &ui, &tasks), 100);
	assert_int_equal(tasks[0]->name.id, 51);
	assert_int_equal(tasks[1]->name.id, 1);
	free(tasks);
	frame_draw(c, &s, NULL, 0, &ui, "default", 0);
	assert_true(ui.scroll > 0 && ui.scroll + ui.n_task_rows >= 99);
	(void)str_copy(ui.filter, sizeof(ui.filter), "51");
	assert_int_equal(frame_tasks(&s, &ui, &tasks), 1);
	free(tasks);
	json_decref(s.status);
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

			frame_draw(c, &s, events, 2, &ui, "default", 0);
			c = canvas_free(c);
		}
	json_decref(s.status);
}

static void history_is_a_ring(void **state)
{
	struct model_snapshot s = snapshot_of("{\"uuid\": \"a\", \"utilisation\": 100}", NULL, 0);
	struct frame_ui *ui = xcalloc(1, sizeof(*ui));

	for (size_t i = 0; i < FRAME_HISTORY + 5; i++)
		frame_sample(ui, &s);
	assert_int_equal(ui->n_histories, 1);
	assert_int_equal(ui->histories[0].n, FRAME_HISTORY + 5);
	assert_int_equal(ui->histories[0].util[4], 100);
	json_decref(s.status);
	free(ui);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_are_cut_and_cleaned),
		cmocka_unit_test(nothing_is_written_outside),
		cmocka_unit_test(memory_shows_whose_it_is),
		cmocka_unit_test(what_runs_comes_first_and_the_chosen_row_is_seen),
		cmocka_unit_test(every_size_is_drawn),
		cmocka_unit_test(history_is_a_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
