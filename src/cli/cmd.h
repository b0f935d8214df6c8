/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_CMD_H
#define TENURE_CLI_CMD_H

/*
 * A command of `tenure` is a row: what it is called, what it is for, its options, examples and the
 * function. The framework parses, loads the settings, answers --help, and prints what failed.
 *
 * To add a command: write NAME.c in its room with a `const struct cmd cmd_NAME`, declare it in
 * commands.h, add it to the table in main.c.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/opts.h"
#include "base/settings.h"

/* Exit codes, the same for every command. Scripts rely on them; `tenure help exit-codes` shows
 * them. */
enum cmd_exit {
	CMD_OK = 0,
	CMD_FAILED = 1,	      /* it did not work; the reason is on stderr */
	CMD_USAGE = 2,	      /* wrong option, argument, setting or config file */
	CMD_NOTHING_RUNS = 3, /* there is no agent here */
	CMD_DENIED = 4,	      /* this site does not allow it */
	CMD_UNREAD = 141,     /* the reader of its output went away; what SIGPIPE looks like */
};

struct cmd_ctx {
	const struct cmd *cmd;
	const struct opts *opts;
	struct settings *settings; /* loaded; NULL with CMD_NO_SETTINGS */
	const char *job;	   /* the key of the job that it runs in; NULL: in none */
};

struct cmd_example {
	const char *line; /* without "$ " */
	const char *what; /* what it does */
};

struct cmd_variable {
	const char *name, *what;
};

#define CMD_HIDDEN	 (1u << 0) /* works, is not listed */
#define CMD_STOP_AT_WORD (1u << 1) /* options end at the first argument: it is a command to run */
#define CMD_NO_SETTINGS	 (1u << 2) /* works with a broken config, too */
#define CMD_HOLDS	 (1u << 3) /* needs the site's leave (allow_users) */
#define CMD_ENDS	 (1u << 4) /* ends or removes something: not suggested for anything else */
#define CMD_JSON	 (1u << 5) /* has --json behind its own options: one document, */
#define CMD_JSON_LINES	 (1u << 6) /* or one object per line */
#define CMD_SERVES	 (1u << 7) /* the agent that it starts serves a queue, and need not hold */

struct cmd {
	const char *name;
	const char *group;	   /* heading in `tenure --help` */
	const char *summary;	   /* one line, no full stop */
	const char *args;	   /* synopsis of the arguments: "[FILE]"; NULL: it takes none */
	size_t min_args, max_args; /* max_args 0 with args: any number; some without args: run()
				      says what is to be typed instead */
	enum opt_words words[3];   /* its first argument, further ones, those behind "--" */
	const char *description;   /* paragraphs separated by an empty line */
	const struct cmd_example *examples;   /* ends with a row without line */
	const struct opt *opts;		      /* ends with a row without name */
	void (*add_opts)(struct opts *o);     /* further rows, of a table that is elsewhere */
	const struct cmd_variable *variables; /* what a task finds in its environment; likewise */
	/*
	 * SETTING_GROUP_*: settings it takes as options. Without SETTING_GROUP_HOLD, a mistake in
	 * any other setting is a warning: letting go and looking work with a broken config.
	 */
	unsigned int setting_groups;
	unsigned int flags;
	const struct cmd *const *subs; /* ends with NULL; the first argument chooses */
	/*
	 * An exit code, or a negative errno (= CMD_FAILED, -EPERM = CMD_DENIED). The text of e is
	 * printed when it is not CMD_OK. NULL: only the subs do anything.
	 */
	int (*run)(const struct cmd_ctx *ctx, struct err *e);
	/* Of an option that it has not, "-m" or "--memory": may say in e what is to be written. */
	void (*explain)(const char *option, struct err *e);
};

/*
 * Run cmd with its arguments (argv[0] is its name); parent is the words in front ("tenure").
 * Returns the exit code.
 */
int cmd_run(const struct cmd *cmd, const char *parent, int argc, char **argv);

/* Its options and the settings that it takes, for a parser or a generator. opts_free() it. */
struct opts *cmd_opts(const struct cmd *cmd);

/* --help of a command. The caller frees it. */
char *cmd_help_text(const struct cmd *cmd, const char *parent);

/* Find by name in a list that ends with NULL. */
const struct cmd *cmd_find(const struct cmd *const *list, const char *name);
/* " did you mean X?" among the list's names, or "". Caller frees. */
char *cmd_suggest(const struct cmd *const *list, const char *name);

/* The document on standard output, for people too; or in one line. Takes the reference over. */
void cmd_print_json(json_t *doc);
void cmd_print_json_line(json_t *doc);

/* Print "tenure: text" on stderr and return code. */
int cmd_fail(int code, const char *text);
/* Print each line on stderr as "tenure: KIND: line"; kind is "note" or "warning". */
void cmd_warn(const char *kind, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
