/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_SUBMIT_INHERIT_H
#define TENURE_CLI_TASK_SUBMIT_INHERIT_H

/* What a task takes along of the process that submits it. */

#include "spool/files.h"

/* Its environment, but for what another task was told of itself; a warning names what is not UTF-8,
 * which no task can say. */
void submitter_environment(struct task_spec *s);
/*
 * Its directory, or the one that was given, which may be relative to it. A full path that is not
 * here is a warning: the task may run on another node, or after one that makes it. Negative: there
 * is no such directory, or it cannot be named in a task.
 */
int submitter_directory(struct task_spec *s, const char *given, struct err *e);
/* The mask that its files would have. */
/* Likewise of "output" and "error", a path that may be relative to the spec's directory. Where it
 * cannot be written is told. */
int submitter_output(struct task_spec *s, const char *key, const char *given, struct err *e);
void submitter_umask(struct task_spec *s);
/* Who, where, when. */
void submitter_name(struct task_spec *s, const struct spool *sp);

#endif
