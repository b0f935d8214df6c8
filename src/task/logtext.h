/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_LOGTEXT_H
#define TENURE_TASK_LOGTEXT_H

/*
 * The header and the trailer that a shim writes around a task's output. Lines begin with "=== ", so
 * that they are easily told and filtered; times are local, as everywhere on screens.
 */

#include "base/strbuf.h"
#include "task/program.h"
#include "task/record.h"
#include "task/spec.h"

/* p: what is started, program_prepare()'d; a script is shown with what runs it. devices: as GO has
 * it, may be empty. */
void logtext_header(struct strbuf *b, const struct task_spec *spec, const struct program *p,
		    const char *devices, uint64_t started_wall_ns);
/*
 * Where the task's own words begin in the last len bytes of a log: behind the last header in them,
 * which may be cut; bytes from log, 0 where there is none. A task that gave way goes on in the same
 * log, with another header.
 */
size_t logtext_output_at(const char *log, size_t len);
void logtext_trailer(struct strbuf *b, const struct task_end *end);

/* "exit code 0", "signal 9 (Killed), because its time was over": one phrase. */
void logtext_how(struct strbuf *b, const struct task_end *end);

#endif
