/* SPDX-License-Identifier: MIT */
#include "base/strbuf.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

static void strbuf_grow(struct strbuf *b, size_t more)
{
	size_t need = b->len + more + 1;

	if (need <= b->size)
		return;
	b->size = need > 2 * b->size ? need : 2 * b->size;
	b->data = xrealloc(b->data, b->size, 1);
}

void strbuf_add(struct strbuf *b, const void *data, size_t len)
{
	strbuf_grow(b, len);
	if (len)
		(void)memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void strbuf_adds(struct strbuf *b, const char *s)
{
	strbuf_add(b, s, strlen(s));
}

void strbuf_addc(struct strbuf *b, char c)
{
	strbuf_add(b, &c, 1);
}

void strbuf_add_xml(struct strbuf *b, const char *text)
{
	static const struct {
		char c;
		const char *as;
	} escapes[] = { { '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '"', "&quot;" } };

	for (; *text; text++) {
		const char *as = NULL;

		for (size_t i = 0; i < ARRAY_LEN(escapes); i++)
			as = escapes[i].c == *text ? escapes[i].as : as;
		if (as)
			strbuf_adds(b, as);
		else
			strbuf_addc(b, (unsigned char)*text < ' ' ? '?' : *text);
	}
}

void strbuf_add_u64(struct strbuf *b, uint64_t v)
{
	char digits[20]; /* of the largest */
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + v % 10);
	while (v /= 10);
	strbuf_add(b, digits + at, sizeof(digits) - at);
}

void strbuf_addv(struct strbuf *b, const char *fmt, va_list ap)
{
	va_list again;

	va_copy(again, ap);

	int n = vsnprintf(NULL, 0, fmt, ap);

	if (n > 0) {
		strbuf_grow(b, (size_t)n);
		(void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
		b->len += (size_t)n;
	}
	va_end(again);
}

void strbuf_addf(struct strbuf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	strbuf_addv(b, fmt, ap);
	va_end(ap);
}

void strbuf_add_some(struct strbuf *b, size_t i, size_t most, const char *fmt, ...)
{
	va_list ap;

	if (i >= most)
		return;
	if (i)
		strbuf_adds(b, ", ");
	va_start(ap, fmt);
	strbuf_addv(b, fmt, ap);
	va_end(ap);
}

void strbuf_add_more(struct strbuf *b, size_t n, size_t most)
{
	if (n > most)
		strbuf_addf(b, " and %zu more", n - most);
}

void strbuf_pad(struct strbuf *b, char c, size_t n)
{
	strbuf_grow(b, n);
	(void)memset(b->data + b->len, c, n);
	b->len += n;
	b->data[b->len] = '\0';
}

static void new_line(struct strbuf *b, size_t indent)
{
	strbuf_addc(b, '\n');
	strbuf_pad(b, ' ', indent);
}

void strbuf_add_wrapped(struct strbuf *b, const char *text, size_t indent, size_t width)
{
	size_t column = indent;

	while (*text) {
		size_t gap = strspn(text, " "), len = strcspn(text + gap, " \n");

		if (column > indent && column + gap + len > width) {
			new_line(b, indent);
			column = indent;
		} else if (column > indent && len) {
			strbuf_pad(b, ' ', gap);
			column += gap;
		}
		strbuf_add(b, text + gap, len);
		column += len;
		text += gap + len;
		if (*text == '\n') {
			new_line(b, indent);
			column = indent;
			text++;
		}
	}
	strbuf_addc(b, '\n');
}

void strbuf_reset(struct strbuf *b)
{
	b->len = 0;
	if (b->data)
		b->data[0] = '\0';
}

void strbuf_clear(struct strbuf *b)
{
	free(b->data);
	*b = (struct strbuf)STRBUF_INIT;
}

const char *strbuf_str(const struct strbuf *b)
{
	return b->data ? b->data : "";
}

char *strbuf_take(struct strbuf *b)
{
	char *s = b->data ? b->data : xstrdup("");

	*b = (struct strbuf)STRBUF_INIT;
	return s;
}

void strbuf_add_quoted(struct strbuf *b, const char *word)
{
	strbuf_addc(b, '\'');
	for (const char *p = word; *p; p++) {
		if (*p == '\'')
			strbuf_adds(b, "'\\''");
		else
			strbuf_addc(b, *p);
	}
	strbuf_addc(b, '\'');
}

/* Whether it can be shown as it is, with those controls. */
static bool can_be_shown(const char *word, const char *controls)
{
	size_t n;

	for (; *word; word += n) {
		n = strchr(controls, *word) ? 1 : utf8_shown(word);
		if (!n)
			return false;
	}
	return true;
}

/* $'\033[1m\n' */
static void add_escaped(struct strbuf *b, const char *word)
{
	size_t n;

	strbuf_adds(b, "$'");
	for (; *word; word += n) {
		n = utf8_shown(word);
		if (*word == '\n')
			strbuf_adds(b, "\\n");
		else if (!n)
			strbuf_addf(b, "\\%03o", (unsigned char)*word);
		else
			strbuf_addf(b, "%s%.*s", strchr("'\\", *word) ? "\\" : "", (int)n, word);
		n = n ? n : 1;
	}
	strbuf_addc(b, '\'');
}

static void add_word(struct strbuf *b, const char *word, const char *controls)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789%+,-./:=@_";

	if (b->len)
		strbuf_addc(b, ' ');
	if (*word && !word[strspn(word, plain)])
		strbuf_adds(b, word);
	else if (can_be_shown(word, controls))
		strbuf_add_quoted(b, word);
	else
		add_escaped(b, word);
}

void strbuf_add_word(struct strbuf *b, const char *word)
{
	add_word(b, word, "\n\t");
}

void strbuf_add_word_in_line(struct strbuf *b, const char *word)
{
	add_word(b, word, "");
}
