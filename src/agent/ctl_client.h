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
/* The same with a payload, at most CTL_PAYLOAD_MAX bytes: -E2BIG. */
int ctl_ask_with(const char *name, enum ctl_verb verb, const char *payload, int timeout_ms,
		 json_t **ret, struct err *e);
/*
 * Watch (agent/watch.h; docs/json.md has the documents):
 *
 *	r = ctl_watch_open(name, &w, &e);
 *	poll(ctl_watch_fd(w));
 *	while ((r = ctl_watch_next(w, &doc, &e)) > 0)
 *		.. json_decref(doc);
 *	w = ctl_watch_close(w);
 *
 * ctl_watch_open(): 0; -ECONNREFUSED: no agent runs; -errno. ctl_watch_next() does not wait. 1 and
 * a document, the caller's; 0: not yet; -EPIPE: the agent has ended, or has cut us off since we
 * read nothing for CTL_SLOW_MS; -EPROTO: it is of another version. Not for several threads.
 *
 * An agent tells its status once a second. ctl_watch_silence(): 0; -ETIMEDOUT and why: it has told
 * nothing for CTL_SILENT_MS, since it is stopped or hangs. The watch stays good: what it tells when
 * it goes on comes on it.
 */
#define CTL_SILENT_MS 5000
struct ctl_watch;
int ctl_watch_open(const char *name, struct ctl_watch **ret, struct err *e);
int ctl_watch_fd(const struct ctl_watch *w);
int ctl_watch_next(struct ctl_watch *w, json_t **ret, struct err *e);
int ctl_watch_silence(const struct ctl_watch *w, struct err *e);
struct ctl_watch *ctl_watch_close(struct ctl_watch *w);
/* Say it and do not wait for the answer: a doorbell. Nobody there, or nobody who listens, is no
 * error worth a word. */
void ctl_ring(const char *name, enum ctl_verb verb);

#endif
