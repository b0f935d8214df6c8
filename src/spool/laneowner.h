/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_LANEOWNER_H
#define TENURE_SPOOL_LANEOWNER_H

/*
 * Which agent starts the tasks of a lane, or of an array with a limit: so that one after another,
 * or N at once, is true on several nodes, too. One agent owns it at a time, until it lets go,
 * because it has nothing of it, or has no file in agents/ any more, which goes when all that it ran
 * is over or was taken back (spool/heartbeat.h).
 *
 *	lanes/KEY,eEPOCH	made exclusively, with the owner in it; the highest counts
 *
 * KEY is the lane's name, or %ID of an array.
 */

#include <stdbool.h>

#include "spool/files.h"

#define LANE_KEY_MAX (SPEC_NAME_MAX + 1)

/* The names and the texts of files in lanes/, for this layer and for fuzzing. */
/* KEY,eEPOCH; false: another file. */
bool lane_file_parse(const char *file, char key[LANE_KEY_MAX], uint64_t *epoch);
/* Whose it is; "" where nobody has it. */
void lane_owner_parse(const char *text, size_t len, char ret[NAME_AGENT_MAX + 1]);

/* "%42". Returns buf, of LANE_KEY_MAX bytes. */
char *lane_of_array(uint64_t id, char *buf);

/* Another agent has it. */
#define LANE_ELSEWHERE 1

/*
 * 0: it is agent's; LANE_ELSEWHERE with who has it ("" where that changed just now), or negative.
 * *epoch: what this returned before, or LANE_NONE; kept by the caller, so that what is ours already
 * costs one look. ret_owner: NAME_AGENT_MAX + 1 bytes.
 */
#define LANE_NONE UINT64_MAX
int lane_take(const struct spool *sp, const char *key, const char *agent, uint64_t *epoch,
	      char *ret_owner, struct err *e);
/* Anybody may have it; gone: nobody will want it again. It may be another's by now. */
int lane_release(const struct spool *sp, const char *key, const char *agent, uint64_t epoch,
		 bool gone, struct err *e);

/* What is agent's, as an earlier process of it left it, and what may be because it cannot be read
 * now: who lets go of that finds out. */
typedef void (*lane_owned_fn)(void *data, const char *key);
int lane_each_of(const struct spool *sp, const char *agent, lane_owned_fn fn, void *data,
		 struct err *e);

#endif
