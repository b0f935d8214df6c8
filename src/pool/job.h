/* SPDX-License-Identifier: MIT */
#ifndef TENURE_POOL_JOB_H
#define TENURE_POOL_JOB_H

/*
 * The record of one job of a pool, pools/POOL,TOKEN.job. It is written before the job is submitted,
 * so that no job is ever submitted twice: who finds a record without an id looks at what the engine
 * lists under that name before it does anything else.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/engine.h"
#include "spool/files.h"

enum pool_job_phase {
	POOL_JOB_SUBMITTING, /* the engine may have it or not */
	POOL_JOB_SUBMITTED,
	POOL_JOB_ENDED,
	POOL_JOB_PHASE_MAX
};

struct pool_job {
	char token[ENGINE_TOKEN_MAX + 1];
	enum pool_job_phase phase;
	enum engine_job_state state;	/* as the engine said last */
	char engine[16];		/* that has it; "": of a version that did not say */
	char id[ENGINE_JOB_ID_MAX];	/* "": not known */
	bool named;			/* submit() gave the id: it stays */
	char node[64];			/* "": none yet */
	char agent[NAME_AGENT_MAX + 1]; /* "": none has reported */
	char reason[256];		/* why it waits, or how it ended */
	unsigned int gpus;
	uint32_t shape; /* pool_shape() of what it was asked for by; 0: not known */
	/* By the file server's clock, seconds; 0: it has not. */
	uint64_t submitted_s, began_s, ended_s;
	uint64_t end_ns;   /* wall, by its agent: when the job's time is up; 0: not known */
	uint64_t asked_ns; /* the `up` in whose time it was submitted (pool.h) */
	char after[ENGINE_TOKEN_MAX + 1]; /* the job whose place it takes (relay); "" */
	uint64_t start_ns;		  /* wall, by the engine: when it began, or may */
	bool first;			  /* submitted because `up` asked for it, whatever waits */
	bool lost;			  /* it ended and no agent had reported */
	bool stay;	/* its agent is one of those that are there whatever waits */
	bool cancelled; /* by us */
};

/* With what the tokens of one pool of one spool begin, so that jobs of another queue that is called
 * the same are none of its. ret: POOL_MARK_LEN + 1 bytes. 0 or -errno. */
#define POOL_MARK_LEN 3
int pool_job_mark(const struct spool *sp, const char *pool, char ret[POOL_MARK_LEN + 1],
		  struct err *e);
/* The mark, and six random letters and digits. */
void pool_job_token(const char *mark, char ret[ENGINE_TOKEN_MAX + 1]);
bool pool_job_is_token(const char *text);

/* "TOKEN.job", "TOKEN.sh", "TOKEN.out" of a pool, for pool_path_of(). buf: 32 bytes; returns it. */
char *pool_job_file(const char *token, const char *kind, char *buf);

/* Of a text: 0 or -EINVAL; the token is not in it. */
int pool_job_parse(const char *text, size_t len, struct pool_job *ret);
/* Durable where the engine is asked next. */
int pool_job_write(const struct spool *sp, const char *pool, const struct pool_job *job,
		   bool durable, struct err *e);

/* 0; -ENOENT: there is none; -EINVAL: it is none; -errno. */
int pool_job_read(const struct spool *sp, const char *pool, const char *token, struct pool_job *ret,
		  struct err *e);

struct pool_jobs {
	size_t n;
	struct pool_job *all; /* the newest last */
};

/* Those of a pool. What is no record goes to bad/; one that cannot be read now is an error, because
 * its job is there all the same. 0 or -errno; ret is to be cleared in each case. */
int pool_jobs_read(const struct spool *sp, const char *pool, struct pool_jobs *ret, struct err *e);
void pool_jobs_clear(struct pool_jobs *jobs);
struct pool_job *pool_jobs_add(struct pool_jobs *jobs);
/* All but the newest of those that ended go, with their scripts and what they printed. */
void pool_jobs_prune(const struct spool *sp, const char *pool, const struct pool_jobs *jobs,
		     size_t keep);

/* The last lines of what a job printed, at most max bytes, fit to be shown; NULL: nothing. The
 * caller frees it. */
char *pool_job_tail(const struct spool *sp, const char *pool, const char *token, size_t max);

#endif
