/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_AFTERCHECK_H
#define TENURE_CLI_AFTERCHECK_H

/* Whether what a task is to wait for makes sense, asked before it is written down. */

#include "spool/spec.h"
#include "spool/spool.h"

/*
 * s: of the task with that id, or 0: it has none yet. -ENOENT: it would wait for a task that is not
 * there; -ELOOP: for itself, with the way round in e. What has failed already is warned of: it may
 * be asked for again.
 */
int after_check(const struct spool *sp, uint64_t id, const struct spool_spec *s, struct err *e);

#endif
