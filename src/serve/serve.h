/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_SERVE_H
#define TENURE_SERVE_SERVE_H

/* What all that answers has in common. Made once by main.c, and not changed after that but for the
 * tokens. */

#include <pthread.h>

#include "base/textlist.h"
#include "cli/cmd.h"
#include "serve/access.h"
#include "serve/budget.h"
#include "serve/streams.h"
#include "serve/workers.h"

struct history_seat;
struct metrics;
struct model;

struct serve {
	const struct cmd_ctx *ctx;
	const char *instance;
	char *state_dir;	/* of logs and keys */
	char *spool_dir;	/* of the instance */
	char *program;		/* `tenure`, which does what changes something */
	char *listens;		/* "127.0.0.1:8470"; NULL: on no port */
	struct text_list hosts; /* that we are called by */
	struct workers *workers;
	struct streams *streams;
	struct model *model;
	struct metrics *metrics;
	uint64_t started_ns;  /* monotonic */
	struct budget budget; /* of requests; begun by server_new() */

	pthread_mutex_t tokens_lock;
	struct access_tokens tokens;
	pthread_mutex_t keys_lock;    /* keys.h */
	struct history_seat *history; /* history.h */
};

/* Read the files of the tokens again: one may have been made, or removed. Reads files. */
void serve_reload_tokens(struct serve *s);
void serve_tokens(struct serve *s, struct access_tokens *ret);

#endif
