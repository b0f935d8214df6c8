/* SPDX-License-Identifier: MIT */
#include "base/value.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/enumstr.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"

static int parse_flag(const struct value_spec *spec, const char *text, struct value *v,
		      struct err *e)
{
	static const char *const yes[] = { "true", "yes", "on", "1" };
	static const char *const no[] = { "false", "no", "off", "0" };

	for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
		if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0) {
			v->flag = strcasecmp(text, yes[i]) == 0;
			return 0;
		}
	}
	return err_set(e, -EINVAL, "\"%s\" is neither true nor false", text);
}

static int parse_uint(const struct value_spec *spec, const char *text, struct value *v,
		      struct err *e)
{
	if (str_to_u64(text, &v->num) < 0)
		return err_set(e, -EINVAL, "\"%s\" is not a whole number", text);
	return 0;
}

static int parse_size(const struct value_spec *spec, const char *text, struct value *v,
		      struct err *e)
{
	return unit_parse_size(text, &v->num, e);
}

static int parse_duration(const struct value_spec *spec, const char *text, struct value *v,
			  struct err *e)
{
	return unit_parse_duration(text, &v->num, e);
}

static int parse_percent(const struct value_spec *spec, const char *text, struct value *v,
			 struct err *e)
{
	unsigned int permille = 0;
	int r = unit_parse_percent(text, &permille, e);

	v->num = permille;
	return r;
}

static int parse_time(const struct value_spec *spec, const char *text, struct value *v,
		      struct err *e)
{
	return unit_parse_time(text, clock_wall_ns(), &v->num, e);
}

static int parse_choice(const struct value_spec *spec, const char *text, struct value *v,
			struct err *e)
{
	unsigned int i = 0;
	size_t n = 0;

	while (spec->choices[n])
		n++;

	int r = enum_parse(spec->choices, n, text, &i, e);

	v->num = i;
	return r;
}

static int parse_mem(const struct value_spec *spec, const char *text, struct value *v,
		     struct err *e)
{
	return unit_parse_mem(text, &v->mem, e);
}

static int parse_band(const struct value_spec *spec, const char *text, struct value *v,
		      struct err *e)
{
	return unit_parse_band(text, &v->band, e);
}

static int parse_gpus(const struct value_spec *spec, const char *text, struct value *v,
		      struct err *e)
{
	return unit_parse_gpus(text, &v->gpus, e);
}

static int no_controls(const char *text, struct err *e)
{
	for (const char *p = text; *p; p++) {
		if (iscntrl((unsigned char)*p))
			return err_set(e, -EINVAL, "the text has a control character in it");
	}
	return 0;
}

static int parse_string(const struct value_spec *spec, const char *text, struct value *v,
			struct err *e)
{
	int r = no_controls(text, e);

	if (r == 0)
		v->str = xstrdup(text);
	return r;
}

static int parse_path(const struct value_spec *spec, const char *text, struct value *v,
		      struct err *e)
{
	bool in_home = text[0] == '~' && text[1] == '/';
	int r = no_controls(text, e);

	if (r < 0)
		return r;
	if (!in_home && text[0] != '/')
		return err_set(e, -EINVAL, "\"%s\" is not an absolute path", text);

	cleanup_free char *home = fs_home_dir();

	v->str = in_home ? xasprintf("%s%s", home, text + 1) : xstrdup(text);
	return 0;
}

static int parse_name(const struct value_spec *spec, const char *text, struct value *v,
		      struct err *e)
{
	size_t len = strlen(text);

	if (!len || len > VALUE_NAME_MAX || !isalnum((unsigned char)text[0]))
		goto bad;
	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)text[i]) && !strchr("-_.", text[i]))
			goto bad;
	}
	v->str = xstrdup(text);
	return 0;
bad:
	return err_set(
		e, -EINVAL,
		"\"%s\" is not a name; use up to %d letters, digits and - _ . and begin with a "
		"letter or digit",
		text, VALUE_NAME_MAX);
}

#define LIST_SEPARATORS ", \t"
#define LIST_MAX	4096

static int parse_words(const struct value_spec *spec, const char *text, struct value *v,
		       struct err *e)
{
	cleanup_free char *copy = xstrdup(text);
	char *save = NULL;

	for (char *w = strtok_r(copy, LIST_SEPARATORS, &save); w;
	     w = strtok_r(NULL, LIST_SEPARATORS, &save)) {
		if (v->words.n == LIST_MAX)
			return err_set(e, -ERANGE, "the list has more than %d entries", LIST_MAX);
		text_list_add(&v->words, w);
	}
	return 0;
}

static int parse_texts(const struct value_spec *spec, const char *text, struct value *v,
		       struct err *e)
{
	for (const char *p = text;;) {
		const char *stop = strchrnul(p, VALUE_TEXT_SEPARATOR);

		text_list_take(&v->words, xasprintf("%.*s", (int)(stop - p), p));
		if (!*stop)
			return 0;
		p = stop + 1;
	}
}

static int parse_uints(const struct value_spec *spec, const char *text, struct value *v,
		       struct err *e)
{
	cleanup_free char *copy = xstrdup(text);
	char *save = NULL;

	for (char *w = strtok_r(copy, LIST_SEPARATORS, &save); w;
	     w = strtok_r(NULL, LIST_SEPARATORS, &save)) {
		uint64_t num;

		if (v->uints.n == LIST_MAX)
			return err_set(e, -ERANGE, "the list has more than %d entries", LIST_MAX);
		if (str_to_u64(w, &num) < 0)
			return err_set(e, -EINVAL, "\"%s\" is not a whole number", w);
		v->uints.nums = xrealloc(v->uints.nums, v->uints.n + 1, sizeof(uint64_t));
		v->uints.nums[v->uints.n++] = num;
	}
	return 0;
}

static void clear_gpus(struct value *v)
{
	gpu_picks_clear(&v->gpus);
}

static void clear_str(struct value *v)
{
	free(v->str);
}

static void clear_words(struct value *v)
{
	text_list_clear(&v->words);
}

static void clear_uints(struct value *v)
{
	free(v->uints.nums);
}

static void format_flag(const struct value_spec *spec, const struct value *v, struct strbuf *b)
{
	strbuf_adds(b, v->flag ? "true" : "false");
}

static void format_uint(const struct value_spec *spec, const struct value *v, struct strbuf *b)
{
	strbuf_addf(b, "%" PRIu64, v->num);
}

static void format_size(const struct value_spec *spec, const struct value *v, struct strbuf *b)
{
	char text[UNIT_TEXT_MAX];

	strbuf_adds(b, unit_format_size_exact(v->num, text));
}

static void format_duration(const struct value_spec *spec, const struct value *v, struct strbuf *b)
{
	char text[UNIT_TEXT_MAX];

	strbuf_adds(b, unit_format_duration_exact(v->num, text));
}

static void format_percent(const struct value_spec *spec, const struct value *v, struct strbuf *b)
{
	char text[UNIT_TEXT_MAX];

	strbuf_adds(b, unit_format_permille((unsigned int)v->num, text));
}

static void format_time(const struct value_spec *spec, const struct value *v, struct strbuf *b)
{
	char text[CLOCK_TEXT_MAX];

	strbuf_adds(b, clock_format_iso(v->num, text));
}

static void format_choice(const struct value_spec *spec, const struct value *v, struct strbuf *b)
{
	strbuf_adds(b, spec->choices[v->num]);
}

static void format_mem(const struct value_spec *spec, const struct value *v, struct strbuf *b)
{
	char text[UNIT_TEXT_MAX];

	strbuf_adds(b, unit_format_mem(&v->mem, text));
}

static void format_band(const struct value_spec *spec, const struct value *v, struct strbuf *b)
{
	strbuf_addf(b, "%u,%u,%u", v->band.low, v->band.floor, v->band.ceiling);
}

static void format_gpus(const struct value_spec *spec, const struct value *v, struct strbuf *b)
{
	if (v->gpus.all)
		strbuf_adds(b, "all");
	for (size_t i = 0; i < v->gpus.n; i++) {
		const struct gpu_pick *pick = &v->gpus.picks[i];

		if (i)
			strbuf_adds(b, ",");
		if (pick->by_uuid)
			strbuf_adds(b, pick->uuid);
		else
			strbuf_addf(b, "%u", pick->index);
	}
}

static void format_str(const struct value_spec *spec, const struct value *v, struct strbuf *b)
{
	strbuf_adds(b, v->str ? v->str : "");
}

static void format_words(const struct value_spec *spec, const struct value *v, struct strbuf *b)
{
	for (size_t i = 0; i < v->words.n; i++)
		strbuf_addf(b, "%s%s", i ? "," : "", v->words.texts[i]);
}

static void format_texts(const struct value_spec *spec, const struct value *v, struct strbuf *b)
{
	for (size_t i = 0; i < v->words.n; i++) {
		if (i)
			strbuf_addc(b, VALUE_TEXT_SEPARATOR);
		strbuf_adds(b, v->words.texts[i]);
	}
}

static void format_uints(const struct value_spec *spec, const struct value *v, struct strbuf *b)
{
	for (size_t i = 0; i < v->uints.n; i++)
		strbuf_addf(b, "%s%" PRIu64, i ? "," : "", v->uints.nums[i]);
}

static json_t *json_flag(const struct value *v)
{
	return json_boolean(v->flag);
}

static json_t *json_num(const struct value *v)
{
	return json_integer((json_int_t)v->num);
}

static json_t *json_seconds(const struct value *v)
{
	return json_real((double)v->num / (double)MS_PER_S);
}

static json_t *json_percent(const struct value *v)
{
	return json_real((double)v->num / 10.0);
}

static json_t *json_words(const struct value *v)
{
	json_t *array = json_array();

	for (size_t i = 0; i < v->words.n; i++)
		(void)json_array_append_new(array, json_string(v->words.texts[i]));
	return array;
}

static json_t *json_uints(const struct value *v)
{
	json_t *array = json_array();

	for (size_t i = 0; i < v->uints.n; i++)
		(void)json_array_append_new(array, json_integer((json_int_t)v->uints.nums[i]));
	return array;
}

static json_t *json_band(const struct value *v)
{
	return json_pack("[i,i,i]", (int)v->band.low, (int)v->band.floor, (int)v->band.ceiling);
}

/* json == NULL: the text that format() gives. clear == NULL: nothing is owned. */
static const struct value_ops {
	const char *hint;
	int (*parse)(const struct value_spec *spec, const char *text, struct value *v,
		     struct err *e);
	void (*format)(const struct value_spec *spec, const struct value *v, struct strbuf *b);
	json_t *(*json)(const struct value *v);
	void (*clear)(struct value *v);
	bool list;
} ops[] = {
	[VALUE_FLAG] = { "true or false", parse_flag, format_flag, json_flag },
	[VALUE_UINT] = { "a whole number", parse_uint, format_uint, json_num },
	[VALUE_SIZE] = { "a size like 38G", parse_size, format_size, json_num },
	[VALUE_DURATION] = { "a duration like 5m", parse_duration, format_duration, json_seconds },
	[VALUE_PERCENT] = { "a percentage like 75", parse_percent, format_percent, json_percent },
	[VALUE_TIME] = { "a time like 18:30", parse_time, format_time },
	[VALUE_CHOICE] = { "one of the listed words", parse_choice, format_choice },
	[VALUE_MEM] = { "an amount like 38G, 88% or all-2G", parse_mem, format_mem },
	[VALUE_BAND] = { "percentages like 50,70,85", parse_band, format_band, json_band, NULL,
			 true },
	[VALUE_GPUS] = { "GPUs like 0,1 or all", parse_gpus, format_gpus, NULL, clear_gpus, true },
	[VALUE_STRING] = { "text", parse_string, format_str, NULL, clear_str },
	[VALUE_PATH] = { "an absolute path", parse_path, format_str, NULL, clear_str },
	[VALUE_NAME] = { "a name", parse_name, format_str, NULL, clear_str },
	[VALUE_WORDS] = { "a list of words", parse_words, format_words, json_words, clear_words,
			  true },
	[VALUE_UINTS] = { "a list of numbers", parse_uints, format_uints, json_uints, clear_uints,
			  true },
	[VALUE_TEXTS] = { "text", parse_texts, format_texts, json_words, clear_words, true },
};
_Static_assert(ARRAY_LEN(ops) == VALUE_TYPE_MAX, "every type of value has a row");

/* The number that min and max are about, if the value has one. */
static bool value_magnitude(const struct value *v, struct value *ret)
{
	*ret = *v;
	switch (v->type) {
	case VALUE_UINT:
	case VALUE_SIZE:
	case VALUE_DURATION:
	case VALUE_PERCENT:
		return true;
	case VALUE_MEM:
		ret->type = v->mem.kind == MEM_SPEC_SHARE ? VALUE_PERCENT : VALUE_SIZE;
		ret->num = v->mem.kind == MEM_SPEC_SHARE ? v->mem.permille : v->mem.bytes;
		return v->mem.kind != MEM_SPEC_ALL_BUT;
	default:
		return false;
	}
}

static int value_check_range(const struct value_spec *spec, const char *text, const struct value *v,
			     struct err *e)
{
	struct value m;

	if (!value_magnitude(v, &m))
		return 0;

	uint64_t max = !spec->max && m.type == VALUE_DURATION ? VALUE_DURATION_MAX : spec->max;
	bool low = m.num < spec->min, high = max && m.num > max;

	if (!low && !high)
		return 0;

	struct value bound = { .type = m.type, .num = low ? spec->min : max };
	cleanup_free char *shown = value_format(spec, &bound);

	return err_set(e, -ERANGE, "\"%s\" is %s than %s", text, low ? "less" : "more", shown);
}

int value_parse(const struct value_spec *spec, const char *text, struct value *ret, struct err *e)
{
	struct value v = { .type = spec->type };
	int r = ops[spec->type].parse(spec, text, &v, e);

	if (r == 0)
		r = value_check_range(spec, text, &v, e);
	if (r < 0) {
		value_clear(&v);
		return r;
	}
	*ret = v;
	return 0;
}

void value_clear(struct value *v)
{
	if (ops[v->type].clear)
		ops[v->type].clear(v);
	*v = (struct value){ .type = v->type };
}

char *value_format(const struct value_spec *spec, const struct value *v)
{
	struct strbuf b = STRBUF_INIT;

	ops[v->type].format(spec, v, &b);
	return strbuf_take(&b);
}

json_t *value_json(const struct value_spec *spec, const struct value *v)
{
	if (ops[v->type].json)
		return ops[v->type].json(v);

	cleanup_free char *text = value_format(spec, v);

	return json_string(text);
}

const char *value_hint(enum value_type type)
{
	return ops[type].hint;
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

bool value_is_list(enum value_type type)
{
	return ops[type].list;
}
