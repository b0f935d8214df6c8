/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_ORPHANS_H
#define TENURE_TASK_ORPHANS_H

/*
 * End the orphans of a shim that was killed, by their token. Calls of orphans_step() some ms apart:
 * it returns how many still run and are ours; 0: done; -errno: that could not be told. It reads
 * environments: not on an event loop's thread (task/tree.h).
 */

#include <stdint.h>

struct orphans;
struct orphans *orphans_begin(const char *token, int stop_signal, uint32_t grace_ms);
int orphans_step(struct orphans *o);
/* KILL after this at the latest. */
void orphans_hurry(struct orphans *o, uint32_t grace_ms);
/* How many there are, without a word to them; or -errno. The same holds for it. */
int orphans_count(const char *token);
struct orphans *orphans_free(struct orphans *o);

#endif
