/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_SHIM_CLIENT_H
#define TENURE_TASK_SHIM_CLIENT_H

/*
 * The agent's side: the fork server, new shims, and what is said on a connection to a shim
 * (task/shproto.h). Nothing waits; descriptors can be polled by any loop.
 *
 *	fork_server_start(&server, exe_fd, &e);       once, and again after -EPIPE
 *	conn = shim_client_start(&server, spec, log_fd, &e);
 *	shmsg_recv(conn, &m) -> SHMSG_PREPARED {pid, start}: get the lease
 *	shim_client_go(conn, ...)  -> SHMSG_STARTED, ... SHMSG_ENDED, 0
 *
 * shmsg_recv() is to be called until it says -EAGAIN. The end of file without SHMSG_ENDED: the shim
 * or its fork server was killed. Then adopt_find() (task/adopt.h) tells what is left of the task.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "task/launch_spec.h"
#include "task/shproto.h"

struct fork_server {
	int fd;		 /* polled for reading: readable means that it has gone; -1: none */
	pid_t pid;	 /* our child, to be waited for when it has gone; or 0 */
	uint64_t nofile; /* its soft limit of descriptors, and so of tasks; 0: ours */
	const char *key; /* of the spool whose tasks it starts, as for names_token(); or NULL */
};

#define FORK_SERVER_NONE                                                                           \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* Start a fork server from the executable exe_fd is open on (selfcopy_make(),
 * /proc/self/exe). An old one is let go. 0 or -errno. */
int fork_server_start(struct fork_server *m, int exe_fd, struct err *e);

/* It answers no more: reap it, if it has ended. True when there is none (any more). */
bool fork_server_gone(struct fork_server *m);

/* Let it go: it ends by itself, and is reaped without waiting if it already has. */
void fork_server_close(struct fork_server *m);

/*
 * Ask for a shim. log_fd stays the caller's. The connection to it (the caller's, non-blocking), or
 * -EAGAIN (the fork server is busy: try again in a moment), -EPIPE (it has gone: start another),
 * -EINVAL or -E2BIG (the description cannot be run), -errno.
 */
int shim_client_start(struct fork_server *m, const struct launch_spec *spec, int log_fd,
		      struct err *e);

/* devices: for the log's header, may be NULL. env: n_env NAME=VALUE. 0; -E2BIG: more than
 * SHPROTO_ENV_MAX bytes; -EPIPE: it is gone; -EAGAIN. */
int shim_client_go(int conn, const char *devices, const char *const *env, size_t n_env);
int shim_client_cancel(int conn);
/* signal 0 and grace_ms UINT32_MAX: as the description says. A second stop can only hurry. */
int shim_client_stop(int conn, int signal, enum stop_scope scope, uint32_t grace_ms);
/* The same, and the task is requeued: its record says so to whoever files it. */
int shim_client_requeue(int conn, uint32_t grace_ms);
int shim_client_gpu(int conn, uint64_t peak_bytes, uint32_t util_permille);
int shim_client_ask(int conn);
/* The same, by an agent that serves it from now on. */
int shim_client_adopt(int conn);
int shim_client_ack(int conn);

#endif
