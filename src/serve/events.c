/* SPDX-License-Identifier: MIT */
#include "serve/events.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/model.h"
#include "serve/serve.h"

#define CHANGED_MS 250

struct reader {
	struct serve *serve;
	uint64_t next;	  /* the event that comes next */
	uint64_t version; /* of the model that it was told of */
	uint64_t told_ns; /* of it */
	uint64_t beat_ns; /* it was sent anything */
};

/* How many events there are, and which version of everything. */
static void look(const struct reader *r, uint64_t *events, uint64_t *version)
{
	const struct model_snapshot *m = model_get(r->serve->model);

	*events = m->n_events;
	*version = m->version;
	m = model_put(m);
}

static void add_event(struct strbuf *b, const char *text)
{
	json_t *doc = json_loads(text, 0, NULL);
	const char *id = json_get_str(doc, "id");

	if (id && !strpbrk(id, "\r\n"))
		strbuf_addf(b, "id: %s\n", id);
	strbuf_addf(b, "event: event\ndata: %s\n\n", text);
	json_decref(doc);
}

static bool more(void *data, struct strbuf *b)
{
	struct reader *r = data;
	uint64_t events, version, lost = 0, now = clock_mono_ns();

	look(r, &events, &version);
	for (; r->next < events && b->len < STREAM_PIECE; r->next++) {
		cleanup_free char *text = model_event(r->serve->model, r->next);

		if (!text) {
			lost++;
			continue;
		}
		if (lost)
			strbuf_addf(b, "event: lost\ndata: {\"events\":%" PRIu64 "}\n\n", lost);
		lost = 0;
		add_event(b, text);
	}
	if (version != r->version && now - r->told_ns >= CHANGED_MS * NS_PER_MS) {
		strbuf_addf(b, "event: changed\ndata: {\"version\":%" PRIu64 "}\n\n", version);
		r->version = version;
		r->told_ns = now;
	}
	if (!b->len && now - r->beat_ns >= STREAM_BEAT_S * NS_PER_S)
		strbuf_adds(b, ": still here\n\n");
	if (b->len)
		r->beat_ns = now;
	return true;
}

static bool ready(void *data)
{
	const struct reader *r = data;
	uint64_t events, version, now = clock_mono_ns();

	if (now - r->beat_ns >= STREAM_BEAT_S * NS_PER_S)
		return true;
	look(r, &events, &version);
	return r->next < events ||
	       (version != r->version && now - r->told_ns >= CHANGED_MS * NS_PER_MS);
}

static void gone(void *data)
{
	free(data);
}

static bool has_id(struct serve *s, uint64_t i, const char *id)
{
	cleanup_free char *text = model_event(s->model, i);
	json_t *doc = text ? json_loads(text, 0, NULL) : NULL;
	const char *its = json_get_str(doc, "id");
	bool same = its && strcmp(its, id) == 0;

	json_decref(doc);
	return same;
}

/* Behind that event; where it is not known any more, all that are. */
static uint64_t behind(struct serve *s, const char *id, uint64_t events)
{
	uint64_t first = events > MODEL_EVENTS ? events - MODEL_EVENTS : 0;

	for (uint64_t i = events; i > first; i--)
		if (has_id(s, i - 1, id))
			return i;
	return first;
}

void events_stream(struct serve *s, struct request *r)
{
	static const struct stream_source source = { more, ready, gone };
	const char *id = request_header(r, "Last-Event-ID");
	struct reader *reader = xcalloc(1, sizeof(*reader));
	struct MHD_Response *stream;
	uint64_t events, version, last;

	reader->serve = s;
	look(reader, &events, &version);
	if (request_query_num(r, "last", 0, MODEL_EVENTS, &last) < 0) {
		free(reader);
		return;
	}
	reader->next = id ? behind(s, id, events) : events - (last < events ? last : events);
	reader->beat_ns = 0; /* something at once, by which the client sees that it is connected */
	stream = streams_add(s->streams, r->mhd, &source, reader);
	if (!stream) {
		free(reader);
		answer_problem(&r->answer, MHD_HTTP_SERVICE_UNAVAILABLE,
			       "there are %d streams already", STREAMS_MAX);
		answer_header(&r->answer, MHD_HTTP_HEADER_RETRY_AFTER, "5");
		return;
	}
	answer_stream(&r->answer, "text/event-stream", stream);
}
