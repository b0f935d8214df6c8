/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_PROGRAM_H
#define TENURE_TASK_PROGRAM_H

/*
 * From a description to a running first process.
 *
 *	program_prepare(&p, &spec, &e);      the script's file, its interpreter, the words
 *	program_set_env(&p, &spec, ...);     with what GO brings
 *	pid = program_start(&p, ..., &e);
 *	program_clear(&p);                   after the end: the script's file is removed
 *
 * A script is a file of its own name in a directory of its own, because scripts look at $0, shells
 * read them piece by piece, and Python opens its main file again in each worker. It is run as
 * `interpreter [argument] FILE words`, taken from its first line here and not by the kernel, so it
 * also works on a filesystem mounted noexec, and an interpreter that is missing can be named. A
 * script without such a line is run by python3 if its name ends in .py, else by the shell. A binary
 * is run as it is.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "task/launch_spec.h"

#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND	127
/* Where commands are looked for without a PATH. */
#define PROGRAM_PATH "/usr/local/bin:/usr/bin:/bin"

struct program {
	const char **argv; /* ends with NULL; argv[0] is what to run */
	const char *
		*sh_argv; /* the same through /bin/sh, or python3, for one without a first line */
	size_t sh_path;	  /* where in it what was found stands */
	const char **envp;
	const char *path_env; /* where to look for argv[0] */
	char *dir;	      /* the script's directory and file, to be removed; or NULL */
	char *file;
	char *line; /* the interpreter line, cut into words */
	char *token_env;
	uint64_t output_at, error_at; /* bytes that were in its files before */
	bool guessed;		      /* the script does not say what runs it */
	int exit_code; /* after a failure: EXIT_NOT_FOUND or EXIT_CANNOT_RUN, as a shell says */
	bool not_its_fault; /* that was for want of something of the node's */
};

/*
 * Whether a program may still be started, between the thread that starts it and the one that may
 * have to forbid that: whoever comes first decides.
 */
enum program_gate { GATE_OPEN, GATE_PASSED, GATE_SHUT };

struct gate {
	_Atomic unsigned int is; /* enum program_gate */
};

/* True: nobody passes any more, and nobody has. */
bool gate_shut(struct gate *g);

/* 0; -EINVAL and others with a text for the task's owner, and p->exit_code. spec must outlive p. */
int program_prepare(struct program *p, const struct launch_spec *spec, struct err *e);

/* The description's environment, n_more NAME=VALUE over it, and the token over all. */
void program_set_env(struct program *p, const struct launch_spec *spec, const char *const *more,
		     size_t n_more);

/*
 * Start it in a session of its own with log_fd, or its own files, as standard output and error,
 * /dev/null as input.
 * cgroup_fd: cgroup.procs to enter first, or -1. Returns when its program has begun: the PID (a
 * child of ours, not reaped), or -errno with a text for the task's owner and p->exit_code;
 * -ECANCELED: the gate was shut, and nothing was started. It can take as long as the file systems
 * of the working directory and of the program do; until then the process is there and can be
 * killed.
 */
pid_t program_start(struct program *p, const struct launch_spec *spec, struct gate *gate,
		    int log_fd, int cgroup_fd, struct err *e);

void program_clear(struct program *p);

#endif
