/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_SHIM_H
#define TENURE_AGENT_ATTEMPT_SHIM_H

/* What a run and its shim say to each other. For the files of a run alone. */

#include "agent/attempt/machine.h"

/* fd is the run's from now on. */
void runtalk_listen(struct run *r, int fd);
void runtalk_hang_up(struct run *r);
void runtalk_go(struct run *r);
/* As r->kind says; again where its socket is full. */
void runtalk_stop(struct run *r);
/* Its connection broke, or there was none: what has become of it? */
void runtalk_look(struct run *r);

#endif
