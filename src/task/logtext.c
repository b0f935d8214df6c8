/* SPDX-License-Identifier: MIT */
#include "task/logtext.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

#define MARK	  "=== "
#define MARK_LAST MARK "started   " /* the last line of a header, as line() writes it */

static void line(struct strbuf *b, const char *name, const char *text)
{
	if (!text || !text[0])
		return;
	strbuf_addf(b, MARK "%-9s ", name);
	/* A command of several lines stays one line here. */
	for (const char *p = text; *p; p++)
		strbuf_addc(b, (unsigned char)*p < 0x20 ? ' ' : *p);
	strbuf_addc(b, '\n');
}

/* A script's file lies in a directory of ours, which nobody needs to know. */
static const char *shown_word(const struct program *p, const char *word)
{
	return p->file && strcmp(word, p->file) == 0 ? strrchr(word, '/') + 1 : word;
}

static void shown_command(struct strbuf *b, const struct launch_spec *s, const struct program *p)
{
	/* As it was submitted, also where it could not be prepared. */
	if (s->shown && s->shown[0] && (!s->script || !p->argv)) {
		strbuf_adds(b, s->shown);
		return;
	}
	for (size_t i = 0; p->argv && p->argv[i]; i++)
		strbuf_add_word_in_line(b, shown_word(p, p->argv[i]));
}

void logtext_header(struct strbuf *b, const struct launch_spec *spec, const struct program *p,
		    const char *devices, uint64_t started_wall_ns)
{
	cleanup_strbuf struct strbuf command = STRBUF_INIT;
	char when[CLOCK_TEXT_MAX];

	shown_command(&command, spec, p);
	if (p->guessed)
		strbuf_adds(&command, " (the script has no #! line that says what runs it)");
	line(b, "tenure", spec->title);
	line(b, "command", strbuf_str(&command));
	line(b, "node", spec->node);
	line(b, "devices", devices);
	line(b, "directory", spec->cwd);
	line(b, "started", clock_format_local(started_wall_ns, when));
}

static bool begins(const char *p, const char *end, const char *mark)
{
	size_t n = strlen(mark);

	return (size_t)(end - p) >= n && memcmp(p, mark, n) == 0;
}

size_t logtext_output_at(const char *log, size_t len)
{
	const char *end = log + len, *nl;
	size_t at = 0;
	bool ours = false; /* the line before is one of a header, too */

	for (const char *p = log; (nl = memchr(p, '\n', (size_t)(end - p))); p = nl + 1) {
		if (ours && begins(p, end, MARK_LAST))
			at = (size_t)(nl + 1 - log);
		ours = begins(p, end, MARK);
	}
	return at;
}

/* ---- what is not ours ---- */

/* The lines of a header and of a trailer, each in its order; the agent adds the last one. */
enum ours {
	OURS_NONE,
	OURS_TENURE,
	OURS_COMMAND,
	OURS_NODE,
	OURS_DEVICES,
	OURS_DIRECTORY,
	OURS_STARTED,
	OURS_ENDED,
	OURS_RAN,
	OURS_GPU,
	OURS_LEFT,
	OURS_THEN,
	OURS_MAX
};

#define BEGINNING (sizeof(MARK_LAST) - 1)

static const char beginnings[OURS_MAX][BEGINNING + 1] = {
	[OURS_TENURE] = MARK "tenure    ",    [OURS_COMMAND] = MARK "command   ",
	[OURS_NODE] = MARK "node      ",      [OURS_DEVICES] = MARK "devices   ",
	[OURS_DIRECTORY] = MARK "directory ", [OURS_STARTED] = MARK_LAST,
	[OURS_ENDED] = MARK "ended     ",     [OURS_RAN] = MARK "ran       ",
	[OURS_GPU] = MARK "gpu       ",	      [OURS_LEFT] = MARK "left      ",
	[OURS_THEN] = MARK "then      ",
};

void logtext_plain_begin(struct logtext_plain *p, const char *title)
{
	*p = (struct logtext_plain){ .last = OURS_NONE };
	(void)str_copy(p->title, sizeof(p->title), title);
}

/* Which line of ours the one that is read is, as far as it has come. */
static size_t look_like(const struct logtext_plain *p)
{
	size_t n = p->held.len - p->line;

	for (size_t i = OURS_NONE + 1; i < OURS_MAX; i++)
		if (memcmp(p->held.data + p->line, beginnings[i], n < BEGINNING ? n : BEGINNING) ==
		    0)
			return i;
	return OURS_NONE;
}

/* The first len bytes that are held are the task's, and go to out; NULL: they were ours. */
static void let_go(struct logtext_plain *p, size_t len, struct strbuf *out)
{
	if (out)
		strbuf_add(out, p->held.data, len);
	(void)memmove(p->held.data, p->held.data + len, p->held.len - len);
	p->held.len -= len;
	p->line = 0;
	p->last = OURS_NONE;
}

static bool is_trailer(size_t last)
{
	return last >= OURS_RAN;
}

static bool may_begin(const struct logtext_plain *p, size_t which)
{
	if (which == OURS_TENURE)
		return begins(p->held.data + p->line + BEGINNING, p->held.data + p->held.len,
			      p->title);
	return which == OURS_ENDED || which == OURS_THEN;
}

static bool goes_on(const struct logtext_plain *p, size_t which)
{
	if (p->last == OURS_NONE || p->last == OURS_ENDED)
		return p->last == OURS_ENDED && which == OURS_RAN;
	if (is_trailer(p->last) && which == OURS_TENURE)
		return may_begin(p, which);
	return which > p->last && (p->last > OURS_STARTED) == (which > OURS_STARTED);
}

/* A whole line is held that looks like one of ours. */
static void take_line(struct logtext_plain *p, struct strbuf *out)
{
	size_t which = look_like(p);

	if (!goes_on(p, which)) {
		let_go(p, p->line, out);
		if (!may_begin(p, which)) {
			let_go(p, p->held.len, out);
			return;
		}
	}
	p->last = which;
	p->line = p->held.len;
	if (which == OURS_STARTED)
		let_go(p, p->held.len, NULL);
}

void logtext_plain_add(struct logtext_plain *p, const char *data, size_t len, struct strbuf *out)
{
	const char *end = data + len;

	while (data < end) {
		const char *nl = memchr(data, '\n', (size_t)(end - data));
		size_t rest = (size_t)((nl ? nl + 1 : end) - data);

		/* As much as tells whether the line is one of ours, then the rest of it. */
		size_t known = p->passes ? BEGINNING : p->held.len - p->line;
		size_t n = known < BEGINNING && rest > BEGINNING - known ? BEGINNING - known : rest;
		bool whole = nl && n == rest;

		strbuf_add(p->passes ? out : &p->held, data, n);
		data += n;
		if (!p->passes && look_like(p) == OURS_NONE) {
			let_go(p, p->held.len, out);
			p->passes = true;
		} else if (!p->passes && whole) {
			take_line(p, out);
		}
		if (whole)
			p->passes = false;
	}
}

void logtext_plain_end(struct logtext_plain *p, struct strbuf *out)
{
	if (p->held.len && (p->line < p->held.len || !is_trailer(p->last)))
		strbuf_add(out, p->held.data, p->held.len);
	strbuf_clear(&p->held);
}

/* ---- what a terminal may get ---- */

#define ESC 0x1b

static bool passes_as_it_is(unsigned char c)
{
	return (c >= ' ' && c < 0x7f) || c == '\t' || c == '\n' || c == '\r';
}

static void hold(struct logtext_safe *s, unsigned char c)
{
	if (s->n < sizeof(s->held) - 1)
		s->held[s->n] = (char)c;
	s->n += s->n < sizeof(s->held);
}

static void enter(struct logtext_safe *s, enum logtext_safe_state state)
{
	s->state = state;
	s->n = 0;
}

/* A whole character, or as much of one as has come. Those of C1 begin what two bytes begin else. */
static void take_character(struct logtext_safe *s, struct strbuf *out)
{
	uint32_t c = 0;
	bool whole;

	s->held[s->n] = '\0';
	whole = utf8_decode(s->held, &c) == s->n;
	enter(s, SAFE_TEXT);
	if (whole && c >= 0x80 && c < 0xa0)
		enter(s, c == 0x9b					      ? SAFE_CSI
			 : c == 0x90 || c == 0x98 || (c >= 0x9d && c <= 0x9f) ? SAFE_STRING
									      : SAFE_TEXT);
	else
		strbuf_adds(out, whole && utf8_shown(s->held) ? s->held : "?");
}

static bool safe_text(struct logtext_safe *s, unsigned char c, struct strbuf *out)
{
	if (c == ESC) {
		enter(s, SAFE_ESCAPE);
	} else if (passes_as_it_is(c)) {
		strbuf_addc(out, (char)c);
	} else if (c >= 0xc2 && c < 0xf5) {
		enter(s, SAFE_CHARACTER);
		hold(s, c);
	} else if (c >= 0x80) {
		strbuf_addc(out, '?');
	}
	return true;
}

static bool safe_character(struct logtext_safe *s, unsigned char c, struct strbuf *out)
{
	unsigned char lead = (unsigned char)s->held[0];
	bool goes_on = (c & 0xc0) == 0x80;

	if (goes_on)
		hold(s, c);
	if (!goes_on || s->n == (lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2))
		take_character(s, out);
	return goes_on;
}

static bool safe_escape(struct logtext_safe *s, unsigned char c, struct strbuf *out)
{
	bool first = s->state == SAFE_ESCAPE;

	if (c >= 0x20 && c < 0x30)
		enter(s, SAFE_ESCAPE_MORE);
	else if (first && c == '[')
		enter(s, SAFE_CSI);
	else if (first && c && strchr("]PX^_", c))
		enter(s, SAFE_STRING);
	else
		enter(s, SAFE_TEXT);
	return c >= 0x20 && c < 0x7f;
}

static bool safe_csi(struct logtext_safe *s, unsigned char c, struct strbuf *out)
{
	bool goes_on = c >= 0x20 && c < 0x40;

	if (goes_on) {
		hold(s, c);
		return true;
	}
	if ((c == 'm' || c == 'K') && s->n < sizeof(s->held)) {
		s->held[s->n] = '\0';
		if (strspn(s->held, "0123456789;:") == s->n) {
			strbuf_addf(out, "\033[%s%c", s->held, c);
			if (c == 'm')
				s->tinted = strcmp(s->held, "") != 0 && strcmp(s->held, "0") != 0;
		}
	}
	enter(s, SAFE_TEXT);
	return c >= 0x40 && c < 0x7f;
}

static bool safe_string(struct logtext_safe *s, unsigned char c, struct strbuf *out)
{
	static const unsigned char can = 0x18, sub = 0x1a, st = 0x9c;

	if (c == ESC)
		enter(s, SAFE_STRING_ESCAPE);
	else if (c == '\a' || c == '\n' || c == can || c == sub || c == st)
		enter(s, SAFE_TEXT);
	return c != '\n';
}

static bool safe_string_escape(struct logtext_safe *s, unsigned char c, struct strbuf *out)
{
	enter(s, c == '\\' ? SAFE_TEXT : SAFE_ESCAPE);
	return c == '\\';
}

/* Each takes a byte, or leaves it to the state that it has passed to: false. */
static bool (*const safe_states[])(struct logtext_safe *s, unsigned char c, struct strbuf *out) = {
	[SAFE_TEXT] = safe_text,
	[SAFE_CHARACTER] = safe_character,
	[SAFE_ESCAPE] = safe_escape,
	[SAFE_ESCAPE_MORE] = safe_escape,
	[SAFE_CSI] = safe_csi,
	[SAFE_STRING] = safe_string,
	[SAFE_STRING_ESCAPE] = safe_string_escape,
};
_Static_assert(ARRAY_LEN(safe_states) == SAFE_STATE_MAX, "every state takes bytes");

void logtext_safe_add(struct logtext_safe *s, const char *data, size_t len, struct strbuf *out)
{
	for (size_t i = 0; i < len;) {
		size_t n = 0;

		while (s->state == SAFE_TEXT && i + n < len &&
		       passes_as_it_is((unsigned char)data[i + n]))
			n++;
		strbuf_add(out, data + i, n);
		i += n;
		while (i < len && !safe_states[s->state](s, (unsigned char)data[i], out))
			;
		i++;
	}
}

void logtext_safe_end(struct logtext_safe *s, struct strbuf *out)
{
	if (s->state == SAFE_CHARACTER)
		take_character(s, out);
	if (s->tinted)
		strbuf_adds(out, "\033[0m");
	*s = (struct logtext_safe){ .state = SAFE_TEXT };
}

static const char *const because[] = {
	[CAUSE_SELF] = "",
	[CAUSE_STOP] = ", because it was stopped",
	[CAUSE_TIMEOUT] = ", because its time was over",
	[CAUSE_TERM] = ", because its shim got SIGTERM (a shutdown?)",
	[CAUSE_ALONE] = ", because its agent was gone",
	[CAUSE_REQUEUE] = ", because it was stopped, to be requeued",
	[CAUSE_FENCED] = ", because its claim could not be kept alive in the spool",
	[CAUSE_RECLAIMED] = ", because the task was taken from this node",
};
_Static_assert(ARRAY_LEN(because) == TASK_CAUSE_MAX, "a phrase for every cause");

void logtext_how(struct strbuf *b, const struct task_end *end)
{
	switch (end->outcome) {
	case TASK_EXITED:
		strbuf_addf(b, "exit code %d", end->exit_code);
		break;
	case TASK_SIGNALLED:
		strbuf_addf(b, "signal %d (%s)", end->signal, strsignal(end->signal));
		break;
	case TASK_NOT_STARTED:
		strbuf_adds(b, "not started");
		break;
	default:
		strbuf_adds(b, task_outcome_name(end->outcome));
		break;
	}
	if (end->leader_first && end->cause != CAUSE_SELF)
		strbuf_adds(b, "; what its command left behind was ended");
	if (end->cause < TASK_CAUSE_MAX)
		strbuf_adds(b, because[end->cause]);
	if (end->text[0])
		strbuf_addf(b, ": %s", end->text);
}

/* "1d 2h 3m 4s", or with milliseconds while it is short. */
static void add_duration(struct strbuf *b, uint64_t ns)
{
	unsigned long long s = ns / NS_PER_S;

	if (s < 60) {
		strbuf_addf(b, "%llu.%03llus", s, ns % NS_PER_S / NS_PER_MS);
		return;
	}
	if (s >= 86400)
		strbuf_addf(b, "%llud ", s / 86400);
	if (s >= 3600)
		strbuf_addf(b, "%lluh ", s / 3600 % 24);
	strbuf_addf(b, "%llum %llus", s / 60 % 60, s % 60);
}

static void gpu_line(struct strbuf *b, const struct task_end *end)
{
	if (end->gpu_peak_bytes)
		strbuf_addf(b, "=== gpu       peak memory %.1f GiB, mean utilisation %.0f%%\n",
			    (double)end->gpu_peak_bytes / (1 << 30),
			    (double)end->gpu_util_permille / 10);
}

void logtext_trailer(struct strbuf *b, const struct task_end *end)
{
	char when[CLOCK_TEXT_MAX];

	strbuf_adds(b, "=== ended     ");
	strbuf_adds(b, clock_format_local(end->ended_wall_ns, when));
	strbuf_adds(b, ", ");
	logtext_how(b, end);
	strbuf_adds(b, "\n=== ran       ");
	add_duration(b, end->run_ns);
	strbuf_adds(b, ", processor ");
	add_duration(b, end->user_ns + end->system_ns);
	strbuf_addf(b, ", largest process %.1f MiB\n", (double)end->max_rss_bytes / (1 << 20));
	gpu_line(b, end);
	if (end->leftovers)
		strbuf_addf(b, "=== left      %u processes of other users still run\n",
			    end->leftovers);
}
