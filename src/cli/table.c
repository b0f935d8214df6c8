/* SPDX-License-Identifier: MIT */
#include "cli/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"

#define OWN_LINE_INDENT 5

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
	/* Doubled at every power of two: a list may have very many rows. */
	if ((t->n_rows & (t->n_rows - 1)) == 0)
		t->rows = xrealloc(t->rows, t->n_rows ? 2 * t->n_rows : 1, sizeof(*t->rows));
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

/* How a table is laid out where it is printed. */
struct layout {
	size_t gap;	/* between columns: two spaces, one where that makes it fit */
	size_t indent;	/* where the last column begins */
	size_t columns; /* of the output */
	size_t last;	/* the last column that is shown */
	size_t *widths; /* of the table's columns, looked at once: it may have very many rows */
	bool *dropped;	/* the column is not shown */
};

/* Where the last column begins, of those that are shown. */
static size_t find_indent(const struct table *t, struct layout *l)
{
	size_t indent = 0;

	for (size_t i = 0; i < t->n_columns; i++)
		if (!l->dropped[i])
			l->last = i;
	for (size_t i = 0; i < l->last; i++)
		if (!l->dropped[i])
			indent += l->widths[i] + l->gap;
	return indent;
}

/* The next column to be left out, or n_columns. */
static size_t find_droppable(const struct table *t, const struct layout *l)
{
	size_t found = t->n_columns;

	for (size_t i = 0; i < t->n_columns; i++)
		if (!l->dropped[i] && t->columns[i].drop &&
		    (found == t->n_columns || t->columns[i].drop > t->columns[found].drop))
			found = i;
	return found;
}

static struct layout layout_of(const struct table *t, size_t columns)
{
	struct layout l = { .gap = 2,
			    .columns = columns,
			    .widths = xcalloc(t->n_columns, sizeof(size_t)),
			    .dropped = xcalloc(t->n_columns, sizeof(bool)) };
	size_t next;

	for (size_t i = 0; i < t->n_columns; i++)
		l.widths[i] = column_width(t, i);
	l.indent = find_indent(t, &l);
	if (l.indent + l.widths[l.last] > columns)
		l.gap = 1;
	l.indent = find_indent(t, &l);
	while (l.indent + l.widths[l.last] > columns &&
	       (next = find_droppable(t, &l)) < t->n_columns) {
		l.dropped[next] = true;
		l.indent = find_indent(t, &l);
	}
	return l;
}

static size_t longest_word(const char *text)
{
	size_t longest = 0;

	while (*text) {
		size_t len = strcspn(text, " ");

		longest = len > longest ? len : longest;
		text += len + strspn(text + len, " ");
	}
	return longest;
}

/* What does not fit is continued below its column, or, where a word alone does not, on a line. */
static void print_last(const struct layout *l, const char *text, FILE *out)
{
	size_t columns = l->columns, indent = l->indent;

	if (shown_width(text) > columns - indent && longest_word(text) > columns - indent) {
		indent = OWN_LINE_INDENT;
		(void)fprintf(out, "\n%*s", (int)indent, "");
	}

	/* Where the table goes is looked at once, not for each of its rows. */
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	strbuf_add_wrapped(&b, text, indent, columns);
	(void)fputs(strbuf_str(&b), out);
}

static void print_spaces(size_t n, FILE *out)
{
	while (n--)
		(void)putc_unlocked(' ', out);
}

static void print_cell(const struct table *t, const struct layout *l, size_t column,
		       const char *text, FILE *out)
{
	size_t pad = l->widths[column] - shown_width(text);
	bool last = column == l->last, right = t->columns[column].right;

	if (l->dropped[column])
		return;
	print_spaces(right ? pad : 0, out);
	if (last) {
		print_last(l, text, out);
		return;
	}
	(void)fputs(text, out);
	print_spaces((right ? 0 : pad) + l->gap, out);
}

bool table_is_empty(const struct table *t)
{
	return !t->n_rows;
}

void table_print(const struct table *t, FILE *out)
{
	int fd = fileno(out);
	struct layout l = layout_of(t, term_columns(fd));

	(void)fputs(term_on(fd, TERM_BOLD), out);
	for (size_t i = 0; i < t->n_columns; i++)
		print_cell(t, &l, i, t->columns[i].title, out);
	(void)fputs(term_off(fd), out);
	for (size_t i = 0; i < t->n_rows; i++) {
		bool styled = t->rows[i].style < TERM_STYLE_MAX;

		if (styled)
			(void)fputs(term_on(fd, t->rows[i].style), out);
		for (size_t j = 0; j < t->n_columns; j++)
			print_cell(t, &l, j, t->rows[i].cells[j], out);
		if (styled)
			(void)fputs(term_off(fd), out);
	}
	free(l.widths);
	free(l.dropped);
}
