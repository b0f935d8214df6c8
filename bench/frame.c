/* SPDX-License-Identifier: MIT */

/*
 * What a frame of top costs, but for the terminal: 8 devices, 10,000 tasks of which 100 run, 64
 * events, on 80x24 and 200x60, by each order, with and without a filter.
 *
 *	frame [TASKS]	prints a line per case: median and worst of 200 frames, in ms
 */

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "tui/frame.h"

#define FRAMES 200

static json_t *status_of(unsigned int n)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	strbuf_adds(&b, "{\"host\":\"n7\",\"sentence\":\"holding\",\"guard\":{\"connected\":true},"
			"\"devices\":[");
	for (unsigned int i = 0; i < n; i++)
		strbuf_addf(
			&b,
			"%s{\"gpu\":%u,\"mig\":null,\"uuid\":\"GPU-%u\",\"name\":\"NVIDIA H200\","
			"\"state\":\"held\",\"reason\":\"held for default\",\"use\":null,"
			"\"for_s\":1234.5,\"held_bytes\":130000000000,"
			"\"memory_total_bytes\":150000000000,\"memory_used_bytes\":131000000000,"
			"\"utilisation\":75,\"utilisation_band\":[70,80],\"power_w\":121.5,"
			"\"temperature_c\":33}",
			i ? "," : "", i, i);
	strbuf_adds(&b, "]}");
	return json_loads(strbuf_str(&b), 0, NULL);
}

static struct row *tasks_of(size_t n)
{
	struct row *all = xcalloc(n + 1, sizeof(*all));

	for (size_t i = 0; i < n; i++) {
		struct task_name *t = &all[i].name;

		t->id = i + 1;
		t->priority = 500;
		t->gpus = 1;
		(void)str_print(t->name, sizeof(t->name), "train-%zu", i * 7919 % n);
		(void)str_print(t->lane, sizeof(t->lane), "lane%zu", i % 10);
		all[i].dir = i % 100 == 0 ? SPOOL_RUNNING : SPOOL_PENDING;
		all[i].state = i % 100 == 0 ? TASKSTATE_RUNNING : TASKSTATE_PENDING;
	}
	return all;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* again: the queue was read anew before each frame, and is sorted anew. */
static void measure(struct model_snapshot *s, char *const *events, size_t width, size_t height,
		    const struct listing_wanted *wanted, bool again)
{
	struct frame_ui ui = { .wanted = *wanted, .task = s->rows.n / 2 };
	struct frame_look l = { .s = s,
				.events = events,
				.n_events = FRAME_EVENTS,
				.first_event = 1,
				.instance = "default" };
	double ms[FRAMES];

	for (size_t i = 0; i < FRAMES; i++) {
		uint64_t began = clock_mono_ns();
		struct canvas *c = canvas_new(width, height);

		s->read_ns += again;
		l.now_ns = clock_wall_ns();
		frame_sample(&ui, &l);
		frame_draw(c, &l, &ui);
		c = canvas_free(c);
		ms[i] = (double)(clock_mono_ns() - began) / 1e6;
	}
	frame_clear(&ui);
	qsort(ms, FRAMES, sizeof(*ms), compare);
	printf("%3zux%-3zu order %d, filter \"%s\"%s: median %.2f ms, worst %.2f\n", width, height,
	       (int)wanted->sort, wanted->filter, again ? ", queue read anew" : "", ms[FRAMES / 2],
	       ms[FRAMES - 1]);
}

int main(int argc, char **argv)
{
	size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 10000;
	struct model_snapshot s = { .connected = true,
				    .read = true,
				    .status = status_of(8),
				    .rows = { .n = n, .all = tasks_of(n) } };
	char *events[FRAME_EVENTS];

	for (size_t i = 0; i < FRAME_EVENTS; i++)
		events[i] =
			xstrdup("{\"time\":\"2026-11-25T18:30:00.000+01:00\",\"event\":\"note\","
				"\"level\":\"info\",\"text\":\"gpu 0  held 122.6 GiB\"}");
	for (enum listing_sort sort = SORT_PLAN; sort < SORT_MAX; sort++)
		for (int again = 0; again < 2; again++)
			measure(&s, events, 80, 24, &(struct listing_wanted){ .sort = sort },
				again);
	for (int again = 0; again < 2; again++)
		measure(&s, events, 200, 60, &(struct listing_wanted){ .filter = "99" }, again);
	measure(&s, events, 200, 60, &(struct listing_wanted){ .sort = SORT_PLAN }, true);
	for (size_t i = 0; i < FRAME_EVENTS; i++)
		free(events[i]);
	free(s.rows.all);
	json_decref(s.status);
	return 0;
}
