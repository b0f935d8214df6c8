/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_OPTIONS_H
#define TENURE_SERVE_OPTIONS_H

/*
 * Members of a JSON object as options of one of the program's commands (call.h), by the command's
 * own rows: {"memory": "40G", "together": true} is --memory=40G --together. A list is joined by
 * commas, or given one by one where the row takes texts. Whether a value is a good one is for the
 * command to say.
 */

#include <jansson.h>

#include "base/err.h"
#include "base/opts.h"
#include "base/textlist.h"

/* 0 with what it is at the end of argv; or -EINVAL with e. */
int options_add(struct text_list *argv, const struct opt *row, const json_t *value, struct err *e);
/* What takes back what was said of it before: nothing, or 0. 0; or -EINVAL with e, where it cannot
 * be without one. */
int options_take_back(struct text_list *argv, const struct opt *row, struct err *e);
/* "node_memory" is node-memory, as in files. */
bool options_is(const struct opt *row, const char *member);

#endif
