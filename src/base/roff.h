/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_ROFF_H
#define TENURE_BASE_ROFF_H

/*
 * Text as source of a man page, man(7). What is written can be no request, whatever the text
 * begins with; a hyphen that somebody may copy is a minus.
 */

#include "base/opts.h"
#include "base/strbuf.h"

/* The text as it is: names, commands, arguments of a macro. */
void roff_literal(struct strbuf *b, const char *text);
/* The same in bold, or in italics. */
void roff_bold(struct strbuf *b, const char *text);
void roff_italic(struct strbuf *b, const char *text);
/*
 * Sentences, as help texts have them: `this` and --options become bold, a line ends where it does
 * in the text, an empty line begins a paragraph. No newline is added.
 */
void roff_text(struct strbuf *b, const char *text);

/*
 * The parts of a page. macro: "SH" or "SS"; what is tagged stands below its tag, in a list; the
 * last page that is referred to ends without a comma.
 */
void roff_heading(struct strbuf *b, const char *name, const char *section, const char *summary,
		  const char *made_by);
void roff_section(struct strbuf *b, const char *macro, const char *title);
void roff_paragraph(struct strbuf *b, const char *text);
void roff_tagged(struct strbuf *b, const char *tag, const char *text);
void roff_choices(struct strbuf *b, const struct opt *row);
void roff_option(struct strbuf *b, const struct opt *row);
void roff_reference(struct strbuf *b, const char *page, const char *section, bool last);

#endif
