/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_SHIM_H
#define TENURE_AGENT_ATTEMPT_SHIM_H

/* What an attempt and its shim say to each other. */

#include "agent/attempt/attempt.h"

/* By clock_boot_ns(): until then after its claim it can be no other agent's. */
uint64_t attempt_shim_go_until(const struct attempt *a);
/* What it uses of its devices, while it runs. */
void attempt_shim_tell_use(const struct attempt *a, uint64_t peak_bytes, uint32_t util_permille);
/* Its end is recorded: where it could not be written down by the shim, that waits for this. */
void attempt_shim_acknowledge(const struct attempt *a);

/* Actions of steps.c. */

/* Ask for it, now or as soon as it can be had: ON_CONNECTED. */
void attempt_shim_launch(struct attempt *a, const void *with);
/* with: the connection, an int, which is the attempt's from now on. */
void attempt_shim_listen(struct attempt *a, const void *with);
void attempt_shim_hang_up(struct attempt *a, const void *with);
void attempt_shim_go(struct attempt *a, const void *with);
/* As a->end_kind says; again where its socket is full. */
void attempt_shim_stop(struct attempt *a, const void *with);
/* What has become of it? ON_FOUND, ON_ENDED or ON_FOUND_NOBODY; ON_TIMER where nobody can tell. */
void attempt_shim_look(struct attempt *a, const void *with);
/* with: struct adopted. It was found, and is served by this agent from now on. */
void attempt_shim_adopt(struct attempt *a, const void *with);
/* What is left of one that was killed: ON_ENDED. */
void attempt_shim_end_orphans(struct attempt *a, const void *with);

#endif
