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

#define PRINT_AT 32768 /* bytes that are printed at once */

struct table_row {
	enum term_style style;
	size_t at; /* of its cells in the table's texts, one behind the other, each with its end */
};

/* It may have very many rows: all of them are in two pieces of memory, and how wide a column is was
 * found when they were added. */
struct table {
	const struct table_column *columns;
	size_t n_columns;
	size_t n_rows;
	struct table_row *rows;
	struct strbuf texts;
	size_t *widths; /* of the columns, in columns of the screen */
};

struct table *table_new(const struct table_column *columns)
{
	struct table *t = xcalloc(1, sizeof(*t));

	t->columns = columns;
	while (columns[t->n_columns].title)
		t->n_columns++;
	t->widths = xcalloc(t->n_columns, sizeof(*t->widths));
	for (size_t i = 0; i < t->n_columns; i++)
		t->widths[i] = utf8_columns(columns[i].title);
	return t;
}

struct table *table_free(struct table *t)
{
	if (!t)
		return NULL;
	strbuf_clear(&t->texts);
	free(t->widths);
	free(t->rows);
	free(t);
	return NULL;
}

void table_add_cells(struct table *t, enum term_style style, const char *const *cells)
{
	/* Doubled at every power of two. */
	t->rows = xgrow(t->rows, t->n_rows, sizeof(*t->rows));
	t->rows[t->n_rows++] = (struct table_row){ .style = style, .at = t->texts.len };
	for (size_t i = 0; i < t->n_columns; i++) {
		const char *text = cells[i] ? cells[i] : "-";
		size_t at = t->texts.len, width;

		strbuf_add(&t->texts, text, strlen(text) + 1);
		text = utf8_clean(t->texts.data + at);
		t->texts.len = at + strlen(text) + 1;
		width = utf8_columns(text);
		t->widths[i] = width > t->widths[i] ? width : t->widths[i];
	}
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

/* How a table is laid out where it is printed. */
struct layout {
	size_t gap;	/* between columns: two spaces, one where that makes it fit */
	size_t indent;	/* where the last column begins */
	size_t columns; /* of the output */
	size_t last;	/* the last column that is shown */
	size_t *widths; /* of the table's columns, as they are shown */
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
		l.widths[i] = t->widths[i];
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

/* What does not fit is continued below its column, or, where a word alone does not, on a line. */
static void add_last(const struct layout *l, const char *text, size_t width, size_t owed,
		     struct strbuf *b)
{
	size_t columns = l->columns, indent = l->indent;
	size_t room = columns > indent ? columns - indent : 0;

	if (width > room && longest_word(text) > room) {
		indent = OWN_LINE_INDENT;
		strbuf_addc(b, '\n');
		strbuf_pad(b, ' ', indent);
	} else if (text[0]) {
		strbuf_pad(b, ' ', owed);
	}
	strbuf_add_wrapped(b, text, indent, columns);
}

/* Without its middle: what a name begins with is often shared, what it ends with tells. Returns the
 * columns that it takes. */
static size_t add_cut(const char *text, size_t whole, size_t width, struct strbuf *b)
{
	size_t mark = strlen(CUT_MARK);
	size_t tail = width > mark ? (width - mark) / 2 : 0;
	size_t head = width > mark ? width - mark - tail : 0;
	size_t begins = utf8_bytes_of(text, head), at = b->len;
	const char *ends = text + utf8_bytes_of(text, whole - tail);

	while (utf8_columns(ends) > tail) /* the middle ends within a wide one */
		ends += utf8_bytes_of(ends, 2);
	strbuf_add(b, text, begins);
	strbuf_add(b, CUT_MARK, mark < width ? mark : width);
	strbuf_adds(b, ends);
	return utf8_columns(b->data + at);
}

/* owed: spaces between what there is of the row and this cell. */
static void add_cell(const struct table *t, const struct layout *l, size_t column, const char *text,
		     size_t *owed, struct strbuf *b)
{
	size_t width = utf8_columns(text), room = l->widths[column];
	size_t pad = room > width ? room - width : 0;
	bool right = t->columns[column].right;

	if (l->dropped[column])
		return;
	*owed += right ? pad : 0;
	if (column == l->last) {
		add_last(l, text, width, *owed, b);
		return;
	}
	if (text[0])
		strbuf_pad(b, ' ', *owed);
	*owed = (text[0] ? 0 : *owed) + (right ? 0 : pad) + l->gap;
	if (width <= room)
		strbuf_adds(b, text);
	else
		*owed += room - add_cut(text, width, room, b);
}

static void add_row(const struct table *t, const struct layout *l, const struct table_row *row,
		    struct strbuf *b)
{
	const char *text = t->texts.data + row->at;
	size_t owed = 0;

	for (size_t i = 0; i < t->n_columns; i++, text += strlen(text) + 1)
		add_cell(t, l, i, text, &owed, b);
}

static void add_titles(const struct table *t, const struct layout *l, struct strbuf *b)
{
	size_t owed = 0;

	for (size_t i = 0; i < t->n_columns; i++)
		add_cell(t, l, i, t->columns[i].title, &owed, b);
}

bool table_is_empty(const struct table *t)
{
	return !t->n_rows;
}

void table_print(const struct table *t, FILE *out)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	int fd = fileno(out);
	struct layout l = layout_of(t, term_columns(fd));
	bool colour = term_has_colour(fd);

	strbuf_adds(&b, term_on(fd, TERM_BOLD));
	add_titles(t, &l, &b);
	strbuf_adds(&b, term_off(fd));
	for (size_t i = 0; i < t->n_rows; i++) {
		bool styled = colour && t->rows[i].style < TERM_STYLE_MAX;

		if (styled)
			strbuf_adds(&b, term_on(fd, t->rows[i].style));
		add_row(t, &l, &t->rows[i], &b);
		if (styled)
			strbuf_adds(&b, term_off(fd));
		if (b.len < PRINT_AT)
			continue;
		(void)fwrite(b.data, 1, b.len, out);
		strbuf_reset(&b);
	}
	(void)fwrite(strbuf_str(&b), 1, b.len, out);
	free(l.widths);
	free(l.dropped);
}
