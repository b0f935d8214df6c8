/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_VALUE_H
#define TENURE_BASE_VALUE_H

/*
 * Typed values. For each type tables know how to read it from a person's text (an option, an
 * environment variable, a line of a config file: value_text.c) and from a program's JSON (a task
 * file: value_json.c), how to write, copy, check and free it, so that options, settings, task files
 * and `config show` cannot differ about what "88%" means.
 *
 * A value lies in a field of the C type that value_spec.h names: in a struct of the caller's, by
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
#include "base/value_spec.h"

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
/* JSON for programs: sizes in bytes, times in seconds, percentages as numbers. New reference. */
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
