/* SPDX-License-Identifier: MIT */

/*
 * A list of tasks goes in pages: what waits and runs in the planner's order, then, where they are
 * wanted, those that have ended, the last one first. A cursor names the last row of the page
 * before and where it was, so that the next page goes on behind it though others came or went;
 * where that row is not in its part any more, it goes on at its place.
 */

#include "serve/look.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "model/model.h"
#include "serve/serve.h"

#define PAGE	 100
#define PAGE_MAX 10000

/* ---- what the agent tells ---- */

static json_t *member_or(const json_t *o, const char *key, json_t *otherwise)
{
	json_t *v = json_object_get(o, key);

	if (!v)
		return otherwise;
	json_decref(otherwise);
	return json_incref(v);
}

/* With why it is not known, where it is not. */
static void answer_known(struct request *r, const struct model_snapshot *m, json_t *doc)
{
	if (!m->connected)
		(void)json_object_set_new(doc, "trouble", json_new_text(m->trouble));
	answer_json(&r->answer, MHD_HTTP_OK, doc);
}

void look_devices(struct serve *s, struct request *r)
{
	const struct model_snapshot *m = model_get(s->model);

	answer_known(r, m,
		     json_pack("{s:b, s:o}", "agent", m->connected, "devices",
			       member_or(m->status, "devices", json_array())));
	m = model_put(m);
}

void look_status(struct serve *s, struct request *r)
{
	const struct model_snapshot *m = model_get(s->model);

	answer_known(r, m, json_pack("{s:b, s:O?}", "agent", m->connected, "status", m->status));
	m = model_put(m);
}

void look_hold(struct serve *s, struct request *r)
{
	const struct model_snapshot *m = model_get(s->model);

	answer_known(r, m,
		     json_pack("{s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "agent", m->connected,
			       "policy", member_or(m->status, "policy", json_null()), "phase",
			       member_or(m->status, "phase", json_null()), "sentence",
			       member_or(m->status, "sentence", json_null()), "yields",
			       member_or(m->status, "yields", json_array()), "options",
			       member_or(m->status, "options", json_object()), "settings",
			       member_or(m->status, "settings", json_object())));
	m = model_put(m);
}

void look_asks(struct serve *s, struct request *r)
{
	const struct model_snapshot *m = model_get(s->model);

	answer_known(r, m,
		     json_pack("{s:b, s:o}", "agent", m->connected, "asks",
			       member_or(m->status, "asks", json_array())));
	m = model_put(m);
}

/* ---- what the spool says ---- */

static void add_reading(const struct model_snapshot *m, json_t *doc)
{
	(void)json_object_set_new(doc, "read", json_boolean(m->read));
	if (m->queue_trouble[0])
		(void)json_object_set_new(doc, "trouble", json_new_text(m->queue_trouble));
}

static void answer_queue(struct request *r, const struct model_snapshot *m, json_t *doc)
{
	add_reading(m, doc);
	answer_json(&r->answer, MHD_HTTP_OK, doc);
}

static json_t *list_or_none(json_t *list)
{
	return json_is_array(list) ? json_incref(list) : json_array();
}

void look_nodes(struct serve *s, struct request *r)
{
	const struct model_snapshot *m = model_get(s->model);

	answer_queue(r, m, json_pack("{s:o}", "nodes", model_nodes(m)));
	m = model_put(m);
}

void look_pools(struct serve *s, struct request *r)
{
	const struct model_snapshot *m = model_get(s->model);

	answer_queue(r, m, json_pack("{s:o}", "pools", list_or_none(m->pools)));
	m = model_put(m);
}

struct page {
	const struct model_snapshot *m;
	const char *lane, *name;
	unsigned int states; /* bits of them; 0: all */
	bool ended;
	uint64_t limit;
	size_t part, at; /* the row that comes next: of the rows, or of those that have ended */
	uint64_t counts[TASKSTATE_MAX];
	size_t total, given; /* that match */
	uint64_t now_ns;
	struct strbuf text; /* `{"tasks":[` and those of the page */
};

static const struct rows *part_of(const struct page *p, size_t part)
{
	return part == 0 ? &p->m->rows : &p->m->ended;
}

static bool wanted(const struct page *p, const struct row *row)
{
	return (!p->states || (p->states & 1u << row->state)) &&
	       (!p->lane || strcmp(p->lane, row->name.lane) == 0) &&
	       (!p->name || str_has_prefix(row->name.name, p->name));
}

static int take_states(struct request *r, struct page *p)
{
	const char *text = request_query(r, "state");

	for (unsigned int i = 0; text && i < TASKSTATE_MAX; i++)
		p->states |= str_lists(text, taskstate_name(i)) ? 1u << i : 0;
	if (text && !p->states) {
		answer_problem(&r->answer, MHD_HTTP_BAD_REQUEST,
			       "state is one or more of pending, paused, running, done, failed, "
			       "cancelled, with commas");
		return -1;
	}
	return 0;
}

/* "PART.PLACE.TASK.ELEMENT" */
static int take_cursor(struct request *r, struct page *p)
{
	const char *text = request_query(r, "cursor");
	const struct rows *rows;
	uint64_t id, element;
	unsigned int part;
	size_t place;
	int end = -1;

	if (!text)
		return 0;
	if (sscanf(text, "%u.%zu.%" SCNu64 ".%" SCNu64 "%n", &part, &place, &id, &element, &end) <
		    4 ||
	    end < 0 || text[end] || part > 1) {
		answer_problem(&r->answer, MHD_HTTP_BAD_REQUEST,
			       "cursor is not one that was given as next");
		return -1;
	}
	p->part = part;
	rows = part_of(p, part);
	p->at = place < rows->n ? place : rows->n;
	for (size_t i = 0; i < rows->n; i++)
		if (rows->all[i].name.id == id && rows->all[i].name.element == element) {
			p->at = i + 1;
			break;
		}
	return 0;
}

static void next_cursor(const struct page *p, size_t part, size_t i, char buf[96])
{
	const struct task_name *n = &part_of(p, part)->all[i].name;

	(void)str_print(buf, 96, "%zu.%zu.%" PRIu64 ".%" PRIu64, part, i, n->id, n->element);
}

/* All are counted, those of the page are told. */
static void fill(struct page *p, char next[96])
{
	size_t last_part = 0, last = 0;

	next[0] = '\0';
	for (size_t part = 0; part < (p->ended ? 2 : 1); part++) {
		const struct rows *rows = part_of(p, part);

		for (size_t i = 0; i < rows->n; i++) {
			const struct row *row = &rows->all[i];

			if (!wanted(p, row))
				continue;
			p->total++;
			p->counts[row->state]++;
			if (part < p->part || (part == p->part && i < p->at))
				continue;
			if (p->given == p->limit) {
				if (!next[0])
					next_cursor(p, last_part, last, next);
				continue;
			}
			if (p->given++)
				strbuf_addc(&p->text, ',');
			row_add_json(rows, row, p->now_ns, &p->text);
			last_part = part;
			last = i;
		}
	}
}

static json_t *counts_json(const struct page *p)
{
	json_t *o = json_object();

	for (unsigned int i = 0; i < TASKSTATE_MAX; i++)
		(void)json_object_set_new(o, taskstate_name(i),
					  json_integer((json_int_t)p->counts[i]));
	return o;
}

/* The rows are JSON already; the rest goes behind them. */
static void answer_page(struct request *r, struct page *p, const char *next)
{
	json_t *doc = json_pack("{s:s?, s:I, s:o}", "next", next[0] ? next : NULL, "total",
				(json_int_t)p->total, "counts", counts_json(p));
	cleanup_free char *rest = NULL;
	size_t len;

	add_reading(p->m, doc);
	rest = json_dumps(doc, JSON_COMPACT | NUMBER_DIGITS);
	json_decref(doc);
	strbuf_adds(&p->text, "],");
	strbuf_adds(&p->text, rest + 1);
	len = p->text.len;
	answer_text(&r->answer, MHD_HTTP_OK, ANSWER_JSON, strbuf_take(&p->text), len);
}

void look_tasks(struct serve *s, struct request *r)
{
	struct page p = { .lane = request_query(r, "lane"),
			  .name = request_query(r, "name"),
			  .now_ns = clock_mono_ns() };
	char next[96];

	p.ended = request_query_flag(r, "ended");
	if (request_query_num(r, "limit", PAGE, PAGE_MAX, &p.limit) < 0 || take_states(r, &p) < 0)
		return;
	p.m = model_get(s->model);
	if (take_cursor(r, &p) == 0) {
		strbuf_adds(&p.text, "{\"tasks\":[");
		fill(&p, next);
		answer_page(r, &p, next);
	}
	p.m = model_put(p.m);
}
