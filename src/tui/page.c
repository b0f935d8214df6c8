/* SPDX-License-Identifier: MIT */
#include "tui/page.h"

#include <string.h>

#include "base/mem.h"
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

static void add_value(struct strbuf *b, const json_t *value)
{
	cleanup_free char *text = NULL;
	const json_t *one;
	size_t i;

	if (json_is_array(value)) {
		json_array_foreach(value, i, one)
		{
			strbuf_adds(b, i ? ", " : "");
			add_value(b, one);
		}
		return;
	}
	if (json_is_string(value)) {
		text = xstrdup(json_string_value(value));
		strbuf_adds(b, utf8_clean(text));
		return;
	}
	text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
	strbuf_adds(b, text ? text : "");
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
		size_t n = utf8_columns(key);

		if (says_nothing(value))
			continue;
		strbuf_pad(b, ' ', indent);
		strbuf_adds(b, key);
		if (json_is_object(value)) {
			strbuf_addc(b, '\n');
			add_members(b, value, indent + 2);
			continue;
		}
		strbuf_pad(b, ' ', indent + n < NAMES ? NAMES - indent - n : 1);
		add_value(b, value);
		strbuf_addc(b, '\n');
	}
}

void page_add_members(struct page *p, const json_t *object)
{
	add_members(&p->text, object, 0);
}
