/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_OPTS_H
#define TENURE_BASE_OPTS_H

/*
 * Option tables. One row says everything about an option; the parser, `--help`, the man pages and
 * the completions are all made from the rows.
 *
 *	static const struct opt rows[] = {
 *		{ .name = "json", .short_name = 'j', .spec = { VALUE_FLAG }, .help = "print JSON" },
 *		{ .name = "for", .arg = "DURATION", .spec = { VALUE_DURATION }, .help = "..." },
 *		{ 0 },
 *	};
 *	struct opts *o = opts_new();
 *	opts_add_rows(o, rows);
 *	r = opts_parse(o, argc, argv, OPTS_DEFAULT, &e);
 *	if (opts_flag(o, "json")) ...
 *
 * Understood: --name=v, --name v, -xv, -x v, -x=v, bundled flags (-jq), --no-name for flags, "--"
 * (the rest are arguments). A list option takes further words while they belong to it, as in
 * `--gpus 0 1 2`, and may be repeated.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/value.h"

#define OPT_REQUIRED (1u << 0) /* the command needs it */
#define OPT_HIDDEN   (1u << 1) /* works, is not shown in --help */
#define OPT_AS_TEXT                                                                                \
	(1u << 2) /* its value is a VALUE_STRING, whatever the row's type: the command reads it */

/* What can be proposed where a word is typed (base/completion.h); what else it may be is not said.
 */
enum opt_words {
	WORDS_BY_TYPE, /* of an option: its choices, paths, GPUs, signals; of an argument: nothing
			*/
	WORDS_FILES,
	WORDS_DIRS,
	WORDS_COMMAND,	      /* a program, and behind it its own words */
	WORDS_TASKS,	      /* ids and names of what waits or runs */
	WORDS_TASKS_LANES,    /* the same, lanes, and all */
	WORDS_ANY_TASKS,      /* what has ended, too */
	WORDS_ENDED_TASKS,    /* only that */
	WORDS_TASK_IDS,	      /* of what waits or runs */
	WORDS_TASK_NAMES,     /* likewise */
	WORDS_ANY_TASK_NAMES, /* what has ended, too */
	WORDS_TASK_KEYS,      /* KEY= of an edit */
	WORDS_LANES,
	WORDS_INSTANCES,
	WORDS_GPUS, /* indices and UUIDs */
	WORDS_POOLS,
	WORDS_ALLOCS,
	WORDS_NODES,
	WORDS_ENGINES,
	WORDS_USERS,
	WORDS_COMMANDS, /* of the program */
	WORDS_SHELLS,	/* that there are completions for */
	WORDS_SWEEPS,	/* gpu, python */
	WORDS_ANSWERS,	/* yes, no */
	WORDS_TEST,	/* the word */
	WORDS_MAX
};

struct opt {
	const char *name; /* long name without dashes; NULL ends a table */
	char short_name;  /* 0: none */
	struct value_spec spec;
	const char *arg;   /* what --help calls the value; NULL for flags */
	const char *def;   /* default as text; NULL: none (a flag: false) */
	const char *env;   /* environment variable that sets it; NULL: none. For the help text only:
			      settings.c reads the environment */
	const char *group; /* heading in --help; NULL: "Options" */
	const char *help;  /* one sentence without the default, which is added */
	unsigned int flags;
	enum opt_words words; /* what its value can be */
	/* Where that is a table of the command's own, each of it; NULL: there are no more. */
	const char *(*word_at)(size_t i);
};

enum opts_mode {
	OPTS_DEFAULT,	   /* options and arguments may be mixed */
	OPTS_STOP_AT_WORD, /* the first argument ends the options: `tenure sim --gpus 4 make test`
			    */
};

struct opts;

struct opts *opts_new(void);
struct opts *opts_free(struct opts *o);
/* The rows must outlive o; of two rows with one name the first added counts. */
void opts_add_rows(struct opts *o, const struct opt *rows);
void opts_add_row(struct opts *o, const struct opt *row);

/*
 * argv[0] is not looked at. 0, or -EINVAL/-ERANGE with the reason ("unknown option --utl; did you
 * mean --util?"). The strings of argv must outlive o.
 */
int opts_parse(struct opts *o, int argc, char *const *argv, enum opts_mode mode, struct err *e);

/* There is a row of that name. */
bool opts_has(const struct opts *o, const char *name);
/* What was given. The names must be those of rows: anything else is a defect and aborts. */
bool opts_given(const struct opts *o, const char *name);
bool opts_flag(const struct opts *o, const char *name);
/* The value that was given, else that of the default, else NULL. Owned by o. */
const struct value *opts_value(const struct opts *o, const char *name);
/* As text, the words of a list joined by commas; NULL when it was not given. Owned by o. */
const char *opts_text(const struct opts *o, const char *name);

/* The arguments that are no options. */
size_t opts_argc(const struct opts *o);
const char *opts_arg(const struct opts *o, size_t i); /* NULL behind the last */
/* The same as a vector that ends with NULL, for exec; owned by o. */
char *const *opts_argv(const struct opts *o);

/* "--" ended the options: what follows is a command as it is. */
bool opts_dashes(const struct opts *o);

/* The option that opts_parse() did not know, "-m" or "--memory"; NULL: that was not the matter.
 * Owned by o. */
const char *opts_unknown(const struct opts *o);

/* The rows in the order in which they were added, for generators. */
size_t opts_n_rows(const struct opts *o);
const struct opt *opts_row(const struct opts *o, size_t i);

/*
 * Rows of a table by their groups: groups in the order in which the table first names them, and in
 * each its rows in the table's order.
 *
 *	struct group_walk w = { .group_of = opts_group_of, .rows = o, .n = opts_n_rows(o) };
 *	while (group_next(&w)) {
 *		if (w.first) a heading, w.group
 *		the row, w.i
 *	}
 */
struct group_walk {
	const char *(*group_of)(const void *rows, size_t i); /* NULL: the row is not shown */
	const void *rows;
	size_t n;
	/* The row that it is at: */
	size_t i, begin;   /* begin: where its group begins */
	const char *group; /* NULL: before the first one */
	bool first;	   /* of its group */
};

bool group_next(struct group_walk *w);
/* The group of a row that --help shows; of rows of struct opts. */
const char *opts_group_of(const void *o, size_t i);

/* What a row is for, with its choices and its default. The caller frees it. */
char *opt_meaning(const struct opt *row);

/* The options as `--help` shows them, in their groups, wrapped to width columns. The caller frees
 * it. */
char *opts_help(const struct opts *o, size_t width);

#endif
