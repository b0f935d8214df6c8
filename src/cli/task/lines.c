/* SPDX-License-Identifier: MIT */

/*
 * All lines are read before the first one becomes anything: whether they are elements or tasks is
 * known only then. A plain line is kept as the text that it is, because there may be a million.
 */

#include "cli/task/lines.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "base/utf8.h"
#include "spool/task_text.h"

struct line {
	char *command;	/* NULL: */
	json_t *object; /* "command", "argv" and whatever else the line says */
	size_t file, number;
};

struct lines {
	const struct text_list *files;
	struct line *all;
	size_t n;
	bool own; /* one says more than what to run */
};

void spec_list_add(struct spec_list *l, struct task_spec *s)
{
	l->specs = xgrow(l->specs, l->n, sizeof(*l->specs));
	l->specs[l->n++] = s;
}

void spec_list_clear(struct spec_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		(void)spec_free(l->specs[i]);
	free(l->specs);
	*l = (struct spec_list){ .n = 0 };
}

static void lines_clear(struct lines *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->all[i].command);
		json_decref(l->all[i].object);
	}
	free(l->all);
}

static bool is_standard(const char *file)
{
	return strcmp(file, "-") == 0;
}

/* ---- reading ---- */

static bool says_only_what_to_run(json_t *o)
{
	return json_object_size(o) == 1 &&
	       (json_object_get(o, "command") || json_object_get(o, "argv"));
}

static int read_json(struct line *line, const char *text, struct err *e)
{
	json_error_t je;
	json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, &je);

	if (!o)
		return err_set(e, -EINVAL, "not JSON: %s", je.text);
	line->object = json_is_array(o) ? json_pack("{s:o}", "argv", o) : o;
	return 0;
}

/* A task is written as JSON. Found out then, it would be when those before it are in the queue. */
static int check_utf8(const char *text, struct err *e)
{
	uint32_t c;

	for (size_t n; *text; text += n) {
		n = utf8_decode(text, &c);
		if (!n)
			return err_set(e, -EINVAL,
				       "not UTF-8 text; put it into a file and give that file's "
				       "path as the command");
	}
	return 0;
}

/* A file from another system has them at the ends of its lines. */
static void cut_carriage_returns(char *text)
{
	size_t len = strlen(text);

	while (len && text[len - 1] == '\r')
		text[--len] = '\0';
}

static int add_line(struct lines *l, size_t file, size_t number, char *text, struct err *e)
{
	struct line line = { .file = file, .number = number };
	int r = 0;

	text += strspn(text, " \t");
	cut_carriage_returns(text);
	if (strchr(text, '\r')) /* of a comment as well: what follows may be meant as a line */
		return err_set(e, -EINVAL,
			       "a carriage return is inside it; a line ends with LF, or CR LF");
	if (!text[0] || text[0] == '#')
		return 0;
	/* No command of a shell begins so. */
	if (str_has_prefix(text, "{\"") || str_has_prefix(text, "[\""))
		r = read_json(&line, text, e);
	else if ((r = check_utf8(text, e)) == 0)
		line.command = xstrdup(text);
	if (r < 0)
		return r;
	l->own = l->own || (line.object && !says_only_what_to_run(line.object));
	/* Doubled at every power of two. */
	l->all = xgrow(l->all, l->n, sizeof(*l->all));
	l->all[l->n++] = line;
	return 0;
}

static int wrap_place(const struct lines *l, size_t file, size_t number, struct err *e)
{
	const char *path = l->files->texts[file];

	return is_standard(path) ? err_wrap(e, "standard input, line %zu", number)
				 : err_wrap(e, "%s:%zu", path, number);
}

static int read_stream(struct lines *l, size_t file, FILE *f, struct err *e)
{
	char *text = NULL;
	size_t size = 0, number = 0;
	ssize_t len;
	int r = 0;

	while (r == 0 && (len = getline(&text, &size, f)) >= 0) {
		text[strcspn(text, "\n")] = '\0';
		number++;
		r = strlen(text) + 1 < (size_t)len ? err_set(e, -EINVAL, "a NUL byte is in it")
						   : add_line(l, file, number, text, e);
		if (r < 0)
			(void)wrap_place(l, file, number, e);
	}
	free(text);
	return r;
}

static int read_file(struct lines *l, size_t file, struct err *e)
{
	const char *path = l->files->texts[file];
	const char *shown = is_standard(path) ? "standard input" : path;
	FILE *f = is_standard(path) ? stdin : fopen(path, "re");
	size_t before = l->n;
	int r;

	if (!f)
		return err_sys(e, errno, "open %s", path);
	r = read_stream(l, file, f, e);
	if (r == 0 && ferror(f))
		r = err_sys(e, errno, "read %s", shown);
	if (r == 0 && l->n == before)
		r = err_set(e, -EINVAL, "%s has no command in it", shown);
	if (f != stdin)
		(void)fclose(f);
	return r;
}

/* ---- elements of one task ---- */

static int add_argv(struct task_spec *s, const json_t *argv, struct err *e)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	for (size_t i = 0; i < json_array_size(argv); i++) {
		const char *word = json_string_value(json_array_get(argv, i));

		if (!word)
			return err_set(e, -EINVAL, "argv: word %zu must be a text", i + 1);
		if (b.len)
			strbuf_addc(&b, ' ');
		strbuf_add_quoted(&b, word);
	}
	if (!b.len)
		return err_set(e, -EINVAL, "argv: it is no list of words, or an empty one");
	text_list_add(&s->commands, strbuf_str(&b));
	return 0;
}

static int command_of(const json_t *value, const char **ret, struct err *e)
{
	*ret = json_string_value(value);
	return *ret && **ret ? 0 : err_set(e, -EINVAL, "command: must be a text, and not empty");
}

static int add_element(struct task_spec *s, const struct line *line, struct err *e)
{
	const json_t *argv = json_object_get(line->object, "argv");
	const char *command = line->command;
	int r;

	if (argv)
		return add_argv(s, argv, e);
	r = command ? 0 : command_of(json_object_get(line->object, "command"), &command, e);
	if (r == 0)
		text_list_add(&s->commands, command);
	return r;
}

/* ---- tasks of their own ---- */

static int set_command(struct task_spec *s, const char *command)
{
	static const char *const shell[] = { "/bin/sh", "-c" };
	char name[SPEC_NAME_MAX + 1];

	for (size_t i = 0; i < ARRAY_LEN(shell); i++)
		text_list_add(&s->argv, shell[i]);
	text_list_add(&s->argv, command);
	if (!s->name) {
		ident_make_command_name(command, name);
		s->name = xstrdup(name);
	}
	return 0;
}

static int set_variables(struct task_spec *s, const json_t *value, struct err *e)
{
	struct task_spec *scratch = spec_new();
	int r = spec_set_json(scratch, "env", value, e);

	for (size_t i = 0; r == 0 && i < scratch->env.n; i++)
		text_list_set_variable(&s->env, scratch->env.texts[i]);
	(void)spec_free(scratch);
	return r;
}

/* A line is read once, when it is submitted: so it may say a time as people do ("+1h30m", "tomorrow
 * 08:00"), which a file of the queue cannot. */
static int set_begin(struct task_spec *s, const json_t *value, struct err *e)
{
	const char *text = json_string_value(value);
	char buf[CLOCK_TEXT_MAX];
	uint64_t ns = 0;
	json_t *at;
	int r;

	r = text ? unit_parse_time(text, 0, &ns, NULL) : -EINVAL;
	if (r == -EINVAL || (r == 0 && unit_time_is_dated(ns)))
		return spec_set_json(s, "begin", value, e);
	r = unit_parse_time(text, clock_wall_ns(), &ns, e);
	if (r < 0)
		return err_wrap(e, "begin");
	at = json_string(clock_format_iso(ns, buf));
	r = spec_set_json(s, "begin", at, e);
	json_decref(at);
	return r;
}

/* What is submit's own to say, or has another name here. */
static int check_line_key(const char *key, struct err *e)
{
	static const char *const command[] = { "command", NULL };
	const struct task_option *row = task_option_find(key);

	if (!row && str_nearest(key, command))
		return err_set(e, -EINVAL, "unknown key \"%.80s\"; did you mean \"command\"?", key);
	if (row && row->flags & OPTION_NOT_IN_LINE)
		return err_set(e, -EINVAL, "%s: not for a line to say", key);
	return 0;
}

static int set_keys(struct task_spec *s, json_t *object, struct err *e)
{
	const char *key, *command = NULL;
	json_t *value;
	int r = 0;

	json_object_foreach(object, key, value)
	{
		if (strcmp(key, "command") == 0)
			r = command_of(value, &command, e);
		else if ((r = check_line_key(key, e)) == 0)
			r = strcmp(key, "env") == 0 && !json_is_null(value)
				    ? set_variables(s, value, e)
			    : strcmp(key, "begin") == 0 ? set_begin(s, value, e)
							: spec_set_json(s, key, value, e);
		if (r < 0)
			return r;
	}
	if (command && (s->argv.n || s->script))
		return err_set(e, -EINVAL, "give one of command, argv and script");
	if (!command && !s->argv.n && !s->script)
		return err_set(e, -EINVAL,
			       "it does not say what to run; give one of command, argv and script");
	return command ? set_command(s, command) : 0;
}

static int add_task(const struct task_spec *base, const struct line *line, struct spec_list *ret,
		    struct err *e)
{
	struct task_spec *s = spec_for_element(base, 0);
	int r = line->object ? set_keys(s, line->object, e) : set_command(s, line->command);

	if (r == 0)
		r = spec_check(s, e);
	if (r == 0)
		r = spec_check_new(s, e);
	if (r == 0)
		spec_list_add(ret, take_ptr(s));
	(void)spec_free(s);
	return r;
}

int lines_take_files(struct task_spec *s, const struct text_list *files, struct spec_list *ret,
		     struct err *e)
{
	struct lines l = { .files = files };
	int r = 0;

	for (size_t i = 0; i < files->n && r == 0; i++)
		r = read_file(&l, i, e);
	for (size_t i = 0; i < l.n && r == 0; i++) {
		r = l.own ? add_task(s, &l.all[i], ret, e) : add_element(s, &l.all[i], e);
		if (r < 0)
			(void)wrap_place(&l, l.all[i].file, l.all[i].number, e);
	}
	lines_clear(&l);
	return r;
}
