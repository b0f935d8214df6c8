/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_TALK_H
#define TENURE_TASK_TALK_H

/*
 * The agent's words on a connection to a shim (task/shproto.h). Nothing here waits: the descriptor
 * is to be polled for reading, and talk_recv() called until it says -EAGAIN.
 */

#include "task/shproto.h"

/* The type of the next message, which is in m; 0: the shim is gone; -EAGAIN: none yet; -EPROTO,
 * -EPROTONOSUPPORT: it cannot be talked with. Types that are not known are skipped. */
int talk_recv(int conn, union shmsg *m);

/* devices: for the log's header, may be NULL. env: n_env NAME=VALUE. 0; -E2BIG: more than
 * SHPROTO_ENV_MAX bytes; -EPIPE: it is gone; -EAGAIN. */
int talk_go(int conn, const char *devices, const char *const *env, size_t n_env);
int talk_cancel(int conn);
/* signal 0 and grace_ms UINT32_MAX: as the description says. A second stop can only hurry. */
int talk_stop(int conn, int signal, enum stop_scope scope, uint32_t grace_ms);
/* The same, and the task waits again: its record says so to whoever files it. */
int talk_requeue(int conn, uint32_t grace_ms);
int talk_gpu(int conn, uint64_t peak_bytes, uint32_t util_permille);
int talk_ask(int conn);
/* The same, by an agent that serves it from now on. */
int talk_adopt(int conn);
int talk_ack(int conn);

#endif
