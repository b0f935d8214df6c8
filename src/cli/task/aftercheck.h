/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_AFTERCHECK_H
#define TENURE_CLI_TASK_AFTERCHECK_H

/* Whether what a task is to wait for makes sense, asked before it is written down. */

#include "spool/files.h"
#include "spool/scan.h"
#include "spool/task_spec.h"

/*
 * What is in the instance, looked up once for however many tasks:
 *
 *	struct after_check c = { .sp = sp };
 *	r = after_check(&c, id, spec, &e);	for each
 *	after_check_clear(&c);
 */
struct after_check {
	const struct spool *sp;
	struct scan *scan; /* what waits or runs; NULL: not read yet */
	size_t n_ended;
	struct after_ended *ended; /* by id */
};

/*
 * s: of the task with that id, or 0: it has none yet. -ENOENT: it would wait for a task that is not
 * there; -ELOOP: for itself, with the way round in e. What has failed already is warned of, once:
 * it may be retried.
 */
int after_check(struct after_check *c, uint64_t id, const struct task_spec *s, struct err *e);
void after_check_clear(struct after_check *c);

/* "--after last" becomes the id of the task that this user has submitted last, which is told.
 * -ENOENT: there is none. */
int after_take_last(const struct spool *sp, struct task_spec *s, struct err *e);

#endif
