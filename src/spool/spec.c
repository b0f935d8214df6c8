/* SPDX-License-Identifier: MIT */

/*
 * The table of keys, and the types that its rows are of. A type reads a JSON value into a field of
 * struct spool_spec and writes the field as JSON; a person's text becomes the JSON value first, so
 * that "20G" of an option and of a file are read by the same code. What equals its default is not
 * written, so that a file says what its submitter said.
 *
 * Called by submitters (text), by whatever reads a task file (JSON) and by edits of pending tasks.
 */

#include "spool/spec.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "spool/elements.h"

enum kind {
	KIND_FLAG,
	KIND_UINT,
	KIND_GPUS,
	KIND_COUNT,
	KIND_SIZE,
	KIND_DURATION,
	KIND_TIME,
	KIND_FACTOR,
	KIND_CHOICE,
	KIND_NAME,
	KIND_TEXT,
	KIND_PATH,
	KIND_TEXTS,
	KIND_IDS,
	KIND_ARRAY,
	KIND_MAX
};

struct row {
	const char *name;
	enum kind kind;
	size_t offset;
	uint64_t def, min, max; /* max 0: no bound; of texts: bytes, of lists: entries */
	const char *const *choices;
	const char *help;
};

static const char *const cleans[] = { "none", "gpu", "python", NULL };
static const char *const rule_names[] = { "tenure", "compete", "compete-max", NULL };

#define DATE_MIN_S 1000000000ULL /* 2001: a time of day alone lies before it */

#define AT(field) offsetof(struct spool_spec, field)

static const struct row rows[] = {
	{ "version", KIND_UINT, AT(version), SPEC_VERSION, 1, SPEC_VERSION,
	  .help = "of this format" },
	{ "name", KIND_NAME, AT(name), .help = "what it is called" },
	{ "gpus", KIND_GPUS, AT(gpus), 1, 0, SPEC_GPUS_MAX, .help = "devices: a number or all" },
	{ "memory", KIND_SIZE, AT(memory), .help = "memory that it needs on each device" },
	{ "shared", KIND_FLAG, AT(shared),
	  .help = "others may be on its devices while the memory is free" },
	{ "model", KIND_TEXT, AT(model), .max = 256, .help = "pattern of the device's name" },
	{ "priority", KIND_UINT, AT(priority), SPEC_PRIORITY, 0, SPEC_PRIORITY_MAX,
	  .help = "lower runs first" },
	{ "lane", KIND_NAME, AT(lane), .help = "tasks of a lane run one after another" },
	{ "retries", KIND_COUNT, AT(retries), .max = 1000000,
	  .help = "attempts after a failure: a number or forever" },
	{ "retry_every", KIND_UINT, AT(retry_every), 3, 1, 1000000,
	  .help = "failures in a row before the back-off" },
	{ "backoff", KIND_DURATION, AT(backoff), 10 * MS_PER_MIN, 0, 365 * MS_PER_DAY,
	  .help = "pause after so many failures" },
	{ "timeout", KIND_DURATION, AT(timeout), .max = 3650 * MS_PER_DAY,
	  .help = "an attempt is ended after that time" },
	{ "after", KIND_IDS, AT(after), .min = 1, .help = "ids that must be done first" },
	{ "after_any", KIND_IDS, AT(after_any), .min = 1,
	  .help = "ids that must have ended first, well or not" },
	{ "array", KIND_ARRAY, AT(array),
	  .help = "run it once per index: FROM-TO, %N at once: 1-100%4" },
	{ "sweep", KIND_TEXTS, AT(sweep), .max = SWEEP_PARAMETERS_MAX,
	  .help = "run it once per combination: NAME=A,B or NAME=1..5" },
	{ "preemptible", KIND_FLAG, AT(preemptible), .help = "may be stopped and run again later" },
	{ "signal", KIND_NAME, AT(signal), .help = "the first signal when it is stopped" },
	{ "grace", KIND_DURATION, AT(grace), 30 * MS_PER_S, 0, MS_PER_DAY,
	  .help = "from the first signal to KILL" },
	{ "env", KIND_TEXTS, AT(env), .max = SPEC_LIST_MAX, .help = "environment: NAME=VALUE" },
	{ "cwd", KIND_PATH, AT(cwd), .max = 4096, .help = "directory to run in" },
	{ "begin", KIND_TIME, AT(begin), .help = "not before this time" },
	{ "paused", KIND_FLAG, AT(paused), .help = "wait for tenure resume" },
	{ "retry_memory", KIND_FACTOR, AT(retry_memory), 0, 1000, 100000,
	  .help = "factor on memory after it ran out: 1.5" },
	{ "no_requeue", KIND_FLAG, AT(no_requeue), .help = "failed when its node went away" },
	{ "clean", KIND_CHOICE, AT(clean), .choices = cleans,
	  .help = "what else of ours is ended with it: none, gpu, python" },
	{ "script", KIND_TEXT, AT(script), .max = SPEC_SCRIPT_MAX, .help = "text of a script" },
	{ "args", KIND_TEXTS, AT(args), .max = SPEC_LIST_MAX, .help = "the script's arguments" },
	{ "argv", KIND_TEXTS, AT(argv), .max = SPEC_LIST_MAX,
	  .help = "a program and its arguments" },
	{ "commands", KIND_TEXTS, AT(commands), .max = SPEC_ELEMENTS_MAX,
	  .help = "one shell command per element" },
	{ "host", KIND_TEXT, AT(host), .max = 256, .help = "where it was submitted" },
	{ "user", KIND_TEXT, AT(user), .max = 256, .help = "who submitted it" },
	{ "uid", KIND_UINT, AT(uid), .max = UINT32_MAX, .help = "the submitter's number" },
	{ "submitted", KIND_TIME, AT(submitted), .help = "when" },
	{ "rules", KIND_CHOICE, AT(rules), .choices = rule_names,
	  .help = "compete: free memory is the only condition on others' use" },
	{ "raw", KIND_FLAG, AT(raw), .help = "came as a bare script" },
};

static const struct row *row_find(const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcmp(rows[i].name, key) == 0)
			return &rows[i];
	return NULL;
}

bool spec_is_name(const char *text)
{
	size_t len = strnlen(text, SPEC_NAME_MAX + 1);

	if (!len || len > SPEC_NAME_MAX || text[0] == '.' || text[0] == '-')
		return false;
	for (const char *p = text; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("._+-", *p))
			return false;
	return true;
}

void spec_make_name(const char *text, char ret[SPEC_NAME_MAX + 1])
{
	const char *slash = strrchr(text, '/');
	const char *base = slash && slash[1] ? slash + 1 : text;

	base += strspn(base, ".-/ \t");
	(void)str_copy(ret, SPEC_NAME_MAX + 1, base[0] ? base : "task");
	for (char *p = ret; *p; p++)
		if ((unsigned char)*p >= 0x80 ||
		    (!isalnum((unsigned char)*p) && !strchr("._+-", *p)))
			*p = '_';
}

void text_list_add(struct text_list *l, const char *text)
{
	/* Doubled at every power of two, so that a hundred thousand commands are not copied often.
	 */
	if ((l->n & (l->n - 1)) == 0)
		l->texts = xrealloc(l->texts, l->n ? 2 * l->n : 1, sizeof(char *));
	l->texts[l->n++] = xstrdup(text);
}

void text_list_clear(struct text_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->texts[i]);
	free(l->texts);
	*l = (struct text_list){ .n = 0 };
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static int wrong(struct err *e, const char *wanted)
{
	return err_set(e, -EINVAL, "must be %s", wanted);
}

static int in_range(const struct row *row, uint64_t v, struct err *e)
{
	if (v < row->min || (row->max && v > row->max))
		return err_set(e, -ERANGE, "%" PRIu64 " is out of range, %" PRIu64 " to %" PRIu64,
			       v, row->min, row->max);
	return 0;
}

static int get_flag(const struct row *row, const json_t *v, void *field, struct err *e)
{
	if (!json_is_boolean(v))
		return wrong(e, "true or false");
	*(bool *)field = json_is_true(v);
	return 0;
}

static int get_whole(const struct row *row, const json_t *v, void *field, const char *wanted,
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

static int get_uint(const struct row *row, const json_t *v, void *field, struct err *e)
{
	return get_whole(row, v, field, "a whole number", e);
}

static int get_word_or_whole(const struct row *row, const json_t *v, const char *word,
			     uint64_t meaning, const char *wanted, void *field, struct err *e)
{
	if (json_is_string(v) && strcmp(json_string_value(v), word) == 0) {
		*(uint64_t *)field = meaning;
		return 0;
	}
	return get_whole(row, v, field, wanted, e);
}

static int get_gpus(const struct row *row, const json_t *v, void *field, struct err *e)
{
	return get_word_or_whole(row, v, "all", SPEC_ALL, "a whole number or all", field, e);
}

static int get_count(const struct row *row, const json_t *v, void *field, struct err *e)
{
	return get_word_or_whole(row, v, "forever", SPEC_FOREVER, "a whole number or forever",
				 field, e);
}

static int get_size(const struct row *row, const json_t *v, void *field, struct err *e)
{
	if (json_is_string(v))
		return unit_parse_size(json_string_value(v), field, e);
	return get_whole(row, v, field, "bytes, or a text like \"20G\"", e);
}

/* Seconds or permille, from a number with a fraction. */
static int get_scaled(const struct row *row, const json_t *v, double scale, const char *wanted,
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

static int get_duration(const struct row *row, const json_t *v, void *field, struct err *e)
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

static int get_time(const struct row *row, const json_t *v, void *field, struct err *e)
{
	/* A moment that has passed since it was written down is no mistake. */
	if (json_is_string(v)) {
		uint64_t ns;
		int r = unit_parse_time(json_string_value(v), 0, &ns, e);

		if (r == 0 && ns < DATE_MIN_S * NS_PER_S)
			r = err_set(e, -EINVAL, "\"%.80s\" has no date", json_string_value(v));
		if (r == 0)
			*(uint64_t *)field = ns;
		return r;
	}
	return get_scaled(row, v, (double)NS_PER_S, "a time like \"2026-11-22T08:00:00+01:00\"",
			  field, e);
}

static int get_factor(const struct row *row, const json_t *v, void *field, struct err *e)
{
	return get_scaled(row, v, 1000, "a number like 1.5", field, e);
}

static int get_choice(const struct row *row, const json_t *v, void *field, struct err *e)
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

static int too_long(uint64_t max, struct err *e)
{
	char text[UNIT_TEXT_MAX];

	return err_set(e, -ERANGE, "longer than %s", unit_format_size_exact(max, text));
}

static int get_string(const struct row *row, const json_t *v, void *field, struct err *e)
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

static int get_name(const struct row *row, const json_t *v, void *field, struct err *e)
{
	if (!json_is_string(v) || !spec_is_name(json_string_value(v)))
		return err_set(e, -EINVAL,
			       "\"%.80s\" is not a name; use up to %d letters, digits and . _ + - "
			       "and begin with a letter, a digit, _ or +",
			       json_is_string(v) ? json_string_value(v) : "?", SPEC_NAME_MAX);
	return get_string(row, v, field, e);
}

static int get_path(const struct row *row, const json_t *v, void *field, struct err *e)
{
	if (json_is_string(v) && json_string_value(v)[0] != '/')
		return err_set(e, -EINVAL, "\"%.80s\" is not an absolute path",
			       json_string_value(v));
	return get_string(row, v, field, e);
}

/* Of a list: 0, or why it cannot be one. */
static int check_list(const struct row *row, const json_t *v, size_t max, struct err *e)
{
	if (!json_is_array(v))
		return wrong(e, "a list");
	if (json_array_size(v) > max)
		return err_set(e, -ERANGE, "more than %zu entries", max);
	return 0;
}

static int get_texts(const struct row *row, const json_t *v, void *field, struct err *e)
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

static int get_ids(const struct row *row, const json_t *v, void *field, struct err *e)
{
	struct id_list *out = field;
	int r = check_list(row, v, SPEC_LIST_MAX, e);

	if (r < 0)
		return r;

	cleanup_free uint64_t *ids = xcalloc(json_array_size(v) + 1, sizeof(*ids));

	for (size_t i = 0; i < json_array_size(v); i++) {
		r = get_uint(row, json_array_get(v, i), &ids[i], e);
		if (r < 0)
			return err_wrap(e, "entry %zu", i + 1);
	}
	free(out->ids);
	*out = (struct id_list){ .n = json_array_size(v), .ids = take_ptr(ids) };
	return 0;
}

static int get_array(const struct row *row, const json_t *v, void *field, struct err *e)
{
	if (!json_is_string(v))
		return wrong(e, "a text like \"1-100%4\"");
	return array_parse(json_string_value(v), field, e);
}

/* ---- writing: NULL when it is the default -----------------------------------------------------
 */

static json_t *put_flag(const struct row *row, const void *field)
{
	return *(const bool *)field ? json_true() : NULL;
}

static json_t *put_uint(const struct row *row, const void *field)
{
	uint64_t v = *(const uint64_t *)field;

	return v == row->def ? NULL : json_integer((json_int_t)v);
}

static json_t *put_gpus(const struct row *row, const void *field)
{
	return *(const uint64_t *)field == SPEC_ALL ? json_string("all") : put_uint(row, field);
}

static json_t *put_count(const struct row *row, const void *field)
{
	return *(const uint64_t *)field == SPEC_FOREVER ? json_string("forever")
							: put_uint(row, field);
}

static json_t *put_size(const struct row *row, const void *field)
{
	char text[UNIT_TEXT_MAX];
	uint64_t v = *(const uint64_t *)field;

	return v == row->def ? NULL : json_string(unit_format_size_exact(v, text));
}

static json_t *put_duration(const struct row *row, const void *field)
{
	char text[UNIT_TEXT_MAX];
	uint64_t v = *(const uint64_t *)field;

	return v == row->def ? NULL : json_string(unit_format_duration_exact(v, text));
}

static json_t *put_time(const struct row *row, const void *field)
{
	char text[CLOCK_TEXT_MAX];
	uint64_t v = *(const uint64_t *)field;

	return v == row->def ? NULL : json_string(clock_format_iso(v, text));
}

static json_t *put_factor(const struct row *row, const void *field)
{
	uint64_t v = *(const uint64_t *)field;

	return v == row->def ? NULL : json_real((double)v / 1000);
}

static json_t *put_choice(const struct row *row, const void *field)
{
	uint64_t v = *(const uint64_t *)field;

	return v == row->def ? NULL : json_string(row->choices[v]);
}

static json_t *put_string(const struct row *row, const void *field)
{
	const char *text = *(char *const *)field;

	return text ? json_string(text) : NULL;
}

static json_t *put_texts(const struct row *row, const void *field)
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

static json_t *put_ids(const struct row *row, const void *field)
{
	const struct id_list *l = field;
	json_t *list = l->n ? json_array() : NULL;

	for (size_t i = 0; i < l->n; i++)
		(void)json_array_append_new(list, json_integer((json_int_t)l->ids[i]));
	return list;
}

static json_t *put_array(const struct row *row, const void *field)
{
	const struct task_array *a = field;
	char text[ARRAY_TEXT_MAX];

	return a->set ? json_string(array_format(a, text)) : NULL;
}

/* ---- a person's text --------------------------------------------------------------------------
 */

static json_t *text_flag(const char *text)
{
	return json_boolean(strcmp(text, "false") != 0);
}

static json_t *text_number(const char *text)
{
	uint64_t v;
	char *end;
	double real;

	if (str_to_u64(text, &v) == 0 && v <= INT64_MAX)
		return json_integer((json_int_t)v);
	real = strtod(text[0] == 'x' ? text + 1 : text, &end); /* x1.5 */
	return end != text && !*end ? json_real(real) : json_string(text);
}

static json_t *text_ids(const char *text)
{
	cleanup_free char *copy = xstrdup(text);
	json_t *list = json_array();
	char *save = NULL;

	for (char *w = strtok_r(copy, ", ", &save); w; w = strtok_r(NULL, ", ", &save))
		(void)json_array_append_new(list, text_number(w));
	return list;
}

static void clear_string(void *field)
{
	free(*(char **)field);
}

static void clear_texts(void *field)
{
	text_list_clear(field);
}

static void clear_ids(void *field)
{
	free(((struct id_list *)field)->ids);
}

/* text NULL: the text itself is the JSON value; clear NULL: nothing is owned. */
static const struct kind_ops {
	const char *name;
	int (*get)(const struct row *row, const json_t *v, void *field, struct err *e);
	json_t *(*put)(const struct row *row, const void *field);
	json_t *(*text)(const char *text);
	void (*clear)(void *field);
} kinds[] = {
	[KIND_FLAG] = { "true or false", get_flag, put_flag, text_flag },
	[KIND_UINT] = { "whole number", get_uint, put_uint, text_number },
	[KIND_GPUS] = { "whole number or all", get_gpus, put_gpus, text_number },
	[KIND_COUNT] = { "whole number or forever", get_count, put_count, text_number },
	[KIND_SIZE] = { "bytes or 20G", get_size, put_size },
	[KIND_DURATION] = { "seconds or 10m", get_duration, put_duration },
	[KIND_TIME] = { "time", get_time, put_time },
	[KIND_FACTOR] = { "number", get_factor, put_factor, text_number },
	[KIND_CHOICE] = { "word", get_choice, put_choice },
	[KIND_NAME] = { "name", get_name, put_string, NULL, clear_string },
	[KIND_TEXT] = { "text", get_string, put_string, NULL, clear_string },
	[KIND_PATH] = { "absolute path", get_path, put_string, NULL, clear_string },
	[KIND_TEXTS] = { "list of texts", get_texts, put_texts, NULL, clear_texts },
	[KIND_IDS] = { "list of ids", get_ids, put_ids, text_ids, clear_ids },
	[KIND_ARRAY] = { "FROM-TO%N", get_array, put_array },
};
_Static_assert(ARRAY_LEN(kinds) == KIND_MAX, "every kind of key has a row");

static void *field_of(struct spool_spec *s, const struct row *row)
{
	return (char *)s + row->offset;
}

static bool is_number(enum kind kind)
{
	return kind >= KIND_UINT && kind <= KIND_CHOICE;
}

struct spool_spec *spec_new(void)
{
	struct spool_spec *s = xcalloc(1, sizeof(*s));

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (is_number(rows[i].kind))
			*(uint64_t *)field_of(s, &rows[i]) = rows[i].def;
	return s;
}

struct spool_spec *spec_free(struct spool_spec *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (kinds[rows[i].kind].clear)
			kinds[rows[i].kind].clear(field_of(s, &rows[i]));
	free(s);
	return NULL;
}

static char *copy_text(const char *text)
{
	return text ? xstrdup(text) : NULL;
}

static struct text_list copy_texts(const struct text_list *l)
{
	struct text_list copy = { 0 };

	for (size_t i = 0; i < l->n; i++)
		text_list_add(&copy, l->texts[i]);
	return copy;
}

static struct id_list copy_ids(const struct id_list *l)
{
	struct id_list copy = { .n = l->n };

	if (l->n) {
		copy.ids = xrealloc(NULL, l->n, sizeof(*copy.ids));
		(void)memcpy(copy.ids, l->ids, l->n * sizeof(*l->ids));
	}
	return copy;
}

struct spool_spec *spec_for_element(const struct spool_spec *s, uint64_t element)
{
	struct spool_spec *c = xcalloc(1, sizeof(*c));

	*c = *s;
	c->model = copy_text(s->model);
	c->lane = copy_text(s->lane);
	c->name = copy_text(s->name);
	c->signal = copy_text(s->signal);
	c->script = copy_text(s->script);
	c->cwd = copy_text(s->cwd);
	c->host = copy_text(s->host);
	c->user = copy_text(s->user);
	c->after = copy_ids(&s->after);
	c->after_any = copy_ids(&s->after_any);
	c->args = copy_texts(&s->args);
	c->argv = copy_texts(&s->argv);
	c->sweep = copy_texts(&s->sweep);
	c->env = copy_texts(&s->env);
	c->commands = (struct text_list){ 0 };
	if (element >= 1 && element <= s->commands.n)
		text_list_add(&c->commands, s->commands.texts[element - 1]);
	return c;
}

bool spec_key_at(size_t i, struct spec_key *ret)
{
	if (i >= ARRAY_LEN(rows))
		return false;
	*ret = (struct spec_key){ rows[i].name, kinds[rows[i].kind].name, rows[i].help };
	return true;
}

static int unknown_key(const char *key, struct err *e)
{
	const char *names[ARRAY_LEN(rows) + 1] = { NULL };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		names[i] = rows[i].name;

	const char *near = str_nearest(key, names);

	if (near)
		return err_set(e, -EINVAL, "unknown key \"%.80s\"; did you mean \"%s\"?", key,
			       near);
	return err_set(e, -EINVAL, "unknown key \"%.80s\"; docs/spool.md lists them", key);
}

int spec_set_json(struct spool_spec *s, const char *key, const json_t *value, struct err *e)
{
	const struct row *row = row_find(key);
	struct err why = ERR_INIT;

	if (!row)
		return unknown_key(key, e);

	int r = kinds[row->kind].get(row, value, field_of(s, row), &why);

	return r < 0 ? err_set(e, r, "%s: %s", key, why.text) : 0;
}

static json_t *json_of_text(const struct spool_spec *s, const struct row *row, const char *text)
{
	if (row->kind != KIND_TEXTS)
		return kinds[row->kind].text ? kinds[row->kind].text(text) : json_string(text);

	json_t *list = put_texts(row, (const char *)s + row->offset);

	if (!list)
		list = json_array();
	if (json_array_append_new(list, json_string(text)) < 0) {
		json_decref(list);
		return NULL;
	}
	return list;
}

int spec_set_text(struct spool_spec *s, const char *key, const char *text, struct err *e)
{
	const struct row *row = row_find(key);

	if (!row)
		return unknown_key(key, e);

	json_t *value = json_of_text(s, row, text);

	if (!value)
		return err_set(e, -EINVAL, "%s: the text is not UTF-8", key);

	int r = spec_set_json(s, key, value, e);

	json_decref(value);
	return r;
}

static int check_env(const struct spool_spec *s, struct err *e)
{
	for (size_t i = 0; i < s->env.n; i++) {
		const char *eq = strchr(s->env.texts[i], '=');

		if (!eq || eq == s->env.texts[i])
			return err_set(e, -EINVAL, "env: \"%.80s\" is not NAME=VALUE",
				       s->env.texts[i]);
	}
	return 0;
}

static int check_what(const struct spool_spec *s, struct err *e)
{
	int n = (s->script != NULL) + (s->argv.n > 0) + (s->commands.n > 0);

	if (n != 1)
		return err_set(e, -EINVAL, "%s; give exactly one of script, argv and commands",
			       n ? "it says more than once what to run"
				 : "it does not say what to run");
	if (s->args.n && !s->script)
		return err_set(e, -EINVAL, "args: only a script has them; put them into argv");
	if (s->argv.n && !s->argv.texts[0][0])
		return err_set(e, -EINVAL, "argv: the program's name is empty");
	return 0;
}

int spec_check(struct spool_spec *s, struct err *e)
{
	int many = (s->commands.n > 0) + s->array.set + (s->sweep.n > 0);
	uint64_t count;
	int r = check_what(s, e);

	if (r == 0 && many > 1)
		r = err_set(e, -EINVAL, "only one of array, sweep and commands can be given");
	if (r == 0)
		r = check_env(s, e);
	if (r == 0)
		r = elements_count(s, &count, e);
	if (r == 0 && s->shared && !s->memory)
		r = err_set(e, -EINVAL, "shared: say with memory how much it needs on a device");
	if (r == 0 && !s->name) {
		char name[SPEC_NAME_MAX + 1];

		spec_make_name(s->argv.n ? s->argv.texts[0] : "task", name);
		s->name = xstrdup(name);
		s->unnamed = true;
	}
	return r;
}

static int from_object(struct spool_spec *s, const json_t *object, struct err *e)
{
	const json_t *version = json_object_get(object, "version");
	const char *key;
	json_t *value;
	int r = 0;

	if (!json_is_object(object))
		return err_set(e, -EINVAL, "a task is a JSON object");
	/* First, because of another version the other keys mean nothing. */
	if (version && json_integer_value(version) != SPEC_VERSION)
		return err_set(e, -EINVAL, "version: this tenure reads version %d of tasks",
			       SPEC_VERSION);
	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		r = spec_set_json(s, key, value, e);
		if (r < 0)
			return r;
	}
	return spec_check(s, e);
}

int spec_read(const char *text, size_t len, struct spool_spec **ret, size_t *used, struct err *e)
{
	json_error_t je;
	json_t *object =
		json_loadb(text, len, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &je);

	if (!object)
		return err_set(e, -EINVAL, "not JSON: line %d, column %d: %s", je.line, je.column,
			       je.text);

	struct spool_spec *s = spec_new();
	int r = from_object(s, object, e);

	json_decref(object);
	if (r < 0) {
		(void)spec_free(s);
		return r;
	}
	*used = (size_t)je.position;
	*ret = s;
	return 0;
}

json_t *spec_json(const struct spool_spec *s)
{
	json_t *object = json_object();

	(void)json_object_set_new(object, "version", json_integer(SPEC_VERSION));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct row *row = &rows[i];
		json_t *v = kinds[row->kind].put(row, (const char *)s + row->offset);

		if (v)
			(void)json_object_set_new(object, row->name, v);
	}
	return object;
}

/* jansson makes no string of bytes that are not UTF-8; say which key it is about. */
static int find_not_utf8(const struct spool_spec *s, const json_t *object, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const void *field = (const char *)s + rows[i].offset;
		const json_t *have = json_object_get(object, rows[i].name);
		bool lost = rows[i].kind >= KIND_NAME && rows[i].kind <= KIND_PATH &&
			    *(char *const *)field && !have;

		if (lost || json_is_null(have))
			return err_set(e, -EILSEQ,
				       "%s: not UTF-8 text; put it into a file and submit that "
				       "file's path as a command",
				       rows[i].name);
	}
	return 0;
}

char *spec_text(const struct spool_spec *s, struct err *e)
{
	json_t *object = spec_json(s);
	char *line = NULL;

	if (find_not_utf8(s, object, e) == 0) {
		cleanup_free char *text = json_dumps(object, JSON_COMPACT);

		if (text)
			line = xasprintf("%s\n", text);
		else
			(void)err_set(e, -ENOMEM, "no memory for the task's text");
	}
	json_decref(object);
	return line;
}
