/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_WORKER_H
#define TENURE_TASK_WORKER_H

/*
 * The thread of a shim that does what can wait for a file system: everything about the log and the
 * spool, and the start of the task's program. The shim itself never waits for it, so it can end the
 * task at any time.
 *
 *	worker_begin(&w, conn_fd, &e);		its thread; the log comes over that connection
 *	worker_ready(&w, &e);			before anything else is read from the connection
 *	worker_do(&w, fn, data);		when it is idle; wake_fd is readable when fn is over
 *	worker_idle(&w)
 *
 * What fn uses belongs to the worker until it is idle again. There is no end: it goes with the
 * process.
 *
 * The thread has a table of descriptors of its own, where the kernel lets it: a call that a dead
 * file server does not answer cannot be interrupted, and would keep the sockets of a shim that was
 * killed in use. The log is in that table alone, because to close one may wait as well.
 */

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef void (*work_fn)(void *data);

struct worker {
	int conn_fd;
	int wake_fd; /* an eventfd */
	int log_fd;  /* in the worker's table; -errno: it did not come */
	sem_t told;  /* there is something to do */
	sem_t ready; /* log_fd is set */
	work_fn fn;
	void *data;
	_Atomic bool busy;
	uint64_t since_ns; /* monotonic: when it began with what it does, or did last */
};

/* w must stay where it is. 0 or -errno. */
int worker_begin(struct worker *w, int conn_fd, struct err *e);
/* 0, or -errno: no log came. */
int worker_ready(struct worker *w, struct err *e);
bool worker_idle(const struct worker *w);
void worker_do(struct worker *w, work_fn fn, void *data);
/* wake_fd was readable: until the next time it is not. */
void worker_heard(const struct worker *w);

/* Start a detached thread with a small stack. 0 or -errno. */
int worker_thread(void *(*fn)(void *data), void *data);

/* In a thread: from now on its descriptors are its own, and only those in keep are left, besides
 * standard ones; nothing changes where the kernel does not allow it. */
void worker_own_files(const int *keep, size_t n);

#endif
