/* SPDX-License-Identifier: MIT */
#include "serve/streams.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"

struct stream {
	struct streams *all;
	struct MHD_Connection *mhd;
	const struct stream_source *source;
	void *data;
	struct strbuf text;
	size_t at;   /* of the text that was taken */
	bool asleep; /* its connection is put aside */
	int fd;
	uint64_t looked_ns; /* whether the client is still there */
	bool ended;
	struct stream *next;
};

struct streams {
	pthread_mutex_t lock;
	struct stream *first;
	size_t n;
	bool ends;
};

struct streams *streams_new(void)
{
	struct streams *s = xcalloc(1, sizeof(*s));

	(void)pthread_mutex_init(&s->lock, NULL);
	return s;
}

static ssize_t take_text(struct stream *st, char *buf, size_t max)
{
	size_t n = st->text.len - st->at;

	n = n < max ? n : max;
	memcpy(buf, st->text.data + st->at, n);
	st->at += n;
	return (ssize_t)n;
}

static ssize_t on_read(void *cls, uint64_t pos, char *buf, size_t max)
{
	struct stream *st = cls;
	ssize_t n = 0;

	(void)pos;
	(void)pthread_mutex_lock(&st->all->lock);
	if (st->at == st->text.len && !st->ended) {
		strbuf_reset(&st->text);
		st->at = 0;
		st->ended = !st->source->more(st->data, &st->text);
	}
	if (st->at < st->text.len) {
		n = take_text(st, buf, max);
	} else if (st->ended || st->all->ends) {
		n = MHD_CONTENT_READER_END_OF_STREAM;
	} else {
		st->asleep = true;
		MHD_suspend_connection(st->mhd);
	}
	(void)pthread_mutex_unlock(&st->all->lock);
	return n;
}

static void on_gone(void *cls)
{
	struct stream *st = cls;
	struct streams *s = st->all;

	(void)pthread_mutex_lock(&s->lock);
	for (struct stream **p = &s->first; *p; p = &(*p)->next) {
		if (*p != st)
			continue;
		*p = st->next;
		s->n--;
		break;
	}
	st->source->gone(st->data);
	(void)pthread_mutex_unlock(&s->lock);
	strbuf_clear(&st->text);
	free(st);
}

struct MHD_Response *streams_add(struct streams *s, struct MHD_Connection *c,
				 const struct stream_source *source, void *data)
{
	struct MHD_Response *response = NULL;
	struct stream *st;

	(void)pthread_mutex_lock(&s->lock);
	if (s->n < STREAMS_MAX && !s->ends) {
		st = xcalloc(1, sizeof(*st));
		*st = (struct stream){ .all = s,
				       .mhd = c,
				       .source = source,
				       .data = data,
				       .next = s->first,
				       .fd = MHD_get_connection_info(
						     c, MHD_CONNECTION_INFO_CONNECTION_FD)
						     ->connect_fd };
		response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_PIECE / 4,
							     on_read, st, on_gone);
		if (response) {
			s->first = st;
			s->n++;
		} else {
			free(st);
		}
	}
	(void)pthread_mutex_unlock(&s->lock);
	return response;
}

/* Of a connection that is put aside libmicrohttpd does not notice it. */
static bool client_left(struct stream *st, uint64_t now)
{
	char byte;

	if (now - st->looked_ns < STREAM_BEAT_S * NS_PER_S)
		return false;
	st->looked_ns = now;
	return recv(st->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void streams_pulse(struct streams *s)
{
	uint64_t now = clock_mono_ns();

	(void)pthread_mutex_lock(&s->lock);
	for (struct stream *st = s->first; st; st = st->next) {
		if (!st->asleep)
			continue;
		st->ended = st->ended || client_left(st, now);
		if (!st->ended && !s->ends && !st->source->ready(st->data))
			continue;
		st->asleep = false;
		MHD_resume_connection(st->mhd);
	}
	(void)pthread_mutex_unlock(&s->lock);
}

size_t streams_count(struct streams *s)
{
	size_t n;

	(void)pthread_mutex_lock(&s->lock);
	n = s->n;
	(void)pthread_mutex_unlock(&s->lock);
	return n;
}

void streams_end(struct streams *s)
{
	(void)pthread_mutex_lock(&s->lock);
	s->ends = true;
	(void)pthread_mutex_unlock(&s->lock);
	streams_pulse(s);
}

void streams_free(struct streams *s)
{
	free(s);
}
