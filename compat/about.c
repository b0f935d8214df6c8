/* SPDX-License-Identifier: MIT */
#include "compat/about.h"

#include <stdio.h>
#include <string.h>

#include "base/completion.h"
#include "base/mem.h"
#include "base/roff.h"
#include "base/strbuf.h"

#define WIDTH 80
#define TAB   6
#define USAGE 14 /* columns of a usage's words */

/* -------- --help -------- */

static void add_rows(struct strbuf *b, const char *title, const char *before,
		     const struct about_row *rows)
{
	if (!rows)
		return;
	strbuf_addf(b, "\n%s:\n", title);
	for (; rows->name; rows++) {
		strbuf_addf(b, "  %s%s\n", before, rows->name);
		strbuf_pad(b, ' ', TAB);
		strbuf_add_wrapped(b, rows->what, TAB, WIDTH);
	}
}

/* What it does stands beside it, or, of one that is long, in the column of the others below it. */
static void add_usage(struct strbuf *b, const struct about *a, const struct about_row *u)
{
	cleanup_free char *head = xasprintf("  %s%s%s", a->name, u->name[0] ? " " : "", u->name);
	size_t column = strlen(a->name) + USAGE + 4, len = strlen(head);

	strbuf_adds(b, head);
	if (len >= column) {
		strbuf_addc(b, '\n');
		len = 0;
	}
	strbuf_pad(b, ' ', column - len);
	strbuf_add_wrapped(b, u->what, column, WIDTH);
}

char *about_help(const struct about *a)
{
	struct opts *o = opts_new();
	struct strbuf b = STRBUF_INIT;
	cleanup_free char *title = xasprintf("%s: %s", a->name, a->summary);

	opts_add_rows(o, a->opts);

	cleanup_free char *options = opts_help(o, WIDTH);

	strbuf_add_wrapped(&b, title, 0, WIDTH);
	strbuf_adds(&b, "\nUsage:\n");
	for (const struct about_row *u = a->usages; u->name; u++)
		add_usage(&b, a, u);
	strbuf_addc(&b, '\n');
	strbuf_add_wrapped(&b, a->description, 0, WIDTH);
	strbuf_addf(&b, "\n%s", options);
	add_rows(&b, "Examples", "$ ", a->examples);
	add_rows(&b, "Environment", "", a->variables);
	add_rows(&b, "Files", "", a->files);
	strbuf_adds(&b, "\nExit status:\n");
	for (const struct about_row *x = a->exits; x->name; x++) {
		strbuf_addf(&b, "  %-4s", x->name);
		strbuf_add_wrapped(&b, x->what, TAB, WIDTH);
	}
	(void)opts_free(o);
	return strbuf_take(&b);
}

/* -------- the man page -------- */

static void add_section(struct strbuf *b, const char *title, const char *before,
			const struct about_row *rows)
{
	if (!rows)
		return;
	roff_section(b, "SH", title);
	for (; rows->name; rows++) {
		cleanup_free char *tag = xasprintf("%s%s", before, rows->name);

		roff_tagged(b, tag, rows->what);
	}
}

char *about_page(const struct about *a)
{
	struct strbuf b = STRBUF_INIT;

	roff_heading(&b, a->name, "1", a->summary, "PROGRAM --man");
	roff_section(&b, "SH", "SYNOPSIS");
	for (const struct about_row *u = a->usages; u->name; u++) {
		roff_bold(&b, a->name);
		strbuf_adds(&b, u->name[0] ? " " : "");
		roff_literal(&b, u->name);
		strbuf_adds(&b, u[1].name ? "\n.br\n" : "\n");
	}
	roff_section(&b, "SH", "DESCRIPTION");
	roff_paragraph(&b, a->description);
	add_section(&b, "COMMANDS", "", a->has_commands ? a->usages : NULL);
	roff_section(&b, "SH", "OPTIONS");
	for (const struct opt *row = a->opts; row->name; row++)
		roff_option(&b, row);
	add_section(&b, "EXAMPLES", "$ ", a->examples);
	add_section(&b, "ENVIRONMENT", "", a->variables);
	add_section(&b, "FILES", "", a->files);
	add_section(&b, "EXIT STATUS", "", a->exits);
	roff_section(&b, "SH", "SEE ALSO");
	for (const struct about_row *s = a->see; s->name; s++)
		roff_reference(&b, s->name, s->what, !s[1].name);
	return strbuf_take(&b);
}

/* -------- completions -------- */

static struct opts *its_opts(const struct about *a)
{
	struct opts *o = opts_new();

	opts_add_rows(o, a->opts);
	return o;
}

static char *completion_of(const struct about *a, enum completion_shell shell)
{
	struct completion *c = completion_new(a->name);
	const enum opt_words files[3] = { WORDS_FILES, WORDS_FILES };
	char *text;

	completion_add(c, "", NULL, its_opts(a), a->takes_files ? files : NULL, 0);
	for (const struct about_row *u = a->usages; a->has_commands && u->name; u++) {
		cleanup_free char *word = xasprintf("%.*s", (int)strcspn(u->name, " "), u->name);

		completion_add(c, word, u->what, its_opts(a), NULL, 0);
	}
	text = completion_script(c, shell);
	c = completion_free(c);
	return text;
}

bool about_prints(const struct about *a, int argc, char **argv)
{
	cleanup_free char *text = NULL;
	enum completion_shell shell;

	if (argc == 2 && strcmp(argv[1], "--man") == 0) {
		text = about_page(a);
	} else if (argc == 3 && strcmp(argv[1], "--completion") == 0) {
		shell = completion_shell_of(argv[2]);
		text = shell == COMPLETION_SHELL_MAX ? NULL : completion_of(a, shell);
	}
	if (text)
		(void)fputs(text, stdout);
	return text != NULL;
}
