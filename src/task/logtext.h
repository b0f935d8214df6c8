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

/* "exit code 0", "signal 9 (Killed), because its time was over": one phrase. */
void logtext_how(struct strbuf *b, const struct task_end *end);

#endif
