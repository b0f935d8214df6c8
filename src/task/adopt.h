/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_ADOPT_H
#define TENURE_TASK_ADOPT_H

/*
 * What is left of a task that another agent started, or whose connection broke.
 *
 * The order makes it certain: a shim writes its record before it frees its name, so a name that
 * nobody has means that the record is there or never will be. A shim that ends in the very moment
 * may still be connected to: then the end of file comes without STATUS or ENDED, as it does when a
 * shim is killed, and adopt_find() is to be asked again.
 */

#include "base/err.h"
#include "base/proc.h"
#include "task/end_record.h"

enum adopt_found {
	ADOPT_LIVES, /* fd: its STATUS, or its ENDED, comes next */
	ADOPT_ENDED, /* record */
	ADOPT_LOST,  /* the shim was killed, or never was: look for orphans (orphans_begin()) */
	ADOPT_OTHER, /* a process that is not this shim has its name: neither start nor end it */
	ADOPT_FOUND_MAX
};

/* As SHMSG_PREPARED told; zeros and empty are not compared. */
struct shim_id {
	struct proc_id proc;
	char boot_id[BOOT_ID_MAX];
};

struct adopted {
	enum adopt_found found;
	int fd;		     /* ADOPT_LIVES: the caller's, non-blocking; else -1 */
	struct proc_id proc; /* ADOPT_LIVES: the shim */
	bool bad_record;     /* ADOPT_LOST, by adopt_settle(): there was one that cannot be read */
	struct task_record record; /* ADOPT_ENDED */
};

/* 0 and *ret, or -errno: it cannot be told now (a record that cannot be read: text says why). */
int adopt_find(const char *token, const struct shim_id *id, const char *record_dir,
	       struct adopted *ret, struct err *e);

/*
 * The same, and where nobody is found it is made sure that nobody comes: a start that the agent
 * before us asked for may still be on its way. After ADOPT_LOST nothing of the task will ever run.
 * It is never said while the process in id lives: then -EAGAIN, because its name, which is what is
 * looked for, can have been lost, and what it runs goes on. A record that cannot be read, as a
 * power loss may leave one, is put aside, and counts as none.
 */
int adopt_settle(const char *token, const struct shim_id *id, const char *record_dir,
		 struct adopted *ret, struct err *e);

/* Call fn with the token of each shim of this user on this node, from the kernel's list of names.
 * 0 or -errno. */
int adopt_each(void (*fn)(void *data, const char *token), void *data);

#endif
