/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_AGENT_CLIENT_H
#define TENURE_CLI_AGENT_CLIENT_H

/*
 * Asks agents: that of this node by its socket, those of others through the spool. What is asked
 * about tasks is an order (agent/queue/order.h) for both.
 */

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/ctl_client.h"
#include "agent/queue/order.h"
#include "cli/cmd.h"
#include "spool/control.h"

/* ---- the agent of this node ---- */

#define AGENT_VERB(v) (&(const struct ctl_request){ .verb = (v) })
#define AGENT_FOREVER INT_MAX /* of an answer that comes when tasks have ended */

/*
 * Ask the agent of the instance that the settings name. 0 and the document; CMD_NOTHING_RUNS or
 * CMD_FAILED with e set to what to do. ret_fd as in ctl_ask(). With --root on the command line one
 * that serves another root is none.
 */
int agent_ask(const struct cmd_ctx *ctx, const struct ctl_request *req, int timeout_ms,
	      json_t **ret, int *ret_fd, struct err *e);

/* The same with a payload. */
int agent_ask_with(const struct cmd_ctx *ctx, enum ctl_verb verb, const char *payload,
		   int timeout_ms, json_t **ret, struct err *e);

/* The whole status. A new reference; NULL: there is none, and e says why. */
json_t *agent_status(const struct cmd_ctx *ctx, int timeout_ms, struct err *e);
/* The tasks that it says it runs. Borrowed of the status, which may be NULL. */
const json_t *agent_tasks(const json_t *status);
/* "bob asks for GPU 3, which task 42 train has: please", of one of those that ask; the caller frees
 * it. */
char *agent_ask_text(const json_t *ask);
/*
 * " -i night --root '/data/my q'": what has to stand behind `tenure on` (off, status) where it is
 * typed, so that it is about the agent of the instance (NULL: that of the settings) and not about
 * another one; "" where the command alone is. The instance is named where it is not `default`,
 * wherever that was said, since who reads it may have another shell; a directory, where the command
 * line has it. The caller frees it.
 */
char *agent_options(const struct settings *s, const char *instance);
/* The same without the root: enough for `tenure off` and status, which then find the agent that has
 * the name, whatever root it serves. */
char *agent_name_options(const struct settings *s);
/* What it says of a program beside it, by the program's name. Borrowed; NULL: it has none. */
const json_t *agent_helper(const json_t *status, const char *name);

/* One of them, with texts of the status. */
struct agent_task {
	uint64_t id, element;
	const char *name;    /* or NULL */
	const char *unfiled; /* it has ended: why that cannot be filed; or NULL */
};

struct agent_task agent_task_of(const json_t *task);

/* An order about one task, ORDER_STOP or ORDER_WHY. The agent's own refusal is the text of e; its
 * code (-ENOENT) is returned. -ECONNREFUSED: no agent runs here for this root. */
int agent_ask_about(const struct cmd_ctx *ctx, const struct order *o, json_t **ret, struct err *e);

/*
 * "instance foo runs; --instance foo", of the agents of this user and these device nodes that serve
 * others than the one that is meant, for whoever has found none. NULL: there are none. The caller
 * frees it.
 */
char *agent_others(const struct cmd_ctx *ctx);

/* The spool has changed: the agent here, if there is one, need not find out by itself. */
void agent_look(const struct cmd_ctx *ctx);

/* ---- agents of other nodes ---- */

/*
 *	struct agents_call o = { .sp = sp };
 *	r = agents_send(&o, "node7", &order, data, &e);	to each
 *	agents_wait(&o, AGENTS_LIMIT_MS, on_answer, user);
 *	agents_clear(&o);
 *
 * Who has something else to do meanwhile calls agents_poll() now and then instead, until it says 0.
 */
#define AGENTS_LIMIT_MS	  6000 /* agents look every two seconds */
#define AGENTS_LIMIT_TEXT "6s"

enum called_state {
	CALLED_SENT,
	CALLED_ANSWERED,
	CALLED_TAKEN,	/* and not answered: what comes of it is not known */
	CALLED_IGNORED, /* nobody took it, and nobody will */
};

struct agent_called {
	char agent[NAME_AGENT_MAX + 1];
	char path[SPOOL_PATH_MAX];
	enum called_state state;
	json_t *order;
	void *data; /* the caller's */
};

struct agents_call {
	const struct spool *sp;
	size_t n;
	struct agent_called *all;
	uint64_t sent_ns,
		back_ns; /* monotonic: the first one; and what nobody took is taken back */
};

int agents_send(struct agents_call *o, const char *agent, const struct order *order, void *data,
		struct err *e);
/* Told of each as its answer comes, and then, with answer NULL, of those that have not answered in
 * that time. */
typedef void (*agents_fn)(void *user, const struct agent_called *one, const json_t *answer);
void agents_wait(struct agents_call *o, uint64_t limit_ms, agents_fn fn, void *user);
/* The same without waiting, of what is known by now; the limit counts from the first order. How
 * many are still to be told of. */
size_t agents_poll(struct agents_call *o, uint64_t limit_ms, agents_fn fn, void *user);
/* What is still there is taken back. */
void agents_clear(struct agents_call *o);

/* The code of an answer; negative with e. */
int agents_answer_code(const json_t *answer, struct err *e);

#endif
