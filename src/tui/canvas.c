/* SPDX-License-Identifier: MIT */
#include "tui/canvas.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

struct canvas *canvas_new(size_t width, size_t height)
{
	struct canvas *c = xcalloc(1, sizeof(*c));

	c->width = width;
	c->height = height;
	c->cells = xcalloc(width * height + 1, sizeof(*c->cells));
	for (size_t i = 0; i < width * height; i++)
		c->cells[i].text[0] = ' ';
	return c;
}

struct canvas *canvas_free(struct canvas *c)
{
	if (c)
		free(c->cells);
	free(c);
	return NULL;
}

struct cell *canvas_at(const struct canvas *c, size_t x, size_t y)
{
	return x < c->width && y < c->height ? &c->cells[y * c->width + x] : NULL;
}

static void set(struct canvas *c, size_t x, size_t y, enum ink ink, const char *text, size_t len)
{
	struct cell *cell = canvas_at(c, x, y);

	if (!cell)
		return;
	cell->ink = (unsigned char)ink;
	if (len < sizeof(cell->text)) {
		(void)memcpy(cell->text, text, len);
		cell->text[len] = '\0';
	}
}

/* A mark goes with the character before it, where there is room. */
static void add_mark(struct canvas *c, size_t x, size_t y, const char *text, size_t len)
{
	struct cell *cell = x ? canvas_at(c, x - 1, y) : NULL;
	size_t had = cell ? strlen(cell->text) : 0;

	if (!had || had + len >= sizeof(cell->text))
		return;
	(void)memcpy(cell->text + had, text, len);
	cell->text[had + len] = '\0';
}

/* One character at p. Its bytes, and in *ret its columns. */
static size_t put_one(struct canvas *c, size_t x, size_t y, enum ink ink, const char *p,
		      size_t columns, size_t *ret)
{
	size_t len = utf8_shown(p);
	uint32_t code = '?';

	if (len)
		(void)utf8_decode(p, &code);
	*ret = len ? utf8_width(code) : 1;
	if (*ret > columns)
		return 0;
	if (c->ascii && len > 1) {
		for (size_t i = 0; i < *ret; i++)
			set(c, x + i, y, ink, "?", 1);
		return len;
	}
	if (*ret)
		set(c, x, y, ink, len ? p : "?", len ? len : 1);
	else
		add_mark(c, x, y, p, len);
	if (*ret == 2)
		set(c, x + 1, y, ink, "", 0);
	return len ? len : 1;
}

size_t canvas_put(struct canvas *c, size_t x, size_t y, enum ink ink, const char *text,
		  size_t columns)
{
	size_t room = x < c->width ? c->width - x : 0, end;
	bool cut;

	columns = columns < room ? columns : room;
	end = x + columns;
	cut = utf8_columns(text) > columns;
	if (cut && columns)
		columns--;
	while (*text && columns) {
		size_t took, n = put_one(c, x, y, ink, text, columns, &took);

		if (!n)
			break;
		text += n;
		x += took;
		columns -= took;
	}
	if (cut && x < end)
		set(c, x++, y, ink, "~", 1);
	return x;
}

size_t canvas_print(struct canvas *c, size_t x, size_t y, enum ink ink, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return canvas_put(c, x, y, ink, text, c->width);
}

void canvas_right(struct canvas *c, size_t x, size_t y, enum ink ink, const char *text,
		  size_t columns)
{
	size_t n = utf8_columns(text);

	(void)canvas_put(c, x + (n < columns ? columns - n : 0), y, ink, text, columns);
}

void canvas_tint(struct canvas *c, size_t x, size_t y, size_t columns, enum ink ink)
{
	for (size_t i = x; i < x + columns; i++) {
		struct cell *cell = canvas_at(c, i, y);

		if (cell)
			cell->ink = (unsigned char)ink;
	}
}

void canvas_write(const struct canvas *c, FILE *out)
{
	for (size_t y = 0; y < c->height; y++) {
		size_t end = c->width;

		while (end && strcmp(canvas_at(c, end - 1, y)->text, " ") == 0)
			end--;
		for (size_t x = 0; x < end; x++)
			(void)fputs(canvas_at(c, x, y)->text, out);
		(void)fputc('\n', out);
	}
}
