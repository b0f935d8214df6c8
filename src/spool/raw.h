/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_RAW_H
#define TENURE_SPOOL_RAW_H

/*
 * Bare files that somebody moved or copied into pending/: a script (a leading number is its
 * priority: 001_train.sh), or, called *.json, a task as `tenure submit` would write it. Each
 * becomes a task with an id; what cannot is put into bad/ with its reason.
 */

#include "spool/spool.h"

/* It was refused; e says why, and so does bad/FILE.reason. */
#define RAW_REFUSED 1

/* file is a name in pending/. -ENOENT: somebody else was first. */
int raw_import(const struct spool *sp, const char *file, const char *agent, uint64_t *ret_id,
	       struct err *e);
/*
 * Goes on with an import that was interrupted, of a file in tmp/. *ret_id is 0 where it is none.
 * known: whether a task of that id is in the queue or has ended.
 */
int raw_resume(const struct spool *sp, const char *tmp_file, const char *agent,
	       bool (*known)(void *data, uint64_t id), void *data, uint64_t *ret_id, struct err *e);

/* For tests and fuzzing: what a file of that name and content says. -EINVAL. */
int raw_parse(const char *file, const char *text, size_t len, struct spool_spec **ret,
	      struct err *e);

#endif
