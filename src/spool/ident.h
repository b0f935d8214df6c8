/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_IDENT_H
#define TENURE_SPOOL_IDENT_H

/*
 * What names and ids may look like, and names that are made up. Instances and agents have plain
 * ones, because they are parts of paths and of socket names; tasks and lanes what people call
 * things.
 */

#include <stdbool.h>
#include <stdint.h>

#define SPEC_NAME_MAX	  64
#define SPEC_ELEMENTS_MAX 1000000
#define NAME_ID_MAX	  9999999999ULL

/* Of an agent or an instance: [A-Za-z0-9._+-], 1 to 64 of them, the first one no dot or dash. */
bool ident_is_name(const char *text);
/* Any text as such a name (a path's last part, other characters as _); never empty. */
void ident_make_name(const char *text, char ret[SPEC_NAME_MAX + 1]);

/* Names of tasks and lanes may have letters of any script: utf8_is_name(). */
bool ident_is_task_name(const char *text);
/* Any text as one, and nothing that a command takes for an id, for all tasks or for the last one.
 */
void ident_make_task_name(const char *text, char ret[SPEC_NAME_MAX + 1]);

/* The program of a shell's command as such a name, as far as that can be seen: the first word that
 * sets no variable, without quotes. */
void ident_make_command_name(const char *command, char ret[SPEC_NAME_MAX + 1]);

/* "42", "42.7": 0 or -EINVAL. element is 0 in the first form. */
int ident_parse_id(const char *text, uint64_t *ret_id, uint64_t *ret_element);
/* A decimal number of at most max at *p, which is moved behind it. */
bool ident_take_num(const char **p, uint64_t max, uint64_t *ret);
/* "232", "43.7", "all", "last": what commands take for something else than a name. */
bool ident_is_word(const char *name);

#endif
