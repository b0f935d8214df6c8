/* SPDX-License-Identifier: MIT */

/*
 * The table of types is at the end; above it stand, for each type, what reads and what writes it. A
 * reader gets an empty field and may leave it half filled on an error: value_parse() and
 * value_from_json() read into a value of their own, check its range, and only then take the place
 * of what was there.
 *
 * A person's text and a file's JSON differ on purpose. An option's "yes" is a flag and so is a
 * key's "", a file has true; a person's time is to come, a file's may have passed; a file says 20G
 * or bytes, a person always a unit.
 */

#include "base/value.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/enumstr.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/signame.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/utf8.h"

#define SEPARATORS ", \t"	 /* of VALUE_WORDS and VALUE_UINTS */
#define WORDS_MAX  4096		 /* entries of those */
#define DATE_MIN_S 1000000000ULL /* 2001: a time of day alone lies before it */

static const char *const yes[] = { "true", "yes", "on", "1" };
static const char *const no[] = { "false", "no", "off", "0" };

/* ---- from a person's text ---- */

static int flag_from_text(const struct value_spec *spec, const char *text, void *field,
			  struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
		if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0) {
			*(bool *)field = strcasecmp(text, yes[i]) == 0;
			return 0;
		}
	}
	return err_set(e, -EINVAL, "\"%s\" is neither true nor false", text);
}

static int uint_from_text(const struct value_spec *spec, const char *text, void *field,
			  struct err *e)
{
	if (str_to_u64(text, field) < 0)
		return err_set(e, -EINVAL, "\"%s\" is not a whole number", text);
	return 0;
}

static int size_from_text(const struct value_spec *spec, const char *text, void *field,
			  struct err *e)
{
	return unit_parse_size(text, field, e);
}

static int duration_from_text(const struct value_spec *spec, const char *text, void *field,
			      struct err *e)
{
	return unit_parse_duration(text, field, e);
}

static int percent_from_text(const struct value_spec *spec, const char *text, void *field,
			     struct err *e)
{
	unsigned int permille = 0;
	int r = unit_parse_percent(text, &permille, e);

	*(uint64_t *)field = permille;
	return r;
}

static int time_from_text(const struct value_spec *spec, const char *text, void *field,
			  struct err *e)
{
	return unit_parse_time(text, clock_wall_ns(), field, e);
}

static int choice_from_text(const struct value_spec *spec, const char *text, void *field,
			    struct err *e)
{
	unsigned int i = 0;
	size_t n = 0;

	while (spec->choices[n])
		n++;

	int r = enum_parse(spec->choices, n, text, &i, e);

	*(uint64_t *)field = i;
	return r;
}

static int mem_from_text(const struct value_spec *spec, const char *text, void *field,
			 struct err *e)
{
	return unit_parse_mem(text, field, e);
}

static int band_from_text(const struct value_spec *spec, const char *text, void *field,
			  struct err *e)
{
	return unit_parse_band(text, field, e);
}

static int gpus_from_text(const struct value_spec *spec, const char *text, void *field,
			  struct err *e)
{
	return unit_parse_gpus(text, field, e);
}

static int no_controls(const char *text, struct err *e)
{
	for (const char *p = text; *p; p++) {
		if (iscntrl((unsigned char)*p))
			return err_set(e, -EINVAL, "the text has a control character in it");
	}
	return 0;
}

static int string_from_text(const struct value_spec *spec, const char *text, void *field,
			    struct err *e)
{
	int r = no_controls(text, e);

	if (r == 0)
		*(char **)field = xstrdup(text);
	return r;
}

static int path_from_text(const struct value_spec *spec, const char *text, void *field,
			  struct err *e)
{
	bool in_home = text[0] == '~' && text[1] == '/';
	int r = no_controls(text, e);

	if (r < 0)
		return r;
	if (!in_home && text[0] != '/')
		return err_set(e, -EINVAL, "\"%s\" is not an absolute path", text);

	cleanup_free char *home = fs_home_dir();

	*(char **)field = in_home ? xasprintf("%s%s", home, text + 1) : xstrdup(text);
	return 0;
}

static int name_from_text(const struct value_spec *spec, const char *text, void *field,
			  struct err *e)
{
	size_t len = strlen(text);
	bool good = len && len <= VALUE_NAME_MAX && isalnum((unsigned char)text[0]);

	for (size_t i = 0; good && i < len; i++)
		good = isalnum((unsigned char)text[i]) || strchr("-_.", text[i]);
	if (!good)
		return err_set(
			e, -EINVAL,
			"\"%s\" is not a name; use up to %d letters, digits and - _ . and begin with a letter or digit",
			text, VALUE_NAME_MAX);
	*(char **)field = xstrdup(text);
	return 0;
}

/* The next word of a list, cut out of *at; NULL: there is none. */
static char *next_word(char **at)
{
	char *word = *at + strspn(*at, SEPARATORS);

	*at = word + strcspn(word, SEPARATORS);
	if (**at)
		*(*at)++ = '\0';
	return *word ? word : NULL;
}

static int words_from_text(const struct value_spec *spec, const char *text, void *field,
			   struct err *e)
{
	cleanup_free char *copy = xstrdup(text);
	struct text_list *l = field;
	char *at = copy, *word;

	while ((word = next_word(&at))) {
		if (l->n == WORDS_MAX)
			return err_set(e, -ERANGE, "the list has more than %d entries", WORDS_MAX);
		text_list_add(l, word);
	}
	return 0;
}

static int uints_from_text(const struct value_spec *spec, const char *text, void *field,
			   struct err *e)
{
	cleanup_free char *copy = xstrdup(text);
	struct uint_list *l = field;
	char *at = copy, *word;

	while ((word = next_word(&at))) {
		uint64_t num;

		if (l->n == WORDS_MAX)
			return err_set(e, -ERANGE, "the list has more than %d entries", WORDS_MAX);
		if (str_to_u64(word, &num) < 0)
			return err_set(e, -EINVAL, "\"%s\" is not a whole number", word);
		l->nums = xgrow(l->nums, l->n, sizeof(*l->nums));
		l->nums[l->n++] = num;
	}
	return 0;
}

static int texts_from_text(const struct value_spec *spec, const char *text, void *field,
			   struct err *e)
{
	for (const char *p = text;;) {
		const char *stop = strchrnul(p, VALUE_SEPARATOR);

		text_list_take(field, xasprintf("%.*s", (int)(stop - p), p));
		if (!*stop)
			return 0;
		p = stop + 1;
	}
}

/* ---- a person's text as what a file would say ---- */

static json_t *json_of_flag(const char *text)
{
	for (size_t i = 0; i < ARRAY_LEN(no); i++) {
		if (strcmp(text, no[i]) == 0)
			return json_false();
		if (strcmp(text, yes[i]) == 0 || !*text)
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

/* ---- from a file's JSON ---- */

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
		return unit_parse_size(json_string_value(v), field, e);
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

static int factor_from_json(const struct value_spec *spec, const json_t *v, void *field,
			    struct err *e)
{
	return scaled_from_json(v, 1000, "a number like 1.5", field, e);
}

/* A moment that has passed since it was written down is no mistake; one before DATE_MIN_S is. */
static int time_from_json(const struct value_spec *spec, const json_t *v, void *field,
			  struct err *e)
{
	const char *text = json_string_value(v);
	uint64_t *ns = field;
	int r = text ? unit_parse_time(text, 0, ns, e)
		     : scaled_from_json(v, (double)NS_PER_S,
					"a time like \"2026-11-22T08:00:00+01:00\"", ns, e);

	if (r < 0 || *ns >= DATE_MIN_S * NS_PER_S || (!text && !*ns))
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
		l->nums = xgrow(l->nums, i, sizeof(*l->nums));
		r = whole_from_json(json_array_get(v, i), "the id of a task, a number", &l->nums[i],
				    e);
		l->n = i + 1;
		if (r == 0 && l->nums[i] < spec->min)
			r = err_set(e, -ERANGE, "%" PRIu64 " is less than %" PRIu64, l->nums[i],
				    spec->min);
		if (r < 0)
			(void)err_wrap(e, "entry %zu", i + 1);
	}
	return r;
}

/* ---- to text ---- */

static void flag_to_text(const struct value_spec *spec, const void *field, struct strbuf *b)
{
	strbuf_adds(b, *(const bool *)field ? "true" : "false");
}

static void uint_to_text(const struct value_spec *spec, const void *field, struct strbuf *b)
{
	strbuf_addf(b, "%" PRIu64, *(const uint64_t *)field);
}

static void count_to_text(const struct value_spec *spec, const void *field, struct strbuf *b)
{
	if (*(const uint64_t *)field == VALUE_WORD)
		strbuf_adds(b, spec->word);
	else
		uint_to_text(spec, field, b);
}

static void size_to_text(const struct value_spec *spec, const void *field, struct strbuf *b)
{
	char text[UNIT_TEXT_MAX];

	strbuf_adds(b, unit_format_size_exact(*(const uint64_t *)field, text));
}

static void duration_to_text(const struct value_spec *spec, const void *field, struct strbuf *b)
{
	char text[UNIT_TEXT_MAX];

	strbuf_adds(b, unit_format_duration_exact(*(const uint64_t *)field, text));
}

static void percent_to_text(const struct value_spec *spec, const void *field, struct strbuf *b)
{
	char text[UNIT_TEXT_MAX];

	strbuf_adds(b, unit_format_permille((unsigned int)*(const uint64_t *)field, text));
}

static void factor_to_text(const struct value_spec *spec, const void *field, struct strbuf *b)
{
	strbuf_addf(b, "%g", (double)*(const uint64_t *)field / 1000);
}

static void octal_to_text(const struct value_spec *spec, const void *field, struct strbuf *b)
{
	strbuf_addf(b, "%03o", (unsigned int)*(const uint64_t *)field);
}

static void time_to_text(const struct value_spec *spec, const void *field, struct strbuf *b)
{
	char text[CLOCK_TEXT_MAX];

	strbuf_adds(b, clock_format_iso(*(const uint64_t *)field, text));
}

static void choice_to_text(const struct value_spec *spec, const void *field, struct strbuf *b)
{
	strbuf_adds(b, spec->choices[*(const uint64_t *)field]);
}

static void mem_to_text(const struct value_spec *spec, const void *field, struct strbuf *b)
{
	char text[UNIT_TEXT_MAX];

	strbuf_adds(b, unit_format_mem(field, text));
}

static void band_to_text(const struct value_spec *spec, const void *field, struct strbuf *b)
{
	const struct util_band *band = field;

	strbuf_addf(b, "%u,%u,%u", band->low, band->floor, band->ceiling);
}

static void gpus_to_text(const struct value_spec *spec, const void *field, struct strbuf *b)
{
	const struct gpu_picks *gpus = field;

	if (gpus->all)
		strbuf_adds(b, "all");
	for (size_t i = 0; i < gpus->n; i++) {
		const struct gpu_pick *pick = &gpus->picks[i];

		if (i)
			strbuf_adds(b, ",");
		if (pick->by_uuid)
			strbuf_adds(b, pick->uuid);
		else
			strbuf_addf(b, "%u", pick->index);
	}
}

static void range_to_text(const struct value_spec *spec, const void *field, struct strbuf *b)
{
	char text[UNIT_TEXT_MAX];

	strbuf_adds(b, unit_format_range(field, text));
}

static void str_to_text(const struct value_spec *spec, const void *field, struct strbuf *b)
{
	const char *text = *(char *const *)field;

	strbuf_adds(b, text ? text : "");
}

static void words_to_text(const struct value_spec *spec, const void *field, struct strbuf *b)
{
	const struct text_list *l = field;

	for (size_t i = 0; i < l->n; i++) {
		if (i)
			strbuf_addc(b,
				    value_is(spec->type, VALUE_IS_APART) ? VALUE_SEPARATOR : ',');
		strbuf_adds(b, l->texts[i]);
	}
}

static void uints_to_text(const struct value_spec *spec, const void *field, struct strbuf *b)
{
	const struct uint_list *l = field;

	for (size_t i = 0; i < l->n; i++)
		strbuf_addf(b, "%s%" PRIu64, i ? "," : "", l->nums[i]);
}

/* ---- to JSON ---- */

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

/* ---- the table ---- */

#define NUMBER VALUE_IS_NUMBER
#define TEXT   VALUE_IS_TEXT
#define TEXTS  (VALUE_IS_TEXTS | VALUE_IS_MANY)
#define NUMS   (VALUE_IS_NUMBERS | VALUE_IS_MANY)

/*
 * from_text NULL: what it means in a file is read. from_json NULL: no key of a file has it. of_text
 * NULL: the text itself is what a file would say. to_json NULL: the text that to_text gives.
 */
static const struct value_ops {
	const char *hint, *key_hint;
	size_t size; /* of the field */
	unsigned int is;
	int (*from_text)(const struct value_spec *spec, const char *text, void *field,
			 struct err *e);
	int (*from_json)(const struct value_spec *spec, const json_t *json, void *field,
			 struct err *e);
	json_t *(*of_text)(const char *text);
	void (*to_text)(const struct value_spec *spec, const void *field, struct strbuf *b);
	json_t *(*to_json)(const struct value_spec *spec, const void *field);
} ops[] = {
	[VALUE_FLAG] = { "true or false", "true or false", sizeof(bool), 0, flag_from_text,
			 flag_from_json, json_of_flag, flag_to_text, flag_to_json },
	[VALUE_UINT] = { "a whole number", "whole number", sizeof(uint64_t), NUMBER, uint_from_text,
			 uint_from_json, json_of_number, uint_to_text, num_to_json },
	[VALUE_COUNT] = { "a whole number or a word", "whole number or %s", sizeof(uint64_t),
			  NUMBER | VALUE_IS_OPEN, NULL, count_from_json, json_of_number,
			  count_to_text, count_to_json },
	[VALUE_SIZE] = { "a size like 38G", "bytes or 20G", sizeof(uint64_t),
			 NUMBER | VALUE_IN_WORDS, size_from_text, size_from_json, NULL,
			 size_to_text, num_to_json },
	[VALUE_DURATION] = { "a duration like 5m", "seconds or 10m", sizeof(uint64_t),
			     NUMBER | VALUE_IN_WORDS, duration_from_text, duration_from_json, NULL,
			     duration_to_text, thousandth_to_json },
	[VALUE_PERCENT] = { "a percentage like 75", NULL, sizeof(uint64_t), NUMBER,
			    percent_from_text, NULL, NULL, percent_to_text, percent_to_json },
	[VALUE_FACTOR] = { "a number like 1.5", "number", sizeof(uint64_t), NUMBER, NULL,
			   factor_from_json, json_of_number, factor_to_text, thousandth_to_json },
	[VALUE_OCTAL] = { "octal digits", "octal digits", sizeof(uint64_t), NUMBER, NULL,
			  octal_from_json, NULL, octal_to_text },
	[VALUE_TIME] = { "a time like 18:30", "time", sizeof(uint64_t), NUMBER, time_from_text,
			 time_from_json, NULL, time_to_text },
	[VALUE_CHOICE] = { "one of the listed words", "word", sizeof(uint64_t), NUMBER,
			   choice_from_text, choice_from_json, NULL, choice_to_text },
	[VALUE_MEM] = { "an amount like 38G, 88% or all-2G", NULL, sizeof(struct mem_spec), 0,
			mem_from_text, NULL, NULL, mem_to_text },
	[VALUE_BAND] = { "percentages like 50,70,85", NULL, sizeof(struct util_band), VALUE_IS_MANY,
			 band_from_text, NULL, NULL, band_to_text, band_to_json },
	[VALUE_GPUS] = { "GPUs like 0,1 or all", NULL, sizeof(struct gpu_picks), VALUE_IS_MANY,
			 gpus_from_text, NULL, NULL, gpus_to_text },
	[VALUE_RANGE] = { "a range like 1-100", "FROM-TO%%N", sizeof(struct index_range),
			  VALUE_IS_OPEN, NULL, range_from_json, NULL, range_to_text },
	[VALUE_STRING] = { "text", NULL, sizeof(char *), TEXT | VALUE_IS_OPEN, string_from_text,
			   NULL, NULL, str_to_text },
	[VALUE_TEXT] = { "text", "text", sizeof(char *), TEXT | VALUE_IS_OPEN, NULL, text_from_json,
			 NULL, str_to_text },
	[VALUE_PATH] = { "an absolute path", NULL, sizeof(char *), TEXT, path_from_text, NULL, NULL,
			 str_to_text },
	[VALUE_BYTES_PATH] = { "an absolute path", "absolute path", sizeof(char *), TEXT, NULL,
			       bytes_path_from_json, json_of_bytes, str_to_text, bytes_to_json },
	[VALUE_NAME] = { "a name", NULL, sizeof(char *), TEXT, name_from_text, NULL, NULL,
			 str_to_text },
	[VALUE_TASK_NAME] = { "a name", "name", sizeof(char *), TEXT | VALUE_IS_OPEN, NULL,
			      task_name_from_json, NULL, str_to_text },
	[VALUE_SIGNAL] = { "a signal like USR1", "signal", sizeof(char *), TEXT | VALUE_IS_OPEN,
			   NULL, signal_from_json, NULL, str_to_text },
	[VALUE_WORDS] = { "a list of words", NULL, sizeof(struct text_list), TEXTS, words_from_text,
			  NULL, NULL, words_to_text, list_to_json },
	[VALUE_TEXTS] = { "text", "list of texts", sizeof(struct text_list),
			  TEXTS | VALUE_IS_APART | VALUE_IS_OPEN, texts_from_text, list_from_json,
			  json_of_texts, words_to_text, list_to_json },
	[VALUE_BYTES] = { "text", "list of texts", sizeof(struct text_list),
			  TEXTS | VALUE_IS_APART | VALUE_IS_OPEN, texts_from_text, list_from_json,
			  json_of_byte_list, words_to_text, list_to_json },
	[VALUE_UINTS] = { "a list of numbers", NULL, sizeof(struct uint_list), NUMS,
			  uints_from_text, NULL, NULL, uints_to_text, uints_to_json },
	[VALUE_IDS] = { "a list of ids", "list of ids", sizeof(struct uint_list),
			NUMS | VALUE_IS_APART | VALUE_IS_OPEN, NULL, ids_from_json, json_of_ids,
			uints_to_text, uints_to_json },
};
_Static_assert(ARRAY_LEN(ops) == VALUE_TYPE_MAX, "every type of value has a row");

bool value_is(enum value_type type, unsigned int what)
{
	return ops[type].is & what;
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
	if (v->type == VALUE_COUNT && v->num == VALUE_WORD)
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
	(void)memcpy(field, &v->num, ops[spec->type].size);
	return 0;
}

int value_from_json(const struct value_spec *spec, const json_t *json, void *field, struct err *e)
{
	struct value v = { .type = spec->type };
	int r = ops[spec->type].from_json(spec, json, &v.num, e);

	return value_take(spec, NULL, r, &v, field, e);
}

json_t *value_json_of_text(enum value_type type, const char *text)
{
	return ops[type].of_text ? ops[type].of_text(text) : json_string(text);
}

/* A type that only files have: its pieces, if it has some, as a file would say them. */
static int parse_as_json(const struct value_spec *spec, const char *text, void *field,
			 struct err *e)
{
	json_t *json = value_json_of_text(spec->type, text);
	int r = json ? ops[spec->type].from_json(spec, json, field, e)
		     : err_set(e, -EINVAL, "the text is not UTF-8");

	json_decref(json);
	return r;
}

int value_parse(const struct value_spec *spec, const char *text, struct value *ret, struct err *e)
{
	struct value v = { .type = spec->type }, new = v;
	int r = ops[spec->type].from_text ? ops[spec->type].from_text(spec, text, &v.num, e)
					  : parse_as_json(spec, text, &v.num, e);

	r = value_take(spec, ops[spec->type].from_text ? text : NULL, r, &v, &new.num, e);
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

	ops[spec->type].to_text(spec, field, &b);
	return strbuf_take(&b);
}

char *value_format(const struct value_spec *spec, const struct value *v)
{
	return field_text(spec, &v->num);
}

static json_t *field_json(const struct value_spec *spec, const void *field, bool in_words)
{
	if (ops[spec->type].to_json && !in_words)
		return ops[spec->type].to_json(spec, field);

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
	(void)memset(field, 0, ops[type].size);
}

static void *duplicate(const void *from, size_t n, size_t size)
{
	return from ? memcpy(xrealloc(NULL, n ? n : 1, size), from, n * size) : NULL;
}

void value_copy_field(enum value_type type, void *to, const void *from)
{
	const struct uint_list *nums = from;
	const struct gpu_picks *gpus = from;

	(void)memcpy(to, from, ops[type].size);
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
	return ops[type].hint;
}

const char *value_key_hint(const struct value_spec *spec, char *buf)
{
	return str_print(buf, VALUE_KEY_HINT_MAX, ops[spec->type].key_hint, spec->word);
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
