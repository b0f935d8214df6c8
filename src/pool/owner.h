/* SPDX-License-Identifier: MIT */
#ifndef TENURE_POOL_OWNER_H
#define TENURE_POOL_OWNER_H

/*
 * Who ticks a pool: one process of one node at a time, for as long as a tick takes.
 *
 *	pools/NAME,owner,eN	made exclusively, with the owner's mark in it; the highest counts,
 *				and its owner refreshes it; who is done gives it an old time
 *
 * An owner that died is passed over: at once where its process was one of this node, else when its
 * file has not been refreshed for POOL_OWNER_MS by the clock of who keeps the files. Who looks
 * makes a file of its own and compares the two times, so no node's clock is compared with another.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "spool/files.h"
#include "spool/instance.h"

#define POOL_OWNER_MS 120000

struct pool_owner {
	char path[SPOOL_PATH_MAX];
	char mark[256]; /* what stands in it: node, PID and a random number */
	uint64_t epoch; /* that of the last one before; of who ticks now where that is another */
	uint64_t now_s; /* the file server's clock when it was taken, seconds */
};

/* Somebody else ticks now. */
#define POOL_BUSY 1

/* 0, POOL_BUSY, or negative. */
int pool_own(const struct spool *sp, const char *pool, struct pool_owner *ret, struct err *e);
/* It is still ours, and its time is refreshed: before each thing that must not be done twice. */
bool pool_owns(const struct spool *sp, const struct pool_owner *owner);
void pool_disown(const struct spool *sp, const struct pool_owner *owner);

#endif
