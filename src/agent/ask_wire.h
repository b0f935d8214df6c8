/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ASK_WIRE_H
#define TENURE_AGENT_ASK_WIRE_H

/*
 * What users of one machine say to each other's agents (agent/asks.h), by an abstract socket
 * (ask_socket_name()): one request of fixed size, one JSON document as the answer, and the end. Who
 * asks is who the kernel says, and so is who answers; neither trusts a text of the other one.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/textlist.h"

#define ASK_MAGIC	0x746e6173U /* "tnas" */
#define ASK_VERSION	1U
#define ASK_MESSAGE_MAX 200 /* bytes */
#define ASK_UUID_MAX	96
#define ASK_ANSWER_MAX	32768 /* 16 asks, whatever their texts */
#define ASK_NAMES_MAX	8     /* so many an agent tries, where others have the first ones */

enum ask_kind {
	ASK_PUT = 1, /* asks for the device: {code, error} or {code, again, ask} */
	ASK_LIST,    /* what who asks has asked, and what came of it: {code, asks} */
	ASK_KIND_MAX
};

struct ask_request {
	uint32_t magic;
	uint16_t version;
	uint16_t kind; /* enum ask_kind */
	char uuid[ASK_UUID_MAX];
	char message[ASK_MESSAGE_MAX + 8]; /* at most ASK_MESSAGE_MAX of them */
};

/* The n bytes received are a request, whose texts are ended and fit to be shown then. */
bool ask_is_request(struct ask_request *req, ssize_t n);

/* ---- the agent's side ---- */

/* Listen by the first name that is free. The descriptor, or -errno with e. */
int ask_listen(const char *dev_dir, struct err *e);
/* Of any user. The descriptor, or -errno; the connection is dropped where it cannot be told whose
 * it is. */
int ask_accept(int listen_fd, struct ucred *ret);

/* ---- who asks ---- */

/* The names by which agents of that user, ASK_ANYBODY: of all, may be found here, as the kernel
 * lists them. */
#define ASK_ANYBODY ((uid_t)-1)
void ask_names(const char *dev_dir, uid_t uid, struct text_list *ret);
/* Whose it says that it is. */
uid_t ask_name_uid(const char *name);
/*
 * Ask whoever has the name, who must be that user. 0 and the document, whose reference is the
 * caller's; -EPERM: *ret_squatter has the name in place of that user; -ECONNREFUSED: nobody;
 * -EAGAIN: it does not answer, as by far too many ask. Takes up to a second.
 */
int ask_call(const char *name, const struct ask_request *req, json_t **ret, uid_t *ret_squatter);

#endif
