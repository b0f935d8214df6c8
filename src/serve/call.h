/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_CALL_H
#define TENURE_SERVE_CALL_H

/*
 * What changes something, and what only files tell, is done by the program's own commands: the
 * checks, the rules and the texts are theirs. No shell is there, and what comes from a request is
 * an argument that cannot be an option. By a worker only.
 */

#include <jansson.h>

#include "base/textlist.h"
#include "serve/request.h"

#define CALL_LIMIT_MS	40000 /* `up` asks an engine twice, which has 15 s each time */
#define CALL_OUTPUT_MAX (16UL << 20)
#define CALL_ARGS_MAX	16

struct call {
	const char *args[CALL_ARGS_MAX]; /* behind "tenure"; ends with NULL */
	const struct text_list *more;	 /* behind those; NULL: nothing */
	const char *input;		 /* its standard input; NULL: nothing */
	int output;			 /* where its output goes, or -1: it is gathered */
	/* What came of it: */
	int code;    /* enum cmd_exit, or -ETIMEDOUT: it was killed; -errno: it did not start */
	char *text;  /* its output; freed by call_clear(), as is: */
	char *error; /* what it said, in sentences; "" */
};

/* What the command uses of a processor is taken from the budget of whoever asks. */
void call_run(struct serve *s, const struct request *r, struct call *c);
void call_clear(struct call *c);
/* The answer where it has failed; false: it has not. */
bool call_refused(const struct call *c, struct request *r);
/* The one object that it printed, or a list of those of its lines; NULL: it is none. */
json_t *call_object(const struct call *c);
json_t *call_lines(const struct call *c);

#endif
