/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_SUBMITTER_H
#define TENURE_CLI_SUBMITTER_H

/* What a task takes along of the process that submits it. */

#include "spool/spool.h"

/* Its environment, but for what another task was told of itself, and what is not UTF-8. */
void submitter_environment(struct spool_spec *s);
/* Who, where, when. */
void submitter_name(struct spool_spec *s, const struct spool *sp);

#endif
