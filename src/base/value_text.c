/* SPDX-License-Identifier: MIT */
#include "base/value_text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/enumstr.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/textlist.h"
#include "base/units.h"

#define SEPARATORS ", \t" /* of VALUE_WORDS and VALUE_UINTS */
#define WORDS_MAX  4096	  /* entries of those */

const char *const value_yes[VALUE_FLAG_WORDS] = { "true", "yes", "on", "1" };
const char *const value_no[VALUE_FLAG_WORDS] = { "false", "no", "off", "0" };

/* ---- reading ---- */

static int flag_from_text(const struct value_spec *spec, const char *text, void *field,
			  struct err *e)
{
	for (size_t i = 0; i < VALUE_FLAG_WORDS; i++) {
		if (strcasecmp(text, value_yes[i]) == 0 || strcasecmp(text, value_no[i]) == 0) {
			*(bool *)field = strcasecmp(text, value_yes[i]) == 0;
			return 0;
		}
	}
	return err_set(e, -EINVAL, "\"%s\" is neither true nor false", text);
}

static int uint_from_text(const struct value_spec *spec, const char *text, void *field,
			  struct err *e)
{
	uint64_t below_0;

	if (str_to_u64(text, field) == 0)
		return 0;
	return err_set(e, -EINVAL,
		       text[0] == '-' && str_to_u64(text + 1, &below_0) == 0
			       ? "\"%s\" is less than 0"
			       : "\"%s\" is not a whole number",
		       text);
}

static int size_from_text(const struct value_spec *spec, const char *text, void *field,
			  struct err *e)
{
	if (spec->word && strcmp(text, spec->word) == 0) {
		*(uint64_t *)field = VALUE_WORD;
		return 0;
	}
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

/* ---- writing ---- */

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

	if (spec->word && *(const uint64_t *)field == VALUE_WORD)
		strbuf_adds(b, spec->word);
	else
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
			strbuf_addc(b, spec->type == VALUE_WORDS ? ',' : VALUE_SEPARATOR);
		strbuf_adds(b, l->texts[i]);
	}
}

static void uints_to_text(const struct value_spec *spec, const void *field, struct strbuf *b)
{
	const struct uint_list *l = field;

	for (size_t i = 0; i < l->n; i++)
		strbuf_addf(b, "%s%" PRIu64, i ? "," : "", l->nums[i]);
}

static void ids_to_text(const struct value_spec *spec, const void *field, struct strbuf *b)
{
	const struct uint_list *l = field;

	for (size_t i = 0; i < l->n; i++) {
		strbuf_adds(b, i ? "," : "");
		if (spec->word && l->nums[i] == VALUE_WORD)
			strbuf_adds(b, spec->word);
		else
			strbuf_addf(b, "%" PRIu64, l->nums[i]);
	}
}

/* ---- the table ---- */

const struct value_text value_texts[VALUE_TYPE_MAX] = {
	[VALUE_FLAG] = { flag_from_text, flag_to_text },
	[VALUE_UINT] = { uint_from_text, uint_to_text },
	[VALUE_COUNT] = { NULL, count_to_text },
	[VALUE_SIZE] = { size_from_text, size_to_text },
	[VALUE_DURATION] = { duration_from_text, duration_to_text },
	[VALUE_PERCENT] = { percent_from_text, percent_to_text },
	[VALUE_FACTOR] = { NULL, factor_to_text },
	[VALUE_OCTAL] = { NULL, octal_to_text },
	[VALUE_TIME] = { time_from_text, time_to_text },
	[VALUE_CHOICE] = { choice_from_text, choice_to_text },
	[VALUE_MEM] = { mem_from_text, mem_to_text },
	[VALUE_BAND] = { band_from_text, band_to_text },
	[VALUE_GPUS] = { gpus_from_text, gpus_to_text },
	[VALUE_RANGE] = { NULL, range_to_text },
	[VALUE_STRING] = { string_from_text, str_to_text },
	[VALUE_TEXT] = { NULL, str_to_text },
	[VALUE_PATH] = { path_from_text, str_to_text },
	[VALUE_BYTES_PATH] = { NULL, str_to_text },
	[VALUE_NAME] = { name_from_text, str_to_text },
	[VALUE_TASK_NAME] = { NULL, str_to_text },
	[VALUE_SIGNAL] = { NULL, str_to_text },
	[VALUE_WORDS] = { words_from_text, words_to_text },
	[VALUE_TEXTS] = { texts_from_text, words_to_text },
	[VALUE_BYTES] = { texts_from_text, words_to_text },
	[VALUE_UINTS] = { uints_from_text, uints_to_text },
	[VALUE_IDS] = { NULL, ids_to_text },
};
