/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_LOGTEXT_H
#define TENURE_TASK_LOGTEXT_H

/*
 * The header and the trailer that a shim writes around a task's output. Lines begin with "=== ", so
 * that they are easily told and filtered; times are local, as everywhere on screens.
 */

#include <stdbool.h>

#include "base/strbuf.h"
#include "task/end_record.h"
#include "task/launch_spec.h"
#include "task/program.h"

/* p: what is started, program_prepare()'d; a script is shown with what runs it. devices: as GO has
 * it, may be empty. */
void logtext_header(struct strbuf *b, const struct launch_spec *spec, const struct program *p,
		    const char *devices, uint64_t started_wall_ns);
/*
 * Where the task's own words begin in the last len bytes of a log: behind the last header in them,
 * which may be cut; bytes from log, 0 where there is none. A task that was preempted resumes in the
 * same log, with another header.
 */
size_t logtext_output_at(const char *log, size_t len);
void logtext_trailer(struct strbuf *b, const struct task_end *end);

/*
 * A log without these lines, as it comes in pieces. A line of the task's own may begin like one of
 * ours, so they are known by where they stand: a header is whole and begins with the task's title;
 * a trailer is followed by a header or by the end. What may be either is held back until that is
 * known.
 *
 *	logtext_plain_begin(&p, "task 42 ");
 *	logtext_plain_add(&p, data, len, &out), again and again; out is what is the task's
 *	logtext_plain_end(&p, &out), which also frees
 */
struct logtext_plain {
	char title[64];	    /* how it begins */
	struct strbuf held; /* lines of a block of ours, as it seems, and the one that is read */
	size_t line;	    /* where that one begins in there */
	size_t last;	    /* which line of ours came before it */
	bool passes;	    /* it is the task's, and its beginning was given out */
};
void logtext_plain_begin(struct logtext_plain *p, const char *title);
void logtext_plain_add(struct logtext_plain *p, const char *data, size_t len, struct strbuf *out);
void logtext_plain_end(struct logtext_plain *p, struct strbuf *out);

/*
 * A log as a terminal may get it, as it comes in pieces: whoever wrote it changes no title, mode or
 * colour table of who reads it. What passes is text, tabs, ends of lines, carriage returns and
 * "erase in the line", with which progress bars are drawn, and colours (SGR); all other sequences
 * and controls, their C1 forms included, are left out, and a character that is not well-formed, or
 * turns the direction of others, is "?". A sequence that does not end is over with its line.
 *
 *	struct logtext_safe s = { 0 };
 *	logtext_safe_add(&s, data, len, &out), again and again
 *	logtext_safe_end(&s, &out), which turns colours off that were left on
 */
enum logtext_safe_state {
	SAFE_TEXT,
	SAFE_CHARACTER,	    /* a character of several bytes */
	SAFE_ESCAPE,	    /* behind an ESC */
	SAFE_ESCAPE_MORE,   /* and an intermediate byte */
	SAFE_CSI,	    /* parameters */
	SAFE_STRING,	    /* a title or the like, up to BEL or ST */
	SAFE_STRING_ESCAPE, /* an ESC in there */
	SAFE_STATE_MAX
};
struct logtext_safe {
	enum logtext_safe_state state;
	char held[64]; /* of the character, or the parameters; more of these is none that passes */
	size_t n;
	bool tinted;
};
void logtext_safe_add(struct logtext_safe *s, const char *data, size_t len, struct strbuf *out);
void logtext_safe_end(struct logtext_safe *s, struct strbuf *out);

/* "exit code 0", "signal 9 (Killed), because its time was over": one phrase. */
void logtext_how(struct strbuf *b, const struct task_end *end);

#endif
