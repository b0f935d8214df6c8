/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_PAYLOAD_H
#define TENURE_CLI_TASK_PAYLOAD_H

/* What a task runs, from the arguments of `submit`: a script's text, a command, or the lines of
 * files. */

#include "base/opts.h"
#include "cli/task/lines.h"

/* The other options are in s, which gets what to run; lines of --from may be tasks of their own in
 * *ret instead. 0, or negative: nothing good was given. */
int payload_take(struct spool_spec *s, const struct opts *o, struct spec_list *ret, struct err *e);

#endif
