/* SPDX-License-Identifier: MIT */

/*
 * A program that looks on: prints a line of JSON for each snapshot of the model, with the rows as a
 * list has them and the events since the last one. Ends with its standard input; a line there has
 * the queue read at once.
 *
 *	modeldrv [-i NAME] [--root DIR]
 */

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/model.h"

static json_t *rows_json(const struct rows *rows)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT;
	json_t *list = json_array();

	for (size_t i = 0; i < rows->n; i++) {
		strbuf_reset(&text);
		row_add_json(rows, &rows->all[i], clock_wall_ns(), &text);
		(void)json_array_append_new(list, json_loads(text.data, 0, NULL));
	}
	return list;
}

static json_t *events_json(struct model *m, uint64_t from, uint64_t to)
{
	json_t *list = json_array();

	for (uint64_t i = from; i < to; i++) {
		struct model_mark mark = { .lost = 0 };
		cleanup_free char *text = model_event(m, i, &mark);
		json_t *event = text ? json_loads(text, 0, NULL) : json_null();

		if (mark.lost)
			(void)json_object_set_new(event, "lost",
						  json_integer((json_int_t)mark.lost));
		(void)json_array_append_new(list, event);
	}
	return list;
}

static uint64_t print_snapshot(struct model *m, uint64_t n_events)
{
	const struct model_snapshot *s = model_get(m);
	uint64_t n = s->n_events;

	cmd_print_json_line(json_pack(
		"{sI sb ss sO? sb ss so so sO? sO? so sI}", "version", (json_int_t)s->version,
		"connected", s->connected, "trouble", s->trouble, "status", s->status, "read",
		s->read, "queue_trouble", s->queue_trouble, "tasks", rows_json(&s->rows), "ended",
		rows_json(&s->ended), "nodes", s->nodes, "pools", s->pools, "events",
		events_json(m, n_events, n), "n_old", (json_int_t)s->n_old));
	(void)fflush(stdout);
	(void)model_put(s);
	return n;
}

static int look_on(const struct cmd_ctx *ctx, struct err *e)
{
	struct model *m;
	uint64_t n = 0;
	char line[64];
	int r = model_new(ctx, MODEL_ENDED | MODEL_JSON, &m, e);

	while (r == 0) {
		struct pollfd p[] = { { .fd = STDIN_FILENO, .events = POLLIN },
				      { .fd = model_fd(m), .events = POLLIN } };

		(void)poll(p, 2, -1);
		if (p[0].revents && read(STDIN_FILENO, line, sizeof(line)) <= 0)
			break;
		if (p[0].revents)
			model_look(m);
		if (p[1].revents)
			n = print_snapshot(m, n);
	}
	if (r == 0)
		m = model_free(m);
	return r;
}

static const struct cmd cmd_look_on = {
	.name = "modeldrv",
	.summary = "looks on",
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.run = look_on,
};

int main(int argc, char **argv)
{
	return cmd_run(&cmd_look_on, "test", argc, argv);
}
