/* SPDX-License-Identifier: MIT */
#include "notify/template.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "notify/topic.h"

/* What a template may name, with what is put in its place where the event has no such member. */
static const char *const members[] = { "event",	    "text",    "time",	  "level", "instance",
				       "node",	    "host",    "id",	  "task",  "element",
				       "name",	    "lane",    "outcome", "why",   "exit",
				       "ran_s",	    "log",     "gpu",	  "uuid",  "gpus",
				       "user",	    "command", "pid",	  "bytes", "free",
				       "left_s",    "attempt", "topic",	  "agent", "dropped",
				       "threshold", "title",   "json",	  NULL };

/* "{name}" at p: its length with the braces; 0: it is none. */
static size_t placeholder(const char *p, char *name, size_t size)
{
	size_t n = 0;

	if (p[0] != '{')
		return 0;
	while (islower((unsigned char)p[1 + n]) || p[1 + n] == '_')
		n++;
	if (!n || n >= size || p[1 + n] != '}')
		return 0;
	memcpy(name, p + 1, n);
	name[n] = '\0';
	return n + 2;
}

static bool is_member(const char *name)
{
	for (size_t i = 0; members[i]; i++)
		if (strcmp(members[i], name) == 0)
			return true;
	return false;
}

int template_check(const char *text, struct err *e)
{
	char name[32];

	for (const char *p = text; *p;) {
		size_t n = placeholder(p, name, sizeof(name));

		if (n && !is_member(name)) {
			const char *near = str_nearest(name, members);

			return err_set(e, -EINVAL, "{%s} is nothing that an event has%s%s%s", name,
				       near ? "; did you mean {" : "", near ? near : "",
				       near ? "}?" : "");
		}
		p += n ? n : 1;
	}
	return 0;
}

/* Clean text, as it stands between the quotes of a text in JSON. */
static void add_escaped(const char *text, struct strbuf *out)
{
	json_t *string = json_new_text(text);
	cleanup_free char *quoted = json_dumps(string, JSON_ENCODE_ANY);
	size_t len = quoted ? strlen(quoted) : 0;

	if (len >= 2)
		strbuf_add(out, quoted + 1, len - 2);
	json_decref(string);
}

void template_member(const json_t *event, const char *name, struct strbuf *out)
{
	const json_t *value = json_object_get(event, name), *item;
	const struct topic *topic = topic_of(event);
	size_t i;

	if (strcmp(name, "topic") == 0 || strcmp(name, "title") == 0)
		strbuf_adds(out, !topic			      ? "digest"
				 : strcmp(name, "topic") == 0 ? topic->name
							      : topic->title);
	else if (json_is_string(value))
		strbuf_adds(out, json_string_value(value));
	else if (json_is_integer(value))
		strbuf_addf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_real(value))
		strbuf_addf(out, "%.1f", json_real_value(value));
	else if (json_is_boolean(value))
		strbuf_adds(out, json_is_true(value) ? "true" : "false");
	json_array_foreach(value, i, item) if (json_is_integer(item))
		strbuf_addf(out, "%s%" JSON_INTEGER_FORMAT, i ? "," : "", json_integer_value(item));
}

void template_fill(const char *text, const json_t *event, struct strbuf *out)
{
	char name[32];

	for (const char *p = text; *p;) {
		size_t n = placeholder(p, name, sizeof(name));
		cleanup_strbuf struct strbuf value = STRBUF_INIT;

		if (!n) {
			strbuf_addc(out, *p++);
			continue;
		}
		if (strcmp(name, "json") == 0) {
			cleanup_free char *json = json_dumps(event, JSON_COMPACT | NUMBER_DIGITS);

			strbuf_adds(out, json ? json : "null");
		} else {
			template_member(event, name, &value);
			add_escaped(strbuf_str(&value), out);
		}
		p += n;
	}
}
