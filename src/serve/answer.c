/* SPDX-License-Identifier: MIT */
#include "serve/answer.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_get.h"
#include "base/mem.h"
#include "base/strbuf.h"

#define TYPE_PROBLEM "application/problem+json"

/* Of every answer. Scripts and styles come from files of ours alone, and nobody shows us in a frame
 * of theirs. */
static const char *const always[][2] = {
	{ "Content-Security-Policy",
	  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
	  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" },
	{ "X-Content-Type-Options", "nosniff" },
	{ "Referrer-Policy", "no-referrer" },
	{ "X-Frame-Options", "DENY" },
	{ "Cross-Origin-Opener-Policy", "same-origin" },
	{ "Cross-Origin-Resource-Policy", "same-origin" },
};

static void drop_body(struct answer *a)
{
	free(a->body);
	if (a->stream)
		MHD_destroy_response(a->stream);
	a->body = NULL;
	a->fixed = NULL;
	a->stream = NULL;
	a->len = 0;
}

void answer_text(struct answer *a, unsigned int status, const char *type, char *body, size_t len)
{
	drop_body(a);
	a->status = status;
	a->type = type;
	a->body = body;
	a->len = len;
}

static void answer_with(struct answer *a, unsigned int status, json_t *doc, size_t digits)
{
	char *text = json_dumps(doc, JSON_COMPACT | digits);

	json_decref(doc);
	if (!text) {
		answer_problem(a, MHD_HTTP_INTERNAL_SERVER_ERROR, "the answer cannot be written");
		return;
	}
	answer_text(a, status, ANSWER_JSON, text, strlen(text));
}

void answer_json(struct answer *a, unsigned int status, json_t *doc)
{
	answer_with(a, status, doc, NUMBER_DIGITS);
}

void answer_task(struct answer *a, unsigned int status, json_t *doc)
{
	answer_with(a, status, doc, TIME_DIGITS);
}

void answer_fixed(struct answer *a, const char *type, const char *data, size_t len)
{
	drop_body(a);
	a->status = MHD_HTTP_OK;
	a->type = type;
	a->fixed = data;
	a->len = len;
}

void answer_stream(struct answer *a, const char *type, struct MHD_Response *stream)
{
	drop_body(a);
	a->status = MHD_HTTP_OK;
	a->type = type;
	a->stream = stream;
}

void answer_problem(struct answer *a, unsigned int status, const char *fmt, ...)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	const char *title = MHD_get_reason_phrase_for(status);
	va_list ap;

	va_start(ap, fmt);
	strbuf_addv(&b, fmt, ap);
	va_end(ap);

	json_t *doc = json_pack("{s:s, s:s, s:i, s:o}", "type", "about:blank", "title", title,
				"status", (int)status, "detail", json_new_text(strbuf_str(&b)));
	char *text = json_dumps(doc, JSON_COMPACT);

	json_decref(doc);
	answer_text(a, status, TYPE_PROBLEM, text, text ? strlen(text) : 0);
}

void answer_header(struct answer *a, const char *name, const char *fmt, ...)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	va_list ap;

	if (a->n_headers == ANSWER_HEADERS)
		abort();
	va_start(ap, fmt);
	strbuf_addv(&b, fmt, ap);
	va_end(ap);
	a->headers[a->n_headers].name = name;
	a->headers[a->n_headers++].value = strbuf_take(&b);
}

static bool has_header(const struct answer *a, const char *name)
{
	for (size_t i = 0; i < a->n_headers; i++)
		if (strcmp(a->headers[i].name, name) == 0)
			return true;
	return false;
}

static struct MHD_Response *response_of(struct answer *a)
{
	if (a->stream)
		return take_ptr(a->stream);
	if (a->fixed) {
		union {
			const char *data;
			void *buffer;
		} u = { .data = a->fixed }; /* MHD only reads it */

		return MHD_create_response_from_buffer(a->len, u.buffer, MHD_RESPMEM_PERSISTENT);
	}
	if (!a->body)
		return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
	return MHD_create_response_from_buffer(a->len, take_ptr(a->body), MHD_RESPMEM_MUST_FREE);
}

enum MHD_Result answer_send(struct answer *a, struct MHD_Connection *c)
{
	unsigned int status = a->status;
	struct MHD_Response *r = response_of(a);
	enum MHD_Result done;

	if (!r)
		return MHD_NO;
	for (size_t i = 0; i < ARRAY_LEN(always); i++)
		(void)MHD_add_response_header(r, always[i][0], always[i][1]);
	if (!has_header(a, MHD_HTTP_HEADER_CACHE_CONTROL))
		(void)MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	if (a->type)
		(void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, a->type);
	for (size_t i = 0; i < a->n_headers; i++)
		(void)MHD_add_response_header(r, a->headers[i].name, a->headers[i].value);
	done = MHD_queue_response(c, status, r);
	MHD_destroy_response(r);
	return done;
}

void answer_clear(struct answer *a)
{
	drop_body(a);
	for (size_t i = 0; i < a->n_headers; i++)
		free(a->headers[i].value);
	a->n_headers = 0;
}
