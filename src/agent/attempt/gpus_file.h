/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_GPUS_FILE_H
#define TENURE_AGENT_ATTEMPT_GPUS_FILE_H

/*
 * The file that tells a program which devices it has now (TENURE_GPUS_FILE): a line "INDEX UUID"
 * for each, in the order of CUDA_VISIBLE_DEVICES, those that came later behind. It lies beside the
 * record of the task's shim, and another one takes its place: nobody reads half of it. The calls
 * wait for a disk: they are for jobs of the spooler.
 */

#include <limits.h>

#include "base/err.h"

/* Of the attempt with that token. Returns ret. */
const char *gpus_file_path(const char *run_dir, const char *token, char ret[PATH_MAX]);
/* Where it says that already it is left alone, since its time of change is news to who watches it.
 * 0, or -errno with e. */
int gpus_file_write(const char *path, const char *text, struct err *e);
/* It may not be there. */
void gpus_file_remove(const char *run_dir, const char *token);

#endif
