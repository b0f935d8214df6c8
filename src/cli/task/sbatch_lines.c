/* SPDX-License-Identifier: MIT */

/*
 * Slurm reads the lines from the top of the script to the first command. A row of the table is an
 * option of sbatch, the option of ours that means the same, and how its value is said here; a value
 * that cannot be said makes the option one that does nothing.
 */

#include "cli/task/sbatch_lines.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "base/value.h"
#include "cli/cmd.h"
#include "cli/task/submit_inherit.h"
#include "spool/elements.h"
#include "spool/task_text.h"

#define MARK "#SBATCH"

/* The value as our option takes it, or NULL: it means nothing here. The caller frees it. */
typedef char *(*translate_fn)(const char *value);

static bool is_number(const char *text)
{
	return text[0] && !text[strspn(text, "0123456789")];
}

static char *as_name(const char *value)
{
	char name[SPEC_NAME_MAX + 1];

	ident_make_task_name(value, name);
	return xstrdup(name);
}

/* "0-9", "1-100%4" and "7"; lists and steps are more than a range. */
static char *as_array(const char *value)
{
	size_t from = strspn(value, "0123456789"), to;

	if (from && !value[from])
		return xasprintf("%s-%s", value, value);
	if (!from || value[from] != '-')
		return NULL;
	to = strspn(value + from + 1, "0123456789");
	if (!to || (value[from + 1 + to] && value[from + 1 + to] != '%'))
		return NULL;
	return xstrdup(value);
}

/* "2" of "2", "a100:2", "gpu:2" and "gpu:a100:2"; "gpu" is one. */
static char *as_gpus(const char *value)
{
	const char *last = strrchr(value, ':');

	if (strchr(value, ',') || strchr(value, '('))
		return NULL;
	last = last ? last + 1 : value;
	if (is_number(last))
		return xstrdup(last);
	return str_has_prefix(value, "gpu") ? xstrdup("1") : NULL;
}

static char *as_gres(const char *value)
{
	return str_has_prefix(value, "gpu") && (!value[3] || value[3] == ':') ? as_gpus(value)
									      : NULL;
}

/* "a100" of "gpu:a100:2". */
static char *as_model(const char *value)
{
	const char *type = str_has_prefix(value, "gpu:") ? value + 4 : value;
	size_t len = strcspn(type, ":");

	if (!len || strpbrk(type, ",(*?[") || (!type[len] && (type == value || is_number(type))))
		return NULL;
	return xasprintf("*%.*s*", (int)len, type);
}

static char *as_gres_model(const char *value)
{
	return str_has_prefix(value, "gpu:") ? as_model(value) : NULL;
}

static char *as_duration(const char *value)
{
	char text[UNIT_TEXT_MAX];
	uint64_t ms;

	if (unit_parse_slurm_limit(value, &ms, NULL) < 0 || !ms)
		return NULL;
	return xstrdup(unit_format_duration_exact(ms, text));
}

/* "now+60" is seconds there. */
static char *as_time(const char *value)
{
	static const struct value_spec spec = { VALUE_TIME };
	bool seconds = str_has_prefix(value, "now+") && is_number(value + 4);
	cleanup_free char *ours = xasprintf("%s%s", value, seconds ? "s" : "");
	char time[CLOCK_TEXT_MAX];
	struct value v;

	if (value_parse(&spec, ours, &v, NULL) < 0)
		return NULL;
	return xstrdup(clock_format_iso(v.num, time));
}

static char *as_it_is(const char *value)
{
	return xstrdup(value);
}

/* Of what stands for names only what means the same here. */
static char *as_output(const char *value)
{
	return value[0] && output_path(value, NULL, NULL, NULL) == 0 ? xstrdup(value) : NULL;
}

static char *as_yes(const char *value)
{
	return xstrdup("true");
}

static const struct row {
	const char *name; /* of sbatch */
	char letter;	  /* 0: none */
	bool flag;	  /* it has no value */
	const char *option;
	translate_fn translate;
} rows[] = {
	{ "job-name", 'J', false, "name", as_name },
	{ "array", 'a', false, "array", as_array },
	{ "gres", 0, false, "gpus", as_gres },
	{ "gres", 0, false, "model", as_gres_model },
	{ "gpus", 'G', false, "gpus", as_gpus },
	{ "gpus", 'G', false, "model", as_model },
	{ "gpus-per-node", 0, false, "gpus", as_gpus },
	{ "gpus-per-node", 0, false, "model", as_model },
	{ "time", 't', false, "timeout", as_duration },
	{ "begin", 'b', false, "begin", as_time },
	{ "chdir", 'D', false, "cwd", as_it_is },
	{ "output", 'o', false, "output", as_output },
	{ "error", 'e', false, "error", as_output },
	{ "hold", 'H', true, "paused", as_yes },
	{ "no-requeue", 0, true, "no-requeue", as_yes },
};

struct reading {
	struct task_spec *s;
	const struct opts *o, *lines; /* lines may be NULL */
	struct strbuf taken, passed;  /* what is said of them */
};

/* Scripts say the same more than once, in one form or another. */
static void add(struct strbuf *b, const char *text)
{
	if (str_lists(strbuf_str(b), text))
		return;
	strbuf_addf(b, "%s%s", b->len ? ", " : "", text);
}

/* What many scripts say and what is so here anyway. */
static bool goes_without_saying(const char *name, const char *value)
{
	static const char *const one[] = { "nodes", "N", "ntasks", "n", "ntasks-per-node" };
	static const char *const any[] = { "requeue", "parsable", "quiet", "Q", "verbose", "v" };

	for (size_t i = 0; i < ARRAY_LEN(any); i++)
		if (strcmp(any[i], name) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_LEN(one); i++)
		if (strcmp(one[i], name) == 0)
			return value && strcmp(value, "1") == 0;
	return false;
}

/* Whether one of them said it, or what cannot be with it. */
static bool gives(const struct opts *o, const char *option)
{
	if (!o)
		return false;
	if (strcmp(option, "array") == 0 && opts_given(o, "sweep"))
		return true;
	return opts_given(o, option);
}

static bool was_given(const struct reading *r, const char *option)
{
	return gives(r->o, option) || gives(r->lines, option);
}

static bool set(const struct reading *r, const char *option, const char *value)
{
	const struct task_option *row = task_option_find(option);

	if (strcmp(option, "cwd") == 0)
		return submitter_directory(r->s, value, NULL) == 0;
	if (row->flags & OPTION_SUBMITTER)
		return submitter_output(r->s, row->key, value, NULL) == 0;
	return spec_set_text(r->s, row->key, value, NULL) == 0;
}

/* One option, as it was written: "--gres=gpu:2". */
static void take(struct reading *r, const char *name, const char *value, const char *written)
{
	bool known = false;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct row *row = &rows[i];
		const char letter[] = { row->letter, '\0' };
		cleanup_free char *ours = NULL, *shown = NULL;

		if (strcmp(row->name, name) != 0 && (!row->letter || strcmp(letter, name) != 0))
			continue;
		ours = row->flag || value ? row->translate(value) : NULL;
		if (!ours)
			continue;
		if (was_given(r, row->option)) {
			known = true; /* they go before it */
			continue;
		}
		if (!set(r, row->option, ours))
			continue;
		known = true;
		shown = row->flag ? xasprintf("--%s", row->option)
				  : xasprintf("--%s %s", row->option, ours);
		add(&r->taken, shown);
	}
	if (!known && !goes_without_saying(name, value))
		add(&r->passed, written);
}

static bool is_flag(const char *name)
{
	static const char *const others[] = {
		"requeue",    "parsable",   "quiet",	     "verbose", "Q", "v", "exclusive",
		"contiguous", "overcommit", "oversubscribe", "wait",	"W", "s", "O"
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char letter[] = { rows[i].letter, '\0' };

		if (rows[i].flag && (strcmp(rows[i].name, name) == 0 || strcmp(letter, name) == 0))
			return true;
	}
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (strcmp(others[i], name) == 0)
			return true;
	return false;
}

/* The next word of a line, without quotes; NULL: there is none. Cuts the line. */
static char *next_word(char **at)
{
	char *p = *at + strspn(*at, " \t"), *word = p, *to = p, quote = 0;

	if (!*p || *p == '#')
		return NULL;
	for (; *p && (quote || !strchr(" \t", *p)); p++) {
		if (quote ? *p == quote : *p == '"' || *p == '\'')
			quote = quote ? 0 : *p;
		else
			*to++ = *p;
	}
	*at = p + (*p != '\0');
	*to = '\0';
	return word;
}

static void read_line(struct reading *r, char *line)
{
	char *at = line, *word;

	while ((word = next_word(&at))) {
		bool is_long = str_has_prefix(word, "--");
		cleanup_free char *whole = NULL, *name = NULL;
		char *value = NULL;

		if (word[0] != '-' || !word[1]) {
			add(&r->passed, word);
			continue;
		}
		whole = xstrdup(word);
		name = is_long ? xstrdup(word + 2) : xasprintf("%c", word[1]);
		if (is_long && strchr(name, '=')) {
			value = word + 2 + strcspn(name, "=") + 1;
			name[strcspn(name, "=")] = '\0';
		} else if (!is_long && word[2]) {
			value = word + 2 + (word[2] == '=');
		} else if (!is_flag(name)) {
			value = next_word(&at);
			if (value) {
				free(whole);
				whole = xasprintf("%s %s", word, value);
			}
		}
		take(r, name, value, whole);
	}
}

/* Slurm looks for them up to the first line that is no comment. */
static void read_script(struct reading *r, const char *script)
{
	for (const char *p = script; *p;) {
		size_t len = strcspn(p, "\r\n"), blank = strspn(p, " \t");
		cleanup_free char *line = xasprintf("%.*s", (int)len, p);

		if (blank < len && p[blank] != '#')
			return;
		if (str_has_prefix(line, MARK) && isspace((unsigned char)line[strlen(MARK)]))
			read_line(r, line + strlen(MARK));
		p += len;
		p += strspn(p, "\r\n");
	}
}

void sbatch_take(struct task_spec *s, const struct opts *o, const struct opts *lines,
		 const char *script)
{
	struct reading r = { .s = s, .o = o, .lines = lines };

	read_script(&r, script);
	if (r.taken.len) {
		cmd_warn("note", "from its " MARK " lines: %s", r.taken.data);
	}
	if (r.passed.len) {
		cmd_warn("warning", "of its " MARK " lines these do nothing here: %s",
			 r.passed.data);
	}
	if ((r.taken.len || r.passed.len) && strstr(script, "SLURM_ARRAY_TASK_ID"))
		cmd_warn("warning", "it uses SLURM_ARRAY_TASK_ID, which is not set here; the index "
				    "is in TENURE_ARRAY_INDEX");
	strbuf_clear(&r.taken);
	strbuf_clear(&r.passed);
}
