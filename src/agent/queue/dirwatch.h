/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_DIRWATCH_H
#define TENURE_AGENT_QUEUE_DIRWATCH_H

/*
 * Changes of a directory of the spool, told on the loop by inotify. To add a directory is to look
 * up its path, which may hang with its file system: that is for the spooler's thread. To be told of
 * changes asks no file system.
 *
 *	w = dirwatch_new(loop, spooler, changed, user);
 *	dirwatch_add(w->fd, path);	in a spooler job
 *	dirwatch_stop(w);		nothing is told any more
 *	dirwatch_free(w);		its memory goes with its handle in the loop
 *
 * It is an accelerator: where the kernel gives no descriptor for it, or the file system is written
 * to from elsewhere, nothing is told, and whoever wants to know looks from time to time.
 */

#include <uv.h>

#include "agent/queue/spooler.h"

struct dirwatch {
	int fd; /* for dirwatch_add(); -1: there is none, or not any more */
	struct spooler *spooler;
	uv_poll_t poll;
	/* file: its name in the directory; NULL: anything may have changed. */
	void (*changed)(void *user, const char *file);
	void *user;
};

/* spooler has to be there until dirwatch_free(). */
struct dirwatch *dirwatch_new(uv_loop_t *loop, struct spooler *spooler,
			      void (*changed)(void *user, const char *file), void *user);
/* On any thread, of a descriptor that was read on the loop. 0 or a negative errno. */
int dirwatch_add(int fd, const char *path);
void dirwatch_stop(struct dirwatch *w);
/* After dirwatch_stop(). Returns NULL. */
struct dirwatch *dirwatch_free(struct dirwatch *w);

#endif
