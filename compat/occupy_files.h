/* SPDX-License-Identifier: MIT */
#ifndef TENURE_COMPAT_OCCUPY_FILES_H
#define TENURE_COMPAT_OCCUPY_FILES_H

/*
 * The files of occupy in ~/.config/gpu_occupy: occupy.log and occupy.pid as they always were, and
 * occupy.state with what a bare PID cannot say: the start time of that process and its host. A home
 * directory may be shared by many hosts, and the kernel gives a PID to somebody else.
 */

#include <stddef.h>

#include "base/err.h"
#include "base/proc.h"

#define OCCUPY_HOST_MAX 128

struct occupy_files {
	char *dir, *log, *pid, *state;
};

enum occupy_state {
	OCCUPY_OFF,
	OCCUPY_STALE,	  /* there is a PID file, and its process is gone */
	OCCUPY_ELSEWHERE, /* it was started on another host of this home directory */
	OCCUPY_ON,
};

/* Paths only; nothing is created. */
void occupy_files_init(struct occupy_files *f);
void occupy_files_clear(struct occupy_files *f);

/* ret_id is written for ON and ELSEWHERE, ret_host (OCCUPY_HOST_MAX bytes) for ELSEWHERE. */
enum occupy_state occupy_files_look(const struct occupy_files *f, struct proc_id *ret_id,
				    char *ret_host);

/*
 * Make the directory and keep out another `occupy on` that starts in this moment, or an `off` that
 * removes what is left over. The descriptor is the lock; -EBUSY; -errno.
 */
int occupy_files_lock(const struct occupy_files *f, struct err *e);
/* Say that this process is it; take that back. */
int occupy_files_claim(const struct occupy_files *f, struct err *e);
void occupy_files_unclaim(const struct occupy_files *f);

#endif
