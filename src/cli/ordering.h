/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_ORDERING_H
#define TENURE_CLI_ORDERING_H

/*
 * Orders to agents of other nodes, through the spool, and their answers.
 *
 *	struct ordering o = { .sp = sp };
 *	r = ordering_send(&o, "node7", &order, data, &e);	to each
 *	ordering_wait(&o, ORDERING_LIMIT_MS, on_answer, user);
 *	ordering_clear(&o);
 */

#include <jansson.h>
#include <stdbool.h>

#include "agent/queue/order.h"
#include "spool/control.h"

#define ORDERING_LIMIT_MS   6000 /* agents look every two seconds */
#define ORDERING_LIMIT_TEXT "6s"

enum ordered_state {
	ORDERED_SENT,
	ORDERED_ANSWERED,
	ORDERED_TAKEN,	 /* and not answered: what comes of it is not known */
	ORDERED_IGNORED, /* nobody took it, and nobody will */
};

struct ordered {
	char agent[NAME_AGENT_MAX + 1];
	char path[SPOOL_PATH_MAX];
	enum ordered_state state;
	json_t *order;
	void *data; /* the caller's */
};

struct ordering {
	const struct spool *sp;
	size_t n;
	struct ordered *all;
};

int ordering_send(struct ordering *o, const char *agent, const struct order *order, void *data,
		  struct err *e);
/* Told of each as its answer comes, and then, with answer NULL, of those that have not answered in
 * that time. */
typedef void (*ordering_fn)(void *user, const struct ordered *one, const json_t *answer);
void ordering_wait(struct ordering *o, uint64_t limit_ms, ordering_fn fn, void *user);
/* What is still there is taken back. */
void ordering_clear(struct ordering *o);

/* The code of an answer; negative with e. */
int ordering_code(const json_t *answer, struct err *e);

#endif
