/* SPDX-License-Identifier: MIT */
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

bool str_has_prefix(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
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

static size_t edit_distance(const char *a, const char *b)
{
	size_t n = strnlen(b, NEAREST_MAX), row[NEAREST_MAX + 1];

	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1] && i <= NEAREST_MAX; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			size_t above = row[j];
			size_t best = diagonal + (tolower((unsigned char)a[i - 1]) !=
						  tolower((unsigned char)b[j - 1]));

			if (above + 1 < best)
				best = above + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diagonal = above;
			row[j] = best;
		}
	}
	return row[n];
}

const char *str_nearest(const char *word, const char *const *candidates)
{
	const char *nearest = NULL;
	size_t len = strnlen(word, NEAREST_MAX);
	/* Of a word of one or two letters something must be left, or any such name would do. */
	size_t best = len / 3 + 2 < len ? len / 3 + 2 : len;

	for (; *candidates; candidates++) {
		bool begins = len >= BEGINNING_MIN && strncasecmp(*candidates, word, len) == 0;
		size_t d = begins ? (*candidates)[len] != '\0' : edit_distance(word, *candidates);

		if (d < best) {
			best = d;
			nearest = *candidates;
		}
	}
	return nearest;
}
