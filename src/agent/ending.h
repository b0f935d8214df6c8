/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ENDING_H
#define TENURE_AGENT_ENDING_H

/* How the agent ends, and when by itself (--for, --until). */

#include "agent/inner.h"

/* Let go of everything, then end. Nothing when it ends already. */
void ending_stop(struct agent *a, const char *why);
/* The workload may have ended, for which ending_stop() waits first. */
void ending_look(struct agent *a);
/* All is free, or will not be: flush and end. */
void ending_finish(struct agent *a, enum agent_end end);
/* Before it is ready: end with this error. */
void ending_give_up(struct agent *a, enum agent_end end, int code, const char *text);
/* Wait for the time at which it ends by itself, if there is one. */
void ending_arm(struct agent *a);

/* It waits for the end, and is answered when all is free. */
void ending_add_client(struct agent *a, struct ctl_client *client);
void ending_forget_client(struct agent *a, struct ctl_client *client);

#endif
