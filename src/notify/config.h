/* SPDX-License-Identifier: MIT */
#ifndef TENURE_NOTIFY_CONFIG_H
#define TENURE_NOTIFY_CONFIG_H

/*
 * The block `notify` of a config file: channels, by which people are told, and rules, of what and
 * by which channel (docs/notify.md). What is secret is never in it: it names a file or a variable.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/textlist.h"

enum channel_type {
	CHANNEL_MAIL,
	CHANNEL_WEBHOOK,
	CHANNEL_DESKTOP,
	CHANNEL_COMMAND,
	CHANNEL_TYPE_MAX
};

/* What a webhook is sent, unless the channel has a body of its own. */
enum webhook_format {
	FORMAT_EVENT, /* the event itself */
	FORMAT_SLACK,
	FORMAT_FEISHU,
	FORMAT_DINGTALK,
	FORMAT_WECOM,
	FORMAT_NTFY,
	FORMAT_MAX
};

enum mail_tls { MAIL_TLS_REQUIRED, MAIL_TLS_NONE, MAIL_TLS_MAX };

/* Where a secret is; both NULL: there is none. */
struct secret {
	char *file, *variable;
};

#define CHANNELS_MAX 16
#define RULES_MAX    64

struct channel {
	char *name;
	enum channel_type type;
	uint64_t digest_ms;	/* events of so long come in one message; 0: each by itself */
	uint64_t per_hour;	/* so many messages at most */
	uint64_t time_limit_ms; /* of one attempt */
	uint64_t retry_ms;	/* before the second attempt; twice as long before the next one */
	bool verify;		/* certificates */
	char *ca_file;		/* NULL: the system's */
	/* Mail. */
	struct text_list to;
	char *from;    /* NULL: user@host */
	char *server;  /* smtp://HOST:PORT, smtps://HOST:PORT; NULL: sendmail */
	char *program; /* sendmail, or notify-send; NULL: as found on PATH */
	enum mail_tls tls;
	char *user;
	struct secret password;
	/* Webhook. */
	char *url;
	struct secret url_secret; /* in place of url */
	enum webhook_format format;
	char *body; /* template; NULL: the format's */
	char *content_type;
	struct text_list headers;
	struct secret key;   /* that signs, as its format has it */
	struct secret token; /* of Authorization: Bearer */
	/* Command. */
	struct text_list command;
	bool shell; /* it is one text, for /bin/sh */
};

struct rule {
	struct text_list events, lanes, names, outcomes; /* patterns; empty: all */
	struct text_list to;				 /* channels; empty: all of them */
};

struct notify_config {
	size_t n_channels, n_rules;
	struct channel channels[CHANNELS_MAX];
	struct rule rules[RULES_MAX];
};

/* Of the block. 0, or -EINVAL with "notify: channels: mail: .." in e. Cleared in each case. */
int notify_config_parse(const json_t *block, struct notify_config *ret, struct err *e);
/* The first of the files that has a block (":" between them, the highest layer first). 0; 1: none
 * has one, and *ret is empty; negative. which (may be NULL) receives that file, the caller's. */
int notify_config_read(const char *files, struct notify_config *ret, char **which, struct err *e);
/* The one channel of resource-manager.md's `email`: the first that sends mail, with another
 * address, or sendmail. Adds it, as the only one. 0, or -EINVAL: that is no address. */
int notify_config_mail_to(struct notify_config *c, const char *email, struct err *e);
void notify_config_clear(struct notify_config *c);

const struct channel *notify_config_channel(const struct notify_config *c, const char *name);
/* Whether the channel is to be told of the event. Pure. */
bool notify_config_wants(const struct notify_config *c, const struct channel *ch,
			 const json_t *event);

/* A rule says that it tells of this topic ("free"), be it by a pattern. Pure. */
bool notify_config_names(const struct notify_config *c, const char *topic);

const char *channel_type_name(enum channel_type type);
const char *webhook_format_name(enum webhook_format format);
/* Where it goes, without what is secret: "me@example.org by smtps://mail.example.org:465". The
 * caller frees it. */
char *channel_describe(const struct channel *ch);

/* The secret's text, without a newline at its end; the caller frees it. NULL with e: a file that
 * others may read, an empty variable. */
char *secret_read(const struct secret *s, const char *what, struct err *e);
bool secret_is_set(const struct secret *s);

#endif
