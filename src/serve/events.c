/* SPDX-License-Identifier: MIT */
#include "serve/events.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/model.h"
#include "serve/serve.h"

#define CHANGED_MS 250

struct reader {
	struct serve *serve;
	uint64_t next;	       /* the event that comes next */
	bool seeks;	       /* whether it is the one behind this is not known yet: */
	struct model_id after; /* start 0: an id that is none of ours */
	uint64_t version;      /* of the model that it was told of */
	uint64_t told_ns;      /* of it */
	uint64_t beat_ns;      /* it was sent anything */
};

/* How many events there are, and which version of everything. */
static void look(const struct reader *r, uint64_t *events, uint64_t *version)
{
	const struct model_snapshot *m = model_get(r->serve->model);

	*events = m->n_events;
	*version = m->version;
	m = model_put(m);
}

/* Who comes again was told of events that we may not know: it is said how many are missing, as far
 * as their numbers tell. False: this one was told, too. */
static bool find_place(struct reader *r, const struct model_id *id, struct strbuf *b)
{
	bool same = id->start == r->after.start;

	if (model_id_is_by(id, &r->after))
		return false;
	r->seeks = false;
	if (!same)
		strbuf_adds(b, "event: lost\ndata: {\"events\":null}\n\n");
	else if (id->n > r->after.n + 1)
		strbuf_addf(b, "event: lost\ndata: {\"events\":%" PRIu64 "}\n\n",
			    id->n - r->after.n - 1);
	return true;
}

static void add_events(struct reader *r, uint64_t events, struct strbuf *b)
{
	uint64_t lost = 0;

	for (; r->next < events && b->len < STREAM_PIECE; r->next++) {
		struct model_mark mark = { .lost = 1 };
		cleanup_free char *text = model_event(r->serve->model, r->next, &mark);

		lost += mark.lost;
		if (!text)
			continue;
		if (r->seeks) {
			lost = 0;
			if (!find_place(r, &mark.id, b))
				continue;
		}
		if (lost)
			strbuf_addf(b, "event: lost\ndata: {\"events\":%" PRIu64 "}\n\n", lost);
		lost = 0;
		if (mark.id.start)
			strbuf_addf(b, "id: %" PRIu64 ".%" PRIu64 "\n", mark.id.start, mark.id.n);
		strbuf_addf(b, "event: event\ndata: %s\n\n", text);
	}
}

static bool more(void *data, struct strbuf *b)
{
	struct reader *r = data;
	uint64_t events, version, now = clock_mono_ns();

	look(r, &events, &version);
	add_events(r, events, b);
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

/* Behind the event with that id. Where we do not know it, since we or the agent began anew
 * meanwhile, all that there are and come, and which of them it is to be told is seen then. */
static void go_behind(struct reader *r, const char *id, uint64_t events)
{
	uint64_t first = events > MODEL_EVENTS ? events - MODEL_EVENTS : 0;

	r->next = first;
	r->seeks = true;
	if (!model_read_id(id, &r->after))
		return;
	for (uint64_t i = events; i > first; i--) {
		struct model_mark mark = { .lost = 0 };
		cleanup_free char *text = model_event(r->serve->model, i - 1, &mark);

		if (!text || !model_id_is_by(&mark.id, &r->after))
			continue;
		r->next = i;
		r->seeks = mark.id.n != r->after.n;
		return;
	}
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
	reader->next = events - (last < events ? last : events);
	if (id)
		go_behind(reader, id, events);
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
