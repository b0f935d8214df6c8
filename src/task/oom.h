/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_OOM_H
#define TENURE_TASK_OOM_H

/*
 * Telling from the end of a task's log that it ran out of GPU memory. The patterns are a file
 * (data/oom-patterns, installed under share/tenure/), so that a site can add its framework's words;
 * the same file is embedded for where it is missing. The caller reads files; this takes text.
 *
 * Ask only about attempts that failed: a program may well print these words and recover.
 */

#include <stddef.h>

#include "base/err.h"

#define OOM_PATTERNS_MAX 256
#define OOM_PATTERN_MAX	 200 /* bytes of a line */

struct oom_patterns;

/*
 * Parse the text of a pattern file. 0 and *ret, which oom_patterns_free() frees; -EINVAL with the
 * line number in e.
 */
int oom_patterns_parse(const char *text, size_t len, struct oom_patterns **ret, struct err *e);
/* The embedded file. */
struct oom_patterns *oom_patterns_default(void);
/* The same of what says that the device has failed (data/device-patterns): their names are what it
 * was, with a - between the words. */
struct oom_patterns *oom_patterns_of_devices(void);
struct oom_patterns *oom_patterns_free(struct oom_patterns *p);
size_t oom_patterns_count(const struct oom_patterns *p);

/*
 * The framework's name when a line of the log matches ("pytorch"; valid as long as p), NULL when
 * none does. log is len bytes of anything; NULs and bad UTF-8 do no harm. Cost: len times the
 * number of patterns.
 */
const char *oom_match(const struct oom_patterns *p, const char *log, size_t len);

#endif
