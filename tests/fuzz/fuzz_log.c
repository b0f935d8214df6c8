/* SPDX-License-Identifier: MIT */

/*
 * The end of a task's log: up to the first NUL the patterns of a site, then what a task has
 * printed. Where its own words begin is a place in it, and what matches does so line by line.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "task/logtext.h"
#include "task/oom.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void match(const struct oom_patterns *p, const char *log, size_t len)
{
	const char *what = oom_match(p, log, len);

	if (what && (!what[0] || !len))
		abort();
	/* More text behind a newline takes no match away. */
	cleanup_free char *more = xmalloc(len + 3);

	(void)memcpy(more, log, len);
	(void)memcpy(more + len, "\nx\n", 3);
	if (what && !oom_match(p, more, len + 3))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct oom_patterns *usual;
	const uint8_t *nul = size ? memchr(data, '\0', size) : NULL;
	size_t n = nul ? (size_t)(nul - data) : size, len = nul ? size - n - 1 : 0;
	struct oom_patterns *p = NULL;
	struct err e = ERR_INIT;
	/* Of the exact size, so that a read behind it is seen. */
	cleanup_free char *patterns = xmalloc(n ? n : 1), *log = xmalloc(len ? len : 1);
	size_t at;

	(void)memcpy(patterns, data, n);
	if (len)
		(void)memcpy(log, nul + 1, len);
	if (!usual)
		usual = oom_patterns_default();
	if (oom_patterns_parse(patterns, n, &p, &e) == 0) {
		if (oom_patterns_count(p) > OOM_PATTERNS_MAX)
			abort();
		match(p, log, len);
		(void)oom_patterns_free(p);
	} else if (!e.text[0]) {
		abort();
	}
	match(usual, log, len);
	at = logtext_output_at(log, len);
	if (at > len || (at && log[at - 1] != '\n'))
		abort();
	return 0;
}
