/* SPDX-License-Identifier: MIT */

/*
 * The table of keys. What equals its default is not written, so that a file says what its submitter
 * said.
 *
 * Called by submitters (text), by whatever reads a task file (JSON) and by edits of pending tasks.
 */

#include "spool/spec.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "base/value.h"
#include "spool/elements.h"

static const char *const cleans[] = { "none", "gpu", "python", NULL };
static const char *const rule_names[] = { "tenure", "compete", "compete-max", NULL };

#define AT(field) offsetof(struct spool_spec, field)

struct spec_row {
	const char *name;
	struct value_spec spec;
	size_t offset;
	uint64_t def; /* of a number */
	const char *help;
};

static const struct spec_row rows[] = {
	{ "version",
	  { VALUE_UINT, .min = 1, .max = SPEC_VERSION },
	  AT(version),
	  SPEC_VERSION,
	  "of this format" },
	{ "name",
	  { VALUE_TASK_NAME, .max = SPEC_NAME_MAX },
	  AT(name),
	  .help = "what it is called" },
	{ "gpus",
	  { VALUE_COUNT, .max = SPEC_GPUS_MAX, .word = "all" },
	  AT(gpus),
	  1,
	  "devices: a number or all" },
	{ "memory", { VALUE_SIZE }, AT(memory), .help = "memory that it needs on each device" },
	{ "shared",
	  { VALUE_FLAG },
	  AT(shared),
	  .help = "others may be on its devices while the memory is free" },
	{ "model", { VALUE_TEXT, .max = 256 }, AT(model), .help = "pattern of the device's name" },
	{ "priority",
	  { VALUE_UINT, .max = SPEC_PRIORITY_MAX },
	  AT(priority),
	  SPEC_PRIORITY,
	  "lower runs first" },
	{ "lane",
	  { VALUE_TASK_NAME, .max = SPEC_NAME_MAX },
	  AT(lane),
	  .help = "tasks of a lane run one after another" },
	{ "retries",
	  { VALUE_COUNT, .max = 1000000, .word = "forever" },
	  AT(retries),
	  .help = "attempts after a failure: a number or forever" },
	{ "retry_every",
	  { VALUE_UINT, .min = 1, .max = 1000000 },
	  AT(retry_every),
	  3,
	  "failures in a row before the back-off" },
	{ "backoff",
	  { VALUE_DURATION, .max = 365 * MS_PER_DAY },
	  AT(backoff),
	  10 * MS_PER_MIN,
	  "pause after so many failures" },
	{ "timeout",
	  { VALUE_DURATION, .max = 3650 * MS_PER_DAY },
	  AT(timeout),
	  .help = "an attempt is ended after that time" },
	{ "after", { VALUE_IDS, .min = 1 }, AT(after), .help = "ids that must be done first" },
	{ "after_any",
	  { VALUE_IDS, .min = 1 },
	  AT(after_any),
	  .help = "ids that must have ended first, well or not" },
	{ "array",
	  { VALUE_RANGE, .max = SPEC_ELEMENTS_MAX },
	  AT(array),
	  .help = "run it once per index: FROM-TO, %N at once: 1-100%4" },
	{ "sweep",
	  { VALUE_TEXTS, .max = SWEEP_PARAMETERS_MAX },
	  AT(sweep),
	  .help = "run it once per combination: NAME=A,B or NAME=1..5" },
	{ "preemptible",
	  { VALUE_FLAG },
	  AT(preemptible),
	  .help = "may be stopped and run again later" },
	{ "signal",
	  { VALUE_SIGNAL },
	  AT(signal),
	  .help = "the first signal when it is stopped: USR1" },
	{ "grace",
	  { VALUE_DURATION, .max = MS_PER_DAY },
	  AT(grace),
	  30 * MS_PER_S,
	  "from the first signal to KILL" },
	{ "env",
	  { VALUE_BYTES, .max = SPEC_LIST_MAX },
	  AT(env),
	  .help = "environment: NAME=VALUE" },
	{ "cwd",
	  { VALUE_BYTES_PATH, .max = 4096 },
	  AT(cwd),
	  .help = "directory to run in; the home directory" },
	{ "umask",
	  { VALUE_OCTAL, .max = 0777 },
	  AT(umask),
	  SPEC_NO_UMASK,
	  "mask of the modes of its files: 022; the agent's" },
	{ "begin", { VALUE_TIME }, AT(begin), .help = "not before this time" },
	{ "paused", { VALUE_FLAG }, AT(paused), .help = "wait for tenure resume" },
	{ "retry_memory",
	  { VALUE_FACTOR, .min = 1000, .max = 100000 },
	  AT(retry_memory),
	  0,
	  "factor on memory after it ran out: 1.5" },
	{ "no_requeue", { VALUE_FLAG }, AT(no_requeue), .help = "failed when its node went away" },
	{ "clean",
	  { VALUE_CHOICE, .choices = cleans },
	  AT(clean),
	  .help = "what else of ours is ended with it: none, gpu, python" },
	{ "script",
	  { VALUE_TEXT, .max = SPEC_SCRIPT_MAX },
	  AT(script),
	  .help = "text of a script" },
	{ "args",
	  { VALUE_BYTES, .max = SPEC_LIST_MAX },
	  AT(args),
	  .help = "the script's arguments" },
	{ "argv",
	  { VALUE_BYTES, .max = SPEC_LIST_MAX },
	  AT(argv),
	  .help = "a program and its arguments" },
	{ "commands",
	  { VALUE_TEXTS, .max = SPEC_ELEMENTS_MAX },
	  AT(commands),
	  .help = "one shell command per element" },
	{ "host", { VALUE_TEXT, .max = 256 }, AT(host), .help = "where it was submitted" },
	{ "user", { VALUE_TEXT, .max = 256 }, AT(user), .help = "who submitted it" },
	{ "uid", { VALUE_UINT, .max = UINT32_MAX }, AT(uid), .help = "the submitter's number" },
	{ "submitted", { VALUE_TIME }, AT(submitted), .help = "when" },
	{ "rules",
	  { VALUE_CHOICE, .choices = rule_names },
	  AT(rules),
	  .help = "compete: free memory is the only condition on others' use" },
	{ "raw", { VALUE_FLAG }, AT(raw), .help = "came as a bare script" },
};

static const struct spec_row *row_find(const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcmp(rows[i].name, key) == 0)
			return &rows[i];
	return NULL;
}

static void *field_of(struct spool_spec *s, const struct spec_row *row)
{
	return (char *)s + row->offset;
}

struct spool_spec *spec_new(void)
{
	struct spool_spec *s = xcalloc(1, sizeof(*s));

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (value_is(rows[i].spec.type, VALUE_IS_NUMBER))
			*(uint64_t *)field_of(s, &rows[i]) = rows[i].def;
	return s;
}

struct spool_spec *spec_free(struct spool_spec *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		value_clear_field(rows[i].spec.type, field_of(s, &rows[i]));
	free(s);
	return NULL;
}

struct spool_spec *spec_for_element(const struct spool_spec *s, uint64_t element)
{
	static const struct text_list none = { .n = 0 };
	struct spool_spec *c = xcalloc(1, sizeof(*c));
	bool own = element >= 1 && element <= s->commands.n;

	*c = *s;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		bool commands = rows[i].offset == AT(commands);

		value_copy_field(rows[i].spec.type, field_of(c, &rows[i]),
				 commands ? (const void *)&none : (const char *)s + rows[i].offset);
	}
	if (own)
		text_list_add(&c->commands, s->commands.texts[element - 1]);
	return c;
}

bool spec_key_at(size_t i, struct spec_key *ret)
{
	if (i >= ARRAY_LEN(rows))
		return false;
	*ret = (struct spec_key){ .name = rows[i].name, .help = rows[i].help };
	(void)value_key_hint(&rows[i].spec, ret->type);
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

int spec_check_key(const char *key, struct err *e)
{
	return row_find(key) ? 0 : unknown_key(key, e);
}

static void reset(struct spool_spec *s, const struct spec_row *row)
{
	value_clear_field(row->spec.type, field_of(s, row));
	if (value_is(row->spec.type, VALUE_IS_NUMBER))
		*(uint64_t *)field_of(s, row) = row->def;
}

int spec_set_json(struct spool_spec *s, const char *key, const json_t *value, struct err *e)
{
	const struct spec_row *row = row_find(key);
	struct err why = ERR_INIT;

	if (!row)
		return unknown_key(key, e);
	if (json_is_null(value)) {
		reset(s, row);
		return 0;
	}

	int r = value_from_json(&row->spec, value, field_of(s, row), &why);

	return r < 0 ? err_set(e, r, "%s: %s", key, why.text) : 0;
}

/* What is written of a key: NULL where it is what it would be without being said. */
static json_t *written(const struct spool_spec *s, const struct spec_row *row)
{
	const void *field = (const char *)s + row->offset;

	if (!value_is_there(row->spec.type, field) ||
	    (value_is(row->spec.type, VALUE_IS_NUMBER) && *(const uint64_t *)field == row->def))
		return NULL;
	return value_file_json(&row->spec, field);
}

/* What a person's text means; it adds to a list that is there. NULL: it is not UTF-8. */
static json_t *json_of_text(const struct spool_spec *s, const struct spec_row *row,
			    const char *text)
{
	json_t *value = value_json_of_text(row->spec.type, text);
	json_t *list = value && value_is(row->spec.type, VALUE_IS_MANY) ? written(s, row) : NULL;

	if (list && json_array_extend(list, value) == 0) {
		json_decref(value);
		return list;
	}
	json_decref(list);
	return value;
}

int spec_set_text(struct spool_spec *s, const char *key, const char *text, struct err *e)
{
	const struct spec_row *row = row_find(key);

	if (!row)
		return unknown_key(key, e);

	json_t *value = json_of_text(s, row, text);

	if (!value)
		return err_set(e, -EINVAL, "%s: the text is not UTF-8", key);

	int r = spec_set_json(s, key, value, e);

	json_decref(value);
	return r;
}

json_t *spec_value(const char *key, const char *text, struct err *e)
{
	struct spool_spec *scratch = spec_new();
	const struct spec_row *row = row_find(key);
	json_t *value = row ? json_of_text(scratch, row, text) : NULL;
	int r = 0;

	if (!row)
		r = unknown_key(key, e);
	else if (!value)
		r = err_set(e, -EINVAL, "%s: the text is not UTF-8", key);
	else
		r = spec_set_json(scratch, key, value, e);
	if (r < 0) {
		json_decref(value);
		value = NULL;
	}
	(void)spec_free(scratch);
	return value;
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

/* Of what is run, where nobody has said a name. */
static void make_up_name(struct spool_spec *s)
{
	char name[SPEC_NAME_MAX + 1];

	if (s->commands.n)
		ident_make_command_name(s->commands.texts[0], name);
	else
		ident_make_task_name(s->argv.n ? s->argv.texts[0] : "task", name);
	s->name = xstrdup(name);
	s->unnamed = !s->argv.n;
}

int spec_count(const struct spool_spec *s, uint64_t *ret, struct err *e)
{
	if (s->sweep.n)
		return sweep_count(&s->sweep, ret, e);
	*ret = s->array.set ? s->array.to - s->array.from + 1 : s->commands.n;
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
		r = spec_count(s, &count, e);
	if (r == 0 && s->shared && !s->memory)
		r = err_set(e, -EINVAL, "shared: say with memory how much it needs on a device");
	if (r == 0 && !s->name)
		make_up_name(s);
	return r;
}

static int check_word(const char *key, const char *name, struct err *e)
{
	if (!name || !ident_is_word(name))
		return 0;
	if (strcmp(name, "all") == 0)
		return err_set(e, -EINVAL, "%s: \"all\" means every task; take another name", key);
	return err_set(e, -EINVAL, "%s: \"%s\" would be taken for the id of a task; take a name",
		       key, name);
}

int spec_check_new(const struct spool_spec *s, struct err *e)
{
	int r = check_word("name", s->name, e);

	if (r == 0)
		r = check_word("lane", s->lane, e);
	if (r == 0 && s->retry_memory && !s->memory)
		r = err_set(e, -EINVAL, "retry_memory: say with memory how much it needs at first");
	if (r == 0 && s->retry_memory && !s->retries)
		r = err_set(e, -EINVAL,
			    "retry_memory: say with retries how often it is tried again");
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
		const struct spec_row *row = &rows[i];
		json_t *v = written(s, row);

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
		bool lost = value_is(rows[i].spec.type, VALUE_IS_TEXT) && *(char *const *)field &&
			    !have;

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
