/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_SHIM_H
#define TENURE_AGENT_ATTEMPT_SHIM_H

/* What a run and its shim say to each other. For the files of a run alone. */

#include "agent/attempt/machine.h"

/* fd is the run's from now on. */
void attempt_shim_listen(struct attempt *r, int fd);
void attempt_shim_hang_up(struct attempt *r);
void attempt_shim_go(struct attempt *r);
/* As r->kind says; again where its socket is full. */
void attempt_shim_stop(struct attempt *r);
/* Its connection broke, or there was none: what has become of it? */
void attempt_shim_look(struct attempt *r);

#endif
