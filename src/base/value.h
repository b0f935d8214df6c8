/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_VALUE_H
#define TENURE_BASE_VALUE_H

/*
 * A typed value that came from text: an option, an environment variable or a line of a config file.
 * One table in value.c knows for each type how to read, check, show and free it, so that the
 * command line, the settings and `config show` cannot differ about what "88%" means.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/textlist.h"
#include "base/units.h"

#define VALUE_NAME_MAX 63 /* bytes of a VALUE_NAME */

enum value_type {
	VALUE_FLAG,	/* bool: true/false, yes/no, on/off, 1/0 */
	VALUE_UINT,	/* num: a whole number */
	VALUE_SIZE,	/* num: bytes */
	VALUE_DURATION, /* num: milliseconds */
	VALUE_PERCENT,	/* num: permille */
	VALUE_TIME,	/* num: nanoseconds of the wall clock, in the future */
	VALUE_CHOICE,	/* num: index into the choices */
	VALUE_MEM,	/* mem */
	VALUE_BAND,	/* band */
	VALUE_GPUS,	/* gpus */
	VALUE_STRING,	/* str */
	VALUE_PATH,	/* str: absolute, or ~/ which is replaced by the home directory */
	VALUE_NAME,	/* str: letters, digits, - _ . ; fit for a file name */
	VALUE_WORDS,	/* words: separated by commas or blanks */
	VALUE_UINTS,	/* uints: whole numbers, separated likewise */
	VALUE_TEXTS,	/* words: one per time it is given, kept as it is */
	VALUE_TYPE_MAX
};

/* What is allowed. min and max apply to `num` in its unit (and to a MEM in bytes or permille). */
/* Ten years in ms: nanoseconds of that can be counted from any moment on. */
#define VALUE_DURATION_MAX (3650 * 24 * 60 * 60 * 1000ULL)

struct value_spec {
	enum value_type type;
	uint64_t min;
	uint64_t max;		    /* 0: no bound, but for durations: VALUE_DURATION_MAX */
	const char *const *choices; /* VALUE_CHOICE: ends with NULL */
};

/* Between the texts of a VALUE_TEXTS where they travel as one; opts.c joins with it. */
#define VALUE_TEXT_SEPARATOR '\x1e'

struct uint_list {
	size_t n;
	uint64_t *nums;
};

/* What is inside is owned by the value; value_clear() frees it. A zeroed value is an empty one. */
struct value {
	enum value_type type;
	union {
		bool flag;
		uint64_t num;
		struct mem_spec mem;
		struct util_band band;
		struct gpu_picks gpus;
		char *str;
		struct text_list words;
		struct uint_list uints;
	};
};

/* 0, or -EINVAL/-ERANGE with a text that quotes the value; *ret (overwritten) is set on success
 * only. */
int value_parse(const struct value_spec *spec, const char *text, struct value *ret, struct err *e);
void value_clear(struct value *v);
/* Text that value_parse() reads back as the same value; the caller frees it. */
char *value_format(const struct value_spec *spec, const struct value *v);
/* JSON for programs: sizes in bytes, durations in seconds, percentages as numbers. New reference.
 */
json_t *value_json(const struct value_spec *spec, const struct value *v);
/* "a size like 38G": what a reader of an error or a help text should write. */
const char *value_hint(enum value_type type);
/* Whether a further word of the command line still belongs to a list of this type. */
bool value_takes_word(enum value_type type, const char *word);
/* Whether several words or a YAML sequence may be given. */
bool value_is_list(enum value_type type);

#endif
