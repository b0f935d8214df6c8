/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_REQUEST_H
#define TENURE_SERVE_REQUEST_H

/*
 * A request, from its head to its answer, and the table of what can be asked (routes.c).
 *
 * The thread that has the connections (server.c) answers what is in memory. A route with ROUTE_SLOW
 * reads files or runs a command: its connection is put aside meanwhile and a worker does it
 * (workers.h), so that nobody else waits for a file system.
 */

#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "serve/access.h"
#include "serve/answer.h"
#include "serve/budget.h"

#define REQUEST_NAME_MAX 256
#define REQUEST_BODY_MAX (1UL << 20)

struct serve;
struct request;

#define ROUTE_OPEN  (1u << 0) /* without a token: there is nothing in it */
#define ROUTE_WRITE (1u << 1) /* changes something: needs the right to, and our own origin */
#define ROUTE_SLOW  (1u << 2) /* by a worker */

#define ROUTE_QUERIES 7

struct route {
	const char *method, *path; /* "{task}" is a number or N.M, "{name}" any other word */
	unsigned int flags;
	void (*answer)(struct serve *s, struct request *r);
	const char *queries[ROUTE_QUERIES]; /* the parameters of the URL that it has, then NULL */
};

enum request_state {
	REQUEST_READING, /* its body */
	REQUEST_WORKING, /* by a worker */
	REQUEST_DONE,	 /* there is an answer */
};

struct request {
	struct serve *serve;
	struct MHD_Connection *mhd;
	const char *method, *path; /* of libmicrohttpd, as long as its connection is asked */
	const struct route *route;
	enum request_state state;
	enum access_right right;
	struct budget_payer payer; /* of what it uses */
	bool secure;		   /* the browser's side is https */
	uint64_t task;
	uint32_t element;
	char name[REQUEST_NAME_MAX];
	unsigned int queries; /* of the route's that are there: a bit each */
	bool many_queries;    /* there are more than anything here has */
	struct strbuf body;
	struct answer answer;
	struct request *next; /* in the line to the workers */
};

/* Each parameter of the URL is one of the route's, is there once and has a value of its type
 * (request.c has the table); or the problem is the answer. */
bool request_queries_known(struct request *r);
/* A parameter of the URL, "" for one without a value; NULL: it is not there. */
const char *request_query(const struct request *r, const char *key);
/* Of one that is "true" or "false"; false where it is not there. */
bool request_query_flag(const struct request *r, const char *key);
/* A whole number of it: 0 and *ret, which is `otherwise` where it is not there; or -EINVAL, and the
 * problem is the answer. */
int request_query_num(struct request *r, const char *key, uint64_t otherwise, uint64_t max,
		      uint64_t *ret);
const char *request_header(const struct request *r, const char *name);
/* The body as a JSON object; a new reference. NULL: it is none, and the problem is the answer. */
json_t *request_object(struct request *r);

/* What a body may have: members to a NULL name. */
struct request_member {
	const char *name;
	enum request_type { REQUEST_FLAG, REQUEST_NUMBER, REQUEST_TEXT } type;
	bool needed;
};

/* The body as such an object, empty where there is no body and nothing is needed; a new reference.
 * NULL: it is none, and the problem is the answer. */
json_t *request_members(struct request *r, const struct request_member *members);

/* HEAD asks for a GET without its body. */
bool request_method_is(const char *method, const char *of_route);
void request_refuse_method(struct request *r, const char *allowed);
/* The route of a method and a path, with what the path says in r; NULL: there is none, and the
 * problem is the answer. */
const struct route *request_route(struct request *r, const struct route *routes, const char *method,
				  const char *path);

#endif
