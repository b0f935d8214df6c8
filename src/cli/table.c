/* SPDX-License-Identifier: MIT */
#include "cli/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "base/utf8.h"

#define OWN_LINE_INDENT 5
#define LAST_LEAST	28 /* of the last column, before others are cut for it */
#define CUT_MARK	".."

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
	for (size_t i = 0; i < t->n_rows; i++)
		free(t->rows[i].cells);
	free(t->rows);
	free(t);
	return NULL;
}

/* With their texts behind them, in one piece. */
static char **make_cells(size_t n, const char *const *texts)
{
	size_t size = n * sizeof(char *);
	char **cells, *at;

	for (size_t i = 0; i < n; i++)
		size += strlen(texts[i] ? texts[i] : "-") + 1;
	cells = xmalloc(size);
	at = (char *)(cells + n);
	for (size_t i = 0; i < n; i++) {
		const char *text = texts[i] ? texts[i] : "-";
		size_t len = strlen(text) + 1;

		cells[i] = memcpy(at, text, len);
		(void)utf8_clean(cells[i]);
		at += len;
	}
	return cells;
}

void table_add_cells(struct table *t, enum term_style style, const char *const *cells)
{
	/* Doubled at every power of two: a list may have very many rows. */
	t->rows = xgrow(t->rows, t->n_rows, sizeof(*t->rows));
	t->rows[t->n_rows++] =
		(struct table_row){ .style = style, .cells = make_cells(t->n_columns, cells) };
}

void table_add(struct table *t, enum term_style style, ...)
{
	cleanup_free const char **cells = xcalloc(t->n_columns + 1, sizeof(*cells));
	va_list ap;

	va_start(ap, style);
	for (size_t i = 0; i < t->n_columns; i++)
		cells[i] = va_arg(ap, const char *);
	va_end(ap);
	table_add_cells(t, style, cells);
}

static size_t column_width(const struct table *t, size_t column)
{
	size_t width = utf8_columns(t->columns[column].title);

	for (size_t i = 0; i < t->n_rows; i++) {
		size_t w = utf8_columns(t->rows[i].cells[column]);

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

/* The widest column that may lose a character, or n_columns. */
static size_t find_cuttable(const struct table *t, const struct layout *l)
{
	size_t found = t->n_columns;

	for (size_t i = 0; i < l->last; i++)
		if (!l->dropped[i] && t->columns[i].cut && l->widths[i] > t->columns[i].cut &&
		    (found == t->n_columns || l->widths[i] > l->widths[found]))
			found = i;
	return found;
}

static void cut_columns(const struct table *t, struct layout *l)
{
	size_t least = l->widths[l->last] < LAST_LEAST ? l->widths[l->last] : LAST_LEAST;
	size_t next;

	while (l->indent + least > l->columns && (next = find_cuttable(t, l)) < t->n_columns) {
		l->widths[next]--;
		l->indent--;
	}
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
	cut_columns(t, &l);
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

static void print_spaces(size_t n, FILE *out)
{
	while (n--)
		(void)putc_unlocked(' ', out);
}

/* What does not fit is continued below its column, or, where a word alone does not, on a line. */
static void print_last(const struct layout *l, const char *text, size_t owed, FILE *out)
{
	size_t columns = l->columns, indent = l->indent;
	size_t room = columns > indent ? columns - indent : 0;

	if (utf8_columns(text) > room && longest_word(text) > room) {
		indent = OWN_LINE_INDENT;
		(void)fprintf(out, "\n%*s", (int)indent, "");
	} else if (text[0]) {
		print_spaces(owed, out);
	}

	/* Where the table goes is looked at once, not for each of its rows. */
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	strbuf_add_wrapped(&b, text, indent, columns);
	(void)fputs(strbuf_str(&b), out);
}

/* Without its middle: what a name begins with is often shared, what it ends with tells. Returns the
 * columns that it took. */
static size_t print_cut(const char *text, size_t width, FILE *out)
{
	size_t whole = utf8_columns(text), mark = strlen(CUT_MARK);
	size_t tail = width > mark ? (width - mark) / 2 : 0;
	size_t head = width > mark ? width - mark - tail : 0;

	if (whole <= width) {
		(void)fputs(text, out);
		return whole;
	}

	cleanup_free char *begins = xasprintf("%.*s", (int)utf8_bytes_of(text, head), text);
	const char *ends = text + utf8_bytes_of(text, whole - tail);

	while (utf8_columns(ends) > tail) /* the middle ends within a wide one */
		ends += utf8_bytes_of(ends, 2);
	(void)fprintf(out, "%s%.*s%s", begins, (int)width, CUT_MARK, ends);
	return utf8_columns(begins) + (mark < width ? mark : width) + utf8_columns(ends);
}

/* owed: spaces between what was printed of the row and this cell. */
static void print_cell(const struct table *t, const struct layout *l, size_t column,
		       const char *text, size_t *owed, FILE *out)
{
	size_t width = utf8_columns(text), pad;
	bool last = column == l->last, right = t->columns[column].right;

	if (l->dropped[column])
		return;
	pad = l->widths[column] > width ? l->widths[column] - width : 0;
	*owed += right ? pad : 0;
	if (last) {
		print_last(l, text, *owed, out);
		return;
	}
	if (text[0])
		print_spaces(*owed, out);
	*owed = (text[0] ? 0 : *owed) + (right ? 0 : pad) + l->gap;
	width = width < l->widths[column] ? width : l->widths[column];
	*owed += width - print_cut(text, l->widths[column], out);
}

static void print_row(const struct table *t, const struct layout *l, size_t row, FILE *out)
{
	size_t owed = 0;

	for (size_t i = 0; i < t->n_columns; i++)
		print_cell(t, l, i, row ? t->rows[row - 1].cells[i] : t->columns[i].title, &owed,
			   out);
}

bool table_is_empty(const struct table *t)
{
	return !t->n_rows;
}

void table_print(const struct table *t, FILE *out)
{
	int fd = fileno(out);
	struct layout l = layout_of(t, term_columns(fd));
	bool colour = term_has_colour(fd);

	(void)fputs(term_on(fd, TERM_BOLD), out);
	print_row(t, &l, 0, out);
	(void)fputs(term_off(fd), out);
	for (size_t i = 0; i < t->n_rows; i++) {
		bool styled = colour && t->rows[i].style < TERM_STYLE_MAX;

		if (styled)
			(void)fputs(term_on(fd, t->rows[i].style), out);
		print_row(t, &l, i + 1, out);
		if (styled)
			(void)fputs(term_off(fd), out);
	}
	free(l.widths);
	free(l.dropped);
}
