/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_TASK_TEXT_H
#define TENURE_SPOOL_TASK_TEXT_H

/*
 * A task as text: what a person says in options and in edits, and the JSON of a task's file. All of
 * it follows the table of task_spec.h.
 *
 *	r = spec_set_text(s, "memory", "20G", &e);	an option of a person
 *	r = spec_read(text, len, &s, &used, &e);	a file of another program
 *	text = spec_text(s, &e);			a line of JSON, without what is default
 *
 * An unknown key, a wrong type or a value out of range is refused by the name of its key. In JSON
 * sizes are bytes or "20G", durations are seconds or "10m", times are ISO 8601 texts or seconds
 * since the epoch.
 */

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"
#include "base/opts.h"
#include "spool/task_spec.h"

/* A key as a person writes it; a list is added to. -EINVAL or -ERANGE, "KEY: ..." in e. Of JSON,
 * null is what it is without being said. */
int spec_set_text(struct task_spec *s, const char *key, const char *text, struct err *e);
int spec_set_json(struct task_spec *s, const char *key, const json_t *value, struct err *e);

/* What was given of those rows' options that o has, but for OPTION_SUBMITTER. -EINVAL or -ERANGE,
 * "--OPTION:
 * ..." in e. */
int spec_take_options(struct task_spec *s, const struct opts *o, struct err *e);
/* The same of what `before`, whose options are in s already, does not say. */
int spec_take_options_behind(struct task_spec *s, const struct opts *o, const struct opts *before,
			     struct err *e);

/* The value that a person's text means for a key, for an edit; NULL with e: it means none. */
json_t *spec_value(const char *key, const char *text, struct err *e);

/*
 * The first JSON value of text; *used is where it ends. spec_check() included. -EINVAL: no JSON, or
 * no good task.
 */
int spec_read(const char *text, size_t len, struct task_spec **ret, size_t *used, struct err *e);
json_t *spec_json(const struct task_spec *s);
/* One line with its newline, and one of an edit behind it for what is OPTION_AS_EDIT. NULL with e
 * when a text is not UTF-8. The caller frees it. */
char *spec_text(const struct task_spec *s, struct err *e);

#endif
