/* SPDX-License-Identifier: MIT */
#include "cli/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct table_row {
	enum term_style style;
	char **cells;
};

struct table {
	const struct table_column *columns;
	size_t n_columns;
	size_t n_rows;
	struct table_row *rows;
};

struct table *table_new(const struct table_column *columns)
{
	struct table *t = xcalloc(1, sizeof(*t));

	t->columns = columns;
	while (columns[t->n_columns].title)
		t->n_columns++;
	return t;
}

struct table *table_free(struct table *t)
{
	if (!t)
		return NULL;
	for (size_t i = 0; i < t->n_rows; i++) {
		for (size_t j = 0; j < t->n_columns; j++)
			free(t->rows[i].cells[j]);
		free(t->rows[i].cells);
	}
	free(t->rows);
	free(t);
	return NULL;
}

void table_add(struct table *t, enum term_style style, ...)
{
	struct table_row row = { .style = style, .cells = xcalloc(t->n_columns, sizeof(char *)) };
	va_list ap;

	va_start(ap, style);
	for (size_t i = 0; i < t->n_columns; i++) {
		const char *text = va_arg(ap, const char *);

		row.cells[i] = xstrdup(text ? text : "-");
	}
	va_end(ap);
	t->rows = xrealloc(t->rows, t->n_rows + 1, sizeof(*t->rows));
	t->rows[t->n_rows++] = row;
}

static size_t shown_width(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static size_t column_width(const struct table *t, size_t column)
{
	size_t width = shown_width(t->columns[column].title);

	for (size_t i = 0; i < t->n_rows; i++) {
		size_t w = shown_width(t->rows[i].cells[column]);

		width = w > width ? w : width;
	}
	return width;
}

static void print_cell(const struct table *t, size_t column, const char *text, FILE *out)
{
	int pad = (int)(column_width(t, column) - shown_width(text));
	bool last = column + 1 == t->n_columns;

	if (t->columns[column].right)
		(void)fprintf(out, "%*s%s%s", pad, "", text, last ? "\n" : "  ");
	else
		(void)fprintf(out, "%s%*s%s", text, last ? 0 : pad, "", last ? "\n" : "  ");
}

void table_print(const struct table *t, FILE *out)
{
	int fd = fileno(out);

	(void)fputs(term_on(fd, TERM_BOLD), out);
	for (size_t i = 0; i < t->n_columns; i++)
		print_cell(t, i, t->columns[i].title, out);
	(void)fputs(term_off(fd), out);
	for (size_t i = 0; i < t->n_rows; i++) {
		bool styled = t->rows[i].style < TERM_STYLE_MAX;

		if (styled)
			(void)fputs(term_on(fd, t->rows[i].style), out);
		for (size_t j = 0; j < t->n_columns; j++)
			print_cell(t, j, t->rows[i].cells[j], out);
		if (styled)
			(void)fputs(term_off(fd), out);
	}
}
