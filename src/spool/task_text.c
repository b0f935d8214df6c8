/* SPDX-License-Identifier: MIT */

/*
 * All of it walks the table of task_spec.c. What equals its default is not written, so that a file
 * says what its submitter said.
 *
 * Called by submitters (text), by whatever reads a task file (JSON) and by edits of pending tasks.
 */

#include "spool/task_text.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "base/value.h"
#include "spool/elements.h"

static void reset(struct task_spec *s, const struct task_option *row)
{
	value_clear_field(row->opt.spec.type, task_option_field(s, row));
	if (value_is(row->opt.spec.type, VALUE_IS_NUMBER))
		*(uint64_t *)task_option_field(s, row) = row->def;
}

int spec_set_json(struct task_spec *s, const char *key, const json_t *value, struct err *e)
{
	const struct task_option *row = task_option_of_key(key);
	struct err why = ERR_INIT;

	if (!row)
		return spec_check_key(key, e);
	if (json_is_null(value)) {
		reset(s, row);
		return 0;
	}

	/* Which task is the last one only who submits can say. */
	struct value_spec in_file = row->opt.spec;

	if (in_file.type == VALUE_IDS)
		in_file.word = NULL;

	int r = value_from_json(&in_file, value, task_option_field(s, row), &why);

	return r < 0 ? err_set(e, r, "%s: %s", key, why.text) : 0;
}

/* What is written of a key: NULL where it is what it would be without being said. */
static json_t *written(const struct task_spec *s, const struct task_option *row)
{
	const void *field = (const char *)s + row->offset;

	if (!value_is_there(row->opt.spec.type, field) ||
	    (value_is(row->opt.spec.type, VALUE_IS_NUMBER) && *(const uint64_t *)field == row->def))
		return NULL;
	return value_file_json(&row->opt.spec, field);
}

/* What a person's text means; it adds to a list that is there. NULL: it is not UTF-8. */
static json_t *json_of_text(const struct task_spec *s, const struct task_option *row,
			    const char *text)
{
	json_t *value = value_json_of_text(row->opt.spec.type, text);
	json_t *list =
		value && value_is(row->opt.spec.type, VALUE_IS_MANY) ? written(s, row) : NULL;

	if (list && json_array_extend(list, value) == 0) {
		json_decref(value);
		return list;
	}
	json_decref(list);
	return value;
}

int spec_set_text(struct task_spec *s, const char *key, const char *text, struct err *e)
{
	const struct task_option *row = task_option_of_key(key);

	if (!row)
		return spec_check_key(key, e);

	json_t *value = json_of_text(s, row, text);

	if (!value)
		return err_set(e, -EINVAL, "%s: the text is not UTF-8", key);

	int r = spec_set_json(s, key, value, e);

	json_decref(value);
	return r;
}

json_t *spec_value(const char *key, const char *text, struct err *e)
{
	struct task_spec *scratch = spec_new();
	const struct task_option *row = task_option_of_key(key);
	json_t *value = row ? json_of_text(scratch, row, text) : NULL;
	int r = 0;

	if (!row)
		r = spec_check_key(key, e);
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

static int check_variable(const char *text, struct err *e)
{
	size_t len = strcspn(text, "=");

	if (!text[len] || elements_is_variable(text, len))
		return 0;
	return err_set(
		e, -EINVAL,
		"\"%.*s\" cannot be the name of a variable; use letters, digits and _, and no digit first",
		(int)len, text);
}

/* All that was given of a list of texts. Of two variables of a name programs see the first: the
 * last one goes into the place of what was inherited. */
static int take_texts(const struct task_option *row, const struct text_list *given,
		      struct text_list *field, struct err *e)
{
	struct text_list texts = { .n = 0 };
	json_t *list = json_array();
	int r = 0;

	for (size_t i = 0; i < given->n && r == 0; i++) {
		json_t *one = value_json_of_text(row->opt.spec.type, given->texts[i]);

		if (row->flags & OPTION_REPLACES)
			r = check_variable(given->texts[i], e);
		if (r == 0 && !one)
			r = err_set(e, -EINVAL, "the text is not UTF-8");
		if (r == 0)
			r = json_array_extend(list, one);
		json_decref(one);
	}
	if (r == 0)
		r = value_from_json(&row->opt.spec, list, &texts, e);
	for (size_t i = 0; i < texts.n; i++) {
		if (row->flags & OPTION_REPLACES)
			text_list_set_variable(field, texts.texts[i]);
		else
			text_list_add(field, texts.texts[i]);
	}
	json_decref(list);
	text_list_clear(&texts);
	return r;
}

/* Of an array and a sweep a task has one. */
static bool says(const struct opts *o, const char *name)
{
	static const char *const one_of[] = { "array", "sweep" };

	for (size_t i = 0; i < ARRAY_LEN(one_of); i++)
		if (strcmp(name, one_of[i]) == 0)
			return opts_given(o, one_of[0]) || opts_given(o, one_of[1]);
	return opts_given(o, name);
}

int spec_take_options(struct task_spec *s, const struct opts *o, struct err *e)
{
	return spec_take_options_behind(s, o, NULL, e);
}

int spec_take_options_behind(struct task_spec *s, const struct opts *o, const struct opts *before,
			     struct err *e)
{
	const struct task_option *row;

	for (size_t i = 0; (row = task_option_at(i)); i++) {
		const struct opt *opt = &row->opt;
		void *field = task_option_field(s, row);
		struct err why = ERR_INIT;
		int r = 0;

		if (!opt->name || row->flags & OPTION_SUBMITTER || !opts_has(o, opt->name) ||
		    !opts_given(o, opt->name) || (before && says(before, opt->name)))
			continue;
		if (value_is(opt->spec.type, VALUE_IS_TEXTS)) {
			r = take_texts(row, &opts_value(o, opt->name)->words, field, &why);
		} else {
			value_clear_field(opt->spec.type, field);
			value_copy_field(opt->spec.type, field, &opts_value(o, opt->name)->num);
		}
		if (r < 0)
			return err_set(e, r, "--%s: %s", opt->name, why.text);
	}
	return 0;
}

static int from_object(struct task_spec *s, const json_t *object, struct err *e)
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

int spec_read(const char *text, size_t len, struct task_spec **ret, size_t *used, struct err *e)
{
	json_error_t je;
	json_t *object =
		json_loadb(text, len, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &je);

	if (!object)
		return err_set(e, -EINVAL, "not JSON: line %d, column %d: %s", je.line, je.column,
			       je.text);

	struct task_spec *s = spec_new();
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

json_t *spec_json(const struct task_spec *s)
{
	json_t *object = json_object();
	const struct task_option *row;

	(void)json_object_set_new(object, "version", json_integer(SPEC_VERSION));
	for (size_t i = 0; (row = task_option_at(i)); i++) {
		json_t *v = written(s, row);

		if (v)
			(void)json_object_set_new(object, row->key, v);
	}
	return object;
}

/* jansson makes no string of bytes that are not UTF-8; say which key it is about. */
static int find_not_utf8(const struct task_spec *s, const json_t *object, struct err *e)
{
	const struct task_option *row;

	for (size_t i = 0; (row = task_option_at(i)); i++) {
		const void *field = (const char *)s + row->offset;
		const json_t *have = json_object_get(object, row->key);
		bool lost = value_is(row->opt.spec.type, VALUE_IS_TEXT) && *(char *const *)field &&
			    !have;

		if (lost || json_is_null(have))
			return err_set(e, -EILSEQ,
				       "%s: not UTF-8 text; put it into a file and submit that "
				       "file's path as a command",
				       row->key);
	}
	return 0;
}

/* What is written as an edit goes from the object to an edit's keys; NULL: nothing does. */
static json_t *take_edit(json_t *object)
{
	const struct task_option *row;
	json_t *set = NULL;

	for (size_t i = 0; (row = task_option_at(i)); i++) {
		json_t *value = json_object_get(object, row->key);

		if (!(row->flags & OPTION_AS_EDIT) || !value)
			continue;
		set = set ? set : json_object();
		(void)json_object_set(set, row->key, value);
		(void)json_object_del(object, row->key);
	}
	return set;
}

static int add_line(struct strbuf *b, const json_t *object, struct err *e)
{
	cleanup_free char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(16));

	if (!text)
		return err_set(e, -ENOMEM, "no memory for the task's text");
	strbuf_addf(b, "%s\n", text);
	return 0;
}

char *spec_text(const struct task_spec *s, struct err *e)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	json_t *object = spec_json(s), *edit = NULL;
	int r = find_not_utf8(s, object, e);

	if (r == 0) {
		json_t *set = take_edit(object);

		if (set)
			edit = json_pack("{ss so sf}", "event", "edit", "set", set, "time",
					 (double)(s->submitted / NS_PER_US) / 1e6);
		r = add_line(&b, object, e);
	}
	if (r == 0 && edit)
		r = add_line(&b, edit, e);
	json_decref(edit);
	json_decref(object);
	return r == 0 ? strbuf_take(&b) : NULL;
}
