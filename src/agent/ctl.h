/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_CTL_H
#define TENURE_AGENT_CTL_H

/*
 * The agent's own socket (hold/endpoint_names.h). Its name is the lock: one agent per instance and
 * node. A client sends one request of fixed size; the answer is a JSON document in packets of up to
 * CTL_CHUNK bytes, the last one marked.
 *
 * Server: all on the loop, never waits for a client; a slow one is sent what fits, one that does
 * not read for CTL_SLOW_MS is cut off; of more than CTL_CLIENTS_MAX at a time who has not asked is.
 *
 * Who asks to watch gets documents without end, one after another, each when the one before it has
 * been taken: nothing is queued for him here.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/err.h"

#define CTL_MAGIC	0x746e7263U /* "tnrc" */
#define CTL_VERSION	3U
#define CTL_CHUNK	16384U
#define CTL_CLIENTS_MAX 32
#define CTL_SLOW_MS	5000

enum ctl_verb {
	CTL_PING = 1, /* {pid, since, instance, ready}: at once */
	CTL_STATUS,   /* the whole status */
	CTL_OFF,      /* ends the agent; answered when all is free */
	CTL_RESCAN,   /* the spool has changed */
	CTL_STOP,     /* task and element: ends it where it runs here */
	CTL_WHY,      /* task and element: {why, elsewhere} */
	CTL_DRAIN,    /* starts and holds nothing more, ends when what runs has; answered then */
	CTL_FORECAST, /* when what waits starts: {tasks} */
	CTL_WATCH,    /* all there is to see, and then what changes (agent/watch.h) */
	CTL_REASONS,  /* what each that waits waits for, in a few words: {groups} */
	CTL_RELOAD,   /* payload: other settings (agent/reload.h) */
	CTL_HISTORY,  /* of the devices: task is the seconds back, element the step in seconds */
	CTL_ANSWER,   /* payload: to somebody who asks for a device (agent/asks.h) */
	CTL_VERB_MAX
};

struct ctl_request {
	uint32_t magic;
	uint16_t version;
	uint16_t verb;	  /* enum ctl_verb */
	uint64_t task;	  /* where the verb is about one; CTL_HISTORY: seconds; else 0 */
	uint32_t element; /* 0: all of it; CTL_HISTORY: seconds of a step */
	uint32_t now;	  /* CTL_STOP: without grace; CTL_DRAIN: what runs is stopped */
	uint32_t sweep;	  /* CTL_STOP: SWEEP_BIT()s, what else is ended with it */
	uint32_t payload; /* bytes of the chunk that follows; 0: none does */
};

struct ctl_chunk {
	uint32_t magic;
	uint16_t version;
	uint16_t last; /* 1: the document is complete */
	uint32_t size; /* bytes in data */
	char data[CTL_CHUNK];
};

#define CTL_CHUNK_HEAD offsetof(struct ctl_chunk, data)

/* What the n bytes received are: a request; a piece of an answer. */
bool ctl_is_request(const struct ctl_request *req, ssize_t n);
bool ctl_is_chunk(const struct ctl_chunk *chunk, ssize_t n);
/* A request may have at most so many bytes of payload, in one chunk. */
#define CTL_PAYLOAD_MAX CTL_CHUNK

struct ctl;
struct ctl_client;

/*
 * The verb's answer: ctl_answer() now or later. client stays valid until it is answered or `gone`
 * was called for it.
 */
struct ctl_ops {
	void (*request)(void *user, struct ctl_client *client, const struct ctl_request *req);
	void (*gone)(void *user, struct ctl_client *client);
	/* What a watching client gets next, which is freed; NULL: nothing now. */
	char *(*next)(void *user, struct ctl_client *client);
	/* It has taken nothing for CTL_SLOW_MS, and is cut off; `gone` comes, too. */
	void (*slow)(void *user, struct ctl_client *client);
	/* Another process has the name by now: this one was gone from its directory. */
	void (*lost)(void *user);
};

/* Take the name and listen. 0; -EADDRINUSE: an agent of this instance runs; -errno. */
int ctl_listen(uv_loop_t *loop, const char *name, const struct ctl_ops *ops, void *user,
	       struct ctl **ret, struct err *e);
/* What came with its request, a text; "": nothing did. */
const char *ctl_payload(const struct ctl_client *client);
/* Takes the reference to doc over. */
void ctl_answer(struct ctl_client *client, json_t *doc);
/* In place of an answer: the client watches, and gets what ops->next has until it goes. */
void ctl_stream(struct ctl_client *client);
/* ops->next has something for it. */
void ctl_stream_more(struct ctl_client *client);
/* The process at its end. */
pid_t ctl_client_pid(const struct ctl_client *client);
/* Give the name back: from now on another agent can have it. Clients stay. */
void ctl_unlisten(struct ctl *ctl);
/* Whether every answer has been sent. */
bool ctl_is_quiet(const struct ctl *ctl);
/* Cut off who is there; ctl is freed when the loop has closed the handles. */
void ctl_close(struct ctl *ctl);

#endif
