/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_LANE_H
#define TENURE_SPOOL_LANE_H

/*
 * Lanes: which are paused, and which agent starts the tasks of one.
 *
 *	lanes/NAME		it is paused: {"paused":REASON,"time":..}
 *	lanes/KEY,eEPOCH	made exclusively, with the owner in it; the highest counts; KEY:
 *				the lane's name, or %ID of an array
 */

#include <stdbool.h>

#include "base/err.h"
#include "spool/files.h"

/*
 * Nothing of a lane is started while it is paused, what is submitted to it later included. Written
 * by clients, and by an agent whose tasks in the lane fail at once, again and again; removed by
 * clients.
 */

/* Anew, or with another reason. 0 or negative. */
int lane_pause(const struct spool *sp, const char *lane, const char *reason, struct err *e);
/* 0; -ENOENT: it was not paused; negative. */
int lane_resume(const struct spool *sp, const char *lane, struct err *e);
bool lane_is_paused(const struct spool *sp, const char *lane);

/* Why, for people: "paused by bob", or what is wrong with the file that says it. The caller frees
 * it; NULL: it is not paused. */
char *lane_reason(const struct spool *sp, const char *lane);

/* Each that is paused. As spool_each(). */
typedef int (*lane_fn)(void *data, const char *lane);
int lanes_paused(const struct spool *sp, lane_fn fn, void *data, struct err *e);

/*
 * Which agent starts the tasks of a lane, or of an array with a limit: so that one after another,
 * or N at once, is true on several nodes, too. One agent owns it at a time, until it lets go,
 * because it has nothing of it, or has no file in agents/ any more, which goes when all that it ran
 * is over or was taken back (spool/heartbeat.h).
 */

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
