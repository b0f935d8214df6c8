/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_STRBUF_H
#define TENURE_BASE_STRBUF_H

/*
 * A string that grows. Start with STRBUF_INIT, end with strbuf_clear() or strbuf_take(), or mark it
 * with cleanup_strbuf. The text is always terminated; it may hold NUL bytes, len counts.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct strbuf {
	char *data; /* NULL while empty: read through strbuf_str() */
	size_t len;
	size_t size;
};

#define STRBUF_INIT                                                                                \
	{                                                                                          \
		.data = NULL                                                                       \
	}

void strbuf_add(struct strbuf *b, const void *data, size_t len);
void strbuf_adds(struct strbuf *b, const char *s);
/* A word as a shell reads it back, in quotes. */
void strbuf_add_quoted(struct strbuf *b, const char *word);
/* The same, without quotes where it needs none, behind a space where it is not the first. */
void strbuf_add_word(struct strbuf *b, const char *word);
/* The same where all has to stay on one line: $'a\nb'. */
void strbuf_add_word_in_line(struct strbuf *b, const char *word);
void strbuf_addc(struct strbuf *b, char c);
/* As XML has it between two tags or two quotes; a character that XML has not becomes ?. */
void strbuf_add_xml(struct strbuf *b, const char *text);
/* In decimal; for long lists, in which strbuf_addf() takes most of the time. */
void strbuf_add_u64(struct strbuf *b, uint64_t v);
void strbuf_addf(struct strbuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void strbuf_addv(struct strbuf *b, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));
/* n times c; for padding. */
void strbuf_pad(struct strbuf *b, char c, size_t n);

/*
 * "a, b, c and 4 more": of each of n things that are counted i = 0, 1, ..., and then the end of the
 * list. Of more than most things the first ones are told.
 */
void strbuf_add_some(struct strbuf *b, size_t i, size_t most, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void strbuf_add_more(struct strbuf *b, size_t n, size_t most);

/*
 * The words of text in lines of at most width columns, ended by a newline. The first line begins
 * where the buffer is, at column indent; further lines are indented to it. "\n" in text is kept,
 * and so are several spaces between two words of a line.
 */
void strbuf_add_wrapped(struct strbuf *b, const char *text, size_t indent, size_t width);

/* Empty it and keep the memory. */
void strbuf_reset(struct strbuf *b);
void strbuf_clear(struct strbuf *b);
/* The text, "" while empty; valid until the next change. */
const char *strbuf_str(const struct strbuf *b);
/* Hand the text over (never NULL; the caller frees it) and empty the buffer. */
char *strbuf_take(struct strbuf *b);

#define cleanup_strbuf __attribute__((cleanup(strbuf_clear)))

#endif
