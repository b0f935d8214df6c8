/* SPDX-License-Identifier: MIT */
#include "sched/fit.h"

#include <fnmatch.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "sched/shape.h"

typedef bool (*breaks_fn)(const struct shape *s, const struct fit_dev *d);

static bool too_small(const struct shape *s, const struct fit_dev *d)
{
	return d->total_bytes && d->total_bytes < s->mem_bytes;
}

/* Where memory is the condition, what others use is part of what is not free. */
static bool others_there(const struct shape *s, const struct fit_dev *d)
{
	return d->foreign && !s->shared && s->rules != SCHED_RULES_COMPETE;
}

static bool lent_elsewhere(const struct shape *s, const struct fit_dev *d)
{
	return d->lent;
}

static bool tested(const struct shape *s, const struct fit_dev *d)
{
	return d->tested;
}

static bool ours_there(const struct shape *s, const struct fit_dev *d)
{
	return d->alone || (d->runs && !s->shared);
}

/* What our own tasks there run is not known, so they count as Python. */
static bool python_there(const struct shape *s, const struct fit_dev *d)
{
	return s->no_own_python && (d->own_python || d->runs);
}

static bool process_there(const struct shape *s, const struct fit_dev *d)
{
	return d->one_process && (d->foreign || d->runs);
}

static bool memory_unknown(const struct shape *s, const struct fit_dev *d)
{
	return s->mem_bytes && !d->mem_known && (!d->unmeasured || s->shared);
}

static bool memory_taken(const struct shape *s, const struct fit_dev *d)
{
	return d->mem_known && d->room_bytes < (int64_t)s->mem_bytes;
}

static const struct {
	enum sched_cause cause;
	breaks_fn breaks;
} rules[] = {
	{ CAUSE_SMALL, too_small },	  { CAUSE_FOREIGN, others_there },
	{ CAUSE_LENT, lent_elsewhere },	  { CAUSE_TESTED, tested },
	{ CAUSE_OURS, ours_there },	  { CAUSE_PYTHON, python_there },
	{ CAUSE_PROCESS, process_there }, { CAUSE_BLIND, memory_unknown },
	{ CAUSE_MEMORY, memory_taken },
};

enum sched_cause fit_check(const struct shape *s, const struct fit_dev *d, bool model_ok)
{
	if (d->shut)
		return d->shut;
	if (!model_ok)
		return CAUSE_MODEL;
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (rules[i].breaks(s, d))
			return rules[i].cause;
	return CAUSE_NONE;
}

bool fit_time(const struct shape *s, const struct sched_view *view)
{
	if (!view->end_ns || !s->timeout_ms)
		return true;
	return view->end_ns > view->now_ns &&
	       s->timeout_ms <= (view->end_ns - view->now_ns) / NS_PER_MS;
}

bool fit_is_fixed(enum sched_cause cause)
{
	return cause >= CAUSE_EXCLUDED && cause <= CAUSE_SMALL;
}

#define PATTERN_MAX 128

static bool one_matches(const char *pattern, size_t len, const char *model)
{
	char text[PATTERN_MAX + 3];

	while (len && *pattern == ' ')
		pattern++, len--;
	while (len && pattern[len - 1] == ' ')
		len--;
	if (!len || len > PATTERN_MAX)
		return false;
	if (memchr(pattern, '*', len) || memchr(pattern, '?', len))
		str_print(text, sizeof(text), "%.*s", (int)len, pattern);
	else
		str_print(text, sizeof(text), "*%.*s*", (int)len, pattern);
	return fnmatch(text, model, FNM_CASEFOLD | FNM_NOESCAPE) == 0;
}

bool fit_model(const char *patterns, const char *model)
{
	if (!*patterns)
		return true;
	for (const char *p = patterns;; p++) {
		size_t len = strcspn(p, ",");

		if (one_matches(p, len, model ? model : ""))
			return true;
		p += len;
		if (!*p)
			return false;
	}
}
