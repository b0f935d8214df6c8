/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_AFAR_H
#define TENURE_CLI_TASK_AFAR_H

/* The part of `stop` that is about tasks which run under agents of other nodes. */

#include "cli/task/stopping.h"

/* agent runs it. An element, or a task. */
void afar_add(struct stopping *s, const char *agent, const struct task_name *n);

#endif
