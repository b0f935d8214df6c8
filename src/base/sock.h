/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_SOCK_H
#define TENURE_BASE_SOCK_H

/*
 * SOCK_SEQPACKET sockets: one packet is one message. Processes of one user find each other by
 * base/endpoint.h. Here are what is said and accepted, and abstract names, which anybody can take:
 * given without the leading NUL, "tenure/dev/GPU-...", and shown to people as
 * "@tenure/dev/GPU-...".
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/err.h"

#define SOCK_BACKLOG 64 /* so many may wait to be accepted; the next one's connect() fails */

#define SOCK_HOST_MAX 1025 /* as NI_MAXHOST */
#define SOCK_PORT_MAX 6

/* Where a port is to be, "127.0.0.1:8470", "[::1]:8470", ":8470" or "8470", in two; no host is this
 * machine alone. False: it is nothing of the kind. */
bool sock_split_address(const char *where, char host[SOCK_HOST_MAX], char port[SOCK_PORT_MAX]);

/* Listen on name, non-blocking, CLOEXEC. The descriptor, or -EADDRINUSE (it is had), -errno. */
int sock_listen(const char *name, struct err *e);

/*
 * Connect to name; the descriptor is non-blocking, CLOEXEC. -ECONNREFUSED: nobody listens there.
 * -EPERM: the listener runs under another user than we do, so it is not to be trusted.
 */
int sock_connect(const char *name, struct err *e);

/*
 * Who called sock_listen() for name: 0 and *ret, or -errno (-ECONNREFUSED: nobody did). Sends
 * nothing. A child of that process has the name as well until its exec, and is not who called.
 */
int sock_listener(const char *name, struct ucred *ret);

/* Accept a client of our user; others are dropped. The descriptor, or -EAGAIN, -EPERM, -errno. */
int sock_accept(int listen_fd, pid_t *ret_pid);

/* 0; -EAGAIN: the other side is slow and the message was not sent; -EPIPE: gone; -errno. */
int sock_send(int fd, const void *buf, size_t size);

/* There is room for some messages yet, or the other side is gone. Where not, poll for POLLOUT. */
bool sock_has_room(int fd);

/* Bytes of one message; 0: the other side is gone; -EAGAIN: none; -EMSGSIZE: larger than buf. */
ssize_t sock_recv(int fd, void *buf, size_t size);

#endif
