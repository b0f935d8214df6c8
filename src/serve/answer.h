/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_ANSWER_H
#define TENURE_SERVE_ANSWER_H

/*
 * What is answered to a request, until libmicrohttpd takes it. Every answer has the headers that
 * keep a browser from doing anything else with it (answer.c has the table). A refusal is a problem
 * document (RFC 9457) whose `detail` is the command line's own text.
 */

#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#define ANSWER_HEADERS 8
#define ANSWER_JSON    "application/json"

struct answer {
	unsigned int status; /* 0: none yet */
	const char *type;    /* Content-Type */
	char *body;	     /* freed with it; or fixed, of the program */
	const char *fixed;
	size_t len;
	struct MHD_Response *stream; /* in place of a body: it has no end that is known yet */
	struct {
		const char *name;
		char *value;
	} headers[ANSWER_HEADERS];
	size_t n_headers;
};

/* Numbers as the commands print them, and as they print those of a task. They take the reference
 * over. */
void answer_json(struct answer *a, unsigned int status, json_t *doc);
void answer_task(struct answer *a, unsigned int status, json_t *doc);
/* Takes the text over. */
void answer_text(struct answer *a, unsigned int status, const char *type, char *body, size_t len);
/* What is part of the program. */
void answer_fixed(struct answer *a, const char *type, const char *data, size_t len);
/* Of a stream; takes it over. */
void answer_stream(struct answer *a, const char *type, struct MHD_Response *stream);
/* Instead of what was to be answered. */
void answer_problem(struct answer *a, unsigned int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void answer_header(struct answer *a, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Hand it over to the connection. MHD_NO: it is to be closed. */
enum MHD_Result answer_send(struct answer *a, struct MHD_Connection *c);
void answer_clear(struct answer *a);

#endif
