/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_OUTCOME_H
#define TENURE_CLI_TASK_OUTCOME_H

/*
 * What a command does to tasks: beside other commands that do something to the same ones, and told
 * when it survives a power loss, and not before.
 */

#include "base/strbuf.h"
#include "cli/task/select.h"

/*
 *	outcome_say(&said, SPOOL_BIT(SPOOL_PENDING), "%s is paused\n", name);	for each
 *	r = outcome_commit(sp, &said, r, e);	once; prints all of it
 *
 * dirs: where something was renamed, made or removed for it.
 */
struct outcome {
	struct strbuf text;
	unsigned int dirs;
	bool files; /* some were written to and not synced one by one */
};

void outcome_say(struct outcome *s, unsigned int dirs, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* r: what the command has come to so far, which is returned; where that was no error one of
 * syncing, with what has happened all the same being told. */
int outcome_commit(const struct spool *sp, struct outcome *s, int r, struct err *e);
/* After the ids of n tasks that were made have been printed: where standard output does not take
 * them, that they are in the queue all the same; who tries again would run them twice. r as above.
 */
int outcome_tell_made(const uint64_t *ids, size_t n, int r, struct err *e);

/*
 * What other commands do at the same time: a task that is held by one of them is waited for, and
 * one that is not where it was is looked for again.
 */
#define CHANGE_LOOKS   12
#define CHANGE_HELD_MS 2000
/* Between two looks; look counts from 0. */
void change_pause(int look);
int change_busy(const struct task_name *n, struct err *e); /* -EAGAIN: and still is */

/* What one of the command's words means is changed. 0, positive or negative, with e. */
typedef int (*change_word_fn)(void *data, const char *word, struct err *e);
/*
 * Each of them, from the first one on: one that cannot be changed keeps none of the others from it.
 * Errors are printed, but for the last one, which is returned with the code of the first. "last" is
 * told as the id that it means in sp; sp NULL: as it is.
 */
int change_words(const struct spool *sp, const struct opts *opts, size_t first, change_word_fn fn,
		 void *data, struct err *e);

/* 0, TRANSIT_GONE: it is not there (any more), or negative. t->dir says where it was found. */
typedef int (*change_each_fn)(void *data, struct scan_task *t, struct err *e);
/* fn for each of them; m->tasks is used up, and still the caller's to free. The first error ends
 * it, but for tasks that others hold: they are left out, and told at the end. */
int change_each(const struct spool *sp, struct task_set *m, change_each_fn fn, void *data,
		struct err *e);

#endif
