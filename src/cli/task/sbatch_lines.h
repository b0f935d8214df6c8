/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_SBATCH_LINES_H
#define TENURE_CLI_TASK_SBATCH_LINES_H

/*
 * What a script asks Slurm for, in its #SBATCH lines. What tenure has, too, is taken as if it had
 * been given as an option, which goes before it; a note says what was taken, and a warning names
 * what does nothing here.
 */

#include "base/opts.h"
#include "spool/task_spec.h"

/* The options of the command line are in s already, and those of its #TENURE lines; o and lines (or
 * NULL) say which were given. */
void sbatch_take(struct task_spec *s, const struct opts *o, const struct opts *lines,
		 const char *script);

#endif
