/* SPDX-License-Identifier: MIT */

/*
 * A table has a row for each key of a channel: its place, how it is read, and which channels may
 * have it. Everything that is not understood is an error that names the channel and the key: a
 * notification that never comes is noticed by nobody.
 */

#include "notify/config.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/settings.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "base/utf8.h"
#include "notify/template.h"
#include "notify/topic.h"

#define TIME_LIMIT_MS	  (30 * MS_PER_S)
#define TIME_LIMIT_MAX_MS (10 * MS_PER_MIN)
#define DIGEST_MAX_MS	  MS_PER_DAY
#define RETRY_MS	  (30 * MS_PER_S)
#define PER_HOUR	  60
#define PER_HOUR_MAX	  1000
#define SECRET_MAX	  8192
#define NAME_MAX_BYTES	  64

static const char *const types[] = { "mail", "webhook", "desktop", "command", NULL };
_Static_assert(ARRAY_LEN(types) == CHANNEL_TYPE_MAX + 1, "a name for each type");
static const char *const formats[] = {
	"event", "slack", "feishu", "dingtalk", "wecom", "ntfy", NULL
};
_Static_assert(ARRAY_LEN(formats) == FORMAT_MAX + 1, "a name for each format");
static const char *const tls_words[] = { "required", "none", NULL };
_Static_assert(ARRAY_LEN(tls_words) == MAIL_TLS_MAX + 1, "a name for each");

#define MAIL	(1u << CHANNEL_MAIL)
#define WEBHOOK (1u << CHANNEL_WEBHOOK)
#define DESKTOP (1u << CHANNEL_DESKTOP)
#define COMMAND (1u << CHANNEL_COMMAND)
#define ANY	(MAIL | WEBHOOK | DESKTOP | COMMAND)

struct key {
	const char *name;
	unsigned int of; /* types that may have it */
	int (*read)(const json_t *value, const struct key *k, void *place, struct err *e);
	size_t at;
	uint64_t min, max;
	const char *const *words;
};

static const char *text_of(const json_t *value, struct err *e)
{
	const char *text = json_string_value(value);

	if (!text || !text[0])
		(void)err_set(e, -EINVAL, "a text belongs here");
	return text && text[0] ? text : NULL;
}

static int read_text(const json_t *value, const struct key *k, void *place, struct err *e)
{
	const char *text = text_of(value, e);

	if (!text)
		return -EINVAL;
	free(*(char **)place);
	*(char **)place = xstrdup(text);
	return 0;
}

/* One line, since it goes into headers and command lines. */
static int read_line(const json_t *value, const struct key *k, void *place, struct err *e)
{
	const char *text = text_of(value, e);

	if (!text)
		return -EINVAL;
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return err_set(e, -EINVAL,
				       "it is more than one line, or has a control character");
	return read_text(value, k, place, e);
}

/* A path; "~/" is the home directory. */
static int read_path(const json_t *value, const struct key *k, void *place, struct err *e)
{
	int r = read_line(value, k, place, e);
	char **path = place;

	if (r == 0 && str_has_prefix(*path, "~/")) {
		cleanup_free char *home = fs_home_dir();
		char *full = xasprintf("%s%s", home, *path + 1);

		free(*path);
		*path = full;
	}
	if (r == 0 && (*path)[0] != '/')
		return err_set(e, -EINVAL, "%s: write the whole path, or one that begins with ~/",
			       *path);
	return r;
}

static int read_list(const json_t *value, const struct key *k, void *place, struct err *e)
{
	struct text_list *list = place;
	const json_t *item;
	size_t i;

	if (json_is_string(value)) {
		cleanup_free char *line = NULL;
		int r = read_line(value, k, &line, e);

		if (r == 0)
			text_list_take(list, take_ptr(line));
		return r;
	}
	if (!json_array_size(value))
		return err_set(e, -EINVAL, "a text or a list of texts belongs here");
	json_array_foreach(value, i, item)
	{
		int r = json_is_string(item) ? read_list(item, k, place, e)
					     : err_set(e, -EINVAL, "a list of texts belongs here");

		if (r < 0)
			return r;
	}
	return 0;
}

static int read_command(const json_t *value, const struct key *k, void *place, struct err *e)
{
	struct text_list *list = place;

	if (json_is_string(value)) {
		const char *text = text_of(value, e);

		if (!text)
			return -EINVAL;
		text_list_add(list, text);
		return 0;
	}
	return read_list(value, k, place, e);
}

static int read_duration(const json_t *value, const struct key *k, void *place, struct err *e)
{
	const char *text = text_of(value, e);
	uint64_t ms;
	int r = text ? unit_parse_duration(text, &ms, e) : -EINVAL;

	if (r < 0)
		return r;
	if (ms < k->min || ms > k->max) {
		char least[UNIT_TEXT_MAX], most[UNIT_TEXT_MAX];

		return err_set(e, -ERANGE, "%s: it is from %s to %s", text,
			       unit_format_duration(k->min, least),
			       unit_format_duration(k->max, most));
	}
	*(uint64_t *)place = ms;
	return 0;
}

static int read_number(const json_t *value, const struct key *k, void *place, struct err *e)
{
	const char *text = text_of(value, e);
	uint64_t n;

	if (!text)
		return -EINVAL;
	if (str_to_u64(text, &n) < 0 || n < k->min || n > k->max)
		return err_set(e, -EINVAL, "%s: it is a number from %llu to %llu", text,
			       (unsigned long long)k->min, (unsigned long long)k->max);
	*(uint64_t *)place = n;
	return 0;
}

static int read_flag(const json_t *value, const struct key *k, void *place, struct err *e)
{
	const char *text = text_of(value, e);

	if (!text)
		return -EINVAL;
	if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
		return err_set(e, -EINVAL, "%s: it is true or false", text);
	*(bool *)place = text[0] == 't';
	return 0;
}

/* Enums whose values are the words' places. */
static int read_word(const json_t *value, const struct key *k, void *place, struct err *e)
{
	const char *text = text_of(value, e), *near;
	cleanup_strbuf struct strbuf all = STRBUF_INIT;

	if (!text)
		return -EINVAL;
	for (unsigned int i = 0; k->words[i]; i++) {
		if (strcmp(text, k->words[i]) == 0) {
			*(unsigned int *)place = i;
			return 0;
		}
		strbuf_addf(&all, "%s%s", i ? ", " : "", k->words[i]);
	}
	near = str_nearest(text, k->words);
	return err_set(e, -EINVAL, "\"%s\" is none of %s%s%s%s", text, strbuf_str(&all),
		       near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static int read_template(const json_t *value, const struct key *k, void *place, struct err *e)
{
	int r = read_text(value, k, place, e);

	return r < 0 ? r : template_check(*(char **)place, e);
}

/* {Name: value} as "Name: value". */
static int read_pairs(const json_t *value, struct text_list *list, struct err *e)
{
	const char *name;
	json_t *text;

	json_object_foreach((json_t *)(uintptr_t)value, name, text)
	{
		cleanup_free char *line = NULL;
		int r = read_line(text, NULL, &line, e);

		if (r < 0)
			return err_wrap(e, "%s", name), r;
		text_list_take(list, xasprintf("%s: %s", name, line));
	}
	return 0;
}

/* "Name: value" each, or a mapping; the names of a header end where the value begins. */
static int read_headers(const json_t *value, const struct key *k, void *place, struct err *e)
{
	int r = json_object_size(value) ? read_pairs(value, place, e)
					: read_list(value, k, place, e);
	const struct text_list *list = place;

	for (size_t i = 0; r == 0 && i < list->n; i++) {
		size_t name = strcspn(list->texts[i], ": ");

		if (!name || list->texts[i][name] != ':')
			r = err_set(e, -EINVAL, "\"%s\" is no header; write \"Name: value\"",
				    list->texts[i]);
		else if (strncasecmp(list->texts[i], "authorization", name) == 0)
			r = err_set(e, -EINVAL,
				    "a secret does not stand in the config: token_file names a "
				    "file whose word is sent as Authorization: Bearer");
	}
	return r;
}

/* Whoever writes a secret itself there would show it to all who can read the file. */
static int refuse_secret(const json_t *value, const struct key *k, void *place, struct err *e)
{
	return err_set(e, -EINVAL,
		       "a secret does not stand in the config: write it into a file with the mode "
		       "600 and its path as %s_file, or the name of a variable as %s_env",
		       k->name, k->name);
}

#define AT(member) .at = offsetof(struct channel, member)

static const struct key keys[] = {
	{ "type", ANY, read_word, AT(type), .words = types },
	{ "digest", ANY, read_duration, AT(digest_ms), .max = DIGEST_MAX_MS },
	{ "per_hour", ANY, read_number, AT(per_hour), 1, PER_HOUR_MAX },
	{ "time_limit", ANY, read_duration, AT(time_limit_ms), MS_PER_S, TIME_LIMIT_MAX_MS },
	{ "retry_after", ANY, read_duration, AT(retry_ms), MS_PER_S / 10, MS_PER_H },
	{ "verify", MAIL | WEBHOOK, read_flag, AT(verify) },
	{ "ca_file", MAIL | WEBHOOK, read_path, AT(ca_file) },
	{ "to", MAIL, read_list, AT(to) },
	{ "from", MAIL, read_line, AT(from) },
	{ "server", MAIL, read_line, AT(server) },
	{ "program", MAIL | DESKTOP, read_path, AT(program) },
	{ "tls", MAIL, read_word, AT(tls), .words = tls_words },
	{ "user", MAIL, read_line, AT(user) },
	{ "password", MAIL, refuse_secret },
	{ "password_file", MAIL, read_path, AT(password.file) },
	{ "password_env", MAIL, read_line, AT(password.variable) },
	{ "url", WEBHOOK, read_line, AT(url) },
	{ "url_file", WEBHOOK, read_path, AT(url_secret.file) },
	{ "url_env", WEBHOOK, read_line, AT(url_secret.variable) },
	{ "format", WEBHOOK, read_word, AT(format), .words = formats },
	{ "body", WEBHOOK, read_template, AT(body) },
	{ "content_type", WEBHOOK, read_line, AT(content_type) },
	{ "headers", WEBHOOK, read_headers, AT(headers) },
	{ "secret", WEBHOOK, refuse_secret },
	{ "secret_file", WEBHOOK, read_path, AT(key.file) },
	{ "secret_env", WEBHOOK, read_line, AT(key.variable) },
	{ "token", WEBHOOK, refuse_secret },
	{ "token_file", WEBHOOK, read_path, AT(token.file) },
	{ "token_env", WEBHOOK, read_line, AT(token.variable) },
	{ "command", COMMAND, read_command, AT(command) },
	{ "shell", COMMAND, read_flag, AT(shell) },
};

#define RULE_AT(member) .at = offsetof(struct rule, member)

static const struct key rule_keys[] = {
	{ "events", 1, read_list, RULE_AT(events) },	 { "lanes", 1, read_list, RULE_AT(lanes) },
	{ "names", 1, read_list, RULE_AT(names) },	 { "to", 1, read_list, RULE_AT(to) },
	{ "outcomes", 1, read_list, RULE_AT(outcomes) },
};

static const struct key *key_of(const struct key *table, size_t n, const char *name, struct err *e)
{
	const char *names[ARRAY_LEN(keys) + 1] = { NULL }, *near;

	for (size_t i = 0; i < n; i++) {
		names[i] = table[i].name;
		if (strcmp(name, table[i].name) == 0)
			return &table[i];
	}
	near = str_nearest(name, names);
	(void)err_set(e, -EINVAL, "there is no such key%s%s%s", near ? "; did you mean " : "",
		      near ? near : "", near ? "?" : "");
	(void)err_wrap(e, "%s", name);
	return NULL;
}

/* The members of an object into a struct; type: of the channel, or 0 for a rule. */
static int read_keys(const json_t *object, const struct key *table, size_t n, unsigned int type,
		     void *ret, struct err *e)
{
	const char *name;
	const json_t *value;

	/* The type is known before what depends on it. */
	json_object_foreach((json_t *)(uintptr_t)object, name, value)
	{
		const struct key *k = key_of(table, n, name, e);

		if (!k)
			return -EINVAL;
		if (!(k->of & 1u << type)) {
			(void)err_set(e, -EINVAL, "a channel of the type %s has no such key",
				      types[type]);
			return err_wrap(e, "%s", name);
		}
		if (k->read(value, k, (char *)ret + k->at, e) < 0)
			return err_wrap(e, "%s", name);
	}
	return 0;
}

bool secret_is_set(const struct secret *s)
{
	return s->file || s->variable;
}

static int check_server(const struct channel *ch, struct err *e)
{
	static const char *const schemes[] = { "smtp://", "smtps://" };
	bool fits = false;

	if (!ch->server)
		return secret_is_set(&ch->password) || ch->user
			       ? err_set(e, -EINVAL,
					 "user and password are for a server, and there is none: write "
					 "server: smtps://HOST:465 or smtp://HOST:587")
			       : 0;
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
		fits |= str_has_prefix(ch->server, schemes[i]) && ch->server[strlen(schemes[i])];
	if (!fits || strchr(ch->server, '@'))
		return err_set(e, -EINVAL,
			       "server: write smtps://HOST:465, or smtp://HOST:587 for STARTTLS; "
			       "user and password are keys of their own");
	if (!ch->user != !secret_is_set(&ch->password))
		return err_set(e, -EINVAL,
			       "a login is both: user, and password_file or password_env");
	if (ch->user && ch->tls == MAIL_TLS_NONE && str_has_prefix(ch->server, "smtp://"))
		return err_set(
			e, -EINVAL,
			"tls: none would send the password as it is; leave out the login, or "
			"tls: none");
	return 0;
}

static int check_mail(const struct channel *ch, struct err *e)
{
	if (!ch->to.n)
		return err_set(e, -EINVAL, "to: whom? Write an address");
	for (size_t i = 0; i < ch->to.n; i++)
		if (strpbrk(ch->to.texts[i], " <>,;\"\\\r\n\t") || ch->to.texts[i][0] == '-')
			return err_set(e, -EINVAL, "to: \"%s\" is no address", ch->to.texts[i]);
	if (ch->from && (strpbrk(ch->from, " <>,;\"\\") || ch->from[0] == '-'))
		return err_set(e, -EINVAL, "from: \"%s\" is no address", ch->from);
	return check_server(ch, e);
}

static int check_webhook(const struct channel *ch, struct err *e)
{
	if (!ch->url == !secret_is_set(&ch->url_secret))
		return err_set(e, -EINVAL,
			       "it needs one of url, url_file and url_env, and no more than one");
	if (ch->url && !str_has_prefix(ch->url, "http://") && !str_has_prefix(ch->url, "https://"))
		return err_set(e, -EINVAL, "url: it begins with https:// or http://");
	if (secret_is_set(&ch->key) && (ch->format == FORMAT_SLACK || ch->format == FORMAT_WECOM))
		return err_set(e, -EINVAL, "%s has no signatures; leave out the secret",
			       formats[ch->format]);
	if (ch->body && ch->format != FORMAT_EVENT)
		return err_set(e, -EINVAL, "it has a body of its own, or a format: not both");
	return 0;
}

static int check_command(const struct channel *ch, struct err *e)
{
	if (!ch->command.n)
		return err_set(e, -EINVAL, "command: which one?");
	if (ch->shell && ch->command.n > 1)
		return err_set(e, -EINVAL, "with shell: true the command is one text");
	if (!ch->shell && ch->command.texts[0][0] != '/')
		return err_set(
			e, -EINVAL,
			"command: \"%s\" is no whole path; write a list, [\"/path/program\", "
			"\"word\", ..], or shell: true for a command line of the shell",
			ch->command.texts[0]);
	return 0;
}

static int check_desktop(const struct channel *ch, struct err *e)
{
	return 0;
}

static int check_secret(const struct secret *s, const char *what, struct err *e)
{
	return s->file && s->variable
		       ? err_set(e, -EINVAL, "%s_file and %s_env: only one of them counts", what,
				 what)
		       : 0;
}

static int check_channel(const struct channel *ch, struct err *e)
{
	static int (*const checks[])(const struct channel *, struct err *) = {
		[CHANNEL_MAIL] = check_mail,
		[CHANNEL_WEBHOOK] = check_webhook,
		[CHANNEL_DESKTOP] = check_desktop,
		[CHANNEL_COMMAND] = check_command,
	};

	if (check_secret(&ch->password, "password", e) < 0 ||
	    check_secret(&ch->key, "secret", e) < 0 || check_secret(&ch->token, "token", e) < 0)
		return -EINVAL;
	return checks[ch->type](ch, e);
}

static int read_channel(const char *name, const json_t *object, struct channel *ch, struct err *e)
{
	const json_t *type = json_object_get(object, "type");

	*ch = (struct channel){ .name = xstrdup(name),
				.per_hour = PER_HOUR,
				.time_limit_ms = TIME_LIMIT_MS,
				.retry_ms = RETRY_MS,
				.verify = true };
	if (!utf8_is_name(name, NAME_MAX_BYTES))
		return err_set(e, -EINVAL, "a name is letters, digits, . _ and -");
	if (!type)
		return err_set(e, -EINVAL, "type: it is one of mail, webhook, desktop, command");
	if (keys[0].read(type, &keys[0], (char *)ch + keys[0].at, e) < 0)
		return err_wrap(e, "type");
	if (read_keys(object, keys, ARRAY_LEN(keys), ch->type, ch, e) < 0)
		return e->code;
	return check_channel(ch, e);
}

static int read_channels(const json_t *object, struct notify_config *c, struct err *e)
{
	const char *name;
	const json_t *value;

	if (!json_object_size(object))
		return err_set(e, -EINVAL, "channels: there is none");
	json_object_foreach((json_t *)(uintptr_t)object, name, value)
	{
		if (c->n_channels == CHANNELS_MAX)
			return err_set(e, -EINVAL, "channels: there are more than %d",
				       CHANNELS_MAX);
		if (!json_is_object(value))
			(void)err_set(e, -EINVAL, "its keys belong below it, as type: mail");
		else if (read_channel(name, value, &c->channels[c->n_channels++], e) == 0)
			continue;
		(void)err_wrap(e, "%s", name);
		return err_wrap(e, "channels");
	}
	return 0;
}

static int check_rule(const struct notify_config *c, const struct rule *rule, struct err *e)
{
	for (size_t i = 0; i < rule->events.n; i++) {
		const char *word = rule->events.texts[i], *near = topic_nearest(word);

		if (!topic_find(word))
			return err_set(e, -EINVAL, "events: nothing is called \"%s\"%s%s%s", word,
				       near ? "; did you mean " : "; docs/notify.md has all",
				       near ? near : "", near ? "?" : "");
	}
	for (size_t i = 0; i < rule->to.n; i++)
		if (!notify_config_channel(c, rule->to.texts[i]))
			return err_set(e, -EINVAL, "to: there is no channel \"%s\"",
				       rule->to.texts[i]);
	return 0;
}

static int read_rules(const json_t *list, struct notify_config *c, struct err *e)
{
	const json_t *value;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > RULES_MAX)
		return err_set(e, -EINVAL, "rules: it is a list of at most %d", RULES_MAX);
	json_array_foreach(list, i, value)
	{
		struct rule *rule = &c->rules[c->n_rules++];

		if (!json_is_object(value))
			(void)err_set(e, -EINVAL, "it has keys, as events: [task-failed]");
		else if (read_keys(value, rule_keys, ARRAY_LEN(rule_keys), 0, rule, e) == 0 &&
			 check_rule(c, rule, e) == 0)
			continue;
		(void)err_wrap(e, "%zu", i + 1);
		return err_wrap(e, "rules");
	}
	return 0;
}

static int parse(const json_t *block, struct notify_config *c, struct err *e)
{
	const char *key;
	const json_t *value, *rules = json_object_get(block, "rules");
	int r;

	if (!json_is_object(block))
		return err_set(e, -EINVAL, "channels: and rules: belong below it");
	json_object_foreach((json_t *)(uintptr_t)block, key, value) if (
		strcmp(key, "channels") != 0 &&
		strcmp(key, "rules") !=
			0) return err_set(e, -EINVAL,
					  "%s: there is no such key; it has channels and "
					  "rules",
					  key);
	r = read_channels(json_object_get(block, "channels"), c, e);
	return r == 0 && rules ? read_rules(rules, c, e) : r;
}

int notify_config_parse(const json_t *block, struct notify_config *ret, struct err *e)
{
	*ret = (struct notify_config){ .n_channels = 0 };
	if (parse(block, ret, e) == 0)
		return 0;
	notify_config_clear(ret);
	return err_wrap(e, SETTINGS_NOTIFY);
}

static int read_file(const char *path, struct notify_config *ret, struct err *e)
{
	bool own = !str_has_prefix(path, "/etc/");
	json_t *block = NULL;
	int r = config_read_block(path, own, SETTINGS_NOTIFY, &block, e);

	if (r == -ENOENT || r == -ENOTDIR || (r == 0 && !block))
		return 1;
	if (r == 0 && notify_config_parse(block, ret, e) < 0) {
		cleanup_free char *shown = fs_show_path(path);

		r = err_wrap(e, "%s", shown);
	}
	json_decref(block);
	return r;
}

int notify_config_read(const char *files, struct notify_config *ret, char **which, struct err *e)
{
	cleanup_free char *copy = xstrdup(files);
	char *rest = NULL;

	*ret = (struct notify_config){ .n_channels = 0 };
	for (char *path = strtok_r(copy, ":", &rest); path; path = strtok_r(NULL, ":", &rest)) {
		int r = read_file(path, ret, e);

		if (r == 1)
			continue;
		if (which)
			*which = xstrdup(path);
		return r;
	}
	return 1;
}

static void clear_secret(struct secret *s)
{
	free(s->file);
	free(s->variable);
}

static void clear_channel(struct channel *ch)
{
	char *const texts[] = { ch->name, ch->ca_file, ch->from, ch->server,	  ch->program,
				ch->user, ch->url,     ch->body, ch->content_type };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		free(texts[i]);
	text_list_clear(&ch->to);
	text_list_clear(&ch->headers);
	text_list_clear(&ch->command);
	clear_secret(&ch->password);
	clear_secret(&ch->url_secret);
	clear_secret(&ch->key);
	clear_secret(&ch->token);
}

void notify_config_clear(struct notify_config *c)
{
	for (size_t i = 0; i < c->n_channels; i++)
		clear_channel(&c->channels[i]);
	for (size_t i = 0; i < c->n_rules; i++) {
		text_list_clear(&c->rules[i].events);
		text_list_clear(&c->rules[i].lanes);
		text_list_clear(&c->rules[i].names);
		text_list_clear(&c->rules[i].outcomes);
		text_list_clear(&c->rules[i].to);
	}
	*c = (struct notify_config){ .n_channels = 0 };
}

int notify_config_mail_to(struct notify_config *c, const char *email, struct err *e)
{
	struct channel mail = { .type = CHANNEL_MAIL,
				.per_hour = PER_HOUR,
				.time_limit_ms = TIME_LIMIT_MS,
				.retry_ms = RETRY_MS,
				.verify = true };

	for (size_t i = c->n_channels; i-- > 0;) {
		if (c->channels[i].type != CHANNEL_MAIL)
			continue;
		if (mail.name)
			clear_channel(&mail);
		mail = c->channels[i];
		c->channels[i] = (struct channel){ .type = CHANNEL_MAIL };
	}
	notify_config_clear(c);
	free(mail.name);
	mail.name = xstrdup("mail");
	text_list_clear(&mail.to);
	mail.to = (struct text_list){ .n = 0 };
	text_list_add(&mail.to, email);
	c->channels[c->n_channels++] = mail;
	return check_mail(&mail, e);
}

const struct channel *notify_config_channel(const struct notify_config *c, const char *name)
{
	for (size_t i = 0; i < c->n_channels; i++)
		if (strcmp(c->channels[i].name, name) == 0)
			return &c->channels[i];
	return NULL;
}

/* Whether a member fits one of the patterns, where there are any. */
static bool fits(const struct text_list *patterns, const char *text)
{
	for (size_t i = 0; i < patterns->n; i++)
		if (text && fnmatch(patterns->texts[i], text, 0) == 0)
			return true;
	return patterns->n == 0;
}

bool notify_config_names(const struct notify_config *c, const char *topic)
{
	for (size_t i = 0; i < c->n_rules; i++)
		if (fits(&c->rules[i].events, topic) && c->rules[i].events.n)
			return true;
	return false;
}

bool notify_config_wants(const struct notify_config *c, const struct channel *ch,
			 const json_t *event)
{
	const struct topic *topic = topic_of(event);

	if (!topic)
		return false;
	if (!c->n_rules)
		return topic->told;
	for (size_t i = 0; i < c->n_rules; i++) {
		const struct rule *rule = &c->rules[i];

		if ((rule->events.n ? fits(&rule->events, topic->name) : topic->told) &&
		    fits(&rule->lanes, json_get_str(event, "lane")) &&
		    fits(&rule->names, json_get_str(event, "name")) &&
		    fits(&rule->outcomes, json_get_str(event, "outcome")) &&
		    (!rule->to.n || text_list_has(&rule->to, ch->name)))
			return true;
	}
	return false;
}

const char *channel_type_name(enum channel_type type)
{
	return types[type];
}

const char *webhook_format_name(enum webhook_format format)
{
	return formats[format];
}

/* Scheme and host: the path of a webhook is its key. */
static void add_host(const char *url, struct strbuf *out)
{
	const char *host = strstr(url, "://"), *end = NULL, *at;

	host = host ? host + 3 : url;
	end = host + strcspn(host, "/?#");
	at = memrchr(host, '@', (size_t)(end - host));
	strbuf_add(out, url, (size_t)(host - url));
	host = at ? at + 1 : host;
	strbuf_add(out, host, (size_t)(end - host));
	strbuf_adds(out, *end ? "/..." : "");
}

static void add_secret(const struct secret *s, const char *what, struct strbuf *out)
{
	if (s->file)
		strbuf_addf(out, "%s %s", what, s->file);
	else if (s->variable)
		strbuf_addf(out, "%s $%s", what, s->variable);
}

char *channel_describe(const struct channel *ch)
{
	struct strbuf out = STRBUF_INIT;

	for (size_t i = 0; i < ch->to.n; i++)
		strbuf_addf(&out, "%s%s", i ? ", " : "to ", ch->to.texts[i]);
	if (ch->type == CHANNEL_MAIL)
		strbuf_addf(&out, " by %s",
			    ch->server	  ? ch->server
			    : ch->program ? ch->program
					  : "sendmail");
	if (ch->user)
		strbuf_addf(&out, " as %s", ch->user);
	if (ch->url)
		add_host(ch->url, &out);
	add_secret(&ch->url_secret, "the address in", &out);
	if (ch->type == CHANNEL_WEBHOOK && !ch->body)
		strbuf_addf(&out, " (%s)", formats[ch->format]);
	if (ch->type == CHANNEL_DESKTOP)
		strbuf_adds(&out, ch->program ? ch->program : "notify-send");
	if (ch->type == CHANNEL_COMMAND)
		strbuf_adds(&out,
			    ch->shell ? "to a command line of the shell" : ch->command.texts[0]);
	(void)utf8_clean(out.data);
	return strbuf_take(&out);
}

static char *read_secret_file(const char *path, struct err *e)
{
	cleanup_free char *text = NULL;
	struct stat st;
	size_t len;

	if (stat(path, &st) < 0) {
		(void)err_sys(e, errno, "%s", path);
		return NULL;
	}
	if (st.st_mode & 077) {
		(void)err_set(e, -EPERM,
			      "%s: others may read it (mode %03o), so it is not used: chmod 600 %s",
			      path, (unsigned int)st.st_mode & 0777, path);
		return NULL;
	}
	return fs_read_own_file(path, SECRET_MAX, &text, &len, e) < 0 ? NULL : take_ptr(text);
}

char *secret_read(const struct secret *s, const char *what, struct err *e)
{
	const char *value = s->variable ? getenv(s->variable) : NULL;
	cleanup_free char *text = NULL;
	size_t len;

	if (s->file)
		text = read_secret_file(s->file, e);
	else if (value)
		text = xstrdup(value);
	else
		(void)err_set(e, -ENOENT, "the variable %s is not set where the agent runs",
			      s->variable);
	if (text) {
		len = strlen(text);
		while (len && (text[len - 1] == '\n' || text[len - 1] == '\r'))
			text[--len] = '\0';
		if (!len || strpbrk(text, "\r\n")) {
			free(take_ptr(text));
			(void)err_set(e, -EINVAL, "%s: it is one line, and not empty",
				      s->file ? s->file : s->variable);
		}
	}
	if (!text)
		(void)err_wrap(e, "%s", what);
	return take_ptr(text);
}
