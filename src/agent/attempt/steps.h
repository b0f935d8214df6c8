/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_STEPS_H
#define TENURE_AGENT_ATTEMPT_STEPS_H

/* What each event means in each state of an attempt, whatever kind it is of. */

#include "agent/attempt/attempt.h"

extern const struct attempt_step attempt_steps[AT_STATE_MAX][ON_MAX];

/* What an earlier agent started: AT_LOOKING, and shown as if it runs. */
void attempt_adopted(struct attempt *a);
/* Let go of it without a word to anybody: it runs on. NULL is nobody. Returns NULL. */
struct attempt *attempt_forget(struct attempt *a);

#endif
