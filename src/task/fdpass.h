/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_FDPASS_H
#define TENURE_TASK_FDPASS_H

/* One message with descriptors over a Unix socket (SCM_RIGHTS). */

#include <stddef.h>
#include <sys/types.h>

#define FDPASS_MAX 4

/* Never waits. 0; -EAGAIN: the other side is slow, nothing was sent; -EPIPE: gone; -errno. */
int fdpass_send(int sock, const void *buf, size_t size, const int *fds, size_t n_fds);

/*
 * Wait for a message, with exactly n_fds descriptors, which are CLOEXEC and the caller's then.
 * Bytes; 0: the other side is gone; -EPROTO: another number of descriptors (those that came are
 * closed), or a message larger than buf; -errno.
 */
ssize_t fdpass_recv(int sock, void *buf, size_t size, int *fds, size_t n_fds);

#endif
