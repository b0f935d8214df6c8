/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_OWN_H
#define TENURE_SPOOL_OWN_H

/* The inside of an open instance, for this room and its unit tests. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "spool/name.h"

struct spool {
	int fd; /* the instance's directory */
	char *path, *instance;
	uid_t owner;	 /* of the directory */
	gid_t group;	 /* and its group */
	uid_t *accepted; /* other users whose files count (spool/instance.h) */
	size_t n_accepted;
	bool looks;	      /* SPOOL_LOOK */
	bool may_trust_all;   /* by the setting trust */
	bool trust_directory; /* whoever can write there is trusted: instance.json says so, too */
	char host[SPOOL_HOST_MAX];
	/* What PIDs here belong to: /proc/sys/kernel/random/boot_id; in a container with processes
	 * of its own, a dot and the number of their namespace behind it. */
	char boot[SPOOL_BOOT_MAX];
	bool network; /* several kernels may have this filesystem, each with caches of its own */
	/* spool_sync_all() does nothing there: what is left to it elsewhere is synced by itself. */
	bool no_syncfs;
	bool stale_opens; /* and to open a file does not make this one ask how long it is now */
};

#endif
