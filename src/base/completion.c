/* SPDX-License-Identifier: MIT */

/*
 * A script is a template (data/completion.*), which walks along the line, and rows, one for each
 * command, which are written here. In the templates stand
 *
 *	@PROGRAM@	what is completed
 *	@NAME@		the same as a part of a function's name
 *	@ROWS@		the branches of a "case" (fish: "switch") over the commands
 *	@LINES@		fish alone: its own table, one line for each option and argument
 *
 * What a word can be is one text, a kind: "" (nothing to propose), "=a b c" (these), "files",
 * "dirs", "command", or what `tenure words` is asked for. A comma in front: several of them,
 * separated by commas.
 */

#include "base/completion.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/signame.h"
#include "base/str.h"
#include "base/strbuf.h"

/* Made by tools/embed. */
extern const char completion_bash[], completion_zsh[], completion_fish[];

struct completion_command {
	char *path;
	const char *summary;
	struct opts *opts;
	enum opt_words words[3];
	unsigned int flags;
};

struct completion {
	const char *program;
	char *name;
	size_t n;
	struct completion_command *all;
};

static const char *const kinds[WORDS_MAX] = {
	[WORDS_BY_TYPE] = "",
	[WORDS_FILES] = "files",
	[WORDS_DIRS] = "dirs",
	[WORDS_COMMAND] = "command",
	[WORDS_TASKS] = "tasks",
	[WORDS_TASKS_LANES] = "tasks-and-lanes",
	[WORDS_ANY_TASKS] = "any-tasks",
	[WORDS_ENDED_TASKS] = "ended-tasks",
	[WORDS_TASK_IDS] = "task-ids",
	[WORDS_TASK_NAMES] = "task-names",
	[WORDS_ANY_TASK_NAMES] = "any-task-names",
	[WORDS_TASK_KEYS] = "task-keys",
	[WORDS_LANES] = "lanes",
	[WORDS_INSTANCES] = "instances",
	[WORDS_GPUS] = "gpus",
	[WORDS_POOLS] = "pools",
	[WORDS_ALLOCS] = "allocations",
	[WORDS_NODES] = "nodes",
	[WORDS_ENGINES] = "engines",
	[WORDS_USERS] = "users",
	[WORDS_COMMANDS] = "commands",
	[WORDS_SHELLS] = "=bash zsh fish",
	[WORDS_SWEEPS] = "=gpu python",
	[WORDS_ANSWERS] = "=yes no",
	[WORDS_TEST] = "=test",
};

static const char *const shells[COMPLETION_SHELL_MAX] = {
	[COMPLETION_BASH] = "bash",
	[COMPLETION_ZSH] = "zsh",
	[COMPLETION_FISH] = "fish",
};

enum completion_shell completion_shell_of(const char *name)
{
	int i = 0;

	while (i < COMPLETION_SHELL_MAX && strcmp(shells[i], name) != 0)
		i++;
	return (enum completion_shell)i;
}

const char *completion_words_name(enum opt_words words)
{
	return kinds[words];
}

enum opt_words completion_words_of(const char *name)
{
	int i = WORDS_TASKS;

	while (i < WORDS_MAX && strcmp(kinds[i], name) != 0)
		i++;
	return (enum opt_words)i;
}

struct completion *completion_new(const char *program)
{
	struct completion *c = xcalloc(1, sizeof(*c));

	c->program = program;
	c->name = xstrdup(program);
	for (char *p = c->name; *p; p++)
		*p = *p == '-' ? '_' : *p;
	return c;
}

struct completion *completion_free(struct completion *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->all[i].path);
		(void)opts_free(c->all[i].opts);
	}
	free(c->all);
	free(c->name);
	free(c);
	return NULL;
}

void completion_add(struct completion *c, const char *path, const char *summary, struct opts *opts,
		    const enum opt_words *words, unsigned int flags)
{
	struct completion_command *one;

	c->all = xrealloc(c->all, c->n + 1, sizeof(*c->all));
	one = &c->all[c->n++];
	*one = (struct completion_command){
		.path = xstrdup(path), .summary = summary, .opts = opts, .flags = flags
	};
	if (words)
		memcpy(one->words, words, sizeof(one->words));
}

/* -------- what a word can be -------- */

static void add_signals(struct strbuf *b)
{
	const char *between = "";

	for (int i = 1; i < SIGRTMIN; i++) {
		const char *name = signal_name(i);

		if (name)
			strbuf_addf(b, "%s%s", between, name);
		between = name ? " " : between;
	}
}

static enum opt_words words_of_type(const struct opt *row)
{
	switch (row->spec.type) {
	case VALUE_GPUS:
		return WORDS_GPUS;
	case VALUE_PATH:
	case VALUE_BYTES_PATH:
		return row->arg && strcmp(row->arg, "DIR") == 0 ? WORDS_DIRS : WORDS_FILES;
	default:
		return WORDS_BY_TYPE;
	}
}

/* The kind of an option's value; NULL: it takes none. The caller frees it. */
static char *option_kind(const struct opt *row)
{
	enum opt_words words = row->words ? row->words : words_of_type(row);
	bool texts = value_is(row->spec.type, VALUE_IS_TEXTS) &&
		     value_is(row->spec.type, VALUE_IS_APART); /* which may have commas */
	bool many = value_is(row->spec.type, VALUE_IS_MANY) && !texts;
	struct strbuf b = STRBUF_INIT;

	if (row->spec.type == VALUE_FLAG)
		return NULL;
	strbuf_adds(&b, many ? "," : "");
	if (row->spec.choices) {
		for (size_t i = 0; row->spec.choices[i]; i++)
			strbuf_addf(&b, "%s%s", i ? " " : "=", row->spec.choices[i]);
	} else if (row->word_at) {
		for (size_t i = 0; row->word_at(i); i++)
			strbuf_addf(&b, "%s%s", i ? " " : "=", row->word_at(i));
	} else if (row->spec.type == VALUE_SIGNAL) {
		strbuf_addc(&b, '=');
		add_signals(&b);
	} else if (!words && row->spec.word) {
		strbuf_addf(&b, "=%s", row->spec.word);
	} else {
		strbuf_adds(&b, kinds[words]);
	}
	if (strcmp(strbuf_str(&b), ",") == 0)
		strbuf_reset(&b);
	return strbuf_take(&b);
}

/* The last word of a path that is right below another one; NULL: it is not. */
static const char *word_below(const char *path, const char *above)
{
	size_t len = strlen(above);

	if (!path[0] || !str_has_prefix(path, above) || (len && path[len] != ' '))
		return NULL;
	path += len + (len > 0);
	return path[0] && !strchr(path, ' ') ? path : NULL;
}

/* The kind of an argument: as of an option, or of the commands themselves, which stand here. */
static char *argument_kind(const struct completion *c, enum opt_words words)
{
	struct strbuf b = STRBUF_INIT;

	if (words != WORDS_COMMANDS)
		return xstrdup(kinds[words]);
	for (size_t i = 0; i < c->n; i++)
		if (word_below(c->all[i].path, ""))
			strbuf_addf(&b, "%s%s", b.len ? " " : "=", c->all[i].path);
	return strbuf_take(&b);
}

/* -------- bash and zsh -------- */

/* In single quotes, as both understand it. */
static void add_quoted(struct strbuf *b, const char *text)
{
	strbuf_addc(b, '\'');
	for (; *text; text++) {
		if (*text == '\'')
			strbuf_adds(b, "'\\''");
		else
			strbuf_addc(b, *text);
	}
	strbuf_addc(b, '\'');
}

/* A word of a list: in zsh with what it means, as _describe takes it. */
static void add_word(struct strbuf *b, enum completion_shell shell, const char *word,
		     const char *meaning)
{
	cleanup_free char *both = xasprintf("%s:%s", word, meaning ? meaning : "");

	strbuf_addc(b, ' ');
	add_quoted(b, shell == COMPLETION_ZSH ? both : word);
}

static void add_subs(struct strbuf *b, const struct completion *c, const char *path,
		     enum completion_shell shell)
{
	strbuf_adds(b, "\t\tsubs=(");
	for (size_t i = 0; i < c->n; i++) {
		const char *word = word_below(c->all[i].path, path);

		if (word)
			add_word(b, shell, word, c->all[i].summary);
	}
	strbuf_adds(b, " )\n");
}

/* Calls fn with each name of each option that is shown: "--lane", "-l". */
typedef void (*name_fn)(struct strbuf *b, enum completion_shell shell, const struct opt *row,
			const char *name);

static void each_name(const struct opts *o, struct strbuf *b, enum completion_shell shell,
		      name_fn fn)
{
	for (size_t i = 0; o && i < opts_n_rows(o); i++) {
		const struct opt *row = opts_row(o, i);
		cleanup_free char *name = xasprintf("--%s", row->name);
		const char shorter[] = { '-', row->short_name, '\0' };

		if (row->flags & OPT_HIDDEN)
			continue;
		fn(b, shell, row, name);
		if (row->short_name)
			fn(b, shell, row, shorter);
	}
}

static void add_name(struct strbuf *b, enum completion_shell shell, const struct opt *row,
		     const char *name)
{
	add_word(b, shell, name, row->help);
}

static void add_take(struct strbuf *b, enum completion_shell shell, const struct opt *row,
		     const char *name)
{
	cleanup_free char *kind = option_kind(row);

	if (!kind)
		return;
	strbuf_adds(b, shell == COMPLETION_BASH ? " [" : " ");
	add_quoted(b, name);
	strbuf_adds(b, shell == COMPLETION_BASH ? "]=" : " ");
	add_quoted(b, kind);
}

static void add_row(struct strbuf *b, const struct completion *c,
		    const struct completion_command *one, enum completion_shell shell)
{
	strbuf_addc(b, '\t');
	add_quoted(b, one->path);
	strbuf_adds(b, ")\n");
	add_subs(b, c, one->path, shell);
	strbuf_adds(b, "\t\topts=(");
	each_name(one->opts, b, shell, add_name);
	strbuf_adds(b, " )\n\t\ttakes=(");
	each_name(one->opts, b, shell, add_take);
	strbuf_adds(b, " )\n\t\targs=(");
	for (size_t i = 0; i < ARRAY_LEN(one->words); i++) {
		cleanup_free char *kind = argument_kind(c, one->words[i]);

		strbuf_addc(b, ' ');
		add_quoted(b, kind);
	}
	strbuf_addf(b, " )\n%s\t\t;;\n", one->flags & COMPLETION_STOPS ? "\t\tstop=1\n" : "");
}

/* -------- fish -------- */

static void add_fish_quoted(struct strbuf *b, const char *text)
{
	strbuf_addc(b, '\'');
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			strbuf_addc(b, '\\');
		strbuf_addc(b, *text);
	}
	strbuf_addc(b, '\'');
}

static void add_takes_of_fish(struct strbuf *b, enum completion_shell shell, const struct opt *row,
			      const char *name)
{
	if (row->spec.type != VALUE_FLAG)
		strbuf_addf(b, " %s", name);
}

static void add_fish_row(struct strbuf *b, const struct completion_command *one)
{
	cleanup_strbuf struct strbuf names = STRBUF_INIT;

	each_name(one->opts, &names, COMPLETION_FISH, add_takes_of_fish);
	strbuf_adds(b, "\t\tcase ");
	add_fish_quoted(b, one->path);
	strbuf_adds(b, "\n\t\t\techo ");
	add_fish_quoted(b, strbuf_str(&names));
	strbuf_addc(b, '\n');
}

/* `complete -c PROGRAM -n CONDITION`; more: a further condition, or NULL. */
static void begin_fish_line(struct strbuf *b, const struct completion *c,
			    const struct completion_command *one, const char *more)
{
	cleanup_strbuf struct strbuf when = STRBUF_INIT;

	strbuf_addf(&when, "__%s_at ", c->name);
	add_fish_quoted(&when, one->path);
	for (size_t i = 0; i < c->n; i++) {
		const char *below = word_below(c->all[i].path, one->path);

		if (below)
			strbuf_addf(&when, " %s", below);
	}
	if (more) {
		strbuf_addf(&when, "; and __%s_place ", c->name);
		add_fish_quoted(&when, one->path);
		strbuf_addf(&when, " %s", more);
	}
	strbuf_addf(b, "complete -c %s -n ", c->program);
	add_fish_quoted(b, strbuf_str(&when));
}

/* What completes a word of that kind; option: it is the value of one, which needs it. */
static void add_fish_kind(struct strbuf *b, const struct completion *c, const char *kind,
			  bool option)
{
	bool many = kind[0] == ',', fixed = kind[many] == '=';
	const char *words = kind + many + fixed;
	cleanup_free char *call =
		xasprintf(many ? "(__%s_list %s)" : "(__%s_words %s)", c->name, words);

	strbuf_adds(b, option ? " -r" : "");
	if (strcmp(words, "files") == 0) {
		strbuf_adds(b, " -F");
		return;
	}
	strbuf_adds(b, option ? " -f" : "");
	if (!words[0])
		return;
	strbuf_adds(b, " -k -a ");
	if (strcmp(words, "dirs") == 0)
		strbuf_adds(b, "'(__fish_complete_directories (commandline -ct))'");
	else if (strcmp(words, "command") == 0)
		strbuf_addf(b, "'(__%s_behind)'", c->name);
	else
		add_fish_quoted(b, fixed && !many ? words : call);
}

static void add_fish_options(struct strbuf *b, const struct completion *c,
			     const struct completion_command *one)
{
	for (size_t i = 0; one->opts && i < opts_n_rows(one->opts); i++) {
		const struct opt *row = opts_row(one->opts, i);
		cleanup_free char *kind = option_kind(row);

		if (row->flags & OPT_HIDDEN)
			continue;
		begin_fish_line(b, c, one, NULL);
		strbuf_addf(b, " -l %s", row->name);
		if (row->short_name)
			strbuf_addf(b, " -s %c", row->short_name);
		if (kind)
			add_fish_kind(b, c, kind, true);
		strbuf_adds(b, " -d ");
		add_fish_quoted(b, row->help);
		strbuf_addc(b, '\n');
	}
}

static void add_fish_arguments(struct strbuf *b, const struct completion *c,
			       const struct completion_command *one)
{
	static const char *const places[] = { "first", "further", "behind" };

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		cleanup_free char *kind = argument_kind(c, one->words[i]);

		if (!kind[0])
			continue;
		begin_fish_line(b, c, one, places[i]);
		add_fish_kind(b, c, kind, false);
		strbuf_addc(b, '\n');
	}
}

static void add_fish_lines(struct strbuf *b, const struct completion *c,
			   const struct completion_command *one)
{
	for (size_t i = 0; i < c->n; i++) {
		const char *word = word_below(c->all[i].path, one->path);

		if (!word)
			continue;
		begin_fish_line(b, c, one, "first");
		strbuf_addf(b, " -a %s -d ", word);
		add_fish_quoted(b, c->all[i].summary ? c->all[i].summary : "");
		strbuf_addc(b, '\n');
	}
	add_fish_options(b, c, one);
	add_fish_arguments(b, c, one);
}

/* -------- the script -------- */

static void add_marked(struct strbuf *b, const struct completion *c, enum completion_shell shell,
		       const char *mark, size_t len)
{
	if (strncmp(mark, "PROGRAM", len) == 0)
		strbuf_adds(b, c->program);
	else if (strncmp(mark, "NAME", len) == 0)
		strbuf_adds(b, c->name);
	for (size_t i = 0; i < c->n; i++) {
		const struct completion_command *one = &c->all[i];

		if (strncmp(mark, "LINES", len) == 0)
			add_fish_lines(b, c, one);
		else if (strncmp(mark, "ROWS", len) == 0 && shell == COMPLETION_FISH)
			add_fish_row(b, one);
		else if (strncmp(mark, "ROWS", len) == 0)
			add_row(b, c, one, shell);
	}
}

char *completion_script(const struct completion *c, enum completion_shell shell)
{
	const char *const templates[] = { [COMPLETION_BASH] = completion_bash,
					  [COMPLETION_ZSH] = completion_zsh,
					  [COMPLETION_FISH] = completion_fish };
	const char *p = templates[shell];
	struct strbuf b = STRBUF_INIT;

	while (*p) {
		size_t plain = strcspn(p, "@"), len = 0;

		strbuf_add(&b, p, plain);
		p += plain;
		if (*p == '@')
			len = strspn(p + 1, "AEGILMNOPRSW");
		if (len && p[1 + len] == '@') {
			add_marked(&b, c, shell, p + 1, len);
			p += len + 2;
		} else if (*p) {
			strbuf_addc(&b, *p++);
		}
	}
	return strbuf_take(&b);
}
