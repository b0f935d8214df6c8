/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_CONTROL_H
#define TENURE_SPOOL_CONTROL_H

/*
 * Orders to agents, through files, for clients on other nodes: control/AGENT,NUMBER.json is an
 * object that the agent takes and answers as control/AGENT,NUMBER.answer, which the client reads
 * and removes: {"code":0}, or {"code":-22,"error":TEXT}, and what else there is to say. And
 * control.json beside instance.json, as older tools write it:
 * {"command":"stop|stop_all|shutdown","task":NAME}, to which "sweep":"none|gpu|python" may be
 * added.
 */

#include <jansson.h>

#include "spool/files.h"

#define CONTROL_MAX 65536

/* ret: SPOOL_PATH_MAX bytes for control_answer_read(). */
int control_send(const struct spool *sp, const char *agent, const json_t *order, char *ret,
		 struct err *e);
/* The same under a name of its own (a token): one that is not taken yet is replaced. Nobody waits
 * for the answer: it is said again until it is seen to be done. */
int control_send_as(const struct spool *sp, const char *agent, const char *name,
		    const json_t *order, struct err *e);
/* Nobody is to take it any more, and its answer goes. */
void control_forget_as(const struct spool *sp, const char *agent, const char *name);
/* 0 and a new reference; 1: there is no answer yet; negative. */
int control_answer_read(const struct spool *sp, const char *sent, json_t **ret, struct err *e);
/* True: no agent had taken the order, and none will. */
bool control_take_back(const struct spool *sp, const char *sent);
/* The client waits no longer: the order and its answer are removed, where they are there. */
void control_give_up(const struct spool *sp, const char *sent);

/* What an order means is its taker's business: 0 with *ret, or -EINVAL with what is wrong.
 * control_file_take() also asks with NULL, whether the file means anything yet. */
typedef int (*control_read_fn)(const json_t *doc, void *ret, struct err *e);

/* The agent takes the next order for it. 0 with the order, which the caller clears, and where to
 * answer; 1: there is none, or none among the first 64 bad ones. A bad order goes to bad/ and is
 * answered so, and the next one is looked at; e says what was wrong with the last one. */
int control_next(const struct spool *sp, const char *agent, control_read_fn fn, void *ret,
		 char *ret_sent, struct err *e);
/* The new reference to answer is taken over. */
int control_answer(const struct spool *sp, const char *sent, json_t *answer, struct err *e);
/* An agent that begins calls it: orders that lie there for its name were meant for an agent before
 * it, and may have been given up without being taken back. They are not obeyed, but answered with
 * the code -EAGAIN, so that a client that still waits can send its order to this agent. Answers
 * that nobody has fetched are removed after a while. */
void control_forget(const struct spool *sp, const char *agent);

/* How a control.json stood that could not be read yet; begins with zeros. */
struct control_look {
	int64_t size;
	uint64_t mtime_ns, since_ns; /* since_ns: monotonic */
};

/* The agent takes control.json. 0; 1: there is none, or somebody may be writing it at this moment,
 * or it was still bad after a second (e says why, it is in bad/); negative. */
int control_file_take(const struct spool *sp, struct control_look *look, control_read_fn fn,
		      void *ret, struct err *e);

#endif
