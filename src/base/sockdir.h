/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_SOCKDIR_H
#define TENURE_BASE_SOCKDIR_H

/*
 * The private directory of a user's sockets on this node: "tenure-sockets-UID", mode 0700, in the
 * first of these places that is on a file system of this kernel alone and lets us have it.
 *
 *	$TENURE_RUNTIME_DIR	if set (the setting runtime_dir)
 *	/dev/shm		memory: no disk to wait for, no cleaner, the same whatever the
 *				environment says
 *	/run/user/UID		nobody else can take a name there; goes with the last logout
 *	/tmp, /var/tmp
 *	$XDG_RUNTIME_DIR	where it is another one: cron and sudo do not know it
 *
 * Who looks for somebody looks into all of them, since a process that was started by cron, by sudo
 * or in a job may see others than one of a login; who makes a directory takes the best one.
 *
 * Anybody can take a name in /dev/shm and /tmp before we do. What is there and is not a directory
 * of ours with that mode is passed over. Where all are such, "tenure-sockets-UID.XXXXXXXX" is made
 * beside one, and found by looking at the names there. All is checked by descriptor, symbolic links
 * are not followed.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

#define SOCKDIR_PATH_MAX 512

struct sockdir {
	int fd;
	char path[SOCKDIR_PATH_MAX];
};

struct sockdir_walk {
	bool make; /* directories that are not there are made; else they are passed over */
	/* Not 0 ends the walk. dir->fd is the walk's, and is closed after that; dup it. */
	int (*found)(void *data, const struct sockdir *dir);
	/* Passed over, and why; NULL: nobody wants to know. Not called for what is just not there
	 * while nothing is made. */
	void (*unfit)(void *data, const char *path, const char *why);
	void *data;
};

/*
 * Whether the directory at path is a place that would be taken, which makes nothing there. 0; or
 * negative, and the reason, where it is passed over.
 */
int sockdir_check_place(const char *path, struct err *e);

/* In the order above. What found() returned last; 0 where it was not called. */
int sockdir_walk(const struct sockdir_walk *walk);

#endif
