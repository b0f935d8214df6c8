/* SPDX-License-Identifier: MIT */
#include "cli/task/tenure_lines.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/textlist.h"
#include "cli/cmd.h"

#define MARK "#TENURE"

/* What one of them says. */
struct option_line {
	size_t number; /* in the script, from 1 */
	struct text_list words;
};

struct option_lines {
	size_t n;
	struct option_line *all;
};

static void lines_clear(struct option_lines *l)
{
	for (size_t i = 0; i < l->n; i++)
		text_list_clear(&l->all[i].words);
	free(l->all);
	*l = (struct option_lines){ .n = 0 };
}

/* The character behind a backslash in double quotes, where that is none of its own. */
static bool is_escaped(char c)
{
	return c && strchr("\"\\$`", c);
}

/* One word, without its quotes, added to b. Returns what is behind it; NULL: a quote is not closed.
 */
static const char *take_word(const char *p, struct strbuf *b)
{
	char quote = 0;

	for (; *p && (quote || !isspace((unsigned char)*p)); p++) {
		if (quote ? *p == quote : *p == '"' || *p == '\'')
			quote = quote ? 0 : *p;
		else if (*p == '\\' && p[1] && (!quote || (quote == '"' && is_escaped(p[1]))))
			strbuf_addc(b, *++p);
		else
			strbuf_addc(b, *p);
	}
	return quote ? NULL : p;
}

/* The words of a line behind its mark. -EINVAL: a quote is not closed. */
static int take_words(const char *text, struct text_list *ret)
{
	const char *p = text + strspn(text, " \t\r");

	while (*p && *p != '#') {
		cleanup_strbuf struct strbuf word = STRBUF_INIT;

		p = take_word(p, &word);
		if (!p)
			return -EINVAL;
		text_list_add(ret, strbuf_str(&word));
		p += strspn(p, " \t\r");
	}
	return 0;
}

/* "# TENURE --gpus 2", "#TENURE: -g 2", "#tenure -g 2", "  #TENURE -g 2" are comments, and were
 * hardly meant so. */
static bool is_almost_one(const char *line)
{
	static const char word[] = "TENURE";
	const char *p;

	line += strspn(line, " \t");
	p = line + (line[0] == '#');
	p += strspn(p, " \t");
	if (line[0] != '#' || strncasecmp(p, word, strlen(word)) != 0)
		return false;
	p += strlen(word);

	const char *option = p + strspn(p, ": \t");

	return option > p && option[0] == '-' && option[1] && !isspace((unsigned char)option[1]);
}

static int read_lines(const char *script, const char *shown, struct option_lines *ret,
		      struct err *e)
{
	size_t number = 1;

	for (const char *p = script; *p; number++) {
		size_t len = strcspn(p, "\n"), blank = strspn(p, " \t\r");
		cleanup_free char *line = xasprintf("%.*s", (int)len, p);

		if (blank < len && p[blank] != '#')
			break;
		p += len + (p[len] == '\n');
		if (!str_has_prefix(line, MARK) ||
		    (line[strlen(MARK)] && !isspace((unsigned char)line[strlen(MARK)]))) {
			if (is_almost_one(line))
				cmd_warn("warning",
					 "%s:%zu: that is a comment, as lines with options "
					 "begin with " MARK " and a blank, without one before",
					 shown, number);
			continue;
		}
		ret->all = xgrow(ret->all, ret->n, sizeof(*ret->all));
		ret->all[ret->n] = (struct option_line){ .number = number };
		if (take_words(line + strlen(MARK), &ret->all[ret->n++].words) < 0)
			return err_set(e, -EINVAL, "%s:%zu: a quote is not closed", shown, number);
	}
	return 0;
}

/* Those of the lines from `first` on, of which there are n. */
static int parse(struct opts *o, const struct option_lines *l, size_t first, size_t n,
		 struct err *e)
{
	static char name[] = MARK;
	cleanup_free char **argv = NULL;
	size_t argc = 1, at = 1;
	int r;

	for (size_t i = first; i < first + n; i++)
		argc += l->all[i].words.n;
	argv = xcalloc(argc + 1, sizeof(*argv));
	argv[0] = name;
	for (size_t i = first; i < first + n; i++)
		for (size_t k = 0; k < l->all[i].words.n; k++)
			argv[at++] = l->all[i].words.texts[k];
	r = opts_parse(o, (int)argc, argv, OPTS_DEFAULT, e);
	if (r == 0 && opts_argc(o))
		r = err_set(e, -EINVAL, "\"%s\" is no option; what is run is the script",
			    opts_arg(o, 0));
	return r;
}

/* Which of them it is that is wrong: each alone. */
static int tell_line(option_rows_fn rows, const struct option_lines *l, const char *shown,
		     const struct err *whole, struct err *e)
{
	for (size_t i = 0; i < l->n; i++) {
		struct opts *o = opts_new();
		struct err why = ERR_INIT;
		int r;

		rows(o);
		r = parse(o, l, i, 1, &why);

		(void)opts_free(o);
		if (r < 0)
			return err_set(e, -EINVAL, "%s:%zu: %s", shown, l->all[i].number, why.text);
	}
	return err_set(e, -EINVAL, "%s:%zu: %s", shown, l->all[0].number, whole->text);
}

int tenure_lines_parse(option_rows_fn rows, const char *script, const char *shown,
		       struct opts **ret, struct err *e)
{
	struct option_lines l = { .n = 0 };
	struct opts *o = NULL;
	struct err why = ERR_INIT;
	int r = read_lines(script, shown, &l, e);

	if (r == 0 && l.n) {
		o = opts_new();
		rows(o);
		if (parse(o, &l, 0, l.n, &why) < 0) {
			o = opts_free(o);
			r = tell_line(rows, &l, shown, &why, e);
		}
	}
	lines_clear(&l);
	*ret = o;
	return r;
}
