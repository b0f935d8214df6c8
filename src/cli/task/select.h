/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_SELECT_H
#define TENURE_CLI_TASK_SELECT_H

/*
 * Which tasks a person's words mean: an id (42), an element (42.7), a name or the beginning of one
 * that is unique, a lane, all, last.
 */

#include "cli/cmd.h"
#include "spool/instance.h"
#include "spool/scan.h"

/* What SELECT_LANES means, for the help of the commands that take them. */
#define SELECT_HELP                                                                                  \
	"last means the task that you submitted last. "                                              \
	"A name means every task that is called exactly so, and, where a lane is called so, all of " \
	"it, too; the beginning of a name is enough where it is that of one task, and no task or "   \
	"lane that is over was called exactly so. Elements of an array (42.7) count from 1, "        \
	"whatever its indices are."

struct task_set {
	size_t n;
	struct scan_task *tasks; /* in the planner's order; the caller frees them */
	bool by_beginning;	 /* the word was only the beginning of the name */
};

#define SELECT_LANES	  (1u << 0) /* a lane or "all" may be meant, too */
#define SELECT_TELL_ENDED (1u << 1) /* of what has ended the error says so; it is looked for */
#define SELECT_ENDED_TOO  (1u << 2) /* the caller goes on looking there: the error is about all */
#define SELECT_EXACT	  (1u << 3) /* the beginning of a name is not enough */

/*
 * Of what waits or runs; a word that cannot be a task's name is taken for the name of the file that
 * was submitted. The beginning of a name is taken only where nothing was ever called exactly so:
 * exp1 that has ended is not exp10. -ENOENT with a suggestion: nothing is called so. "all" may be
 * none.
 */
int select_tasks(const struct spool *sp, const char *typed, unsigned int flags,
		 struct task_set *ret, struct err *e);

/* A note that "all" was none. */
void select_tell_none(const struct spool *sp);
/* Something that has ended was in that lane: more may come. */
bool select_was_lane(const struct spool *sp, const char *word);

/* Everything that waits or runs, in the planner's order. */
int select_all(const struct spool *sp, struct task_set *ret, struct err *e);

/* "42" or "42.7". buf: SELECT_ID_MAX. */
#define SELECT_ID_MAX 48
char *select_format_id(uint64_t id, uint64_t element, char buf[SELECT_ID_MAX]);

/* Where a task is now, or where it has ended. */
struct task_place {
	uint64_t element; /* as asked for; 0: the whole task */
	enum spool_dir dir;
	struct task_name name; /* of an element that has no file of its own: its batch's */
	char path[SPOOL_PATH_MAX];
};

/*
 * The one task that a word means, ended ones included: of several ended ones with a name the last;
 * of NULL and of "last" what this user has submitted last, which a note tells.
 * -ENOENT, or -EINVAL where several wait or run under that name. The same by its id.
 */
int select_one(const struct spool *sp, const char *word, struct task_place *ret, struct err *e);
int select_by_id(const struct spool *sp, uint64_t id, uint64_t element, struct task_place *ret,
		 struct err *e);
/* Of "last" the id of that task, which a note tells; any other word is itself. For commands that
 * look more than once: a later one may be submitted meanwhile. NULL with e: there is none. */
const char *select_take_last(const struct spool *sp, const char *word, char buf[SELECT_ID_MAX],
			     struct err *e);
/* What this user has submitted last, of what is still known: the highest id. */
int select_latest(const struct spool *sp, struct task_place *ret, struct err *e);
/* An element has a file of its own only while it runs: whether that is there, and its name. */
bool select_running_element(const struct spool *sp, uint64_t id, uint64_t element,
			    struct task_name *ret);

/* "has ended already: done, 2026-11-21 14:02:11". buf: SELECT_END_MAX. */
#define SELECT_END_MAX 128
char *select_format_end(const struct task_place *p, char buf[SELECT_END_MAX]);

/*
 * What a command does with the one task that its first argument means, or, without one, the latest.
 * -ENOENT: its file is not there, so that it has moved since it was found; it is found again then,
 * and nothing may have been printed.
 */
typedef int (*select_fn)(const struct cmd_ctx *ctx, const struct spool *sp,
			 const struct task_place *p, struct err *e);
int select_with(const struct cmd_ctx *ctx, select_fn fn, struct err *e);

#endif
