/* SPDX-License-Identifier: MIT */
#include "serve/session.h"

#include "base/clock.h"
#include "base/json_get.h"
#include "base/str.h"
#include "model/model.h"
#include "serve/serve.h"

#define COOKIE_DAYS 30

void session_health(struct serve *s, struct request *r)
{
	uint64_t age_ns = clock_mono_ns() - s->started_ns;

	const struct model_snapshot *m = model_get(s->model);

	answer_json(&r->answer, MHD_HTTP_OK,
		    json_pack("{s:b, s:s, s:s, s:f, s:I, s:b, s:b, s:I}", "ok", 1, "version",
			      TENURE_VERSION, "instance", s->instance, "uptime_s",
			      (double)age_ns / (double)NS_PER_S, "streams",
			      (json_int_t)streams_count(s->streams), "agent", m->connected, "queue",
			      m->read, "model", (json_int_t)m->version));
	m = model_put(m);
}

static const char *right_name(enum access_right right)
{
	return right == ACCESS_WRITE ? "write" : "read";
}

static void set_cookie(struct request *r, const char *token, const char *value, int max_age_s)
{
	char name[ACCESS_COOKIE_NAME_MAX], wanted[WEB_TOKEN_MAX];

	access_cookie(token, name, wanted);
	answer_header(&r->answer, MHD_HTTP_HEADER_SET_COOKIE,
		      "%s=%s; Path=/; Max-Age=%d; HttpOnly; SameSite=Strict%s", name,
		      value ? value : wanted, max_age_s, r->secure ? "; Secure" : "");
}

void session_begin(struct serve *s, struct request *r)
{
	struct access_tokens t;
	json_t *doc = request_object(r);
	const char *token = json_get_str(doc, "token");
	enum access_right right;
	const char *other;

	if (!doc)
		return;
	serve_reload_tokens(s); /* it may just have been made */
	serve_tokens(s, &t);
	right = token ? access_token_right(&t, token) : ACCESS_NONE;
	if (right == ACCESS_NONE) {
		answer_problem(&r->answer, MHD_HTTP_UNAUTHORIZED,
			       "this token is not valid here; tenure web prints the address with "
			       "the one that is");
		answer_header(&r->answer, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
	} else {
		answer_json(&r->answer, MHD_HTTP_OK,
			    json_pack("{s:s, s:s}", "right", right_name(right), "instance",
				      s->instance));
		set_cookie(r, token, NULL, COOKIE_DAYS * 24 * 3600);
		/* Who opens the address for looking on looks on, whatever he opened before. */
		other = right == ACCESS_WRITE ? t.read : t.write;
		if (other[0])
			set_cookie(r, other, "", 0);
	}
	json_decref(doc);
}

void session_show(struct serve *s, struct request *r)
{
	answer_json(
		&r->answer, MHD_HTTP_OK,
		json_pack("{s:s, s:s}", "right", right_name(r->right), "instance", s->instance));
}

void session_end(struct serve *s, struct request *r)
{
	struct access_tokens t;

	serve_tokens(s, &t);
	answer_text(&r->answer, MHD_HTTP_NO_CONTENT, NULL, NULL, 0);
	if (t.write[0])
		set_cookie(r, t.write, "", 0);
	if (t.read[0])
		set_cookie(r, t.read, "", 0);
}
