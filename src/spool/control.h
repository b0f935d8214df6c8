/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_CONTROL_H
#define TENURE_SPOOL_CONTROL_H

/*
 * Orders to agents, through files, for clients on other nodes: control/AGENT,NUMBER.json is an
 * object that the agent takes and answers as control/AGENT,NUMBER.answer, which the client reads
 * and removes. And control.json beside instance.json, as older tools write it:
 * {"command":"stop|stop_all|shutdown","task":NAME}, to which "sweep":"none|gpu|python" may be
 * added.
 */

#include <jansson.h>

#include "spool/spec.h"
#include "spool/spool.h"

#define CONTROL_MAX 65536

/* Text of order is an object. ret: SPOOL_PATH_MAX bytes for control_answer_read(). */
int control_send(const struct spool *sp, const char *agent, const json_t *order, char *ret,
		 struct err *e);
/* 0 and a new reference; 1: there is no answer yet; negative. */
int control_answer_read(const struct spool *sp, const char *sent, json_t **ret, struct err *e);
/* Nobody will read the answer: takes the order back if it is still there. */
void control_give_up(const struct spool *sp, const char *sent);

/* By the agent: an order for it, taken away. 0 with the order (new reference) and where to answer;
 * 1: none. A bad one goes to bad/, and the next is looked at. */
int control_next(const struct spool *sp, const char *agent, json_t **ret, char *ret_sent,
		 struct err *e);
int control_answer(const struct spool *sp, const char *sent, const json_t *answer, struct err *e);

enum control_command { CONTROL_STOP, CONTROL_STOP_ALL, CONTROL_SHUTDOWN, CONTROL_COMMAND_MAX };
struct control_order {
	enum control_command command;
	char *task; /* the caller frees it; NULL but for CONTROL_STOP */
	enum spec_clean
		sweep; /* of stop and stop_all: what else is ended; as the agent says: MAX */
};

/* control.json, taken away. 0; 1: none, or one that was bad (e says why, it is in bad/). */
int control_file_take(const struct spool *sp, struct control_order *ret, struct err *e);

#endif
