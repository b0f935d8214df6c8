/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_RESUME_H
#define TENURE_AGENT_RESUME_H

/* What ran before: the spool is opened and what lives is adopted; later, claims of agents that have
 * died are taken over. */

#include "agent/tasksin.h"

void resume_start(struct tasks *q);
/* Paths of claims in running/ whose holders are dead. */
void resume_reclaim(struct tasks *q, const struct text_list *dead);
/* Where shims leave their records: a disk of this node, so that no network stands in the way. The
 * caller frees it. */
char *resume_run_dir(const struct tasks_config *c);

#endif
