/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TESTS_PLACE_WORLD_H
#define TENURE_TESTS_PLACE_WORLD_H

/* The spool of spool_world.h as an agent's spooler has it open, for what its jobs do there. */

#include "agent/queue/spool_place.h"

/* An agent's of that name, its index as the directories are now. */
struct spool_place open_place(const char *agent);
/* The directories are read again. */
void look_around(struct spool_place *p);
void close_place(struct spool_place *p);

#endif
