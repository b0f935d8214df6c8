/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_STREAMS_H
#define TENURE_SERVE_STREAMS_H

/*
 * Answers that go on: events, a log that grows. While one has nothing to say its connection is put
 * aside and costs nothing. Of what a client does not take nothing is gathered: its source is asked
 * when there is room, and libmicrohttpd ends a connection that takes nothing for SERVER_SLOW_S.
 */

#include <microhttpd.h>
#include <stdbool.h>

#include "base/strbuf.h"

#define STREAMS_MAX   256 /* at a time */
#define STREAM_PIECE  (64UL * 1024)
#define STREAM_BEAT_S 10 /* something is sent that often, by which one that has gone is noticed */

struct streams;

/* All are called under one lock, from several threads, and must not wait. */
struct stream_source {
	/* Add what there is by now, about STREAM_PIECE at most. False: that was all. */
	bool (*more)(void *data, struct strbuf *b);
	/* more() may have something. */
	bool (*ready)(void *data);
	void (*gone)(void *data);
};

struct streams *streams_new(void);
/* NULL: there are STREAMS_MAX. Else data is the stream's, and gone() is called for it. */
struct MHD_Response *streams_add(struct streams *s, struct MHD_Connection *c,
				 const struct stream_source *source, void *data);
/* To be called often: those that are ready go on. */
void streams_pulse(struct streams *s);
size_t streams_count(struct streams *s);
/* All of them end, and no other begins. */
void streams_end(struct streams *s);
/* When none is left. */
void streams_free(struct streams *s);

#endif
