/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_RESUME_H
#define TENURE_AGENT_RESUME_H

/* What ran before: the spool is opened and what lives is adopted; later, claims of agents that have
 * died are taken over. */

#include "agent/tasksin.h"

void resume_start(struct tasks *q);
/* Paths of claims in running/ whose holders are dead. */
void resume_reclaim(struct tasks *q, const struct text_list *dead);
/* Before any other job of the spooler: where shims leave their records (q->run_dir), and what tasks
 * begin with (q->place.login). Either may be on a file system that hangs, so who uses them on the
 * loop waits for a job that came later. */
void resume_find_places(struct tasks *q);

#endif
