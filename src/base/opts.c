/* SPDX-License-Identifier: MIT */

/*
 * The parser keeps one slot per row: whether it was given, its text and its value. Text of a
 * repeated or many-worded list is joined with commas and parsed as a whole, so that checks see all
 * of it at once. Values are parsed when the slot is complete, after the last word.
 */

#include "base/opts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"

struct opt_slot {
	const struct opt *row;
	bool given;
	bool has_value;
	struct strbuf text;
	struct value value;
};

struct opts {
	size_t n;
	struct opt_slot *slots;
	size_t n_args;
	char **args; /* ends with NULL once parsed */
	bool dashes;
	char *unknown;
};

struct opts *opts_new(void)
{
	return xcalloc(1, sizeof(struct opts));
}

struct opts *opts_free(struct opts *o)
{
	if (!o)
		return NULL;
	for (size_t i = 0; i < o->n; i++) {
		if (o->slots[i].has_value)
			value_clear(&o->slots[i].value);
		strbuf_clear(&o->slots[i].text);
	}
	free(o->slots);
	free(o->args);
	free(o->unknown);
	free(o);
	return NULL;
}

static struct opt_slot *find_long(const struct opts *o, const char *name, size_t len)
{
	for (size_t i = 0; i < o->n; i++) {
		const char *have = o->slots[i].row->name;

		if (strlen(have) == len && strncmp(have, name, len) == 0)
			return &o->slots[i];
	}
	return NULL;
}

static struct opt_slot *find_short(const struct opts *o, char c)
{
	for (size_t i = 0; i < o->n; i++) {
		if (o->slots[i].row->short_name == c)
			return &o->slots[i];
	}
	return NULL;
}

void opts_add_row(struct opts *o, const struct opt *row)
{
	if (find_long(o, row->name, strlen(row->name)))
		return;
	o->slots = xrealloc(o->slots, o->n + 1, sizeof(*o->slots));
	o->slots[o->n++] = (struct opt_slot){ .row = row };
}

void opts_add_rows(struct opts *o, const struct opt *rows)
{
	for (; rows && rows->name; rows++)
		opts_add_row(o, rows);
}

static const struct value_spec *spec_of(const struct opt *row)
{
	static const struct value_spec as_text = { VALUE_STRING };

	return row->flags & OPT_AS_TEXT ? &as_text : &row->spec;
}

static bool is_flag(const struct opt_slot *s)
{
	return s->row->spec.type == VALUE_FLAG;
}

static void slot_give(struct opt_slot *s, const char *text)
{
	bool join = s->given && value_is(s->row->spec.type, VALUE_IS_MANY);

	if (!join)
		strbuf_reset(&s->text);
	else if (value_is(s->row->spec.type,
			  VALUE_IS_APART)) /* it may be empty, or end with a comma */
		strbuf_addc(&s->text, VALUE_SEPARATOR);
	else if (s->text.len && s->text.data[s->text.len - 1] != ',')
		strbuf_addc(&s->text, ',');
	strbuf_adds(&s->text, text);
	s->given = true;
}

static int unknown_long(struct opts *o, const char *name, size_t len, struct err *e)
{
	cleanup_free const char **names = xcalloc(o->n + 2, sizeof(char *));
	const char *word;

	for (size_t i = 0; i < o->n; i++)
		names[i] = o->slots[i].row->name;
	names[o->n] = "help";
	o->unknown = xasprintf("--%.*s", (int)len, name);
	word = o->unknown + 2;

	const char *near = str_nearest(word, names);

	if (near && strcmp(near, word) != 0) /* not everybody who parses has --help */
		return err_set(e, -EINVAL, "unknown option --%s; did you mean --%s?", word, near);
	return err_set(e, -EINVAL, "unknown option --%s", word);
}

static int needs_value(const struct opt_slot *s, struct err *e)
{
	enum value_type type = spec_of(s->row)->type;

	/* What any text may be, only the row itself can say. */
	if (s->row->arg && value_is(type, VALUE_IS_OPEN))
		return err_set(e, -EINVAL, "--%s needs a value, %s (%s)", s->row->name, s->row->arg,
			       s->row->help);
	return err_set(e, -EINVAL, "--%s needs a value: %s", s->row->name, value_hint(type));
}

/* Take words from argv[*i] on for an option whose value was not attached to it. */
static int take_words(struct opt_slot *s, int argc, char *const *argv, int *i, struct err *e)
{
	if (*i + 1 >= argc || strcmp(argv[*i + 1], "--") == 0)
		return needs_value(s, e);
	slot_give(s, argv[++*i]);
	while (*i + 1 < argc && value_takes_word(s->row->spec.type, argv[*i + 1]))
		slot_give(s, argv[++*i]);
	return 0;
}

static int parse_long(struct opts *o, int argc, char *const *argv, int *i, struct err *e)
{
	const char *name = argv[*i] + 2, *eq = strchr(name, '=');
	size_t len = eq ? (size_t)(eq - name) : strlen(name);
	struct opt_slot *s = find_long(o, name, len);

	if (!s && !eq && str_has_prefix(name, "no-")) {
		s = find_long(o, name + 3, len - 3);
		if (s && is_flag(s)) {
			slot_give(s, "false");
			return 0;
		}
		s = NULL;
	}
	if (!s)
		return unknown_long(o, name, len, e);
	if (eq) {
		slot_give(s, eq + 1);
		return 0;
	}
	if (is_flag(s)) {
		slot_give(s, "true");
		return 0;
	}
	return take_words(s, argc, argv, i, e);
}

static int parse_short(struct opts *o, int argc, char *const *argv, int *i, struct err *e)
{
	size_t len = strcspn(argv[*i] + 1, "=");

	if (len > 1 && find_long(o, argv[*i] + 1, len))
		return err_set(e, -EINVAL, "unknown option %.*s; did you mean -%.*s?", (int)len + 1,
			       argv[*i], (int)len + 1, argv[*i]);
	for (const char *p = argv[*i] + 1; *p; p++) {
		struct opt_slot *s = find_short(o, *p);

		if (!s) {
			o->unknown = xasprintf("-%c", *p);
			return err_set(e, -EINVAL, "unknown option %s", o->unknown);
		}
		if (is_flag(s)) {
			slot_give(s, "true");
			continue;
		}
		if (!p[1])
			return take_words(s, argc, argv, i, e);
		slot_give(s, p + 1 + (p[1] == '='));
		return 0;
	}
	return 0;
}

static void add_arg(struct opts *o, char *arg)
{
	o->args = xrealloc(o->args, o->n_args + 2, sizeof(char *));
	o->args[o->n_args++] = arg;
	o->args[o->n_args] = NULL;
}

static int parse_values(struct opts *o, struct err *e)
{
	for (size_t i = 0; i < o->n; i++) {
		struct opt_slot *s = &o->slots[i];
		const char *text = s->given ? strbuf_str(&s->text) : s->row->def;

		if (!s->given && (s->row->flags & OPT_REQUIRED))
			return err_set(e, -EINVAL, "--%s is needed", s->row->name);
		if (!text)
			continue;
		if (value_parse(spec_of(s->row), text, &s->value, e) < 0)
			return err_wrap(e, "--%s", s->row->name);
		s->has_value = true;
	}
	return 0;
}

int opts_parse(struct opts *o, int argc, char *const *argv, enum opts_mode mode, struct err *e)
{
	int i;

	for (i = 1; i < argc; i++) {
		char *word = argv[i];
		int r = 0;

		if (strcmp(word, "--") == 0) {
			o->dashes = true;
			i++;
			break;
		}
		if (str_has_prefix(word, "--"))
			r = parse_long(o, argc, argv, &i, e);
		else if (word[0] == '-' && word[1])
			r = parse_short(o, argc, argv, &i, e);
		else if (mode == OPTS_STOP_AT_WORD)
			break;
		else
			add_arg(o, word);
		if (r < 0)
			return r;
	}
	for (; i < argc; i++)
		add_arg(o, argv[i]);
	return parse_values(o, e);
}

static const struct opt_slot *slot_of(const struct opts *o, const char *name)
{
	const struct opt_slot *s = find_long(o, name, strlen(name));

	if (!s) {
		(void)fprintf(stderr, "tenure: defect: no option is called --%s\n", name);
		abort();
	}
	return s;
}

bool opts_has(const struct opts *o, const char *name)
{
	return find_long(o, name, strlen(name)) != NULL;
}

bool opts_given(const struct opts *o, const char *name)
{
	return slot_of(o, name)->given;
}

bool opts_flag(const struct opts *o, const char *name)
{
	const struct opt_slot *s = slot_of(o, name);

	return s->has_value && s->value.flag;
}

const struct value *opts_value(const struct opts *o, const char *name)
{
	const struct opt_slot *s = slot_of(o, name);

	return s->has_value ? &s->value : NULL;
}

const char *opts_text(const struct opts *o, const char *name)
{
	const struct opt_slot *s = slot_of(o, name);

	return s->given ? strbuf_str(&s->text) : NULL;
}

size_t opts_argc(const struct opts *o)
{
	return o->n_args;
}

const char *opts_arg(const struct opts *o, size_t i)
{
	return i < o->n_args ? o->args[i] : NULL;
}

char *const *opts_argv(const struct opts *o)
{
	static char *const none[] = { NULL };

	return o->args ? o->args : none;
}

bool opts_dashes(const struct opts *o)
{
	return o->dashes;
}

const char *opts_unknown(const struct opts *o)
{
	return o->unknown;
}

size_t opts_n_rows(const struct opts *o)
{
	return o->n;
}

const struct opt *opts_row(const struct opts *o, size_t i)
{
	return o->slots[i].row;
}

#define HELP_COLUMN 28

char *opt_meaning(const struct opt *row)
{
	struct strbuf b = STRBUF_INIT;

	strbuf_adds(&b, row->help);
	for (size_t i = 0; row->spec.choices && row->spec.choices[i]; i++)
		strbuf_addf(&b, "%s%s", i ? " | " : ": ", row->spec.choices[i]);
	if (row->def && row->def[0] && row->spec.type != VALUE_FLAG)
		strbuf_addf(&b, " (default %s)", row->def);
	return strbuf_take(&b);
}

static void add_row_help(struct strbuf *b, const struct opt *row, size_t width)
{
	struct strbuf left = STRBUF_INIT;
	cleanup_free char *right = opt_meaning(row);

	if (row->short_name)
		strbuf_addf(&left, "  -%c, --%s", row->short_name, row->name);
	else
		strbuf_addf(&left, "      --%s", row->name);
	if (row->arg)
		strbuf_addf(&left, " %s", row->arg);

	strbuf_add(b, strbuf_str(&left), left.len);
	if (left.len + 2 > HELP_COLUMN) {
		strbuf_addc(b, '\n');
		strbuf_pad(b, ' ', HELP_COLUMN);
	} else {
		strbuf_pad(b, ' ', HELP_COLUMN - left.len);
	}
	strbuf_add_wrapped(b, right, HELP_COLUMN, width);
	strbuf_clear(&left);
}

const char *opts_group_of(const void *o, size_t i)
{
	const struct opt *row = opts_row(o, i);

	return row->flags & OPT_HIDDEN ? NULL : row->group ? row->group : "Options";
}

static bool is_of_group(const struct group_walk *w, size_t i, const char *group)
{
	const char *its = w->group_of(w->rows, i);

	return its && strcmp(its, group) == 0;
}

static bool begins_group(const struct group_walk *w, size_t i)
{
	const char *group = w->group_of(w->rows, i);
	bool begun = false;

	for (size_t j = 0; group && j < i && !begun; j++)
		begun = is_of_group(w, j, group);
	return group && !begun;
}

bool group_next(struct group_walk *w)
{
	w->first = false;
	while (w->group && ++w->i < w->n)
		if (is_of_group(w, w->i, w->group))
			return true;
	for (w->i = w->group ? w->begin + 1 : 0; w->i < w->n; w->i++) {
		if (!begins_group(w, w->i))
			continue;
		w->begin = w->i;
		w->group = w->group_of(w->rows, w->i);
		w->first = true;
		return true;
	}
	return false;
}

char *opts_help(const struct opts *o, size_t width)
{
	struct group_walk w = { .group_of = opts_group_of, .rows = o, .n = o->n };
	struct strbuf b = STRBUF_INIT;

	while (group_next(&w)) {
		if (w.first)
			strbuf_addf(&b, "%s%s:\n", b.len ? "\n" : "", w.group);
		add_row_help(&b, opts_row(o, w.i), width);
	}
	return strbuf_take(&b);
}
