/* SPDX-License-Identifier: MIT */
#include "task/oom.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

/* Made from data/oom-patterns and data/device-patterns by the build. */
extern const char oom_patterns_text[], device_patterns_text[];

struct pattern {
	char *line; /* owned; the other two lie in it */
	const char *name;
	const char *text; /* lower case */
};

struct oom_patterns {
	size_t n;
	struct pattern p[OOM_PATTERNS_MAX];
};

struct oom_patterns *oom_patterns_free(struct oom_patterns *p)
{
	for (size_t i = 0; p && i < p->n; i++)
		free(p->p[i].line);
	free(p);
	return NULL;
}

static void cleanup_patterns(struct oom_patterns **p)
{
	(void)oom_patterns_free(*p);
}

static char *skip_blanks(char *s)
{
	return s + strspn(s, " \t");
}

static void trim_end(char *s)
{
	size_t len = strlen(s);

	while (len && isspace((unsigned char)s[len - 1]))
		s[--len] = '\0';
}

/* One line, which is the pattern's to keep when it is one. */
static int parse_line(struct oom_patterns *p, char *line, size_t number, struct err *e)
{
	cleanup_free char *owned = line;

	trim_end(line);

	char *name = skip_blanks(line);
	char *text = name + strcspn(name, " \t");

	if (!*name || *name == '#')
		return 0;
	if (*text)
		*text++ = '\0';
	text = skip_blanks(text);
	if (strlen(text) < 3 || strspn(text, "* ") == strlen(text))
		return err_set(e, -EINVAL, "line %zu: a name and a pattern of 3 or more letters",
			       number);
	if (p->n == OOM_PATTERNS_MAX)
		return err_set(e, -EINVAL, "line %zu: more than %d patterns", number,
			       OOM_PATTERNS_MAX);
	for (char *c = text; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	p->p[p->n++] = (struct pattern){ .line = take_ptr(owned), .name = name, .text = text };
	return 0;
}

int oom_patterns_parse(const char *text, size_t len, struct oom_patterns **ret, struct err *e)
{
	__attribute__((cleanup(cleanup_patterns))) struct oom_patterns *p =
		xcalloc(1, sizeof(struct oom_patterns));
	const char *end = text + len;

	for (size_t number = 1; text < end; number++) {
		const char *nl = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((nl ? nl : end) - text);

		if (n > OOM_PATTERN_MAX || memchr(text, '\0', n))
			return err_set(e, -EINVAL, "line %zu: longer than %d bytes, or not text",
				       number, OOM_PATTERN_MAX);

		char *line = xmalloc(n + 1);

		memcpy(line, text, n);
		line[n] = '\0';

		int r = parse_line(p, line, number, e);

		if (r < 0)
			return r;
		text += n + 1;
	}
	*ret = take_ptr(p);
	return 0;
}

struct oom_patterns *oom_patterns_default(void)
{
	struct oom_patterns *p = NULL;

	/* The build's own file: a test parses it. */
	(void)oom_patterns_parse(oom_patterns_text, strlen(oom_patterns_text), &p, NULL);
	return p;
}

struct oom_patterns *oom_patterns_of_devices(void)
{
	struct oom_patterns *p = NULL;

	(void)oom_patterns_parse(device_patterns_text, strlen(device_patterns_text), &p, NULL);
	return p;
}

size_t oom_patterns_count(const struct oom_patterns *p)
{
	return p ? p->n : 0;
}

/* A part of a pattern without `*`, of m bytes, in the n bytes of s; NULL when it is not there. */
static const char *find_part(const char *s, size_t n, const char *part, size_t m)
{
	for (; m <= n; s++, n--) {
		size_t i = 0;

		while (i < m && tolower((unsigned char)s[i]) == (unsigned char)part[i])
			i++;
		if (i == m)
			return s;
	}
	return NULL;
}

/* Taking each part at its first place is enough, because the ends are free. */
static bool line_matches(const char *line, size_t n, const char *pattern)
{
	const char *end = line + n;

	while (*pattern) {
		size_t m = strcspn(pattern, "*");
		const char *at = find_part(line, (size_t)(end - line), pattern, m);

		if (!at)
			return false;
		line = at + m;
		pattern += m + (pattern[m] == '*');
	}
	return true;
}

const char *oom_match(const struct oom_patterns *p, const char *log, size_t len)
{
	const char *end = log + len;

	while (p && log < end) {
		const char *nl = memchr(log, '\n', (size_t)(end - log));
		size_t n = (size_t)((nl ? nl : end) - log);

		for (size_t i = 0; i < p->n; i++)
			if (line_matches(log, n, p->p[i].text))
				return p->p[i].name;
		log += n + 1;
	}
	return NULL;
}
