/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_RUNDIR_H
#define TENURE_TASK_RUNDIR_H

#include "base/err.h"

/*
 * The directory of records and scripts, made again where somebody has tidied it away: it lies in
 * /var/tmp, which is emptied of what is old. There others may take a name that is free, so neither
 * it nor the directory above it is used if it is not ours alone to write in.
 */

/* 0; -EPERM: others may write in it; -errno. */
int rundir_check(const char *dir, struct err *e);
/* The same, and it is there then, and the one above it. */
int rundir_make(const char *dir, struct err *e);

#endif
