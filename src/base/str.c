/* SPDX-License-Identifier: MIT */
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/utf8.h"

bool str_copy(char *dst, size_t size, const char *src)
{
	size_t len = strnlen(src, size);
	bool fits = len < size;

	if (!fits)
		len = utf8_whole(src, size - 1);
	(void)memcpy(dst, src, len);
	dst[len] = '\0';
	return fits;
}

char *str_print(char *dst, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(dst, size, fmt, ap);

	va_end(ap);
	if (n >= 0 && (size_t)n >= size)
		dst[utf8_whole(dst, size - 1)] = '\0';
	return dst;
}

static const char base64_digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool str_lists(const char *list, const char *text)
{
	size_t len = strlen(text);

	for (const char *at = list; (at = strstr(at, text)); at += len)
		if ((at == list || strchr(" ,", at[-1])) && (!at[len] || at[len] == ','))
			return true;
	return false;
}

char *str_bytes_to_base64(const void *data, size_t len)
{
	const unsigned char *s = data;
	size_t at = 0;
	char *out = xmalloc((len + 2) / 3 * 4 + 1);

	for (size_t i = 0; i < len; i += 3) {
		size_t n = len - i < 3 ? len - i : 3;
		uint32_t bits = 0;

		for (size_t k = 0; k < 3; k++)
			bits = bits << 8 | (k < n ? s[i + k] : 0U);
		for (size_t k = 0; k < 4; k++)
			out[at++] = k <= n ? base64_digits[bits >> (18 - 6 * k) & 63] : '=';
	}
	out[at] = '\0';
	return out;
}

char *str_to_base64(const char *s)
{
	return str_bytes_to_base64(s, strlen(s));
}

char *str_from_base64(const char *text)
{
	size_t len = strlen(text), at = 0;
	size_t pad = len && text[len - 1] == '=' ? 1 + (len > 1 && text[len - 2] == '=') : 0;
	cleanup_free char *out = xmalloc(len / 4 * 3 + 1);
	uint32_t bits = 0;

	if (len % 4)
		return NULL;
	for (size_t i = 0; i < len; i++) {
		const char *digit = i < len - pad ? strchr(base64_digits, text[i]) : base64_digits;

		if (!digit)
			return NULL;
		bits = bits << 6 | (uint32_t)(digit - base64_digits);
		if (i % 4 != 3)
			continue;
		for (int k = 16; k >= 0; k -= 8)
			out[at++] = (char)(bits >> k & 0xff);
		bits = 0;
	}
	at -= pad;
	out[at] = '\0';
	return strlen(out) == at ? take_ptr(out) : NULL;
}

bool str_has_prefix(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_has_suffix(const char *s, const char *suffix)
{
	size_t len = strlen(s), tail = strlen(suffix);

	return len >= tail && strcmp(s + len - tail, suffix) == 0;
}

int str_to_u64(const char *s, uint64_t *ret)
{
	char *end;

	if (!isdigit((unsigned char)s[0]))
		return -EINVAL;
	errno = 0;

	unsigned long long v = strtoull(s, &end, 10);

	if (*end)
		return -EINVAL;
	if (errno)
		return -ERANGE;
	*ret = v;
	return 0;
}

#define NEAREST_MAX   64
#define BEGINNING_MIN 3 /* letters: of what begins so the rest was left out */

static bool same_letter(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t str_distance(const char *a, const char *b)
{
	size_t m = strnlen(a, NEAREST_MAX), n = strnlen(b, NEAREST_MAX);
	size_t rows[3][NEAREST_MAX + 1];

	for (size_t j = 0; j <= n; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= m; i++) {
		size_t *row = rows[i % 3], *above = rows[(i + 2) % 3],
		       *two_above = rows[(i + 1) % 3];

		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			row[j] = least(least(above[j], row[j - 1]) + 1,
				       above[j - 1] + !same_letter(a[i - 1], b[j - 1]));
			if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
			    same_letter(a[i - 2], b[j - 1]))
				row[j] = least(row[j], two_above[j - 2] + 1);
		}
	}
	return rows[m % 3][n];
}

const char *str_nearest(const char *word, const char *const *candidates)
{
	size_t len = strnlen(word, NEAREST_MAX), best = NEAREST_MAX, shared = 0;
	const char *nearest = NULL;

	for (; *candidates; candidates++) {
		size_t their = strnlen(*candidates, NEAREST_MAX);
		bool begins = len >= BEGINNING_MIN && strncasecmp(*candidates, word, len) == 0;
		size_t d = begins ? their > len : str_distance(word, *candidates);
		/* Of two words one letter in three may differ; of a short one something is left. */
		size_t limit = ((len > their ? len : their) + 1) / 3;

		size_t same = 0; /* slips are rare in the first letters */

		while (word[same] && same_letter(word[same], (*candidates)[same]))
			same++;
		if ((d < best || (d == best && same > shared)) &&
		    (begins || (d <= limit && d < len))) {
			best = d;
			shared = same;
			nearest = *candidates;
		}
	}
	return nearest;
}

bool str_same_but_figures(const char *was, const char *text)
{
	static const char figures[] = "0123456789.";

	while (was && (*was || *text)) {
		was += strspn(was, figures);
		text += strspn(text, figures);
		if (*was != *text)
			return false;
		was += *was != '\0';
		text += *text != '\0';
	}
	return was;
}
