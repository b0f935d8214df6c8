/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_COMPLETION_H
#define TENURE_BASE_COMPLETION_H

/*
 * Completions for bash, zsh and fish, made from the option tables. What is fixed (commands, options
 * with their help, choices) stands in the script; for what changes it calls `tenure words KIND`.
 *
 *	struct completion *c = completion_new("tenure");
 *	completion_add(c, "", NULL, NULL, NULL, 0);		the program itself, first
 *	completion_add(c, "config show", "print ..", cmd_opts(cmd), cmd->words, 0);
 *	text = completion_script(c, COMPLETION_BASH);
 *	c = completion_free(c);
 */

#include "base/opts.h"

enum completion_shell { COMPLETION_BASH, COMPLETION_ZSH, COMPLETION_FISH, COMPLETION_SHELL_MAX };

/* By its name; COMPLETION_SHELL_MAX: it is none of them. */
enum completion_shell completion_shell_of(const char *name);

/* "tasks": what scripts call it, and `tenure words` understands; WORDS_MAX: nothing is called so.
 */
const char *completion_words_name(enum opt_words words);
enum opt_words completion_words_of(const char *name);

#define COMPLETION_STOPS (1u << 0) /* its options end at the first argument */

struct completion;

/* What completes the command of that name. The text must outlive it. */
struct completion *completion_new(const char *program);
struct completion *completion_free(struct completion *c);
/*
 * One command: the words that it is called by ("config show"; "": the program without any), what
 * its help says of it, its options (NULL: none; taken over), and what its arguments are: struct
 * cmd's words, or NULL.
 */
void completion_add(struct completion *c, const char *path, const char *summary, struct opts *opts,
		    const enum opt_words *words, unsigned int flags);
/* The caller frees it. */
char *completion_script(const struct completion *c, enum completion_shell shell);

#endif
