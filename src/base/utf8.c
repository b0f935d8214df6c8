/* SPDX-License-Identifier: MIT */
#include "base/utf8.h"

#include <string.h>

#include "base/mem.h"

struct range {
	uint32_t from, to;
};

static bool is_in(const struct range *ranges, size_t n, uint32_t c)
{
	for (size_t i = 0; i < n; i++)
		if (c >= ranges[i].from && c <= ranges[i].to)
			return true;
	return false;
}

size_t utf8_decode(const char *p, uint32_t *ret)
{
	/* Of so many bytes: what the first one has, and the least that needs them. */
	static const struct {
		unsigned char mask, lead;
		uint32_t least;
	} sizes[] = {
		{ 0x80, 0, 0 }, { 0xe0, 0xc0, 0x80 }, { 0xf0, 0xe0, 0x800 }, { 0xf8, 0xf0, 0x10000 }
	};
	const unsigned char *b = (const unsigned char *)p;

	for (size_t n = 0; n < ARRAY_LEN(sizes) && *b; n++) {
		uint32_t c = b[0] & (unsigned char)~sizes[n].mask;

		if ((b[0] & sizes[n].mask) != sizes[n].lead)
			continue;
		for (size_t i = 1; i <= n; i++) {
			if ((b[i] & 0xc0) != 0x80)
				return 0;
			c = c << 6 | (b[i] & 0x3f);
		}
		if (c < sizes[n].least || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
			return 0;
		*ret = c;
		return n + 1;
	}
	return 0;
}

size_t utf8_whole(const char *text, size_t len)
{
	for (size_t back = 1; back <= 3 && back <= len; back++) {
		unsigned char c = (unsigned char)text[len - back];
		size_t needs = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;

		if (c >= 0xc0)
			return needs > back ? len - back : len;
		if (c < 0x80)
			break;
	}
	return len;
}

unsigned int utf8_width(uint32_t c)
{
	static const struct range marks[] = {
		{ 0x300, 0x36f },   { 0x483, 0x489 },	{ 0x591, 0x5bd },   { 0x610, 0x61a },
		{ 0x64b, 0x65f },   { 0xe31, 0xe31 },	{ 0xe34, 0xe3a },   { 0xe47, 0xe4e },
		{ 0x1ab0, 0x1aff }, { 0x1dc0, 0x1dff }, { 0x20d0, 0x20ff }, { 0xfe00, 0xfe0f },
		{ 0xfe20, 0xfe2f }
	};
	static const struct range wide[] = {
		{ 0x1100, 0x115f },   { 0x2e80, 0x303e },   { 0x3041, 0x33ff },
		{ 0x3400, 0x4dbf },   { 0x4e00, 0xa4cf },   { 0xa960, 0xa97c },
		{ 0xac00, 0xd7a3 },   { 0xf900, 0xfaff },   { 0xfe30, 0xfe6f },
		{ 0xff01, 0xff60 },   { 0xffe0, 0xffe6 },   { 0x1f300, 0x1f64f },
		{ 0x1f680, 0x1f6ff }, { 0x1f900, 0x1f9ff }, { 0x20000, 0x3fffd }
	};

	if (c < 0x300)
		return 1;
	if (is_in(marks, ARRAY_LEN(marks), c))
		return 0;
	return is_in(wide, ARRAY_LEN(wide), c) ? 2 : 1;
}

/* How many bytes of it are ASCII that can be printed, which most texts are all through: lists of a
 * hundred thousand rows are measured and cleaned with this. */
static size_t plain(const char *text)
{
	size_t n = 0;

	while (text[n] >= ' ' && text[n] <= '~')
		n++;
	return n;
}

/* The next character, or byte where there is none; its columns are added. */
static size_t step(const char *p, size_t *columns)
{
	uint32_t c;
	size_t n = utf8_decode(p, &c);

	*columns += n ? utf8_width(c) : 1;
	return n ? n : 1;
}

size_t utf8_columns(const char *text)
{
	size_t columns = plain(text);

	for (text += columns; *text;)
		text += step(text, &columns);
	return columns;
}

size_t utf8_bytes_of(const char *text, size_t columns)
{
	size_t bytes = 0, taken = 0;

	while (text[bytes]) {
		size_t n = step(text + bytes, &taken);

		if (taken > columns)
			break;
		bytes += n;
	}
	return bytes;
}

static bool fits_name(uint32_t c)
{
	static const struct range not [] = {
		{ 0x80, 0xa0 },	       { 0xad, 0xad },	     { 0x34f, 0x34f },
		{ 0x61c, 0x61c },      { 0x115f, 0x1160 },   { 0x1680, 0x1680 },
		{ 0x17b4, 0x17b5 },    { 0x180b, 0x180f },   { 0x2000, 0x200f },
		{ 0x2028, 0x202f },    { 0x205f, 0x206f },   { 0x3000, 0x3000 },
		{ 0x3164, 0x3164 },    { 0xe000, 0xf8ff },   { 0xfdd0, 0xfdef },
		{ 0xfe00, 0xfe0f },    { 0xfeff, 0xfeff },   { 0xffa0, 0xffa0 },
		{ 0xfff0, 0xffff },    { 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a },
		{ 0xe0000, 0x10ffff },
	};

	if (c >= 0x80)
		return (c & 0xfffe) != 0xfffe && !is_in(not, ARRAY_LEN(not ), c);
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("._+-", (int)c));
}

bool utf8_is_name(const char *text, size_t max)
{
	size_t len = strnlen(text, max + 1);
	uint32_t c;

	if (!len || len > max || text[0] == '.' || text[0] == '-')
		return false;
	for (size_t i = 0; i < len;) {
		size_t n = utf8_decode(text + i, &c);

		if (!n || !fits_name(c))
			return false;
		i += n;
	}
	return true;
}

void utf8_make_name(const char *text, char *ret, size_t max)
{
	size_t len = 0;
	uint32_t c;

	text += strspn(text, ".- \t");
	while (*text) {
		size_t n = utf8_decode(text, &c);
		bool fits = n && fits_name(c);
		size_t more = fits ? n : 1;

		if (len + more > max)
			break;
		(void)memcpy(ret + len, fits ? text : "_", more);
		len += more;
		text += n ? n : 1;
	}
	ret[len] = '\0';
}

static bool can_be_shown(uint32_t c)
{
	static const struct range not [] = { { 0, 0x1f },
					     { 0x7f, 0x9f },
					     { 0x200e, 0x200f },
					     { 0x2028, 0x202e },
					     { 0x2066, 0x2069 } };

	return !is_in(not, ARRAY_LEN(not ), c);
}

size_t utf8_shown(const char *p)
{
	uint32_t c;
	size_t n = utf8_decode(p, &c);

	return n && can_be_shown(c) ? n : 0;
}

char *utf8_clean(char *text)
{
	char *to = text + plain(text);
	uint32_t c;

	for (const char *p = to; *p;) {
		size_t n = utf8_decode(p, &c);

		if (utf8_shown(p)) {
			(void)memmove(to, p, n);
			to += n;
		} else {
			*to++ = strchr("\t\n\r", *p) ? ' ' : '?';
		}
		p += n ? n : 1;
	}
	*to = '\0';
	return text;
}
