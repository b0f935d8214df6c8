/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_PAYLOAD_H
#define TENURE_CLI_PAYLOAD_H

/* What a task runs, from the arguments of `submit`: a script's text, a command, or the lines of
 * files. */

#include "base/opts.h"
#include "spool/spec.h"

/* The other options are in s. 0, or negative: nothing good was given. */
int payload_take(struct spool_spec *s, const struct opts *o, struct err *e);

#endif
