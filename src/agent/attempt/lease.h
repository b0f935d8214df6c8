/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_LEASE_H
#define TENURE_AGENT_ATTEMPT_LEASE_H

/* What an attempt and the guard say to each other about its devices. */

#include "agent/attempt/attempt.h"

/* enum lease_flags of a task's leases. */
uint32_t attempt_lease_flags(const struct task_spec *s);

/* The guard's words on its lease. */
void attempt_on_promise(struct attempt *a, const struct msg_lease_reply *m);
void attempt_on_granted(struct attempt *a, const struct msg_lease_reply *m);
void attempt_on_taken(struct attempt *a, const struct msg_lease_taken *m);
void attempt_on_unleased(struct attempt *a, const struct msg_unleased *m);
void attempt_on_use(struct attempt *a, const struct msg_lease_use *m);
/* The guard is a new one, or its line was down: tell it again. */
void attempt_on_guard(struct attempt *a);
/* It runs, and the guard could not take its lease: true until attempt_lease_again() has told it. */
bool attempt_wants_lease(const struct attempt *a);
void attempt_lease_again(struct attempt *a);

/* Actions of steps.c. */

/* All its devices. */
void attempt_lease_ask(struct attempt *a, const void *with);
/* The same once more, of a new guard: what the one before had promised may be somebody else's. */
void attempt_lease_ask_again(struct attempt *a, const void *with);
/* All are promised: under these slots. */
void attempt_lease_settle(struct attempt *a);
/* It runs there, whatever the guard knows of it. */
void attempt_lease_tell(struct attempt *a, const void *with);
/* with: struct msg_lease_reply, one answer to that. */
void attempt_lease_told(struct attempt *a, const void *with);
/* The shim that will have the devices. */
void attempt_lease_grant(struct attempt *a, const void *with);
/* Nothing of it runs; the guard tells when they are free. */
void attempt_lease_give_back(struct attempt *a, const void *with);

#endif
