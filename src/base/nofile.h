/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_NOFILE_H
#define TENURE_BASE_NOFILE_H

/*
 * How many descriptors a process may have. The usual soft limit of 1024 is for programs that still
 * use select(); who has more to do raises its own, and gives its children the one it had, because
 * they inherit it.
 */

#include <stdint.h>
#include <sys/types.h>

/* Our soft limit becomes the hard one, NOFILE_MAX at most. Returns what it was, 0: not known. */
uint64_t nofile_raise(void);
#define NOFILE_MAX 65536U
/* What may be open now. */
uint64_t nofile_soft(void);
/* Close all descriptors from one to another, both included; also between fork() and exec. */
void nofile_close(unsigned int from, unsigned int to);
/* The soft limit of a child of ours that has just been started; 0: leave it. */
void nofile_set_of(pid_t pid, uint64_t soft);

#endif
