/* SPDX-License-Identifier: MIT */
#include "base/value_json.h"

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
#include "base/textlist.h"
#include "base/units.h"
#include "base/utf8.h"
#include "base/value_text.h"

/* ---- a person's text as what a file would say ---- */

static json_t *json_of_flag(const char *text)
{
	for (size_t i = 0; i < VALUE_FLAG_WORDS; i++) {
		if (strcmp(text, value_no[i]) == 0)
			return json_false();
		if (strcmp(text, value_yes[i]) == 0 || !*text)
			return json_true();
	}
	return json_string(text);
}

static json_t *json_of_number(const char *text)
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

#define IDS_STOP ", \x1e"
_Static_assert(VALUE_SEPARATOR == '\x1e', "it stands between ids, too");

/* Between two there is a comma, blanks, or both; where there is nothing between two commas an id is
 * missing. */
static json_t *json_of_ids(const char *text)
{
	json_t *list = json_array();
	const char *p = text + strspn(text, " ");

	for (bool more = true; more;) {
		size_t n = strcspn(p, IDS_STOP);
		cleanup_free char *word = xasprintf("%.*s", (int)n, p);
		json_t *id = json_of_number(word);

		(void)json_array_append_new(list, id ? id : json_null());
		p += n + strspn(p + n, " ");
		more = *p;
		if (*p == ',' || *p == VALUE_SEPARATOR)
			p += 1 + strspn(p + 1, " ");
	}
	return list;
}

/* A text that a system call takes may have any bytes but NUL; where they are not UTF-8 it is
 * {"base64":".."}. */
static json_t *json_of_bytes(const char *bytes)
{
	json_t *text = json_string(bytes);

	if (text)
		return text;

	cleanup_free char *coded = str_to_base64(bytes);

	return json_pack("{s:s}", "base64", coded);
}

/* A list of one. */
static json_t *json_of_texts(const char *text)
{
	json_t *one = json_string(text);

	return one ? json_pack("[o]", one) : NULL;
}

static json_t *json_of_byte_list(const char *text)
{
	return json_pack("[o]", json_of_bytes(text));
}

/* ---- reading ---- */

static int must_be(struct err *e, const char *wanted)
{
	return err_set(e, -EINVAL, "must be %s", wanted);
}

static int too_long(uint64_t max, struct err *e)
{
	char text[UNIT_TEXT_MAX];

	return err_set(e, -ERANGE, "longer than %s", unit_format_size_exact(max, text));
}

static int flag_from_json(const struct value_spec *spec, const json_t *v, void *field,
			  struct err *e)
{
	if (!json_is_boolean(v))
		return must_be(e, "true or false");
	*(bool *)field = json_is_true(v);
	return 0;
}

static int whole_from_json(const json_t *v, const char *wanted, uint64_t *ret, struct err *e)
{
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return must_be(e, wanted);
	*ret = (uint64_t)json_integer_value(v);
	return 0;
}

static int uint_from_json(const struct value_spec *spec, const json_t *v, void *field,
			  struct err *e)
{
	return whole_from_json(v, "a whole number", field, e);
}

static int count_from_json(const struct value_spec *spec, const json_t *v, void *field,
			   struct err *e)
{
	cleanup_free char *wanted = xasprintf("a whole number or %s", spec->word);

	if (!json_is_string(v) || strcmp(json_string_value(v), spec->word) != 0)
		return whole_from_json(v, wanted, field, e);
	*(uint64_t *)field = VALUE_WORD;
	return 0;
}

static int size_from_json(const struct value_spec *spec, const json_t *v, void *field,
			  struct err *e)
{
	if (json_is_string(v))
		return value_texts[VALUE_SIZE].read(spec, json_string_value(v), field, e);
	return whole_from_json(v, "bytes, or a text like \"20G\"", field, e);
}

/* From a number with a fraction. */
static int scaled_from_json(const json_t *v, double scale, const char *wanted, uint64_t *ret,
			    struct err *e)
{
	double num = json_is_number(v) ? json_number_value(v) * scale : -1;

	if (!(num >= 0) || num > 9e18)
		return must_be(e, wanted);
	*ret = (uint64_t)llround(num);
	return 0;
}

static int duration_from_json(const struct value_spec *spec, const json_t *v, void *field,
			      struct err *e)
{
	if (json_is_string(v))
		return unit_parse_duration(json_string_value(v), field, e);
	return scaled_from_json(v, MS_PER_S, "seconds, or a text like \"10m\"", field, e);
}

static int percent_from_json(const struct value_spec *spec, const json_t *v, void *field,
			     struct err *e)
{
	unsigned int permille = 0;
	int r;

	if (!json_is_string(v))
		return scaled_from_json(v, 10, "per cent, or a text like \"75%\"", field, e);
	r = unit_parse_percent(json_string_value(v), &permille, e);
	*(uint64_t *)field = permille;
	return r;
}

static int factor_from_json(const struct value_spec *spec, const json_t *v, void *field,
			    struct err *e)
{
	return scaled_from_json(v, 1000, "a number like 1.5", field, e);
}

/* A moment that has passed since it was written down is no mistake; one without a date is. */
static int time_from_json(const struct value_spec *spec, const json_t *v, void *field,
			  struct err *e)
{
	const char *text = json_string_value(v);
	uint64_t *ns = field;
	int r = text ? unit_parse_time(text, 0, ns, e)
		     : scaled_from_json(v, (double)NS_PER_S,
					"a time like \"2026-11-22T08:00:00+01:00\"", ns, e);

	if (r < 0 || unit_time_is_dated(*ns) || (!text && !*ns))
		return r;
	return text ? err_set(e, -EINVAL, "\"%.80s\" has no date", text)
		    : err_set(e, -EINVAL,
			      "a number is seconds since 1970, and this one before 2001");
}

/* A text, because a number that begins with 0 is none in JSON, and means another one without it. */
static int octal_from_json(const struct value_spec *spec, const json_t *v, void *field,
			   struct err *e)
{
	const char *text = json_string_value(v);
	unsigned long mode = text ? strtoul(text, NULL, 8) : 0;

	if (!text || !text[0] || text[strspn(text, "01234567")] || mode > spec->max)
		return must_be(e, "a text of octal digits, as \"022\"");
	*(uint64_t *)field = mode;
	return 0;
}

static int choice_from_json(const struct value_spec *spec, const json_t *v, void *field,
			    struct err *e)
{
	cleanup_strbuf struct strbuf known = STRBUF_INIT;

	for (size_t i = 0; spec->choices[i]; i++) {
		if (json_is_string(v) && strcmp(json_string_value(v), spec->choices[i]) == 0) {
			*(uint64_t *)field = i;
			return 0;
		}
		strbuf_addf(&known, "%s%s", i ? ", " : "one of ", spec->choices[i]);
	}
	return must_be(e, strbuf_str(&known));
}

static int range_from_json(const struct value_spec *spec, const json_t *v, void *field,
			   struct err *e)
{
	if (!json_is_string(v))
		return must_be(e, "a text like \"1-100%4\"");
	return unit_parse_range(json_string_value(v), spec->max, field, e);
}

static int text_from_json(const struct value_spec *spec, const json_t *v, void *field,
			  struct err *e)
{
	uint64_t max = spec->max ? spec->max : VALUE_TEXT_MAX;

	if (!json_is_string(v))
		return must_be(e, "a text");
	if (json_string_length(v) > max)
		return too_long(max, e);
	*(char **)field = xstrdup(json_string_value(v));
	return 0;
}

static int task_name_from_json(const struct value_spec *spec, const json_t *v, void *field,
			       struct err *e)
{
	const char *text = json_is_string(v) ? json_string_value(v) : "?";

	if (!json_is_string(v) || !utf8_is_name(text, spec->max))
		return err_set(
			e, -EINVAL,
			"\"%.80s\" is not a name; use up to %d bytes of letters, digits and . _ + - and begin with a "
			"letter, a digit, _ or +",
			text, (int)spec->max);
	*(char **)field = xstrdup(text);
	return 0;
}

static int signal_from_json(const struct value_spec *spec, const json_t *v, void *field,
			    struct err *e)
{
	char number[24];
	int signum;

	(void)str_print(number, sizeof(number), "%lld", (long long)json_integer_value(v));
	if (!json_is_string(v) && !json_is_integer(v))
		return must_be(e, "the name of a signal, or its number");
	signum = signal_parse(json_is_string(v) ? json_string_value(v) : number, e);
	if (signum < 0)
		return signum;
	*(char **)field = xstrdup(signal_name(signum));
	return 0;
}

/* The caller frees it; NULL: it is neither a text nor {"base64":".."}. */
static char *bytes_of_json(const json_t *v)
{
	const char *coded = json_string_value(json_object_get(v, "base64"));

	if (json_is_string(v))
		return xstrdup(json_string_value(v));
	return coded && json_object_size(v) == 1 ? str_from_base64(coded) : NULL;
}

static int bytes_path_from_json(const struct value_spec *spec, const json_t *v, void *field,
				struct err *e)
{
	cleanup_free char *path = bytes_of_json(v);

	if (!path)
		return must_be(e, "a text, or {\"base64\":\"..\"}");
	if (path[0] != '/')
		return err_set(e, -EINVAL, "\"%.80s\" is not an absolute path", path);
	if (strlen(path) > spec->max)
		return too_long(spec->max, e);
	*(char **)field = take_ptr(path);
	return 0;
}

static int check_list(const json_t *v, uint64_t max, struct err *e)
{
	if (!json_is_array(v))
		return must_be(e, "a list");
	if (json_array_size(v) > max)
		return err_set(e, -ERANGE, "more than %" PRIu64 " entries", max);
	return 0;
}

/* Texts, or what system calls take. */
static int list_from_json(const struct value_spec *spec, const json_t *v, void *field,
			  struct err *e)
{
	bool bytes = spec->type == VALUE_BYTES;
	int r = check_list(v, spec->max, e);

	for (size_t i = 0; r == 0 && i < json_array_size(v); i++) {
		const json_t *entry = json_array_get(v, i);
		cleanup_free char *text =
			bytes || json_is_string(entry) ? bytes_of_json(entry) : NULL;

		if (!text)
			r = err_set(e, -EINVAL, "entry %zu must be a text%s", i + 1,
				    bytes ? ", or {\"base64\":\"..\"}" : "");
		else if (strlen(text) > VALUE_TEXT_MAX)
			r = err_set(e, -ERANGE, "entry %zu is longer than %lu bytes", i + 1,
				    VALUE_TEXT_MAX);
		else
			text_list_take(field, take_ptr(text));
	}
	return r;
}

static int ids_from_json(const struct value_spec *spec, const json_t *v, void *field, struct err *e)
{
	struct uint_list *l = field;
	int r = check_list(v, VALUE_LIST_MAX, e);

	for (size_t i = 0; r == 0 && i < json_array_size(v); i++) {
		const char *text = json_string_value(json_array_get(v, i));

		l->nums = xgrow(l->nums, i, sizeof(*l->nums));
		l->n = i + 1;
		if (spec->word && text && strcmp(text, spec->word) == 0) {
			l->nums[i] = VALUE_WORD;
			continue;
		}
		r = whole_from_json(json_array_get(v, i),
				    spec->word ? "the id of a task, a number, or last"
					       : "the id of a task, a number",
				    &l->nums[i], e);
		if (r == 0 && l->nums[i] < spec->min)
			r = err_set(e, -ERANGE, "%" PRIu64 " is less than %" PRIu64, l->nums[i],
				    spec->min);
		if (r < 0)
			(void)err_wrap(e, "entry %zu", i + 1);
	}
	return r;
}

/* ---- writing ---- */

static json_t *flag_to_json(const struct value_spec *spec, const void *field)
{
	return json_boolean(*(const bool *)field);
}

static json_t *num_to_json(const struct value_spec *spec, const void *field)
{
	return json_integer((json_int_t) * (const uint64_t *)field);
}

static json_t *count_to_json(const struct value_spec *spec, const void *field)
{
	return *(const uint64_t *)field == VALUE_WORD ? json_string(spec->word)
						      : num_to_json(spec, field);
}

static json_t *size_to_json(const struct value_spec *spec, const void *field)
{
	return spec->word ? count_to_json(spec, field) : num_to_json(spec, field);
}

/* Of milliseconds seconds, of permille factors. */
static json_t *thousandth_to_json(const struct value_spec *spec, const void *field)
{
	return json_real((double)*(const uint64_t *)field / 1000);
}

static json_t *percent_to_json(const struct value_spec *spec, const void *field)
{
	return json_real((double)*(const uint64_t *)field / 10.0);
}

static json_t *band_to_json(const struct value_spec *spec, const void *field)
{
	const struct util_band *band = field;

	return json_pack("[i,i,i]", (int)band->low, (int)band->floor, (int)band->ceiling);
}

static json_t *bytes_to_json(const struct value_spec *spec, const void *field)
{
	const char *text = *(char *const *)field;

	return json_of_bytes(text ? text : "");
}

static json_t *list_to_json(const struct value_spec *spec, const void *field)
{
	const struct text_list *l = field;
	json_t *array = json_array();

	for (size_t i = 0; i < l->n; i++) {
		json_t *text = spec->type == VALUE_BYTES ? json_of_bytes(l->texts[i])
							 : json_string(l->texts[i]);

		if (json_array_append_new(array, text) < 0) {
			json_decref(array);
			return json_null();
		}
	}
	return array;
}

static json_t *uints_to_json(const struct value_spec *spec, const void *field)
{
	const struct uint_list *l = field;
	json_t *array = json_array();

	for (size_t i = 0; i < l->n; i++)
		(void)json_array_append_new(array, json_integer((json_int_t)l->nums[i]));
	return array;
}

static json_t *ids_to_json(const struct value_spec *spec, const void *field)
{
	const struct uint_list *l = field;
	json_t *array = json_array();

	for (size_t i = 0; i < l->n; i++)
		(void)json_array_append_new(array, spec->word && l->nums[i] == VALUE_WORD
							   ? json_string(spec->word)
							   : json_integer((json_int_t)l->nums[i]));
	return array;
}

/* ---- the table ---- */

const struct value_json value_jsons[VALUE_TYPE_MAX] = {
	[VALUE_FLAG] = { flag_from_json, json_of_flag, flag_to_json },
	[VALUE_UINT] = { uint_from_json, json_of_number, num_to_json },
	[VALUE_COUNT] = { count_from_json, json_of_number, count_to_json },
	[VALUE_SIZE] = { size_from_json, NULL, size_to_json },
	[VALUE_DURATION] = { duration_from_json, NULL, thousandth_to_json },
	[VALUE_PERCENT] = { percent_from_json, NULL, percent_to_json },
	[VALUE_FACTOR] = { factor_from_json, json_of_number, thousandth_to_json },
	[VALUE_OCTAL] = { octal_from_json, NULL, NULL },
	[VALUE_TIME] = { time_from_json, NULL, NULL },
	[VALUE_CHOICE] = { choice_from_json, NULL, NULL },
	[VALUE_BAND] = { NULL, NULL, band_to_json },
	[VALUE_RANGE] = { range_from_json, NULL, NULL },
	[VALUE_TEXT] = { text_from_json, NULL, NULL },
	[VALUE_BYTES_PATH] = { bytes_path_from_json, json_of_bytes, bytes_to_json },
	[VALUE_TASK_NAME] = { task_name_from_json, NULL, NULL },
	[VALUE_SIGNAL] = { signal_from_json, NULL, NULL },
	[VALUE_WORDS] = { NULL, NULL, list_to_json },
	[VALUE_TEXTS] = { list_from_json, json_of_texts, list_to_json },
	[VALUE_BYTES] = { list_from_json, json_of_byte_list, list_to_json },
	[VALUE_UINTS] = { NULL, NULL, uints_to_json },
	[VALUE_IDS] = { ids_from_json, json_of_ids, ids_to_json },
};
