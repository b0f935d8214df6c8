/* SPDX-License-Identifier: MIT */
#include "notify/webhook.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"
#include "notify/message.h"
#include "notify/template.h"
#include "notify/topic.h"
#include "notify/transfer.h"

#define ANSWER_MAX 8192 /* more of it is not read */
#define QUOTED_MAX 160

/* Feishu, DingTalk and WeCom answer 200 also where they refuse. */
static const char *const code_members[FORMAT_MAX][2] = {
	[FORMAT_FEISHU] = { "code", "msg" },
	[FORMAT_DINGTALK] = { "errcode", "errmsg" },
	[FORMAT_WECOM] = { "errcode", "errmsg" },
};

char *webhook_complaint(enum webhook_format format, const char *answer)
{
	const char *const *m = code_members[format];
	char words[QUOTED_MAX + 1];
	json_int_t code;
	json_t *doc;

	if (!m[0])
		return NULL;
	doc = json_loads(answer, 0, NULL);
	code = json_integer_value(json_object_get(doc, m[0]));
	json_get_text(doc, m[1], words, sizeof(words));
	json_decref(doc);
	return code ? xasprintf("%" JSON_INTEGER_FORMAT " %s", code, words) : NULL;
}

static size_t take(char *buf, size_t size, size_t n, void *user)
{
	struct strbuf *answer = user;
	size_t len = size * n, room = ANSWER_MAX - answer->len;

	strbuf_add(answer, buf, len < room ? len : room);
	return len;
}

static struct curl_slist *add(struct curl_slist *list, const char *name, const char *value)
{
	cleanup_free char *line = xasprintf("%s: %s", name, value);

	return curl_slist_append(list, line);
}

static struct curl_slist *ntfy_headers(struct curl_slist *list, const json_t *event)
{
	const struct topic *topic = topic_of(event);
	cleanup_free char *urgency = xasprintf("%u", topic ? topic->urgency : 3);
	cleanup_free char *title = xasprintf("tenure: %s", topic ? topic->title : "several events");

	list = add(list, "Title", title);
	return add(list, "Priority", urgency);
}

static const char *content_type(const struct channel *ch)
{
	if (ch->content_type)
		return ch->content_type;
	return ch->format == FORMAT_NTFY && !ch->body ? "text/plain; charset=utf-8"
						      : "application/json";
}

/* NULL with e: a secret cannot be had. */
static struct curl_slist *headers_of(const struct channel *ch, const json_t *event, const char *key,
				     const struct strbuf *body, struct err *e)
{
	struct curl_slist *list = add(NULL, "Content-Type", content_type(ch));
	cleanup_strbuf struct strbuf sign = STRBUF_INIT;

	if (ch->format == FORMAT_NTFY)
		list = ntfy_headers(list, event);
	for (size_t i = 0; i < ch->headers.n; i++)
		list = curl_slist_append(list, ch->headers.texts[i]);
	if (key && (ch->format == FORMAT_EVENT || ch->format == FORMAT_NTFY)) {
		message_sign(key, strbuf_str(body), body->len, &sign);
		list = add(list, "X-Tenure-Signature-256", strbuf_str(&sign));
	}
	if (secret_is_set(&ch->token)) {
		cleanup_free char *token = secret_read(&ch->token, "token", e);
		cleanup_free char *bearer = token ? xasprintf("Bearer %s", token) : NULL;

		if (!bearer) {
			curl_slist_free_all(list);
			return NULL;
		}
		list = add(list, "Authorization", bearer);
	}
	return list;
}

/* What an HTTP status means for the message. */
static int judge(const struct channel *ch, long status, const char *answer, enum delivered *how,
		 struct err *e)
{
	cleanup_free char *complaint = webhook_complaint(ch->format, answer);
	cleanup_free char *said =
		xasprintf("%.*s", (int)utf8_whole(answer, strnlen(answer, QUOTED_MAX)), answer);

	if (status >= 200 && status < 300 && !complaint)
		return 0;
	if (complaint)
		return err_set(e, -EPROTO, "it refuses the message: %s", complaint);
	if (status == 400 || status == 413 || status == 415 || status == 422)
		*how = DELIVER_REFUSED;
	return err_set(e, -EPROTO, "it answers %ld%s%s%s", status,
		       status >= 300 && status < 400 ? " (a redirection, which is not followed)"
						     : "",
		       said[0] ? ": " : "", utf8_clean(said));
}

static int post(CURL *curl, const struct channel *ch, const struct strbuf *body,
		struct curl_slist *headers, const char *url, enum delivered *how, struct err *e)
{
	cleanup_strbuf struct strbuf answer = STRBUF_INIT;
	long status = 0;
	int r;

	(void)curl_easy_setopt(curl, CURLOPT_URL, url);
	(void)curl_easy_setopt(curl, CURLOPT_USERAGENT, "tenure/" TENURE_VERSION);
	(void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	(void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)body->len);
	(void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, strbuf_str(body));
	(void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
	(void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
	r = transfer_run(curl, ch, e);
	if (r < 0)
		return r;
	(void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	return judge(ch, status, strbuf_str(&answer), how, e);
}

static int prepare(const struct channel *ch, char **url, char **key, struct err *e)
{
	*url = ch->url ? xstrdup(ch->url) : secret_read(&ch->url_secret, "url", e);
	if (!*url)
		return -EACCES;
	if (!str_has_prefix(*url, "https://") && !str_has_prefix(*url, "http://"))
		return err_set(e, -EINVAL, "url: it begins with https:// or http://");
	*key = secret_is_set(&ch->key) ? secret_read(&ch->key, "secret", e) : NULL;
	return *key || !secret_is_set(&ch->key) ? 0 : -EACCES;
}

int webhook_post(const struct channel *ch, const json_t *event, enum delivered *how, struct err *e)
{
	cleanup_free char *url = NULL, *key = NULL;
	cleanup_strbuf struct strbuf body = STRBUF_INIT, address = STRBUF_INIT;
	uint64_t now = clock_wall_ns();
	struct curl_slist *headers;
	CURL *curl;
	int r = prepare(ch, &url, &key, e);

	if (r < 0)
		return r;
	if (ch->body)
		template_fill(ch->body, event, &body);
	else
		message_body(ch->format, event, key, now / NS_PER_S, &body);
	strbuf_adds(&address, url);
	if (ch->format == FORMAT_DINGTALK && key)
		message_sign_dingtalk(key, now / NS_PER_MS, &address);
	headers = headers_of(ch, event, key, &body, e);
	curl = headers ? transfer_new(ch, e) : NULL;
	r = curl ? post(curl, ch, &body, headers, strbuf_str(&address), how, e) : -EIO;
	curl_slist_free_all(headers);
	curl_easy_cleanup(curl);
	return r;
}
