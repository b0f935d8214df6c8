/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_SUBMIT_H
#define TENURE_SPOOL_SUBMIT_H

/*
 * Into the queue: an id of its own, a file in tmp/, fsync, a rename, fsync of the directory. When
 * submit_task() returns 0 the task survives kill -9 and a power loss; when it fails, it is not
 * there. Works with no agent, from any number of hosts.
 */

#include "spool/files.h"

/* It is in the queue, but the disk would not say that it survives a power loss; e says why. */
#define SUBMIT_NOT_DURABLE 1

/* 0 or SUBMIT_NOT_DURABLE and *ret_id; negative: it is not in the queue. */
int submit_task(const struct spool *sp, const struct task_spec *spec, uint64_t *ret_id,
		struct err *e);
/* Called as that goes on: so many steps of so many are done. */
typedef void (*submit_step_fn)(void *user, size_t done, size_t total);
/*
 * Many at once: the ids of the first *ret_n, which are in the queue, are written to ids[]. 0 or
 * SUBMIT_NOT_DURABLE; negative: the others are not. step may be NULL.
 */
int submit_tasks(const struct spool *sp, struct task_spec *const *specs, size_t n, uint64_t *ids,
		 size_t *ret_n, submit_step_fn step, void *user, struct err *e);
/* The same with an id that is the caller's already (what was dropped into pending/ by hand). */
int submit_task_as(const struct spool *sp, const struct task_spec *spec, uint64_t id,
		   struct err *e);

/* An id that nobody else has. */
int submit_new_id(const struct spool *sp, uint64_t *ret, struct err *e);
/* Ids up to this one are taken, wherever they came from. */
int submit_reserve_id(const struct spool *sp, uint64_t id, struct err *e);

#endif
