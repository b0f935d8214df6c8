/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_RAW_H
#define TENURE_SPOOL_RAW_H

/*
 * Bare files that somebody moved or copied into pending/: a script (a leading number is its
 * priority: 001_train.sh), or, called *.json, a task as `tenure submit` would write it. Each
 * becomes a task with an id; a file that cannot is put into bad/ with its reason.
 */

#include "spool/files.h"
#include "spool/scan.h"

/* The file was refused; e says why, and so does bad/FILE.reason. */
#define RAW_REFUSED 1
/* The file is not there: another agent was first. */
#define RAW_GONE 2

/* file is a name in pending/. 0, RAW_REFUSED, RAW_GONE, or negative: the caller tries again, with
 * this call if the file is still there, else with raw_resume_all(). */
int raw_import(const struct spool *sp, const char *file, const char *agent, uint64_t *ret_id,
	       struct err *e);
/*
 * Goes on with an import that was interrupted, of a file in tmp/: one of ours, or of an agent that
 * has no file in agents/ any more. *ret_id is 0 where it is neither. s: of the queue, brought up to
 * date since then. Results as above.
 */
int raw_resume(const struct spool *sp, const char *tmp_file, const char *agent,
	       const struct scan *s, uint64_t *ret_id, struct err *e);
/* Resumes all of them, and tells what came of each: r and e as above. 1: some are left; 0;
 * negative. */
typedef void (*raw_told_fn)(void *data, const char *file, int r, uint64_t id, const struct err *e);
int raw_resume_all(const struct spool *sp, const char *agent, const struct scan *s, raw_told_fn fn,
		   void *data, struct err *e);

/* For tests and fuzzing: what a file of that name and content says. -EINVAL. */
int raw_parse(const char *file, const char *text, size_t len, struct task_spec **ret,
	      struct err *e);

/* A file that an agent has taken, by its name in tmp/: which agent, its id, and where the file's
 * own name begins; NULL: it is none. */
const char *raw_tmp_parse(const char *tmp_file, char ret_agent[NAME_AGENT_MAX + 1],
			  uint64_t *ret_id);

#endif
