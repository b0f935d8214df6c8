/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_TEXTLIST_H
#define TENURE_BASE_TEXTLIST_H

/* A list of texts, which it owns. A zeroed one is empty. */

#include <stdbool.h>
#include <stddef.h>

struct text_list {
	size_t n;
	char **texts;
};

/* A copy of text, at the end. */
void text_list_add(struct text_list *l, const char *text);
/* text itself, which must come from malloc(): it is the list's from now on. */
void text_list_take(struct text_list *l, char *text);
/* What printf() makes of format. */
void text_list_addf(struct text_list *l, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The lines of text, or what stands between ";", without blanks around them and without empty ones.
 * text may be NULL. */
void text_list_add_lines(struct text_list *l, const char *text);
/* "K=V", in the place of what K was; at the end where there was none. */
void text_list_set_variable(struct text_list *l, const char *assignment);
bool text_list_has(const struct text_list *l, const char *text);
struct text_list text_list_copy(const struct text_list *l);
void text_list_clear(struct text_list *l);

#endif
