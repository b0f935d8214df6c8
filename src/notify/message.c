/* SPDX-License-Identifier: MIT */
#include "notify/message.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/json_get.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/utf8.h"
#include "notify/template.h"
#include "notify/topic.h"

#define SUBJECT_MAX 200

/* -------- for people -------- */

static const char *sentence_of(const json_t *event)
{
	const char *text = json_get_str(event, "text");

	return text ? text : "";
}

void message_subject(const json_t *event, struct strbuf *out)
{
	const struct topic *topic = topic_of(event);
	const char *instance = json_get_str(event, "instance");
	cleanup_free char *text = xstrdup(sentence_of(event));
	size_t most;

	/* Of a digest the first line. */
	text[strcspn(text, "\n")] = '\0';
	(void)utf8_clean(text);
	strbuf_adds(out, "tenure");
	if (instance && strcmp(instance, "default") != 0) {
		cleanup_free char *clean = xstrdup(instance);

		strbuf_addf(out, " %s", utf8_clean(clean));
	}
	strbuf_addf(out, ": %s", text[0] ? text : topic ? topic->title : "news");
	most = out->len > SUBJECT_MAX ? utf8_whole(strbuf_str(out), SUBJECT_MAX) : out->len;
	out->data[most] = '\0';
	out->len = most;
}

/* Line by line: a digest has several. */
static void add_clean_lines(const char *text, struct strbuf *out)
{
	while (*text) {
		size_t n = strcspn(text, "\n");
		cleanup_free char *line = xasprintf("%.*s", (int)n, text);

		strbuf_addf(out, "%s\n", utf8_clean(line));
		text += n + (text[n] == '\n');
	}
}

static void add_dropped(const json_t *event, struct strbuf *out)
{
	uint64_t n = json_get_u64(event, "dropped");

	if (n)
		strbuf_addf(out,
			    "(%" PRIu64 " more message%s not sent: there were too many, or no room "
			    "or no way for a day. tenure events has what they were about.)\n",
			    n, n == 1 ? " was" : "s were");
}

void message_text(const json_t *event, struct strbuf *out)
{
	static const struct {
		const char *key, *label;
	} rows[] = { { "time", "when" }, { "node", "node" }, { "instance", "instance" },
		     { "name", "task" }, { "lane", "lane" }, { "log", "its log" } };

	add_clean_lines(sentence_of(event), out);
	add_dropped(event, out);
	if (json_object_get(event, "events"))
		return;
	strbuf_addc(out, '\n');
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_strbuf struct strbuf value = STRBUF_INIT;

		template_member(event, rows[i].key, &value);
		if (!value.len)
			continue;
		strbuf_addf(out, "%s: %s\n", rows[i].label, utf8_clean(value.data));
	}
}

json_t *message_digest(const json_t *events)
{
	static const char *const same[] = { "instance", "node" };
	const json_t *first = json_array_get(events, 0), *event;
	cleanup_strbuf struct strbuf text = STRBUF_INIT;
	json_t *digest;
	size_t i;

	strbuf_addf(&text, "%zu events", json_array_size(events));
	json_array_foreach(events, i, event)
	{
		const char *time = json_get_str(event, "time");
		cleanup_free char *line = xstrdup(sentence_of(event));

		strbuf_addf(&text, "\n%.8s  %s",
			    time && strlen(time) >= 19 ? time + 11 : "        ", utf8_clean(line));
	}
	digest = json_pack("{ss ss sO}", "event", "digest", "text", strbuf_str(&text), "events",
			   (json_t *)(uintptr_t)events);
	for (i = 0; i < ARRAY_LEN(same); i++)
		if (json_object_get(first, same[i]))
			(void)json_object_set(digest, same[i], json_object_get(first, same[i]));
	if (json_object_get(first, "time"))
		(void)json_object_set(digest, "time", json_object_get(first, "time"));
	return digest;
}

/* -------- services -------- */

static char *plain_text(const json_t *event)
{
	struct strbuf text = STRBUF_INIT;

	message_subject(event, &text);
	if (strchr(sentence_of(event), '\n') || json_get_u64(event, "dropped")) {
		strbuf_reset(&text);
		add_clean_lines(sentence_of(event), &text);
		add_dropped(event, &text);
	}
	return strbuf_take(&text);
}

/* Slack reads <, > and & as its own. */
static char *slack_text(const char *text)
{
	struct strbuf out = STRBUF_INIT;

	for (const char *p = text; *p; p++) {
		if (*p == '<' || *p == '>' || *p == '&')
			strbuf_adds(&out, *p == '<' ? "&lt;" : *p == '>' ? "&gt;" : "&amp;");
		else
			strbuf_addc(&out, *p);
	}
	return strbuf_take(&out);
}

static char *sign_base64(const char *key, const char *data)
{
	unsigned char digest[SHA256_SIZE];

	sha256_hmac(key, strlen(key), data, strlen(data), digest);
	return str_bytes_to_base64(digest, sizeof(digest));
}

static json_t *feishu(const char *text, const char *key, uint64_t now_s)
{
	json_t *body = json_pack("{ss s{ss}}", "msg_type", "text", "content", "text", text);

	if (key) {
		/* The time and the key are the key, of no text. */
		cleanup_free char *time = xasprintf("%" PRIu64, now_s);
		cleanup_free char *both = xasprintf("%s\n%s", time, key);
		cleanup_free char *sign = sign_base64(both, "");

		(void)json_object_set_new(body, "timestamp", json_string(time));
		(void)json_object_set_new(body, "sign", json_string(sign));
	}
	return body;
}

void message_body(enum webhook_format format, const json_t *event, const char *key, uint64_t now_s,
		  struct strbuf *out)
{
	cleanup_free char *text = plain_text(event), *slack = NULL, *dump = NULL;
	json_t *body = NULL;

	switch (format) {
	case FORMAT_SLACK:
		slack = slack_text(text);
		body = json_pack("{ss}", "text", slack);
		break;
	case FORMAT_FEISHU:
		body = feishu(text, key, now_s);
		break;
	case FORMAT_DINGTALK:
	case FORMAT_WECOM:
		body = json_pack("{ss s{ss}}", "msgtype", "text", "text", "content", text);
		break;
	case FORMAT_NTFY:
		strbuf_adds(out, text);
		return;
	case FORMAT_EVENT:
	case FORMAT_MAX:
		break;
	}
	dump = json_dumps(body ? body : event, JSON_COMPACT | NUMBER_DIGITS);
	strbuf_adds(out, dump ? dump : "{}");
	json_decref(body);
}

void message_sign_dingtalk(const char *key, uint64_t now_ms, struct strbuf *url)
{
	cleanup_free char *data = xasprintf("%" PRIu64 "\n%s", now_ms, key);
	cleanup_free char *sign = sign_base64(key, data);

	strbuf_addf(url, "%ctimestamp=%" PRIu64 "&sign=", strchr(strbuf_str(url), '?') ? '&' : '?',
		    now_ms);
	for (const char *p = sign; *p; p++) {
		if (isalnum((unsigned char)*p))
			strbuf_addc(url, *p);
		else
			strbuf_addf(url, "%%%02X", (unsigned int)*p);
	}
}

void message_sign(const char *key, const char *body, size_t len, struct strbuf *out)
{
	unsigned char digest[SHA256_SIZE];

	sha256_hmac(key, strlen(key), body, len, digest);
	strbuf_adds(out, "sha256=");
	for (size_t i = 0; i < sizeof(digest); i++)
		strbuf_addf(out, "%02x", digest[i]);
}

/* -------- mail -------- */

static bool is_ascii(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text >= 0x80)
			return false;
	return true;
}

/* RFC 2047: words of at most 75 characters, in each of which characters are whole. */
static void add_header_text(const char *text, struct strbuf *out)
{
	size_t len = strlen(text);

	if (is_ascii(text) && len < 70 && !strstr(text, "=?")) {
		strbuf_adds(out, text);
		return;
	}
	for (const char *sep = ""; len; sep = "\r\n ") {
		size_t n = len > 42 ? utf8_whole(text, 42) : len;
		cleanup_free char *word = str_bytes_to_base64(text, n ? n : len);

		strbuf_addf(out, "%s=?UTF-8?B?%s?=", sep, word);
		text += n ? n : len;
		len -= n ? n : len;
	}
}

/* In lines of 76. */
static void add_base64_lines(const char *text, struct strbuf *out)
{
	cleanup_free char *code = str_to_base64(text);

	for (const char *p = code; *p; p += strnlen(p, 76))
		strbuf_addf(out, "%.76s\r\n", p);
}

static void add_date(uint64_t now_s, struct strbuf *out)
{
	static const char *const days[] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
	static const char *const months[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
					      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
	time_t now = (time_t)now_s;
	struct tm t;

	(void)gmtime_r(&now, &t);
	strbuf_addf(out, "Date: %s, %d %s %d %02d:%02d:%02d +0000\r\n", days[t.tm_wday], t.tm_mday,
		    months[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
}

void message_mail(const struct mail_head *head, const json_t *event, struct strbuf *out)
{
	cleanup_strbuf struct strbuf subject = STRBUF_INIT, text = STRBUF_INIT;
	cleanup_free char *dump = json_dumps(event, JSON_COMPACT | JSON_SORT_KEYS);
	char digest[SHA256_HEX_MAX];

	message_subject(event, &subject);
	message_text(event, &text);
	/* Of one event it is the same each time, so that one that comes twice can be told. */
	sha256_hex(dump ? dump : "", dump ? strlen(dump) : 0, digest);
	strbuf_addf(out, "From: <%s>\r\nTo: ", head->from);
	for (size_t i = 0; i < head->to->n; i++)
		strbuf_addf(out, "%s<%s>", i ? ",\r\n " : "", head->to->texts[i]);
	strbuf_adds(out, "\r\nSubject: ");
	add_header_text(strbuf_str(&subject), out);
	strbuf_adds(out, "\r\n");
	add_date(head->now_s, out);
	strbuf_addf(out,
		    "Message-ID: <%.32s@%s>\r\nAuto-Submitted: auto-generated\r\n"
		    "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
		    "Content-Transfer-Encoding: base64\r\n\r\n",
		    digest, head->host);
	add_base64_lines(strbuf_str(&text), out);
}
