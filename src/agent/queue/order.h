/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_ORDER_H
#define TENURE_AGENT_QUEUE_ORDER_H

/*
 * What an agent can be ordered through the spool (spool/control.h), as an object:
 *
 *	{"command":"stop","tasks":["42","43.7"],"now":true,"sweep":"gpu"}
 *	{"command":"why","tasks":["42"]}
 *	{"command":"shutdown","how":"drain"}
 *	{"command":"burn","burn":"n7-1f3a","for_ms":60000,"options":["--load=tensor"]}
 *
 * Pure. A key, a word or a type that is not known is refused: who sent it may have meant something
 * else by it.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/textlist.h"
#include "spool/ident.h"
#include "spool/task_spec.h"

#define ORDER_TASKS_MAX	  1000
#define ORDER_FOR_MAX_MS  (30ULL * 24 * 3600 * 1000)
#define ORDER_OPTIONS_MAX 16
#define ORDER_OPTION_MAX  80 /* bytes of one */

enum order_command { ORDER_STOP, ORDER_WHY, ORDER_SHUTDOWN, ORDER_BURN, ORDER_COMMAND_MAX };

/* What becomes of the tasks of an agent that is to end. */
enum order_how { ORDER_RUN_ON, ORDER_DRAIN, ORDER_STOP_TASKS, ORDER_HOW_MAX };

struct order_task {
	uint64_t id, element; /* element 0: all of it that runs there */
};

struct order {
	enum order_command command;
	size_t n; /* of ORDER_STOP 1 to ORDER_TASKS_MAX, of ORDER_WHY 1 */
	struct order_task *tasks;
	bool now;	       /* ORDER_STOP: without grace */
	enum spec_clean sweep; /* ORDER_STOP: what else is ended with them; default none */
	enum order_how how;    /* ORDER_SHUTDOWN */
	/* ORDER_BURN: a part of which burn (agent/burn/part.h), for how long each device is tested,
	 * and options of `tenure burn`, "--NAME" or "--NAME=VALUE" each, which it judges by itself.
	 */
	char burn[SPEC_NAME_MAX + 1];
	uint64_t for_ms;
	struct text_list options;
};

/* 0 and *ret, which is to be cleared; -EINVAL with what is wrong. */
int order_read(const json_t *doc, struct order *ret, struct err *e);
/* A new reference. */
json_t *order_json(const struct order *o);
void order_clear(struct order *o);

/* "42" or "42.7". buf: ORDER_ID_MAX bytes. */
#define ORDER_ID_MAX 48
char *order_format_task(const struct order_task *t, char buf[ORDER_ID_MAX]);

/* For control_next(), which is given a struct order. */
int order_take(const json_t *doc, void *ret, struct err *e);

/* ---- control.json, as older tools write it ---- */

enum control_command { CONTROL_STOP, CONTROL_STOP_ALL, CONTROL_SHUTDOWN, CONTROL_COMMAND_MAX };
struct control_order {
	enum control_command command;
	char *task;		/* the caller frees it; NULL but for CONTROL_STOP */
	enum spec_clean sweep;	/* of stop and stop_all: what else ends; MAX: as the agent says */
	unsigned int cancelled; /* for whoever obeys: how many that waited were meant */
};

/* For control_file_take(), which is given a struct control_order. */
int control_order_read(const json_t *doc, void *ret, struct err *e);

#endif
