/* SPDX-License-Identifier: MIT */
#include "base/textlist.h"

#include <stdarg.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"

void text_list_take(struct text_list *l, char *text)
{
	l->texts = xgrow(l->texts, l->n, sizeof(char *));
	l->texts[l->n++] = text;
}

void text_list_add(struct text_list *l, const char *text)
{
	text_list_take(l, xstrdup(text));
}

void text_list_addf(struct text_list *l, const char *format, ...)
{
	struct strbuf text = STRBUF_INIT;
	va_list ap;

	va_start(ap, format);
	strbuf_addv(&text, format, ap);
	va_end(ap);
	text_list_take(l, strbuf_take(&text));
}

void text_list_add_lines(struct text_list *l, const char *text)
{
	while (text && *text) {
		size_t n = strcspn(text, ";\n"), from = strspn(text, " \t"), to = n;

		while (to > from && strchr(" \t", text[to - 1]))
			to--;
		if (to > from)
			text_list_take(l, xasprintf("%.*s", (int)(to - from), text + from));
		text += n + (text[n] != '\0');
	}
}

void text_list_set_variable(struct text_list *l, const char *assignment)
{
	size_t len = strcspn(assignment, "=");

	for (size_t i = 0; i < l->n; i++) {
		if (strncmp(l->texts[i], assignment, len) != 0 || l->texts[i][len] != '=')
			continue;
		free(l->texts[i]);
		l->texts[i] = xstrdup(assignment);
		return;
	}
	text_list_add(l, assignment);
}

bool text_list_has(const struct text_list *l, const char *text)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->texts[i], text) == 0)
			return true;
	return false;
}

struct text_list text_list_copy(const struct text_list *l)
{
	struct text_list copy = { 0 };

	for (size_t i = 0; i < l->n; i++)
		text_list_add(&copy, l->texts[i]);
	return copy;
}

void text_list_clear(struct text_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->texts[i]);
	free(l->texts);
	*l = (struct text_list){ 0 };
}
