/* SPDX-License-Identifier: MIT */
#include "spool/speckind.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/signame.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "spool/elements.h"

#define DATE_MIN_S 1000000000ULL /* 2001: a time of day alone lies before it */

/* ---- reading ----------------------------------------------------------------------------------
 */

static int wrong(struct err *e, const char *wanted)
{
	return err_set(e, -EINVAL, "must be %s", wanted);
}

/* As a person writes it. */
static const char *format_number(const struct spec_row *row, uint64_t v, char buf[UNIT_TEXT_MAX])
{
	if (row->kind == KIND_DURATION)
		return unit_format_duration_exact(v, buf);
	if (row->kind == KIND_FACTOR)
		return str_print(buf, UNIT_TEXT_MAX, "%g", (double)v / 1000);
	return str_print(buf, UNIT_TEXT_MAX, "%" PRIu64, v);
}

static int in_range(const struct spec_row *row, uint64_t v, struct err *e)
{
	char text[UNIT_TEXT_MAX], min[UNIT_TEXT_MAX], max[UNIT_TEXT_MAX];

	if (v >= row->min && (!row->max || v <= row->max))
		return 0;
	(void)format_number(row, v, text);
	(void)format_number(row, row->min, min);
	if (!row->max)
		return err_set(e, -ERANGE, "%s is less than %s", text, min);
	return err_set(e, -ERANGE, "%s is out of range, %s to %s", text, min,
		       format_number(row, row->max, max));
}

static int get_flag(const struct spec_row *row, const json_t *v, void *field, struct err *e)
{
	if (!json_is_boolean(v))
		return wrong(e, "true or false");
	*(bool *)field = json_is_true(v);
	return 0;
}

static int get_whole(const struct spec_row *row, const json_t *v, void *field, const char *wanted,
		     struct err *e)
{
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return wrong(e, wanted);

	uint64_t num = (uint64_t)json_integer_value(v);
	int r = in_range(row, num, e);

	if (r == 0)
		*(uint64_t *)field = num;
	return r;
}

static int get_uint(const struct spec_row *row, const json_t *v, void *field, struct err *e)
{
	return get_whole(row, v, field, "a whole number", e);
}

static int get_word_or_whole(const struct spec_row *row, const json_t *v, const char *word,
			     uint64_t meaning, const char *wanted, void *field, struct err *e)
{
	if (json_is_string(v) && strcmp(json_string_value(v), word) == 0) {
		*(uint64_t *)field = meaning;
		return 0;
	}
	return get_whole(row, v, field, wanted, e);
}

static int get_gpus(const struct spec_row *row, const json_t *v, void *field, struct err *e)
{
	return get_word_or_whole(row, v, "all", SPEC_ALL, "a whole number or all", field, e);
}

static int get_count(const struct spec_row *row, const json_t *v, void *field, struct err *e)
{
	return get_word_or_whole(row, v, "forever", SPEC_FOREVER, "a whole number or forever",
				 field, e);
}

static int get_size(const struct spec_row *row, const json_t *v, void *field, struct err *e)
{
	if (json_is_string(v))
		return unit_parse_size(json_string_value(v), field, e);
	return get_whole(row, v, field, "bytes, or a text like \"20G\"", e);
}

/* Seconds or permille, from a number with a fraction. */
static int get_scaled(const struct spec_row *row, const json_t *v, double scale, const char *wanted,
		      void *field, struct err *e)
{
	double num = json_is_number(v) ? json_number_value(v) * scale : -1;

	if (!(num >= 0) || num > 9e18)
		return wrong(e, wanted);

	uint64_t whole = (uint64_t)llround(num);
	int r = in_range(row, whole, e);

	if (r == 0)
		*(uint64_t *)field = whole;
	return r;
}

static int get_duration(const struct spec_row *row, const json_t *v, void *field, struct err *e)
{
	uint64_t ms;

	if (!json_is_string(v))
		return get_scaled(row, v, MS_PER_S, "seconds, or a text like \"10m\"", field, e);

	int r = unit_parse_duration(json_string_value(v), &ms, e);

	if (r == 0)
		r = in_range(row, ms, e);
	if (r == 0)
		*(uint64_t *)field = ms;
	return r;
}

/* A moment that has passed since it was written down is no mistake; one before DATE_MIN_S is. */
static int get_time(const struct spec_row *row, const json_t *v, void *field, struct err *e)
{
	const char *text = json_string_value(v);
	uint64_t ns = 0;
	int r = text ? unit_parse_time(text, 0, &ns, e)
		     : get_scaled(row, v, (double)NS_PER_S,
				  "a time like \"2026-11-22T08:00:00+01:00\"", &ns, e);

	if (r == 0 && ns < DATE_MIN_S * NS_PER_S && (text || ns))
		r = text ? err_set(e, -EINVAL, "\"%.80s\" has no date", text)
			 : err_set(e, -EINVAL,
				   "a number is seconds since 1970, and this one before 2001");
	if (r == 0)
		*(uint64_t *)field = ns;
	return r;
}

static int get_factor(const struct spec_row *row, const json_t *v, void *field, struct err *e)
{
	return get_scaled(row, v, 1000, "a number like 1.5", field, e);
}

/* A text, because a number that begins with 0 is none in JSON, and means another one without it. */
static int get_mode(const struct spec_row *row, const json_t *v, void *field, struct err *e)
{
	const char *text = json_string_value(v);
	unsigned long mode = text ? strtoul(text, NULL, 8) : 0;

	if (!text || !text[0] || text[strspn(text, "01234567")] || mode > row->max)
		return wrong(e, "a text of octal digits, as \"022\"");
	*(uint64_t *)field = mode;
	return 0;
}

static int get_choice(const struct spec_row *row, const json_t *v, void *field, struct err *e)
{
	cleanup_strbuf struct strbuf known = STRBUF_INIT;

	for (size_t i = 0; row->choices[i]; i++) {
		if (json_is_string(v) && strcmp(json_string_value(v), row->choices[i]) == 0) {
			*(uint64_t *)field = i;
			return 0;
		}
		strbuf_addf(&known, "%s%s", i ? ", " : "one of ", row->choices[i]);
	}
	return wrong(e, strbuf_str(&known));
}

json_t *spec_json_of_bytes(const char *bytes)
{
	json_t *text = json_string(bytes);

	if (text)
		return text;

	cleanup_free char *coded = str_to_base64(bytes);

	return json_pack("{s:s}", "base64", coded);
}

/* The caller frees it; NULL: it is neither. */
static char *bytes_of_json(const json_t *v)
{
	const char *coded = json_string_value(json_object_get(v, "base64"));

	if (json_is_string(v))
		return xstrdup(json_string_value(v));
	return coded && json_object_size(v) == 1 ? str_from_base64(coded) : NULL;
}

static int too_long(uint64_t max, struct err *e)
{
	char text[UNIT_TEXT_MAX];

	return err_set(e, -ERANGE, "longer than %s", unit_format_size_exact(max, text));
}

static int get_string(const struct spec_row *row, const json_t *v, void *field, struct err *e)
{
	size_t max = row->max ? (size_t)row->max : SPEC_TEXT_MAX;

	if (!json_is_string(v))
		return wrong(e, "a text");
	if (json_string_length(v) > max)
		return too_long(max, e);
	free(*(char **)field);
	*(char **)field = xstrdup(json_string_value(v));
	return 0;
}

static int get_name(const struct spec_row *row, const json_t *v, void *field, struct err *e)
{
	if (!json_is_string(v) || !spec_is_task_name(json_string_value(v)))
		return err_set(
			e, -EINVAL,
			"\"%.80s\" is not a name; use up to %d bytes of letters, digits and . "
			"_ + - and begin with a letter, a digit, _ or +",
			json_is_string(v) ? json_string_value(v) : "?", SPEC_NAME_MAX);
	return get_string(row, v, field, e);
}

/* Kept by its name, however it was written. */
static int get_signal(const struct spec_row *row, const json_t *v, void *field, struct err *e)
{
	char number[24];
	int signum;

	(void)str_print(number, sizeof(number), "%lld", (long long)json_integer_value(v));
	if (!json_is_string(v) && !json_is_integer(v))
		return wrong(e, "the name of a signal, or its number");
	signum = signal_parse(json_is_string(v) ? json_string_value(v) : number, e);
	if (signum < 0)
		return signum;
	free(*(char **)field);
	*(char **)field = xstrdup(signal_name(signum));
	return 0;
}

static int get_path(const struct spec_row *row, const json_t *v, void *field, struct err *e)
{
	cleanup_free char *path = bytes_of_json(v);

	if (!path)
		return wrong(e, "a text, or {\"base64\":\"..\"}");
	if (path[0] != '/')
		return err_set(e, -EINVAL, "\"%.80s\" is not an absolute path", path);
	if (strlen(path) > row->max)
		return too_long(row->max, e);
	free(*(char **)field);
	*(char **)field = take_ptr(path);
	return 0;
}

/* Of a list: 0, or why it cannot be one. */
static int check_list(const struct spec_row *row, const json_t *v, size_t max, struct err *e)
{
	if (!json_is_array(v))
		return wrong(e, "a list");
	if (json_array_size(v) > max)
		return err_set(e, -ERANGE, "more than %zu entries", max);
	return 0;
}

static int get_texts(const struct spec_row *row, const json_t *v, void *field, struct err *e)
{
	struct text_list list = { .n = 0 };
	int r = check_list(row, v, (size_t)row->max, e);

	for (size_t i = 0; r == 0 && i < json_array_size(v); i++) {
		const json_t *one = json_array_get(v, i);

		if (!json_is_string(one))
			r = err_set(e, -EINVAL, "entry %zu must be a text", i + 1);
		else if (json_string_length(one) > SPEC_TEXT_MAX)
			r = err_set(e, -ERANGE, "entry %zu is longer than %lu bytes", i + 1,
				    SPEC_TEXT_MAX);
		else
			text_list_add(&list, json_string_value(one));
	}
	if (r < 0) {
		text_list_clear(&list);
		return r;
	}
	text_list_clear(field);
	*(struct text_list *)field = list;
	return 0;
}

static int get_bytes(const struct spec_row *row, const json_t *v, void *field, struct err *e)
{
	struct text_list list = { .n = 0 };
	int r = check_list(row, v, (size_t)row->max, e);

	for (size_t i = 0; r == 0 && i < json_array_size(v); i++) {
		cleanup_free char *bytes = bytes_of_json(json_array_get(v, i));

		if (!bytes)
			r = err_set(e, -EINVAL, "entry %zu must be a text, or {\"base64\":\"..\"}",
				    i + 1);
		else if (strlen(bytes) > SPEC_TEXT_MAX)
			r = err_set(e, -ERANGE, "entry %zu is longer than %lu bytes", i + 1,
				    SPEC_TEXT_MAX);
		else
			text_list_add(&list, bytes);
	}
	if (r < 0) {
		text_list_clear(&list);
		return r;
	}
	text_list_clear(field);
	*(struct text_list *)field = list;
	return 0;
}

static int get_ids(const struct spec_row *row, const json_t *v, void *field, struct err *e)
{
	struct id_list *out = field;
	int r = check_list(row, v, SPEC_LIST_MAX, e);

	if (r < 0)
		return r;

	cleanup_free uint64_t *ids = xcalloc(json_array_size(v) + 1, sizeof(*ids));

	for (size_t i = 0; i < json_array_size(v); i++) {
		r = get_whole(row, json_array_get(v, i), &ids[i], "the id of a task, a number", e);
		if (r < 0)
			return err_wrap(e, "entry %zu", i + 1);
	}
	free(out->ids);
	*out = (struct id_list){ .n = json_array_size(v), .ids = take_ptr(ids) };
	return 0;
}

static int get_array(const struct spec_row *row, const json_t *v, void *field, struct err *e)
{
	if (!json_is_string(v))
		return wrong(e, "a text like \"1-100%4\"");
	return array_parse(json_string_value(v), field, e);
}

/* ---- writing: NULL when it is the default -----------------------------------------------------
 */

static json_t *put_flag(const struct spec_row *row, const void *field)
{
	return *(const bool *)field ? json_true() : NULL;
}

static json_t *put_uint(const struct spec_row *row, const void *field)
{
	uint64_t v = *(const uint64_t *)field;

	return v == row->def ? NULL : json_integer((json_int_t)v);
}

static json_t *put_gpus(const struct spec_row *row, const void *field)
{
	return *(const uint64_t *)field == SPEC_ALL ? json_string("all") : put_uint(row, field);
}

static json_t *put_count(const struct spec_row *row, const void *field)
{
	return *(const uint64_t *)field == SPEC_FOREVER ? json_string("forever")
							: put_uint(row, field);
}

static json_t *put_size(const struct spec_row *row, const void *field)
{
	char text[UNIT_TEXT_MAX];
	uint64_t v = *(const uint64_t *)field;

	return v == row->def ? NULL : json_string(unit_format_size_exact(v, text));
}

static json_t *put_duration(const struct spec_row *row, const void *field)
{
	char text[UNIT_TEXT_MAX];
	uint64_t v = *(const uint64_t *)field;

	return v == row->def ? NULL : json_string(unit_format_duration_exact(v, text));
}

static json_t *put_time(const struct spec_row *row, const void *field)
{
	char text[CLOCK_TEXT_MAX];
	uint64_t v = *(const uint64_t *)field;

	return v == row->def ? NULL : json_string(clock_format_iso(v, text));
}

static json_t *put_factor(const struct spec_row *row, const void *field)
{
	uint64_t v = *(const uint64_t *)field;

	return v == row->def ? NULL : json_real((double)v / 1000);
}

static json_t *put_mode(const struct spec_row *row, const void *field)
{
	uint64_t v = *(const uint64_t *)field;
	char text[8];

	return v == row->def ? NULL
			     : json_string(str_print(text, sizeof(text), "%03o", (unsigned int)v));
}

static json_t *put_choice(const struct spec_row *row, const void *field)
{
	uint64_t v = *(const uint64_t *)field;

	return v == row->def ? NULL : json_string(row->choices[v]);
}

static json_t *put_string(const struct spec_row *row, const void *field)
{
	const char *text = *(char *const *)field;

	return text ? json_string(text) : NULL;
}

static json_t *put_texts(const struct spec_row *row, const void *field)
{
	const struct text_list *l = field;
	json_t *list = l->n ? json_array() : NULL;

	for (size_t i = 0; i < l->n; i++)
		if (json_array_append_new(list, json_string(l->texts[i])) < 0) {
			json_decref(list);
			return json_null(); /* not UTF-8: spec_text() finds it */
		}
	return list;
}

static json_t *put_path(const struct spec_row *row, const void *field)
{
	const char *path = *(char *const *)field;

	return path ? spec_json_of_bytes(path) : NULL;
}

static json_t *put_bytes(const struct spec_row *row, const void *field)
{
	const struct text_list *l = field;
	json_t *list = l->n ? json_array() : NULL;

	for (size_t i = 0; i < l->n; i++)
		(void)json_array_append_new(list, spec_json_of_bytes(l->texts[i]));
	return list;
}

static json_t *put_ids(const struct spec_row *row, const void *field)
{
	const struct id_list *l = field;
	json_t *list = l->n ? json_array() : NULL;

	for (size_t i = 0; i < l->n; i++)
		(void)json_array_append_new(list, json_integer((json_int_t)l->ids[i]));
	return list;
}

static json_t *put_array(const struct spec_row *row, const void *field)
{
	const struct task_array *a = field;
	char text[ARRAY_TEXT_MAX];

	return a->set ? json_string(array_format(a, text)) : NULL;
}

/* ---- a person's text --------------------------------------------------------------------------
 */

static json_t *text_flag(const char *text)
{
	static const char *const no[] = { "false", "no", "off", "0" };
	static const char *const yes[] = { "true", "yes", "on", "1", "" };

	for (size_t i = 0; i < ARRAY_LEN(no); i++)
		if (strcmp(text, no[i]) == 0)
			return json_false();
	for (size_t i = 0; i < ARRAY_LEN(yes); i++)
		if (strcmp(text, yes[i]) == 0)
			return json_true();
	return json_string(text);
}

static json_t *text_number(const char *text)
{
	uint64_t v;
	char *end;
	double real;

	if (str_to_u64(text, &v) == 0 && v <= INT64_MAX)
		return json_integer((json_int_t)v);
	real = strtod(text[0] == 'x' ? text + 1 : text, &end); /* x1.5 */
	/* nan and inf are none in JSON, and no key takes them */
	return end != text && !*end && isfinite(real) ? json_real(real) : json_string(text);
}

/* Between two there is a comma, blanks, or both; where there is nothing between two commas an id is
 * missing. */
static json_t *text_ids(const char *text)
{
	json_t *list = json_array();
	const char *p = text + strspn(text, " ");

	for (bool more = true; more;) {
		size_t n = strcspn(p, ", ");
		cleanup_free char *word = xasprintf("%.*s", (int)n, p);

		(void)json_array_append_new(list, text_number(word));
		p += n + strspn(p + n, " ");
		more = *p;
		if (*p == ',')
			p += 1 + strspn(p + 1, " ");
	}
	return list;
}

static void clear_string(void *field)
{
	free(*(char **)field);
	*(char **)field = NULL;
}

static void clear_texts(void *field)
{
	text_list_clear(field);
}

static void clear_ids(void *field)
{
	struct id_list *l = field;

	free(l->ids);
	*l = (struct id_list){ .n = 0 };
}

const struct spec_kind_ops spec_kinds[] = {
	[KIND_FLAG] = { "true or false", get_flag, put_flag, text_flag },
	[KIND_UINT] = { "whole number", get_uint, put_uint, text_number },
	[KIND_GPUS] = { "whole number or all", get_gpus, put_gpus, text_number },
	[KIND_COUNT] = { "whole number or forever", get_count, put_count, text_number },
	[KIND_SIZE] = { "bytes or 20G", get_size, put_size },
	[KIND_DURATION] = { "seconds or 10m", get_duration, put_duration },
	[KIND_TIME] = { "time", get_time, put_time },
	[KIND_FACTOR] = { "number", get_factor, put_factor, text_number },
	[KIND_MODE] = { "octal digits", get_mode, put_mode },
	[KIND_CHOICE] = { "word", get_choice, put_choice },
	[KIND_NAME] = { "name", get_name, put_string, NULL, clear_string },
	[KIND_SIGNAL] = { "signal", get_signal, put_string, NULL, clear_string },
	[KIND_TEXT] = { "text", get_string, put_string, NULL, clear_string },
	[KIND_PATH] = { "absolute path", get_path, put_path, spec_json_of_bytes, clear_string },
	[KIND_TEXTS] = { "list of texts", get_texts, put_texts, NULL, clear_texts },
	[KIND_BYTES] = { "list of texts", get_bytes, put_bytes, NULL, clear_texts },
	[KIND_IDS] = { "list of ids", get_ids, put_ids, text_ids, clear_ids },
	[KIND_ARRAY] = { "FROM-TO%N", get_array, put_array },
};
_Static_assert(ARRAY_LEN(spec_kinds) == KIND_MAX, "every kind of key has a row");
