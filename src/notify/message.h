/* SPDX-License-Identifier: MIT */
#ifndef TENURE_NOTIFY_MESSAGE_H
#define TENURE_NOTIFY_MESSAGE_H

/* What goes out, made from an event. Pure. */

#include <jansson.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "base/textlist.h"
#include "notify/config.h"

/* One line: "tenure: task 42 (train) has failed: exit code 1", of what is in the event only what a
 * terminal or a header may get. */
void message_subject(const json_t *event, struct strbuf *out);
/* For people: the sentence and where it happened, a line each. */
void message_text(const json_t *event, struct strbuf *out);
/* Several events as one, "digest", whose `events` they are. New reference. */
json_t *message_digest(const json_t *events);

/* The body that a service wants; ntfy's is plain text. now_s, and key (NULL: unsigned), are for
 * Feishu, which has its signature in the body. */
void message_body(enum webhook_format format, const json_t *event, const char *key, uint64_t now_s,
		  struct strbuf *out);
/* DingTalk has it in the address: behind url. */
void message_sign_dingtalk(const char *key, uint64_t now_ms, struct strbuf *url);
/* "sha256=..." of the body, for X-Tenure-Signature-256. */
void message_sign(const char *key, const char *body, size_t len, struct strbuf *out);

/* A whole mail: headers and body, with lines that end in CRLF. from and to are addresses. */
struct mail_head {
	const char *from;
	const struct text_list *to;
	uint64_t now_s;
	const char *host; /* of the message's id */
};
void message_mail(const struct mail_head *head, const json_t *event, struct strbuf *out);

#endif
