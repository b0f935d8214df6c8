/* SPDX-License-Identifier: MIT */
#ifndef TENURE_NOTIFY_TEMPLATE_H
#define TENURE_NOTIFY_TEMPLATE_H

/*
 * A text of the user's with words in braces, filled with an event. Pure.
 *
 * In a template {text}, {task}, {name} and the like stand for members of the event; {json} is all
 * of it. They are escaped as they stand within a text of JSON, but for {json} itself. Braces around
 * anything else are braces.
 */

#include <jansson.h>

#include "base/err.h"
#include "base/strbuf.h"

/* -EINVAL where a word in braces is nothing that an event can have. */
int template_check(const char *text, struct err *e);
void template_fill(const char *text, const json_t *event, struct strbuf *out);

/* The text of a member, "" where it has none; lists of numbers with commas. `topic` and `title` are
 * those of its topic. As it is, not escaped. */
void template_member(const json_t *event, const char *name, struct strbuf *out);

#endif
