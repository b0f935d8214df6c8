/* SPDX-License-Identifier: MIT */
#include "base/roff.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

#define BOLD   "\\fB"
#define ITALIC "\\fI"
#define ROMAN  "\\fR"

/* What roff would take for something else, or print as something that cannot be copied. */
static const char *const escapes[128] = {
	['\\'] = "\\(rs", ['-'] = "\\-",   ['\''] = "\\(aq", ['`'] = "\\(ga",
	['^'] = "\\(ha",  ['~'] = "\\(ti", ['"'] = "\\(dq",
};

static void add_char(struct strbuf *b, char c)
{
	unsigned char u = (unsigned char)c;
	bool at_start = b->len == 0 || b->data[b->len - 1] == '\n';

	if (u < sizeof(escapes) / sizeof(escapes[0]) && escapes[u]) {
		strbuf_adds(b, escapes[u]);
		return;
	}
	if (at_start && c == '.')
		strbuf_adds(b, "\\&");
	strbuf_addc(b, c);
}

static void add_styled(struct strbuf *b, const char *style, const char *text, size_t len)
{
	strbuf_adds(b, style);
	for (size_t i = 0; i < len; i++)
		add_char(b, text[i]);
	strbuf_adds(b, ROMAN);
}

void roff_literal(struct strbuf *b, const char *text)
{
	for (; *text; text++)
		add_char(b, *text);
}

void roff_bold(struct strbuf *b, const char *text)
{
	add_styled(b, BOLD, text, strlen(text));
}

void roff_italic(struct strbuf *b, const char *text)
{
	add_styled(b, ITALIC, text, strlen(text));
}

static bool is_letter(char c)
{
	return isalpha((unsigned char)c);
}

/* How many characters of an option begin at p; 0: none does. */
static size_t option_len(const char *start, const char *p)
{
	size_t dashes = strspn(p, "-"), n = dashes;

	if (dashes == 0 || dashes > 2 || !is_letter(p[dashes]))
		return 0;
	if (p > start && !strchr(" \n(/\"", p[-1]))
		return 0;
	while (isalnum((unsigned char)p[n]) || (p[n] == '-' && is_letter(p[n + 1])))
		n++;
	return n;
}

/* What the newline at p, and those behind it, mean. Returns how many there are. */
static size_t add_break(struct strbuf *b, const char *p)
{
	size_t n = strspn(p, "\n");

	if (p[n])
		strbuf_adds(b, n > 1 ? "\n.PP\n" : "\n.br\n");
	return n;
}

void roff_text(struct strbuf *b, const char *text)
{
	for (const char *p = text; *p;) {
		const char *end = *p == '`' ? strchr(p + 1, '`') : NULL;
		size_t n = option_len(text, p);
		bool inside = p > text && is_letter(p[-1]) && is_letter(p[1]);

		if (end) {
			add_styled(b, BOLD, p + 1, (size_t)(end - p - 1));
			p = end + 1;
		} else if (n > 0) {
			add_styled(b, BOLD, p, n);
			p += n;
		} else if (*p == '\n') {
			p += add_break(b, p);
		} else {
			/* Within a word these are a hyphen and an apostrophe. */
			if (inside && (*p == '-' || *p == '\''))
				strbuf_addc(b, *p);
			else
				add_char(b, *p);
			p++;
		}
	}
}

/* -------- parts of a page -------- */

void roff_heading(struct strbuf *b, const char *name, const char *section, const char *summary,
		  const char *made_by)
{
	strbuf_addf(b, ".\\\" Made from the option tables by `%s'; do not edit.\n.TH \"", made_by);
	for (const char *p = name; *p; p++)
		strbuf_addc(b, *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p);
	strbuf_addf(b,
		    "\" %s \"\" \"tenure " TENURE_VERSION "\" \"tenure\"\n.nh\n.ad l\n.SH NAME\n",
		    section);
	roff_literal(b, name);
	strbuf_adds(b, " \\- ");
	roff_literal(b, summary);
	strbuf_addc(b, '\n');
}

void roff_section(struct strbuf *b, const char *macro, const char *title)
{
	strbuf_addf(b, ".%s \"", macro);
	roff_literal(b, title);
	strbuf_adds(b, "\"\n");
}

void roff_paragraph(struct strbuf *b, const char *text)
{
	strbuf_adds(b, ".PP\n");
	roff_text(b, text);
	strbuf_addc(b, '\n');
}

void roff_tagged(struct strbuf *b, const char *tag, const char *text)
{
	strbuf_adds(b, ".TP\n");
	roff_bold(b, tag);
	strbuf_addc(b, '\n');
	roff_text(b, text);
	strbuf_addc(b, '\n');
}

void roff_choices(struct strbuf *b, const struct opt *row)
{
	for (size_t i = 0; row->spec.choices && row->spec.choices[i]; i++) {
		strbuf_adds(b, i ? " | " : ": ");
		roff_bold(b, row->spec.choices[i]);
	}
}

void roff_option(struct strbuf *b, const struct opt *row)
{
	strbuf_adds(b, ".TP\n");
	if (row->short_name) {
		roff_bold(b, (const char[]){ '-', row->short_name, '\0' });
		strbuf_adds(b, ", ");
	}

	cleanup_free char *name = xasprintf("--%s", row->name);

	roff_bold(b, name);
	if (row->arg) {
		strbuf_addc(b, ' ');
		roff_italic(b, row->arg);
	}
	strbuf_addc(b, '\n');
	roff_text(b, row->help);
	roff_choices(b, row);
	if (row->def && row->def[0] && row->spec.type != VALUE_FLAG) {
		strbuf_adds(b, " (default ");
		roff_literal(b, row->def);
		strbuf_addc(b, ')');
	}
	if (row->env)
		strbuf_addf(b, " [%s]", row->env);
	strbuf_addc(b, '\n');
}

void roff_reference(struct strbuf *b, const char *page, const char *section, bool last)
{
	strbuf_adds(b, ".BR ");
	roff_literal(b, page);
	strbuf_addf(b, " (%s)%s\n", section, last ? "" : ",");
}
