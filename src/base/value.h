/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_VALUE_H
#define TENURE_BASE_VALUE_H

/*
 * Typed values. One table in value.c knows for each type how to read it from a person's text (an
 * option, an environment variable, a line of a config file) and from a program's JSON (a task
 * file), how to write, copy, check and free it, so that options, settings, task files and `config
 * show` cannot differ about what "88%" means.
 *
 * A value lies in a field of the C type that its row below names: in a struct of the caller's, by
 * its address, or in struct value. A zeroed field is an empty value. Who reads one gets it whole
 * or, on an error, keeps what was there.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/textlist.h"
#include "base/units.h"

#define VALUE_NAME_MAX 63 /* bytes of a VALUE_NAME */
#define VALUE_TEXT_MAX                                                                             \
	(256UL << 10) /* bytes of a VALUE_TEXT that says no other max, and of a text in a list */
#define VALUE_LIST_MAX 65536	  /* entries of VALUE_IDS */
#define VALUE_WORD     UINT64_MAX /* what the word of a VALUE_COUNT means */
#define VALUE_DURATION_MAX                                                                         \
	315360000000ULL /* ten years in ms: nanoseconds of that can be counted from any moment on  \
			 */

enum value_type {
	VALUE_FLAG,	  /* bool: true/false, yes/no, on/off, 1/0 */
	VALUE_UINT,	  /* uint64_t: a whole number */
	VALUE_COUNT,	  /* uint64_t: a whole number, or VALUE_WORD for a word */
	VALUE_SIZE,	  /* uint64_t: bytes */
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

/* What a type is: its field, and how it comes. */
#define VALUE_IS_NUMBER	 (1u << 0) /* uint64_t */
#define VALUE_IS_TEXT	 (1u << 1) /* char * */
#define VALUE_IS_TEXTS	 (1u << 2) /* struct text_list */
#define VALUE_IS_NUMBERS (1u << 3) /* struct uint_list */
#define VALUE_IS_MANY                                                                              \
	(1u << 4) /* several words or a YAML sequence may be given, or an option more than once */
#define VALUE_IS_APART                                                                             \
	(1u << 5) /* ... and what is given in pieces is joined by VALUE_SEPARATOR, not by commas   \
		   */
#define VALUE_IS_OPEN  (1u << 7) /* its hint says little: what it is for says more */
#define VALUE_IN_WORDS (1u << 6) /* a number that is a text in files: "20G" */

bool value_is(enum value_type type, unsigned int what);

/* What is allowed. min and max are about a number in its unit (and about a MEM in bytes or
 * permille). */
struct value_spec {
	enum value_type type;
	uint64_t min;
	uint64_t max; /* 0: no bound, but for durations: VALUE_DURATION_MAX; of texts bytes, of
			 their lists entries */
	const char *const *choices; /* VALUE_CHOICE: ends with NULL */
	const char *word;	    /* VALUE_COUNT */
};

/* Between the pieces of what is VALUE_IS_APART where they travel as one text; opts.c joins with it.
 */
#define VALUE_SEPARATOR '\x1e'

struct uint_list {
	size_t n;
	uint64_t *nums;
};

void uint_list_clear(struct uint_list *l);

/* What is inside is owned by the value; value_clear() frees it. A zeroed value is an empty one. */
struct value {
	enum value_type type;
	union {
		bool flag;
		uint64_t num;
		struct mem_spec mem;
		struct util_band band;
		struct gpu_picks gpus;
		struct index_range range;
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

/*
 * What a file says: sizes and durations are numbers or a person's text, times are such a text with
 * its date or seconds since the epoch, and whatever is no number but in JSON is refused. -EINVAL or
 * -ERANGE, and the field is as it was.
 */
int value_from_json(const struct value_spec *spec, const json_t *json, void *field, struct err *e);
/* What a person's text means in a file. NULL: it is no UTF-8, and may have to be. A list is of this
 * text alone. */
json_t *value_json_of_text(enum value_type type, const char *text);
/* As it is written to files: what value_from_json() reads. NULL: a text that is no UTF-8, and must
 * be; JSON's null: a list with such a text. */
json_t *value_file_json(const struct value_spec *spec, const void *field);

/* False: a flag that is off, no text, an empty list. A number is always there. */
bool value_is_there(enum value_type type, const void *field);
void value_clear_field(enum value_type type, void *field);
/* *to (overwritten) gets what it owns. */
void value_copy_field(enum value_type type, void *to, const void *from);

/* "a size like 38G": what a reader of an error or a help text should write. */
const char *value_hint(enum value_type type);
/* "bytes or 20G": what a key of a task file is; buf: VALUE_KEY_HINT_MAX. */
#define VALUE_KEY_HINT_MAX 64
const char *value_key_hint(const struct value_spec *spec, char *buf);
/* Whether a further word of the command line still belongs to a list of this type. */
bool value_takes_word(enum value_type type, const char *word);

#endif
