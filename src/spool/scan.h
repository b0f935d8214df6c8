/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_SCAN_H
#define TENURE_SPOOL_SCAN_H

/*
 * What is in the queue, from the names in pending/ and running/ alone. An index is built by the
 * first scan_update() and brought up to date by the next ones; each change is told. Its owner notes
 * what it does itself with scan_note(), so that a task costs no reading of the directory.
 *
 *	struct scan *s = scan_new(sp, SCAN_RAW);
 *	r = scan_update(s, on_change, data, &e);	now and then: other hosts submit, too
 *	while ((file = scan_raw_ripe(s)))
 *		raw_import(sp, file, agent, &id, &e);
 */

#include "base/clock.h"
#include "spool/files.h"

enum scan_change { SCAN_ADDED, SCAN_CHANGED, SCAN_REMOVED };

struct scan_task {
	struct task_name name;
	enum spool_dir dir;
};

/* The task is valid during the call; of SCAN_REMOVED it is how it was. */
typedef void (*scan_change_fn)(void *data, enum scan_change change, const struct scan_task *t);

#define SCAN_RAW (1u << 0) /* look for bare files in pending/, too */

struct scan;

struct scan *scan_new(const struct spool *sp, unsigned int flags);
struct scan *scan_free(struct scan *s);

/* Read the directories. fn may be NULL. On error the index is as before, or partly newer. */
int scan_update(struct scan *s, scan_change_fn fn, void *data, struct err *e);
/* The directories have been read once: a task that the index does not have was not there then. */
bool scan_was_read(const struct scan *s);
/* Changes when they are read: not by an update before which nothing can have changed. */
uint32_t scan_generation(const struct scan *s);
/*
 * inotify told of that file in pending/. 0; SCAN_UNSURE: only an update can tell what happened (it
 * has gone elsewhere, or is a bare file). Costs the same however many wait.
 */
#define SCAN_UNSURE 1
int scan_look(struct scan *s, const char *file, scan_change_fn fn, void *data);
/* The caller has made or met that file (there), or has seen that it is gone. */
void scan_note(struct scan *s, enum spool_dir dir, const struct task_name *n, bool there);

/* element 0: the task itself. NULL: not there. Valid until the next call of the same function. */
const struct scan_task *scan_find(const struct scan *s, uint64_t id, uint64_t element);
size_t scan_count(const struct scan *s, enum spool_dir dir);
/* How many a client is changing at this moment (the flag h). */
size_t scan_held(const struct scan *s);
/* All, in no order: *iter begins with 0. NULL behind the last. Valid as above. */
const struct scan_task *scan_next(const struct scan *s, size_t *iter);

/* All, what runs first and then as it will start (name_compare()). Returns how many; the caller
 * frees them. */
size_t scan_list(const struct scan *s, struct scan_task **ret);

/*
 * A bare file of pending/ whose size and time of change stood still over two updates that were at
 * least settle_ns apart (scan_set_settle(), 1 s by default). It is given once; NULL: none.
 */
const char *scan_raw_ripe(struct scan *s);
/* The file could not be imported: it is given again after a while, which doubles each time. Returns
 * how often that was; 0: there is no file of that name. */
unsigned int scan_raw_again(struct scan *s, const char *file);
/* There is a bare file that is still to be given. One that never stands still, or cannot be taken,
 * counts for SCAN_RAW_WAIT_NS after it was first seen. */
#define SCAN_RAW_WAIT_NS (300 * NS_PER_S)
bool scan_raw_waits(const struct scan *s);
void scan_set_settle(struct scan *s, uint64_t settle_ns);
/* Files that do not count, one sentence per line; "" when there are none. */
const char *scan_notes(const struct scan *s);

/* Reads a directory of task files without an index: "failed", "done/2026-11-21". A directory of
 * ended tasks that does not exist counts as empty (spool_or_empty()). */
typedef int (*scan_name_fn)(void *data, const struct task_name *n, const char *dir);
int scan_dir(const struct spool *sp, const char *dir, scan_name_fn fn, void *data, struct err *e);
/* Reads several, of SPOOL_DONE all days, in the order in which they are given: that matters where
 * tasks move from one to another meanwhile. */
int scan_dirs(const struct spool *sp, const enum spool_dir *dirs, size_t n, scan_name_fn fn,
	      void *data, struct err *e);
/* Reads all that has ended: failed/, cancelled/, then done/. A task that is retried meanwhile is
 * met here, or in pending/ by a caller that reads that next. */
int scan_ended(const struct spool *sp, scan_name_fn fn, void *data, struct err *e);

#endif
