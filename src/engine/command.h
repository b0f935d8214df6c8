/* SPDX-License-Identifier: MIT */
#ifndef TENURE_ENGINE_COMMAND_H
#define TENURE_ENGINE_COMMAND_H

/*
 * Run a command of an engine and read what it prints: found on PATH, without a shell, in a
 * session of its own, for so long at most, with both of its streams read to their ends. What is no
 * UTF-8 in them, and controls but those of lines, become ?, so that its words can go anywhere.
 *
 *	const char *argv[] = { "squeue", "-h", NULL };
 *	r = command_run(argv, &(struct command){ .clear = formats }, &out, e);
 *	if (r == 0 && out.status != 0)
 *		r = command_failed(argv, &out, -EIO, e);
 *	command_output_clear(&out);
 *
 * May wait for as long as the limit, and a little longer where a child cannot be ended.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strbuf.h"

#define COMMAND_OUTPUT_MAX (16UL << 20) /* of each stream */

struct command {
	const char *const *environ; /* to NULL; LC_ALL=C is added. NULL: that of this process */
	const char *const
		*clear;		/* beginnings of variables that are left out: "SQUEUE_"; or NULL */
	const char *const *set; /* "KEY=VALUE" that are added; or NULL */
	const char *input;	/* what it reads; NULL: nothing */
	const char *path;	/* directories that are searched besides PATH, behind it; NULL */
	bool keep_language;	/* no LC_ALL=C: it hands its environment on, to a job */
	uint64_t limit_ms;	/* 0: ENGINE_LIMIT_MS */
};

struct command_output {
	int status; /* its exit status; 128 and a signal's number */
	struct strbuf out, err;
};

/*
 * 0: it ran and ended, whatever its status says. -ENOENT: there is no such command; -ETIMEDOUT: it
 * took too long, and was killed; -EMSGSIZE: it printed more than COMMAND_OUTPUT_MAX; -errno.
 * command_output_clear() in each case.
 */
int command_run(const char *const *argv, const struct command *how, struct command_output *ret,
		struct err *e);
void command_output_clear(struct command_output *o);
/* It ran, and a signal has ended it: what it was to do may be done or not. */
bool command_was_killed(const struct command_output *o);
/* command_run() would find it. */
bool command_is_there(const char *name, const struct command *how);

/* "squeue: slurm_load_jobs error: .." in e: the first line of stderr that says something to
 * people, else the last one of stdout. Returns code. */
int command_failed(const char *const *argv, const struct command_output *o, int code,
		   struct err *e);
/* The text of both, without the names that we gave ourselves (to NULL), in which any word may stand
 * that would mean something else. The caller frees it. */
char *command_text(const struct command_output *o, const char *const *names);
/* Either of its streams has that text, in any case. */
bool command_said(const struct command_output *o, const char *text);

#endif
