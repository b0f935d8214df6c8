/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_ENDPOINT_H
#define TENURE_BASE_ENDPOINT_H

/*
 * A name under which a process of ours is found on this node, and which one process has at a time:
 * "guard", "default/agent", "shim/TOKEN". It is a SOCK_SEQPACKET socket in the user's private
 * directory (base/sockdir.h) and a lock file beside it.
 *
 *	endpoint_open(&ep, name, e)	-> ep.fd listens
 *	endpoint_check(&ep, e)		every second: files can be tidied away under it
 *	endpoint_close(&ep)
 *
 *	fd = endpoint_connect(name, wait_ms, e)
 *
 * The lock (flock) is the truth, and goes with the process whatever ends it: a socket file that is
 * left over is replaced by whoever has the lock. Names are of any length: files are reached through
 * the directory's descriptor, and what is too long for an address goes by its hash.
 *
 * Versions before this one listened on abstract sockets, "@tenure/UID/NAME". One of our own user
 * that still does has the name, and is connected to; one of another user is nobody.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/sockdir.h"

#define ENDPOINT_NAME_MAX 128
#define ENDPOINT_FILE_MAX 80
#define ENDPOINT_CHECK_MS 1000

struct endpoint_file {
	dev_t dev;
	ino_t ino;
};

struct endpoint {
	int fd; /* listens; non-blocking; -1: closed */
	int lock_fd;
	char name[ENDPOINT_NAME_MAX];
	char file[ENDPOINT_FILE_MAX];
	struct sockdir dir;
	struct endpoint_file dir_id, lock_id, sock_id;
};

#define ENDPOINT_NONE                                                                              \
	{                                                                                          \
		.fd = -1, .lock_fd = -1, .dir = {.fd = -1 }                                        \
	}

/* 0; -EADDRINUSE: a process of ours has it; -errno: no place would have it, and e says why. */
int endpoint_open(struct endpoint *ret, const char *name, struct err *e);

/*
 * Its files are where they belong: 0. They were not, and it listens again, under another ep->fd: 1.
 * -EADDRINUSE: another process has taken the name meanwhile. -errno: it cannot be found now; try
 * again. Reads and writes the directory.
 */
int endpoint_check(struct endpoint *ep, struct err *e);

/* The name is free after that, and nothing is left of it. */
void endpoint_close(struct endpoint *ep);

/*
 * Connect to whoever has the name: non-blocking, CLOEXEC. -ECONNREFUSED: nobody. -EAGAIN: its queue
 * of newcomers was full for wait_ms.
 */
int endpoint_connect(const char *name, unsigned int wait_ms, struct err *e);

/* fn gets every name that begins with prefix and that a live process has. 0 or -errno. */
int endpoint_each(const char *prefix, void (*fn)(void *data, const char *name), void *data);

/* Files of processes that were killed go. */
void endpoint_tidy(void);

/* A thread that checks, for processes that must not wait for a directory. */
struct endpoint_keeper;

/* Take the name as endpoint_open() does, and keep it. 0, and *ret, and the descriptor that listens,
 * which is the caller's; or -errno. */
int endpoint_keep(const char *name, struct endpoint_keeper **ret, int *ret_fd, struct err *e);
/* Readable when there is news. */
int endpoint_keeper_fd(const struct endpoint_keeper *k);
/*
 * Take the news: a descriptor that listens, the caller's, in place of the one before, whose clients
 * are to be accepted first; -EADDRINUSE: somebody else has the name by now; -EAGAIN: nothing.
 */
int endpoint_keeper_take(struct endpoint_keeper *k);
/* The name is free, unless the thread hangs in a file system: then it is when the process ends. */
void endpoint_release(struct endpoint_keeper *k);

#endif
