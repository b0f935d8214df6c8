/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_TENURE_LINES_H
#define TENURE_CLI_TASK_TENURE_LINES_H

/*
 * What a script asks tenure for: the lines at its head that begin with #TENURE, up to the first one
 * that is no comment, have options as the command line has them.
 *
 *	#!/bin/sh
 *	#TENURE --gpus 2 --env "NOTE=first try"
 *	#TENURE --timeout 4h		# a comment
 */

#include "base/opts.h"

/* Adds the rows of the options. */
typedef void (*option_rows_fn)(struct opts *o);

/*
 * Their options; shown is what the script is called in errors. Words are taken apart as a shell
 * does it, and nothing is expanded. 0 and *ret, NULL where there is no such line, which the caller
 * frees; or -EINVAL with "FILE:LINE: ..".
 */
int tenure_lines_parse(option_rows_fn rows, const char *script, const char *shown,
		       struct opts **ret, struct err *e);

#endif
