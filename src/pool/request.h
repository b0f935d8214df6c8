/* SPDX-License-Identifier: MIT */
#ifndef TENURE_POOL_REQUEST_H
#define TENURE_POOL_REQUEST_H

/*
 * What an engine is asked for: one job of a pool, whose program is an agent. pool/tick.h submits
 * it; `up --dry-run` shows its script, and when it would start.
 */

#include "base/err.h"
#include "base/strbuf.h"
#include "base/textlist.h"
#include "engine/engine.h"
#include "pool/pool.h"

struct pool_request {
	struct engine_request req; /* its texts are those below, the pool's and the caller's */
	struct text_list agent, exclude;
	char name[ENGINE_JOB_NAME_MAX];
	char *title, *dir, *output, *template_text;
};

/* 0; -EINVAL or -errno: its template cannot be read. pool_request_clear() in each case. */
int pool_request_make(const char *instance, const struct pool *pool,
		      const struct pool_caller *caller, const char *token, struct pool_request *ret,
		      struct err *e);
void pool_request_clear(struct pool_request *q);

/* The script of the next job, as --dry-run shows it; its instance need not be there yet. 0,
 * -EINVAL, -errno. */
int pool_script(const char *instance, const struct pool *pool, const struct pool_caller *caller,
		struct strbuf *script, struct err *e);

/* When such a job would start, as engine.when() says it of one that is not there: it may run a
 * command and waits for it. */
int pool_when(const char *instance, const struct pool *pool, const struct pool_caller *caller,
	      uint64_t *ret_ns, struct strbuf *words, struct err *e);

#endif
