/* SPDX-License-Identifier: MIT */

/*
 * The table says what each type is; how it is read and written is in value_text.c and value_json.c.
 * A reader gets an empty field and may leave it half filled on an error: value_parse() and
 * value_from_json() read into a value of their own, check its range, and only then take the place
 * of what was there.
 */

#include "base/value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/value_json.h"
#include "base/value_text.h"

#define NUMBER VALUE_IS_NUMBER
#define TEXT   VALUE_IS_TEXT
#define TEXTS  (VALUE_IS_TEXTS | VALUE_IS_MANY)
#define NUMS   (VALUE_IS_NUMBERS | VALUE_IS_MANY)

static const struct {
	const char *hint, *key_hint; /* of an option, of a key of a file; NULL: no key has it */
	size_t size;		     /* of the field */
	unsigned int is;
} types[] = {
	[VALUE_FLAG] = { "true or false", "true or false", sizeof(bool), 0 },
	[VALUE_UINT] = { "a whole number", "whole number", sizeof(uint64_t), NUMBER },
	[VALUE_COUNT] = { "a whole number or a word", "whole number or %s", sizeof(uint64_t),
			  NUMBER | VALUE_IS_OPEN },
	[VALUE_SIZE] = { "a size like 38G", "bytes or 20G", sizeof(uint64_t),
			 NUMBER | VALUE_IN_WORDS },
	[VALUE_DURATION] = { "a duration like 5m", "seconds or 10m", sizeof(uint64_t),
			     NUMBER | VALUE_IN_WORDS },
	[VALUE_PERCENT] = { "a percentage like 75", "per cent or 75%%", sizeof(uint64_t),
			    NUMBER | VALUE_IN_WORDS },
	[VALUE_FACTOR] = { "a number like 1.5", "number", sizeof(uint64_t), NUMBER },
	[VALUE_OCTAL] = { "octal digits", "octal digits", sizeof(uint64_t), NUMBER },
	[VALUE_TIME] = { "a time like 18:30", "time", sizeof(uint64_t), NUMBER },
	[VALUE_CHOICE] = { "one of the listed words", "word", sizeof(uint64_t), NUMBER },
	[VALUE_MEM] = { "an amount like 38G, 88% or all-2G", NULL, sizeof(struct mem_spec), 0 },
	[VALUE_BAND] = { "percentages like 50,70,85", NULL, sizeof(struct util_band),
			 VALUE_IS_MANY },
	[VALUE_GPUS] = { "GPUs like 0,1 or all", NULL, sizeof(struct gpu_picks), VALUE_IS_MANY },
	[VALUE_RANGE] = { "a range like 1-100", "FROM-TO%%N", sizeof(struct index_range),
			  VALUE_IS_OPEN },
	[VALUE_STRING] = { "text", NULL, sizeof(char *), TEXT | VALUE_IS_OPEN },
	[VALUE_TEXT] = { "text", "text", sizeof(char *), TEXT | VALUE_IS_OPEN },
	[VALUE_PATH] = { "an absolute path", NULL, sizeof(char *), TEXT },
	[VALUE_BYTES_PATH] = { "an absolute path", "absolute path", sizeof(char *), TEXT },
	[VALUE_NAME] = { "a name", NULL, sizeof(char *), TEXT },
	[VALUE_TASK_NAME] = { "a name", "name", sizeof(char *), TEXT | VALUE_IS_OPEN },
	[VALUE_SIGNAL] = { "a signal like USR1", "signal", sizeof(char *), TEXT | VALUE_IS_OPEN },
	[VALUE_WORDS] = { "a list of words", NULL, sizeof(struct text_list), TEXTS },
	[VALUE_TEXTS] = { "text", "list of texts", sizeof(struct text_list),
			  TEXTS | VALUE_IS_APART | VALUE_IS_OPEN },
	[VALUE_BYTES] = { "text", "list of texts", sizeof(struct text_list),
			  TEXTS | VALUE_IS_APART | VALUE_IS_OPEN },
	[VALUE_UINTS] = { "a list of numbers", NULL, sizeof(struct uint_list), NUMS },
	[VALUE_IDS] = { "a list of ids", "list of ids", sizeof(struct uint_list),
			NUMS | VALUE_IS_APART | VALUE_IS_OPEN },
};
_Static_assert(ARRAY_LEN(types) == VALUE_TYPE_MAX, "every type of value has a row");

bool value_is(enum value_type type, unsigned int what)
{
	return types[type].is & what;
}

/* The number that min and max are about, if the value has one, as a value of its own. */
static bool value_magnitude(const struct value *v, struct value *ret)
{
	*ret = *v;
	if (v->type == VALUE_MEM) {
		ret->type = v->mem.kind == MEM_SPEC_SHARE ? VALUE_PERCENT : VALUE_SIZE;
		ret->num = v->mem.kind == MEM_SPEC_SHARE ? v->mem.permille : v->mem.bytes;
		return v->mem.kind != MEM_SPEC_ALL_BUT;
	}
	if ((v->type == VALUE_COUNT || v->type == VALUE_SIZE) && v->num == VALUE_WORD)
		return false;
	/* Of a mode, its own reader has the bound; a time and a choice have none. */
	return value_is(v->type, VALUE_IS_NUMBER) && v->type != VALUE_OCTAL &&
	       v->type != VALUE_TIME && v->type != VALUE_CHOICE;
}

/* said: what a person wrote, which is quoted; NULL: the number itself is told. */
static int value_check_range(const struct value_spec *spec, const char *said, const struct value *v,
			     struct err *e)
{
	struct value m;

	if (!value_magnitude(v, &m))
		return 0;

	uint64_t max = !spec->max && m.type == VALUE_DURATION ? VALUE_DURATION_MAX : spec->max;

	if (m.num >= spec->min && (!max || m.num <= max))
		return 0;

	const struct value_spec own = { .type = m.type, .word = spec->word };
	struct value min_value = { .type = m.type, .num = spec->min },
		     max_value = { .type = m.type, .num = max };
	cleanup_free char *num = said ? xasprintf("\"%s\"", said) : value_format(&own, &m);
	cleanup_free char *least = value_format(&own, &min_value),
			  *most = value_format(&own, &max_value);

	if (!max)
		return err_set(e, -ERANGE, "%s is less than %s", num, least);
	return err_set(e, -ERANGE, "%s is out of range, %s to %s", num, least, most);
}

/* What was read, which is given up where it is not good. */
static int value_take(const struct value_spec *spec, const char *said, int r, struct value *v,
		      void *field, struct err *e)
{
	if (r == 0)
		r = value_check_range(spec, said, v, e);
	if (r < 0) {
		value_clear(v);
		return r;
	}
	value_clear_field(spec->type, field);
	(void)memcpy(field, &v->num, types[spec->type].size);
	return 0;
}

int value_from_json(const struct value_spec *spec, const json_t *json, void *field, struct err *e)
{
	struct value v = { .type = spec->type };
	int r = value_jsons[spec->type].read(spec, json, &v.num, e);

	return value_take(spec, NULL, r, &v, field, e);
}

json_t *value_json_of_text(enum value_type type, const char *text)
{
	return value_jsons[type].of_text ? value_jsons[type].of_text(text) : json_string(text);
}

/* A type that only files have: its pieces, if it has some, as a file would say them. */
static int parse_as_json(const struct value_spec *spec, const char *text, void *field,
			 struct err *e)
{
	json_t *json = value_json_of_text(spec->type, text);
	int r = json ? value_jsons[spec->type].read(spec, json, field, e)
		     : err_set(e, -EINVAL, "the text is not UTF-8");

	json_decref(json);
	return r;
}

int value_parse(const struct value_spec *spec, const char *text, struct value *ret, struct err *e)
{
	struct value v = { .type = spec->type }, new = v;
	int r = value_texts[spec->type].read ? value_texts[spec->type].read(spec, text, &v.num, e)
					     : parse_as_json(spec, text, &v.num, e);

	r = value_take(spec, value_texts[spec->type].read ? text : NULL, r, &v, &new.num, e);
	if (r == 0)
		*ret = new;
	return r;
}

void value_clear(struct value *v)
{
	enum value_type type = v->type;

	value_clear_field(type, &v->num);
	*v = (struct value){ .type = type };
}

static char *field_text(const struct value_spec *spec, const void *field)
{
	struct strbuf b = STRBUF_INIT;

	value_texts[spec->type].write(spec, field, &b);
	return strbuf_take(&b);
}

char *value_format(const struct value_spec *spec, const struct value *v)
{
	return field_text(spec, &v->num);
}

static json_t *field_json(const struct value_spec *spec, const void *field, bool in_words)
{
	if (value_jsons[spec->type].write && !in_words)
		return value_jsons[spec->type].write(spec, field);

	cleanup_free char *text = field_text(spec, field);

	return json_string(text);
}

json_t *value_json(const struct value_spec *spec, const struct value *v)
{
	return field_json(spec, &v->num, false);
}

json_t *value_file_json(const struct value_spec *spec, const void *field)
{
	return field_json(spec, field, value_is(spec->type, VALUE_IN_WORDS));
}

bool value_is_there(enum value_type type, const void *field)
{
	if (value_is(type, VALUE_IS_NUMBER))
		return true;
	if (value_is(type, VALUE_IS_TEXT))
		return *(char *const *)field;
	if (value_is(type, VALUE_IS_TEXTS))
		return ((const struct text_list *)field)->n;
	if (value_is(type, VALUE_IS_NUMBERS))
		return ((const struct uint_list *)field)->n;
	if (type == VALUE_RANGE)
		return ((const struct index_range *)field)->set;
	return type != VALUE_FLAG || *(const bool *)field;
}

void uint_list_clear(struct uint_list *l)
{
	free(l->nums);
	*l = (struct uint_list){ .n = 0 };
}

void value_clear_field(enum value_type type, void *field)
{
	if (value_is(type, VALUE_IS_TEXT))
		free(*(char **)field);
	else if (value_is(type, VALUE_IS_TEXTS))
		text_list_clear(field);
	else if (value_is(type, VALUE_IS_NUMBERS))
		uint_list_clear(field);
	else if (type == VALUE_GPUS)
		gpu_picks_clear(field);
	(void)memset(field, 0, types[type].size);
}

static void *duplicate(const void *from, size_t n, size_t size)
{
	return from ? memcpy(xrealloc(NULL, n ? n : 1, size), from, n * size) : NULL;
}

void value_copy_field(enum value_type type, void *to, const void *from)
{
	const struct uint_list *nums = from;
	const struct gpu_picks *gpus = from;

	(void)memcpy(to, from, types[type].size);
	if (value_is(type, VALUE_IS_TEXT) && *(char *const *)from)
		*(char **)to = xstrdup(*(char *const *)from);
	if (value_is(type, VALUE_IS_TEXTS))
		*(struct text_list *)to = text_list_copy(from);
	if (value_is(type, VALUE_IS_NUMBERS))
		((struct uint_list *)to)->nums =
			duplicate(nums->nums, nums->n, sizeof(*nums->nums));
	if (type == VALUE_GPUS)
		((struct gpu_picks *)to)->picks =
			duplicate(gpus->picks, gpus->n, sizeof(*gpus->picks));
}

const char *value_hint(enum value_type type)
{
	return types[type].hint;
}

const char *value_key_hint(const struct value_spec *spec, char *buf)
{
	if (spec->type == VALUE_SIZE && spec->word)
		return str_print(buf, VALUE_KEY_HINT_MAX, "bytes, 20G or %s", spec->word);
	return str_print(buf, VALUE_KEY_HINT_MAX, types[spec->type].key_hint, spec->word);
}

bool value_takes_word(enum value_type type, const char *word)
{
	uint64_t num;

	switch (type) {
	case VALUE_GPUS:
		return unit_is_gpu_word(word);
	case VALUE_UINTS:
		return str_to_u64(word, &num) == 0;
	default:
		return false;
	}
}
