/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_CONTROL_H
#define TENURE_SPOOL_CONTROL_H

/*
 * Orders to agents, through files, for clients on other nodes: control/AGENT,NUMBER.json is an
 * object (spool/order.h) that the agent takes and answers as control/AGENT,NUMBER.answer, which the
 * client reads and removes: {"code":0}, or {"code":-22,"error":TEXT}, and what else there is to
 * say. And control.json beside instance.json, as older tools write it:
 * {"command":"stop|stop_all|shutdown","task":NAME}, to which "sweep":"none|gpu|python" may be
 * added.
 */

#include <jansson.h>

#include "spool/files.h"
#include "spool/order.h"

#define CONTROL_MAX 65536

/* order: order_json(). ret: SPOOL_PATH_MAX bytes for control_answer_read(). */
int control_send(const struct spool *sp, const char *agent, const json_t *order, char *ret,
		 struct err *e);
/* 0 and a new reference; 1: there is no answer yet; negative. */
int control_answer_read(const struct spool *sp, const char *sent, json_t **ret, struct err *e);
/* True: nobody had taken it, and nobody will. */
bool control_take_back(const struct spool *sp, const char *sent);
/* Nobody waits any longer: the order and its answer are removed, where they are there. */
void control_give_up(const struct spool *sp, const char *sent);

/* By the agent: an order for it, taken away. 0 with the order, to be cleared, and where to answer;
 * 1: none. A bad one goes to bad/, is answered so, and the next is looked at; e says of the last
 * one what was wrong. */
int control_next(const struct spool *sp, const char *agent, struct order *ret, char *ret_sent,
		 struct err *e);
/* The new reference to answer is taken over. */
int control_answer(const struct spool *sp, const char *sent, json_t *answer, struct err *e);
/* By an agent that begins: what lies there for its name was meant for one before it, and may have
 * been given up without being taken back. It is not obeyed, but answered with the code -EAGAIN, so
 * that who still waits can send it to this one. Answers that nobody has fetched are removed after a
 * while. */
void control_forget(const struct spool *sp, const char *agent);

enum control_command { CONTROL_STOP, CONTROL_STOP_ALL, CONTROL_SHUTDOWN, CONTROL_COMMAND_MAX };
struct control_order {
	enum control_command command;
	char *task; /* the caller frees it; NULL but for CONTROL_STOP */
	enum spec_clean
		sweep; /* of stop and stop_all: what else is ended; as the agent says: MAX */
	unsigned int cancelled; /* for whoever obeys: how many that waited were meant */
};

/* How one stood that could not be read yet; begins with zeros. */
struct control_look {
	int64_t size;
	uint64_t mtime_ns, since_ns; /* since_ns: monotonic */
};

/* control.json, taken away. 0; 1: none, one that somebody may be writing at this moment, or one
 * that was still bad after a second (e says why, it is in bad/); negative. */
int control_file_take(const struct spool *sp, struct control_look *look, struct control_order *ret,
		      struct err *e);

#endif
