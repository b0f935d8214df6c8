/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_CTL_CLIENT_H
#define TENURE_AGENT_CTL_CLIENT_H

#include <jansson.h>

#include "agent/ctl.h"
#include "base/err.h"

/*
 * The client's side of the agent's socket (ctl.h): ask, blocking up to timeout_ms. 0 and the
 * document (the caller's reference); -ECONNREFUSED: no agent runs; -ETIMEDOUT, -EPROTO, -errno.
 * ret_fd (may be NULL) receives the socket, whose end of file is the end of the agent.
 */
int ctl_ask(const char *name, enum ctl_verb verb, int timeout_ms, json_t **ret, int *ret_fd,
	    struct err *e);
/* The same about a task: req has the verb and what is asked. */
int ctl_ask_about(const char *name, const struct ctl_request *req, int timeout_ms, json_t **ret,
		  int *ret_fd, struct err *e);
/* Say it and do not wait for the answer: a doorbell. Nobody there, or nobody who listens, is no
 * error worth a word. */
void ctl_ring(const char *name, enum ctl_verb verb);

#endif
