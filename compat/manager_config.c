/* SPDX-License-Identifier: MIT */
#include "compat/manager_config.h"

#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"

#define FILE_MAX (1UL << 20)

#define COUNT_MAX    4096
#define INTERVAL_MIN 0.1
#define INTERVAL_MAX 86400

enum kind { SECONDS, COUNT, SHARE, FLAG, TEXT, COMMAND, WORDS, PAIRS, OBJECT };

static const char *const kind_words[] = {
	[SECONDS] = "a number of seconds, 0.1 to 86400",
	[COUNT] = "a whole number, 0 to 4096",
	[SHARE] = "a share between 0 and 1",
	[FLAG] = "true or false",
	[TEXT] = "a text",
	[COMMAND] = "a command, as a text",
	[WORDS] = "a list of texts",
	[PAIRS] = "an object of texts under names of variables (letters, digits and _)",
	[OBJECT] = "an object",
};

static const struct row {
	const char *key;
	enum kind kind;
	size_t at;
} rows[] = {
#define AT(field) offsetof(struct manager_config, field)
	{ "monitor_interval", SECONDS, AT(interval_s) },
	{ "max_gpus_per_task", COUNT, AT(max_per_task) },
	{ "max_total_gpus", COUNT, AT(max_total) },
	{ "max_manual_gpus", COUNT, AT(max_manual) },
	{ "max_auto_gpus", COUNT, AT(max_auto) },
	{ "auto_scale", FLAG, AT(auto_scale) },
	{ "program_template", OBJECT, 0 },
	{ "program_template.command", COMMAND, AT(command) },
	{ "program_template.args", WORDS, AT(args) },
	{ "program_template.env_vars", PAIRS, AT(env) },
	{ "scaling", OBJECT, 0 },
	{ "scaling.enabled", FLAG, AT(scaling) },
	{ "scaling.min_gpus", COUNT, AT(min_gpus) },
	{ "scaling.max_gpus", COUNT, AT(max_gpus) },
	{ "scaling.scale_up_threshold", SHARE, AT(up) },
	{ "scaling.scale_down_threshold", SHARE, AT(down) },
	{ "notification", OBJECT, 0 },
	{ "notification.enabled", FLAG, AT(notify) },
	{ "notification.email", TEXT, AT(email) },
	{ "notification.gpu_available_threshold", COUNT, AT(notify_from) },
};

/* ---- comments ---- */

/* Behind a comment that begins at text; 0: none does. */
static size_t comment_len(const char *text, size_t len)
{
	const char *end;

	if (len < 2 || text[0] != '/')
		return 0;
	if (text[1] == '/') {
		end = memchr(text, '\n', len);
		return end ? (size_t)(end - text) : len;
	}
	if (text[1] != '*')
		return 0;
	end = memmem(text + 2, len - 2, "*/", 2);
	return end ? (size_t)(end - text) + 2 : len;
}

void manager_config_strip(char *text, size_t len)
{
	static const char mark[] = "\xef\xbb\xbf";
	bool in_text = false;

	if (len >= strlen(mark) && memcmp(text, mark, strlen(mark)) == 0)
		(void)memset(text, ' ', strlen(mark));

	for (size_t i = 0; i < len; i++) {
		size_t n = in_text ? 0 : comment_len(text + i, len - i);

		if (in_text && text[i] == '\\')
			i++;
		else if (text[i] == '"')
			in_text = !in_text;
		for (size_t k = 0; k < n; k++)
			if (text[i + k] != '\n')
				text[i + k] = ' ';
		i += n ? n - 1 : 0;
	}
}

/* ---- keys ---- */

static const struct row *find_row(const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcmp(rows[i].key, key) == 0)
			return &rows[i];
	return NULL;
}

static void note_unknown(const char *key, struct strbuf *notes)
{
	const char *names[ARRAY_LEN(rows) + 1] = { NULL };
	const char *near;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		names[i] = rows[i].key;
	near = str_nearest(key, names);
	strbuf_addf(notes, "unknown key \"%s\" is passed over%s%s%s\n", key,
		    near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* As an environment has it; NULL: it is no text, number or flag. */
static char *scalar(const json_t *v)
{
	if (json_is_string(v))
		return xstrdup(json_string_value(v));
	if (json_is_boolean(v))
		return xstrdup(json_is_true(v) ? "true" : "false");
	return json_is_number(v) ? json_dumps(v, JSON_ENCODE_ANY) : NULL;
}

static bool take_words(const json_t *v, struct text_list *ret)
{
	size_t i;
	json_t *one;

	if (!json_is_array(v))
		return false;
	text_list_clear(ret);
	json_array_foreach(v, i, one)
	{
		char *text = scalar(one);

		if (!text)
			return false;
		text_list_take(ret, text);
	}
	return true;
}

static bool is_blank(const char *text)
{
	return !text[strspn(text, " \t\n")];
}

static bool is_variable(const char *name)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
	static const char more[] = "0123456789";

	if (!name[0] || !strchr(letters, name[0]))
		return false;
	while (*name && (strchr(letters, *name) || strchr(more, *name)))
		name++;
	return !*name;
}

static bool take_pairs(const json_t *v, struct text_list *ret)
{
	const char *name;
	json_t *one;

	if (!json_is_object(v))
		return false;
	text_list_clear(ret);
	json_object_foreach((json_t *)(uintptr_t)v, name, one)
	{
		cleanup_free char *text = scalar(one);

		if (!text || !is_variable(name))
			return false;
		text_list_take(ret, xasprintf("%s=%s", name, text));
	}
	return true;
}

static bool take(struct manager_config *c, const struct row *row, const json_t *v)
{
	void *at = (char *)c + row->at;
	double n = json_number_value(v);

	switch (row->kind) {
	case SECONDS:
		*(double *)at = n;
		return json_is_number(v) && n >= INTERVAL_MIN && n <= INTERVAL_MAX;
	case COUNT:
		if (!json_is_number(v) || !(n >= 0 && n <= COUNT_MAX))
			return false;
		*(unsigned int *)at = (unsigned int)n;
		return n - (double)(unsigned int)n < 1e-9; /* 4.0 is one */
	case SHARE:
		*(double *)at = n;
		return json_is_number(v) && n >= 0 && n <= 1;
	case FLAG:
		*(bool *)at = json_is_true(v);
		return json_is_boolean(v);
	case TEXT:
	case COMMAND:
		free(*(char **)at);
		*(char **)at = json_is_string(v) ? xstrdup(json_string_value(v)) : NULL;
		return json_is_string(v) && (row->kind == TEXT || !is_blank(*(char **)at));
	case WORDS:
		return take_words(v, at);
	case PAIRS:
		return take_pairs(v, at);
	case OBJECT:
		return json_is_object(v);
	}
	return false;
}

static int take_object(struct manager_config *c, const char *outer, const json_t *object,
		       struct strbuf *notes, struct err *e)
{
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)object, name, v)
	{
		cleanup_free char *key = xasprintf("%s%s%s", outer, outer[0] ? "." : "", name);
		const struct row *row = find_row(key);
		int r = 0;

		if (!row) {
			note_unknown(key, notes);
			continue;
		}
		if (!take(c, row, v)) {
			cleanup_free char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);

			return err_set(e, -EINVAL, "%s: %.60s is not %s", key, text ? text : "?",
				       kind_words[row->kind]);
		}
		if (row->kind == OBJECT)
			r = take_object(c, key, v, notes, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static unsigned int or_default(unsigned int n, unsigned int def)
{
	return n == MANAGER_UNSET ? def : n;
}

/* Limits that contradict each other; one that the file does not have follows the others. */
static int check(const struct manager_config *c, struct err *e)
{
	unsigned int each = or_default(c->max_per_task, MANAGER_PER_TASK);
	const struct {
		const char *key;
		unsigned int n; /* UNSET: nothing was said */
		const char *limit;
		unsigned int most; /* 0: no limit */
	} pairs[] = {
		{ "scaling.min_gpus", c->min_gpus, "scaling.max_gpus", c->max_gpus },
		{ "scaling.min_gpus", c->min_gpus, "max_gpus_per_task", each },
		{ "scaling.min_gpus", c->min_gpus, "max_total_gpus", or_default(c->max_total, 0) },
		{ "max_gpus_per_task", c->max_per_task, "max_total_gpus",
		  or_default(c->max_total, 0) },
		{ "max_manual_gpus", c->max_manual, "max_total_gpus", or_default(c->max_total, 0) },
		{ "max_auto_gpus", c->max_auto, "max_total_gpus", or_default(c->max_total, 0) },
	};

	for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
		if (pairs[i].most && pairs[i].n != MANAGER_UNSET && pairs[i].n > pairs[i].most)
			return err_set(e, -EINVAL, "%s: %u is more than %s: %u", pairs[i].key,
				       pairs[i].n, pairs[i].limit, pairs[i].most);
	if (c->down >= c->up)
		return err_set(e, -EINVAL,
			       "scaling.scale_down_threshold: %g has to be below "
			       "scaling.scale_up_threshold: %g",
			       c->down, c->up);
	return 0;
}

/* What the older tool's documentation has. */
static void set_defaults(struct manager_config *c)
{
	*c = (struct manager_config){
		.interval_s = 5,
		.max_per_task = MANAGER_UNSET,
		.max_total = MANAGER_UNSET,
		.max_manual = MANAGER_UNSET,
		.max_auto = MANAGER_UNSET,
		.auto_scale = true,
		.scaling = true,
		.min_gpus = 1,
		.max_gpus = 4,
		.up = 0.8,
		.down = 0.3,
		.notify_from = 1,
	};
}

int manager_config_parse(const char *file, char *text, size_t len, struct manager_config *ret,
			 struct strbuf *notes, struct err *e)
{
	json_error_t je;
	json_t *doc;
	int r;

	set_defaults(ret);
	manager_config_strip(text, len);
	doc = json_loadb(text, len, JSON_REJECT_DUPLICATES, &je);
	if (!doc)
		return err_set(e, -EINVAL, "%s:%d:%d: %s", file, je.line, je.column, je.text);
	r = json_is_object(doc) ? take_object(ret, "", doc, notes, e)
				: err_set(e, -EINVAL, "it is not an object");
	if (r == 0)
		r = check(ret, e);
	json_decref(doc);
	return r < 0 ? err_wrap(e, "%s", file) : 0;
}

int manager_config_read(const char *path, bool named, struct manager_config *ret,
			struct strbuf *notes, struct err *e)
{
	cleanup_free char *text = NULL;
	size_t len;
	int r = fs_read_file(path, FILE_MAX, &text, &len, e);

	set_defaults(ret);
	if (r == -ENOENT && !named)
		return 0;
	return r < 0 ? r : manager_config_parse(path, text, len, ret, notes, e);
}

void manager_config_clear(struct manager_config *c)
{
	free(c->command);
	free(c->email);
	text_list_clear(&c->args);
	text_list_clear(&c->env);
	*c = (struct manager_config){ .interval_s = 0 };
}
