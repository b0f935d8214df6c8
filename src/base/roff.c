/* SPDX-License-Identifier: MIT */
#include "base/roff.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

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
