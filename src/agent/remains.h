/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_REMAINS_H
#define TENURE_AGENT_REMAINS_H

/* What is left of a task whose shim does not speak. It reads environments of processes and may take
 * the whole grace time: not on the loop's thread. */

#include "task/adopt.h"

/*
 * As adopt_settle(); where the shim was killed its task's processes are ended: SIGTERM, and KILL
 * after grace_ms. So after ADOPT_LOST nothing of the task runs.
 */
int remains_find(const char *token, const struct shim_id *id, const char *run_dir,
		 uint32_t grace_ms, struct adopted *ret, struct err *e);

#endif
