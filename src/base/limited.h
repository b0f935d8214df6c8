/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_LIMITED_H
#define TENURE_BASE_LIMITED_H

/*
 * Call a function that may hang, as whoever calls a driver may, within a limit of time: in a child
 * with a session of its own and nothing of ours open, which is killed when the time is over, and
 * left alone where even that does not end it. What it finds it writes to memory that both share.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Zeroed; NULL: there is none. limited_free() with the same size, which returns NULL. */
void *limited_alloc(size_t size);
void *limited_free(void *shared, size_t size);

/* 0: it has returned; -ETIMEDOUT: it has not; -ECHILD: something else has ended it; -errno: no
 * child can be made; e says which. What it had written until then is there. */
int limited_call(void (*fn)(void *shared), void *shared, uint64_t limit_ms, struct err *e);

/* In a child of parent that is to be such a one: a session, nothing on its standard descriptors, no
 * other descriptor but fd, killed with its parent. Does not return where that cannot be. */
void limited_enter(int fd, pid_t parent);

#endif
