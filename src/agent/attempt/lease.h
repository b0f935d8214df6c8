/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_LEASE_H
#define TENURE_AGENT_ATTEMPT_LEASE_H

/* What a run and the guard say to each other about its devices. For the files of a run alone. */

#include "agent/attempt/machine.h"

/* All its devices; launches the task when they are promised, or at once where it needs none. */
void runlease_ask(struct run *r);
/* The shim that will have them. */
void runlease_grant(struct run *r);
/* Nothing of it runs; the guard tells when they are free. */
void runlease_give_back(struct run *r);

#endif
