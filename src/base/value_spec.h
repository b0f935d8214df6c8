/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_VALUE_SPEC_H
#define TENURE_BASE_VALUE_SPEC_H

/* The types that a value can have, and what a row of a table allows for one (base/value.h). */

#include <stddef.h>
#include <stdint.h>

#define VALUE_NAME_MAX 63	  /* bytes of a VALUE_NAME */
#define VALUE_LIST_MAX 65536	  /* entries of VALUE_IDS */
#define VALUE_WORD     UINT64_MAX /* what the word of a VALUE_COUNT, a VALUE_SIZE or an id means */
/* Bytes of a VALUE_TEXT that says no other max, and of a text in a list. */
#define VALUE_TEXT_MAX (256UL << 10)
/* Ten years in ms: nanoseconds of that can be counted from any moment on. */
#define VALUE_DURATION_MAX 315360000000ULL

enum value_type {
	VALUE_FLAG,	  /* bool: true/false, yes/no, on/off, 1/0 */
	VALUE_UINT,	  /* uint64_t: a whole number */
	VALUE_COUNT,	  /* uint64_t: a whole number, or VALUE_WORD for a word */
	VALUE_SIZE,	  /* uint64_t: bytes, or VALUE_WORD for a word, where there is one */
	VALUE_DURATION,	  /* uint64_t: milliseconds */
	VALUE_PERCENT,	  /* uint64_t: permille */
	VALUE_FACTOR,	  /* uint64_t: permille, from 1.5 or x1.5 */
	VALUE_OCTAL,	  /* uint64_t: the mode of a file */
	VALUE_TIME,	  /* uint64_t: nanoseconds of the wall clock. A person's is in the future, a
			     file's may have passed */
	VALUE_CHOICE,	  /* uint64_t: index into the choices */
	VALUE_MEM,	  /* struct mem_spec */
	VALUE_BAND,	  /* struct util_band */
	VALUE_GPUS,	  /* struct gpu_picks */
	VALUE_RANGE,	  /* struct index_range */
	VALUE_STRING,	  /* char *: without control characters */
	VALUE_TEXT,	  /* char *: any, up to max bytes of UTF-8 */
	VALUE_PATH,	  /* char *: absolute, or ~/ which is replaced by the home directory */
	VALUE_BYTES_PATH, /* char *: absolute; up to max bytes of any kind */
	VALUE_NAME,	  /* char *: letters, digits, - _ . ; fit for a file name */
	VALUE_TASK_NAME,  /* char *: utf8_is_name(), up to max bytes */
	VALUE_SIGNAL,	  /* char *: the signal's name, however it was written */
	VALUE_WORDS,	  /* struct text_list: separated by commas or blanks */
	VALUE_TEXTS, /* struct text_list: one per time it is given, kept as it is; in files up to
			max of UTF-8 */
	VALUE_BYTES, /* struct text_list: likewise, of any bytes */
	VALUE_UINTS, /* struct uint_list: whole numbers, separated by commas or blanks */
	VALUE_IDS, /* struct uint_list: likewise, one per time or more; what is missing between two
		      commas is an error */
	VALUE_TYPE_MAX
};

/* What is allowed. min and max are about a number in its unit (and about a MEM in bytes or
 * permille). */
struct value_spec {
	enum value_type type;
	uint64_t min;
	uint64_t max; /* 0: no bound, but for durations: VALUE_DURATION_MAX; of texts bytes, of
			 their lists entries */
	const char *const *choices; /* VALUE_CHOICE: ends with NULL */
	const char *word; /* VALUE_COUNT; VALUE_SIZE and VALUE_IDS, or NULL: it takes none */
};

/* Between the pieces of what is VALUE_IS_APART where they travel as one text: opts.c joins so. */
#define VALUE_SEPARATOR '\x1e'

struct uint_list {
	size_t n;
	uint64_t *nums;
};

#endif
