/* SPDX-License-Identifier: MIT */

/*
 * Lines are looked at one by one; what a block's first line is decides how it is written. A block
 * is over with its memory, with a blank line, or with the file, and the last two are mistakes when
 * something is missing, so that nothing is run with a guessed amount of memory.
 */

#include "compat/command_txt/commandfile.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"

#define WIDE_COMMA   "\xef\xbc\x8c" /* as Chinese keyboards type it */
#define UTF8_BOM     "\xef\xbb\xbf"
#define MEMORY_MAX   100000 /* GB */
#define FRACTION_MAX 6	    /* digits that count */

enum how { HOW_UNKNOWN, HOW_LAST_LINE, HOW_FIRST_LINE };

struct parser {
	const char *file;
	struct command_file *out;
	struct command_block block;
	enum how how;
	unsigned int line;
};

static const char *skip_blanks(const char *p)
{
	return p + strspn(p, " \t");
}

/* ---- numbers ---- */

/* What may stand behind a number: nothing, or a comment. */
static bool is_rest(const char *p)
{
	p = skip_blanks(p);
	return !*p || *p == '#';
}

/* A queue's number at *p, which is moved behind it. */
static bool take_queue(const char **p, char ret[16])
{
	size_t n = strspn(*p, "0123456789");

	if (!n || n >= 16)
		return false;
	(void)memcpy(ret, *p, n);
	ret[n] = '\0';
	*p += n;
	return true;
}

/* GB at *p, with a fraction and perhaps the unit. */
static bool take_memory(const char **p, uint64_t *ret)
{
	static const char *const units[] = { "GiB", "GB", "G" };
	const char *at = *p;
	uint64_t whole = 0, part = 0, scale = 1;

	if (!isdigit((unsigned char)*at))
		return false;
	for (; isdigit((unsigned char)*at); at++)
		if ((whole = whole * 10 + (uint64_t)(*at - '0')) > MEMORY_MAX)
			return false;
	if (*at == '.' && isdigit((unsigned char)at[1]))
		for (at++; isdigit((unsigned char)*at); at++)
			if (scale < 1000000) {
				part = part * 10 + (uint64_t)(*at - '0');
				scale *= 10;
			}
	*ret = whole * GIB + part * GIB / scale;
	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (str_has_prefix(skip_blanks(at), units[i])) {
			at = skip_blanks(at) + strlen(units[i]);
			break;
		}
	*p = at;
	return true;
}

static bool is_queue_line(const char *line, char ret[16])
{
	return take_queue(&line, ret) && is_rest(line);
}

static bool is_memory_line(const char *line, uint64_t *ret)
{
	return take_memory(&line, ret) && is_rest(line);
}

/* "1,20" */
static bool is_both_line(const char *line, char queue[16], uint64_t *mem)
{
	if (!take_queue(&line, queue))
		return false;
	line = skip_blanks(line);
	if (*line != ',' && !str_has_prefix(line, WIDE_COMMA))
		return false;
	line = skip_blanks(line + (*line == ',' ? 1 : strlen(WIDE_COMMA)));
	return take_memory(&line, mem) && is_rest(line);
}

/* ---- commands ---- */

/*
 * Where the quotes that a whole command stands in are closed; NULL: they are the command's own. A
 * quote behind a blank opens one inside, as in "bash -c "x"", one behind a word closes, as in
 * "a b" "c".
 */
static const char *closing_quote(const char *line)
{
	const char *p = line + 1, *last = strrchr(line, line[0]);

	for (; *p && *p != line[0]; p++)
		if (*p == '\\' && p[1])
			p++;
	if (!*p)
		return NULL;
	if (is_rest(p + 1))
		return p;
	return last && is_rest(last + 1) && (p[-1] == ' ' || p[-1] == '\t') ? last : NULL;
}

static void add_command(struct parser *p, const char *line)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	const char *end = *line == '"' || *line == '\'' ? closing_quote(line) : NULL;

	if (!end) {
		text_list_add(&p->block.commands, line);
		return;
	}
	for (const char *c = line + 1; c < end; c++) {
		if (*c == '\\' && c + 1 < end && c[1] == line[0])
			c++;
		strbuf_addc(&b, *c);
	}
	if (*skip_blanks(strbuf_str(&b)))
		text_list_add(&p->block.commands, strbuf_str(&b));
}

/* ---- blocks ---- */

static int bad(const struct parser *p, unsigned int line, struct err *e)
{
	return err_wrap(e, "%s:%u", p->file, line);
}

static int end_block(struct parser *p, struct err *e)
{
	if (!p->block.commands.n) {
		(void)err_set(e, -EINVAL, "this task has no command");
		return bad(p, p->block.line, e);
	}
	p->out->blocks = xrealloc(p->out->blocks, p->out->n + 1, sizeof(*p->out->blocks));
	p->out->blocks[p->out->n++] = p->block;
	p->block = (struct command_block){ .line = 0 };
	p->how = HOW_UNKNOWN;
	return 0;
}

/* A blank line, or the end of the file. */
static int end_unfinished(struct parser *p, struct err *e)
{
	if (p->how == HOW_UNKNOWN)
		return 0;
	(void)err_set(e, -EINVAL,
		      p->how == HOW_FIRST_LINE
			      ? "this task has no last line with its memory in GB, like 20"
			      : "this task has no last line with its queue and memory, like 1,20");
	return bad(p, p->block.line, e);
}

static int take_line(struct parser *p, const char *line, struct err *e)
{
	if (p->how == HOW_UNKNOWN) {
		p->block.line = p->line;
		p->how = is_queue_line(line, p->block.queue) ? HOW_FIRST_LINE : HOW_LAST_LINE;
		if (p->how == HOW_FIRST_LINE)
			return 0;
	}
	if (p->how == HOW_FIRST_LINE ? is_memory_line(line, &p->block.mem_bytes)
				     : is_both_line(line, p->block.queue, &p->block.mem_bytes))
		return end_block(p, e);
	add_command(p, line);
	return 0;
}

static int parse_line(struct parser *p, char *line, struct err *e)
{
	size_t len = strlen(line);
	const char *text;

	while (len && strchr(" \t\r", line[len - 1]))
		line[--len] = '\0';
	text = skip_blanks(line);
	p->line++;
	if (*text == '#')
		return 0;
	return *text ? take_line(p, text, e) : end_unfinished(p, e);
}

static int parse_lines(struct parser *p, char *text, struct err *e)
{
	char *line = text, *end;
	int r = 0;

	if (str_has_prefix(line, UTF8_BOM))
		line += strlen(UTF8_BOM);
	for (; line && r == 0; line = end ? end + 1 : NULL) {
		end = strchr(line, '\n');
		if (end)
			*end = '\0';
		r = parse_line(p, line, e);
	}
	return r == 0 ? end_unfinished(p, e) : r;
}

int command_file_parse(const char *file, const char *text, size_t len, struct command_file *ret,
		       struct err *e)
{
	struct parser p = { .file = file, .out = ret };
	cleanup_free char *copy = xmalloc(len + 1);
	int r;

	(void)memcpy(copy, text, len);
	copy[len] = '\0';
	*ret = (struct command_file){ .n = 0 };
	if (strlen(copy) != len)
		return err_set(e, -EINVAL, "%s: a NUL byte is in it", file);
	r = parse_lines(&p, copy, e);
	text_list_clear(&p.block.commands);
	if (r == 0 && !ret->n)
		r = err_set(e, -EINVAL, "%s: there is no task in it", file);
	if (r < 0)
		command_file_clear(ret);
	return r;
}

void command_file_clear(struct command_file *f)
{
	for (size_t i = 0; i < f->n; i++)
		text_list_clear(&f->blocks[i].commands);
	free(f->blocks);
	*f = (struct command_file){ .n = 0 };
}

/* ---- as a script ---- */

static void add_quoted(struct strbuf *b, const char *text, size_t len)
{
	strbuf_addc(b, '\'');
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\'')
			strbuf_adds(b, "'\\''");
		else
			strbuf_addc(b, text[i]);
	}
	strbuf_addc(b, '\'');
}

/* As one word of the script: what is not a variable of ours is quoted. */
static void add_word(struct strbuf *b, const char *command, const char *work_dir)
{
	static const char dir[] = "{work_dir}", id[] = "{uni_id}";
	const char *from = command, *p;

	for (p = command; *p; p++) {
		bool is_dir = str_has_prefix(p, dir), is_id = str_has_prefix(p, id);

		if (!is_dir && !is_id)
			continue;
		add_quoted(b, from, (size_t)(p - from));
		if (is_dir)
			add_quoted(b, work_dir, strlen(work_dir));
		else
			strbuf_adds(b, "\"$uni_id\"");
		p += (is_dir ? strlen(dir) : strlen(id)) - 1;
		from = p + 1;
	}
	add_quoted(b, from, (size_t)(p - from));
}

/* noter begin|end STATE "$uni_id" */
static void add_note(struct strbuf *b, const char *noter, const char *verb, const char *state)
{
	add_quoted(b, noter, strlen(noter));
	strbuf_addf(b, " %s ", verb);
	add_quoted(b, state, strlen(state));
	strbuf_adds(b, " \"$uni_id\"");
}

char *command_block_script(const struct command_block *b, const char *work_dir, const char *noter,
			   const char *state)
{
	struct strbuf s = STRBUF_INIT;

	strbuf_addf(&s, "#!/bin/sh\n# Queue %s, line %u of the command file.\n", b->queue, b->line);
	strbuf_adds(&s, "uni_id=$TENURE_TASK_ID-$TENURE_ATTEMPT-$(date +%s)\n"
			"run() {\n\tprintf '+ %s\\n' \"$1\"\n\tsh -c \"$1\" || exit\n}\n");
	if (state) {
		/* Told to end, it still says so, from before it says that it runs. */
		strbuf_adds(&s, "told=\ntrap 'told=stopped' TERM\n");
		add_note(&s, noter, "--begin", state);
		strbuf_adds(&s, "\n[ \"$told\" ] || ");
	}
	strbuf_adds(&s, "(\n");
	for (size_t i = 0; i < b->commands.n; i++) {
		strbuf_adds(&s, "\trun ");
		add_word(&s, b->commands.texts[i], work_dir);
		strbuf_addc(&s, '\n');
	}
	strbuf_adds(&s, ")\n");
	if (state) {
		strbuf_adds(&s, "code=$?\nexec ");
		add_note(&s, noter, "--end", state);
		strbuf_adds(&s, " $code $told\n");
	}
	return strbuf_take(&s);
}
