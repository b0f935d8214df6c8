/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_LEASE_H
#define TENURE_AGENT_ATTEMPT_LEASE_H

/* What a run and the guard say to each other about its devices. For the files of a run alone. */

#include "agent/attempt/machine.h"

/* All its devices; launches the task when they are promised, or at once where it needs none. */
void attempt_lease_ask(struct attempt *r);
/* The shim that will have them. */
void attempt_lease_grant(struct attempt *r);
/* Nothing of it runs; the guard tells when they are free. */
void attempt_lease_give_back(struct attempt *r);

#endif
