/* SPDX-License-Identifier: MIT */
#include "tui/page.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "base/utf8.h"

#define NAMES 22 /* columns of members' names */

/* Bytes of a line that fit; a blank is the better place to break it. */
static size_t fitting(const char *text, size_t len, size_t width)
{
	cleanup_free char *line = xasprintf("%.*s", (int)len, text);
	size_t fit = utf8_bytes_of(line, width);

	if (fit >= len)
		return len;
	for (size_t i = fit; i > fit / 2; i--)
		if (line[i] == ' ')
			return i;
	return fit ? fit : 1;
}

void page_draw(struct page *p, struct canvas *c)
{
	const char *text = strbuf_str(&p->text);
	size_t line = 0;

	p->room = c->height > 1 ? c->height - 1 : 0;
	while (*text) {
		size_t len = strcspn(text, "\n"), fit = fitting(text, len, c->width);

		if (line >= p->top && line < p->top + p->room) {
			cleanup_free char *shown = xasprintf("%.*s", (int)fit, text);

			(void)canvas_put(c, 0, line - p->top, INK_PLAIN, shown, c->width);
		}
		line++;
		text += fit;
		text += *text == '\n' || (fit < len && *text == ' ');
	}
	p->lines = line;
	if (line > p->room)
		(void)canvas_print(c, 0, c->height - 1, INK_DIM,
				   "lines %zu to %zu of %zu; up and down move, any other key goes "
				   "back",
				   p->top + 1, p->top + p->room < line ? p->top + p->room : line,
				   line);
	else
		(void)canvas_put(c, 0, c->height - 1, INK_DIM, "any key goes back", c->width);
}

bool page_move(struct page *p, long by)
{
	size_t last = p->lines > p->room ? p->lines - p->room : 0;
	long to = (long)p->top + by;

	p->top = to < 0 ? 0 : (size_t)to > last ? last : (size_t)to;
	return last > 0;
}

void page_close(struct page *p)
{
	strbuf_clear(&p->text);
	*p = (struct page){ .text = STRBUF_INIT };
}

/* What the end of a member's name says of its number, which is told in that unit. */
static void add_bytes(struct strbuf *b, double number)
{
	char text[UNIT_TEXT_MAX];

	strbuf_adds(b, unit_format_gib((uint64_t)number, text));
}

static void add_seconds(struct strbuf *b, double number)
{
	char text[UNIT_TEXT_MAX];

	strbuf_adds(b, unit_format_duration((uint64_t)(number * MS_PER_S), text));
}

static const struct unit {
	const char *end, *text;
	void (*add)(struct strbuf *b, double number); /* NULL: the number, and text */
} units[] = {
	{ "_bytes", "", add_bytes },
	{ "_ms", " ms" },
	{ "_mhz", " MHz" },
	{ "_s", "", add_seconds },
	{ "_w", " W" },
	{ "_c", " C" },
	{ "_j", " J" },
	{ "_permille", " of 1000" },
};
static const struct unit per_cent = { "", " %" };

static const struct unit *unit_of(const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (str_has_suffix(key, units[i].end))
			return &units[i];
	return str_has_prefix(key, "utilisation") || strcmp(key, "duty") == 0 ? &per_cent : NULL;
}

/* "memory_used_bytes": "memory used". The caller frees it. */
static char *name_of(const char *key, const struct unit *unit)
{
	char *name = xstrdup(key);

	if (unit)
		name[strlen(name) - strlen(unit->end)] = '\0';
	for (char *p = name; *p; p++)
		*p = *p == '_' ? ' ' : *p;
	return name;
}

static void add_number(struct strbuf *b, const json_t *value, const struct unit *unit)
{
	if (unit && unit->add && json_number_value(value) >= 0) {
		unit->add(b, json_number_value(value));
		return;
	}
	if (json_is_integer(value))
		strbuf_addf(b, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else
		strbuf_addf(b, "%.6g", json_real_value(value));
	strbuf_adds(b, unit ? unit->text : "");
}

static void add_value(struct strbuf *b, const json_t *value, const struct unit *unit)
{
	cleanup_free char *text = NULL;
	const json_t *one;
	size_t i;

	if (json_is_array(value)) {
		json_array_foreach(value, i, one)
		{
			strbuf_adds(b, i ? ", " : "");
			add_value(b, one, unit);
		}
	} else if (json_is_string(value)) {
		text = xstrdup(json_string_value(value));
		strbuf_adds(b, utf8_clean(text));
	} else if (json_is_number(value)) {
		add_number(b, value, unit);
	} else if (json_is_boolean(value)) {
		strbuf_adds(b, json_is_true(value) ? "yes" : "no");
	} else {
		text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
		strbuf_adds(b, text ? text : "");
	}
}

static bool says_nothing(const json_t *value)
{
	return json_is_null(value) || (json_is_array(value) && !json_array_size(value)) ||
	       (json_is_object(value) && !json_object_size(value)) ||
	       (json_is_string(value) && !json_string_length(value));
}

static void add_members(struct strbuf *b, const json_t *object, size_t indent)
{
	const char *key;
	const json_t *value;

	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		const struct unit *unit = json_is_string(value) ? NULL : unit_of(key);
		cleanup_free char *name = name_of(key, unit);
		size_t n = utf8_columns(name);

		if (says_nothing(value))
			continue;
		strbuf_pad(b, ' ', indent);
		strbuf_adds(b, name);
		if (json_is_object(value)) {
			strbuf_addc(b, '\n');
			add_members(b, value, indent + 2);
			continue;
		}
		strbuf_pad(b, ' ', indent + n < NAMES ? NAMES - indent - n : 1);
		add_value(b, value, unit);
		strbuf_addc(b, '\n');
	}
}

void page_add_members(struct page *p, const json_t *object)
{
	add_members(&p->text, object, 0);
}
