/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_QUEUE_H
#define TENURE_CLI_QUEUE_H

/*
 * What the commands of the queue share: which instance is meant, and which tasks a person's words
 * mean: an id (42), an element (42.7), a name or the beginning of one that is unique, a lane, all.
 */

#include "base/strbuf.h"
#include "cli/cmd.h"
#include "spool/batch.h"
#include "spool/scan.h"

#define QUEUE_GROUP "Running tasks"

/* What QUEUE_LANES means, for the help of the commands that take them. */
#define QUEUE_NAMES_HELP                                                                             \
	"A name means every task that is called exactly so, and, where a lane is called so, all of " \
	"it, too; the beginning of a name is enough where it is that of one task, and no task or "   \
	"lane that is over was called exactly so. Elements of an array (42.7) count from 1, "        \
	"whatever its indices are."

/* The directory of the settings' instance; the caller's to free. */
char *queue_dir(const struct cmd_ctx *ctx);

/*
 * The instance of the settings; flags as of spool_open(). A note says so while it does not answer.
 * 0 or negative.
 */
int queue_open(const struct cmd_ctx *ctx, unsigned int flags, struct spool **ret, struct err *e);
/*
 * The same to look at, where one into which nothing was ever submitted is as good as an empty one:
 * *ret is then NULL, and a note has said that there is none.
 */
int queue_open_if_there(const struct cmd_ctx *ctx, unsigned int flags, struct spool **ret,
			struct err *e);

/*
 * The one or the other, by the words of the command line from the one of that number on: all means
 * nothing where there is nothing, and who names something is told that it is not there.
 */
int queue_open_for(const struct cmd_ctx *ctx, size_t first, unsigned int flags, struct spool **ret,
		   struct err *e);

/*
 * What a command has done to tasks, which is told when it survives a power loss, and not before:
 *
 *	queue_say(&said, SPOOL_BIT(SPOOL_PENDING), "%s is paused\n", name);	for each
 *	r = queue_commit(sp, &said, r, e);	once; prints all of it
 *
 * dirs: where something was renamed, made or removed for it.
 */
struct queue_said {
	struct strbuf text;
	unsigned int dirs;
	bool files; /* some were written to and not synced one by one */
};

void queue_say(struct queue_said *s, unsigned int dirs, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* r: what the command has come to so far, which is returned; where that was no error one of
 * syncing, with what has happened all the same being told. */
int queue_commit(const struct spool *sp, struct queue_said *s, int r, struct err *e);
/* After the ids of n tasks that were made have been printed: where standard output does not take
 * them, that they are in the queue all the same; who tries again would run them twice. r as above.
 */
int queue_tell_made(const uint64_t *ids, size_t n, int r, struct err *e);

struct queue_match {
	size_t n;
	struct scan_task *tasks; /* in the planner's order; the caller frees them */
	bool by_beginning;	 /* the word was only the beginning of the name */
};

#define QUEUE_LANES	 (1u << 0) /* a lane or "all" may be meant, too */
#define QUEUE_TELL_ENDED (1u << 1) /* of what has ended the error says so; it is looked for */
#define QUEUE_ENDED_TOO	 (1u << 2) /* the caller goes on looking there: the error is about all */
#define QUEUE_EXACT	 (1u << 3) /* the beginning of a name is not enough */

/*
 * Of what waits or runs; a word that cannot be a task's name is taken for the name of the file that
 * was submitted. The beginning of a name is taken only where nothing was ever called exactly so:
 * exp1 that has ended is not exp10. -ENOENT with a suggestion: nothing is called so. "all" may be
 * none.
 */
int queue_find(const struct spool *sp, const char *typed, unsigned int flags,
	       struct queue_match *ret, struct err *e);

/* A note that "all" was none. */
void queue_tell_nothing(const struct spool *sp);
/* Something that has ended was in that lane: more may come. */
bool queue_was_lane(const struct spool *sp, const char *word);

/* Everything that waits or runs, in the planner's order. */
int queue_all(const struct spool *sp, struct queue_match *ret, struct err *e);

/* Where a task is now, or where it has ended. */
struct queue_place {
	uint64_t element; /* as asked for; 0: the whole task */
	enum spool_dir dir;
	struct task_name name; /* of an element that has no file of its own: its batch's */
	char path[SPOOL_PATH_MAX];
};

/*
 * The one task that a word means, ended ones included: of several ended ones with a name the last.
 * -ENOENT, or -EINVAL where several wait or run under that name. The same by its id.
 */
int queue_locate(const struct spool *sp, const char *word, struct queue_place *ret, struct err *e);
int queue_locate_id(const struct spool *sp, uint64_t id, uint64_t element, struct queue_place *ret,
		    struct err *e);

/* "has ended already: done, 2026-11-21 14:02:11". buf: QUEUE_TEXT_MAX. */
#define QUEUE_TEXT_MAX 128
char *queue_format_end(const struct queue_place *p, char buf[QUEUE_TEXT_MAX]);

/* What a command does with the one task that its first argument means. */
typedef int (*queue_task_fn)(const struct cmd_ctx *ctx, const struct spool *sp,
			     const struct queue_place *p, struct err *e);
int queue_with_task(const struct cmd_ctx *ctx, queue_task_fn fn, struct err *e);

/* What an element of a batch is doing; place as of queue_locate(). BATCH_WAITING, ... or negative.
 */
int queue_element_state(const struct spool *sp, const struct queue_place *place, uint64_t element,
			struct err *e);

/* How the elements of a batch stand; active: queue_all(). 0 or negative. */
int queue_counts(const struct spool *sp, const struct task_name *batch,
		 const struct queue_match *active, struct batch_counts *ret, struct err *e);
/* Of a batch: whether any of its elements has been started, and how they stand. */
bool queue_has_begun(const struct spool *sp, const struct task_name *n, struct batch_counts *ret);
json_t *queue_counts_json(const struct batch_counts *n);
/* The agent that runs it; "" where that is not known. Of an element only its file says so. */
void queue_agent_of(const struct spool *sp, const struct task_name *n,
		    char agent[NAME_AGENT_MAX + 1]);

/*
 * What other commands do at the same time: a task that is held by one of them is waited for, and
 * one that is not where it was is looked for again.
 */
#define QUEUE_LOOKS   12
#define QUEUE_HELD_MS 2000
/* Between two looks; look counts from 0. */
void queue_pause(int look);
int queue_changes_now(const struct task_name *n, struct err *e); /* -EAGAIN: and still is */

/* 0, TRANSIT_GONE: it is not there (any more), or negative. t->dir says where it was found. */
typedef int (*queue_change_fn)(void *data, struct scan_task *t, struct err *e);
/* fn for each of them; m->tasks is used up, and still the caller's to free. The first error ends
 * it, but for tasks that others hold: they are left out, and told at the end. */
int queue_change(const struct spool *sp, struct queue_match *m, queue_change_fn fn, void *data,
		 struct err *e);

/* "42" or "42.7". buf: QUEUE_ID_MAX. */
#define QUEUE_ID_MAX 48
char *queue_format_id(uint64_t id, uint64_t element, char buf[QUEUE_ID_MAX]);

/* "pending", "running", "paused", "done", ... */
const char *queue_state(const struct task_name *n, enum spool_dir dir);

#endif
