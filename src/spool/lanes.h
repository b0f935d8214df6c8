/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_LANES_H
#define TENURE_SPOOL_LANES_H

/*
 * Lanes that are paused: lanes/NAME, a file with {"paused":REASON,"time":..}. Nothing of the lane
 * is started while it is there, what is submitted to it later included. Written by clients, and by
 * an agent whose tasks in the lane fail at once, again and again; removed by clients.
 */

#include "base/err.h"
#include "spool/files.h"

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

#endif
