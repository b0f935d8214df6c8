/* SPDX-License-Identifier: MIT */
#ifndef TENURE_POOL_POOL_H
#define TENURE_POOL_POOL_H

/*
 * Pools: what an instance wants of an engine. pools/NAME.json says it; `tenure up` and `down` write
 * it, and whoever ticks (pool/tick.h) acts on it. Beside it:
 *
 *	pools/NAME.json		what is wanted: struct pool
 *	pools/NAME,state	what came of the last tick: struct pool_state
 *	pools/NAME,owner,eN	who ticks now (pool/owner.h)
 *	pools/NAME,TOKEN.job	one job: struct pool_job (pool/job.h)
 *	pools/NAME,TOKEN.sh	its script, as it was submitted
 *	pools/NAME,TOKEN.out	what it printed
 *
 * All of them are written by whoever may write in the spool, so they are checked before use
 * (invariant 8): a pool file that is none stops nothing but its own pool, and says why.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/textlist.h"
#include "base/value_spec.h"
#include "engine/engine.h"
#include "spool/files.h"

#define POOL_NAME_MAX	 32
#define POOL_PREFIX_MAX	 24
#define POOL_PREFIX	 "tenure"
#define POOL_JOBS_MAX	 256	      /* nodes of one pool at a time */
#define POOL_GPUS_MAX	 64	      /* of one node */
#define POOL_MEM_MIB_MAX (1ULL << 30) /* of one node */
#define POOL_FILE_MAX	 65536	      /* bytes */
#define POOL_IDLE_MS	 300000
#define POOL_START_MS	 600000
#define POOL_LEAVE_MS	 120000 /* an agent leaves its job so long before the end at the least */

struct pool {
	char name[POOL_NAME_MAX + 1];
	char engine[16];
	char prefix[POOL_PREFIX_MAX + 1]; /* of the names of its jobs */
	unsigned int gpus, cpus;	  /* of a node; cpus 0: as go with the GPUs */
	uint64_t mem_mib;		  /* of a node; 0: the same */
	unsigned int first;		  /* nodes that `up` asked for at once */
	unsigned int min, max;		  /* nodes, whatever waits */
	unsigned int total_gpus;	  /* at most so many of all nodes; 0: no bound but max */
	uint64_t time_ms;		  /* of a job; 0: the engine's own limit */
	uint64_t keep_ms;  /* GPUs are held when nothing is to run, for so long at most; 0: an
			      agent that has nothing to do leaves */
	uint64_t idle_ms;  /* ... after so long */
	uint64_t start_ms; /* an agent that has not reported so long after its job began does not */
	unsigned int lead_s;	  /* so long before its end a job is signalled */
	bool relay;		  /* the next job is queued so that it begins as one ends */
	bool only;		  /* nothing runs there that does not name it (submit --pool) */
	bool down;		  /* nothing more is submitted, what waits is cancelled */
	char *type;		  /* of the GPUs, in the engine's words; NULL: any */
	char *template_path;	  /* of a job script; NULL: the engine's own */
	char *program;		  /* what its jobs run: an absolute path that its nodes have, too */
	char *dir;		  /* where tasks' commands and agents begin; NULL */
	struct text_list options; /* the engine's, verbatim */
	struct text_list drop;	  /* of ours, what is left out */
	struct text_list settings; /* KEY=VALUE, what the engine needs besides */
	struct text_list agent;	   /* options of its agents */
	uint64_t asked_ns; /* wall: when `up` was last called; jobs before do not count for first */
	char host[64];	   /* of a pool whose engine is one machine; "" */
	char user[64];	   /* who did */
};

/* Zeroed or parsed. */
void pool_clear(struct pool *p);
/* What is left out has its default. 0, or -EINVAL with what is wrong; p is to be cleared in each
 * case. */
int pool_parse(const char *name, const char *text, size_t len, struct pool *ret, struct err *e);
/* A document that pool_parse() reads; the caller frees it. */
char *pool_text(const struct pool *p);
/* Limits, what contradicts, and what could not be read again; the first one but for the engine.
 * Texts name the options of `up`. 0 or -EINVAL, -EFBIG. */
int pool_check_limits(const struct pool *p, struct err *e);
int pool_check(const struct pool *p, struct err *e);
/* There is something left of a job's time when its agent is to leave. 0 or -EINVAL. */
int pool_check_time(const struct pool *p, struct err *e);

bool pool_is_name(const char *name);
/* pools/NAME.json, pools/NAME,what. buf: SPOOL_PATH_MAX bytes; returns it. */
char *pool_path(const char *name, char *buf);
char *pool_path_of(const char *name, const char *what, char *buf);

/* What a call about pools/ has given: there is no such directory, as in an instance that an older
 * version has made, so there are no pools. */
bool pool_none(const struct spool *sp, int r);

/* 0; -ENOENT: there is no such pool; -EINVAL: it is none; -errno. */
int pool_read(const struct spool *sp, const char *name, struct pool *ret, struct err *e);
/* Anew, or in place of what is there; survives a power loss. */
int pool_write(const struct spool *sp, const struct pool *p, struct err *e);
/* Names of the pools, sorted. None is no error. */
int pool_list(const struct spool *sp, struct text_list *ret, struct err *e);

/* Whoever asks can see its jobs; else only its host can. */
bool pool_is_here(const struct spool *sp, const struct pool *p);
/* What its nodes are, as a sum: jobs of another one are not what is asked for now. Never 0. */
uint32_t pool_shape(const struct pool *p);
/* Nodes that it may have at a time, by its max and its total of GPUs. */
unsigned int pool_cap(const struct pool *p);

/* What ticks ask engines for, and how that went since the pool is there. What is not installed was
 * not asked. */
enum pool_command { POOL_COMMAND_JOBS, POOL_COMMAND_SUBMIT, POOL_COMMAND_CANCEL, POOL_COMMAND_MAX };

struct pool_count {
	uint64_t n, errors, ms; /* ms: all of them took */
};

/* "jobs", ... */
const char *pool_command_name(unsigned int command);

/* Who ticks it, or asks for a job of it. */
struct pool_caller {
	const char *const *environ; /* of whoever asks */
	const char *root;	    /* absolute, as its nodes see it, too */
	uint64_t patience_ms;	    /* somebody else's tick is waited for so long */
	bool by_agent;	    /* where the engine's commands are not there it leaves all to others */
	const char *token;  /* of an agent that has just left: its job is over; NULL */
	uint64_t n_ended;   /* tasks that ended under it */
	uint64_t expire_ms; /* an agent that has been silent for longer is not alive */
	/* The engine is asked for the job of one that has been silent for so long, or was killed on
	 * this node, and where it has it no more, that is over: for a person who waits for a node,
	 * and so every few seconds, if need be. One that was killed is no place for a task. 0: only
	 * when it has expired. */
	uint64_t silent_ms;
};

/* What the last tick did, for people and for the next one. Times are of the file server's clock, in
 * seconds of the wall. */
struct pool_state {
	uint64_t ticked_s, polled_s; /* 0: never */
	uint64_t tried_s;	     /* the last submission that was refused */
	unsigned int refusals;	     /* in a row */
	unsigned int lost;	     /* jobs in a row whose agent never reported */
	unsigned int vain;	     /* ... whose agent left at once, with nothing done */
	unsigned int given;	     /* jobs submitted since the `up` of asked_ns */
	uint64_t asked_ns;
	bool paused; /* until somebody says `up` again; text: why */
	unsigned int wanted, live, waiting, cap;
	unsigned int unfit; /* tasks that are ready and fit no node of it */
	struct pool_count commands[POOL_COMMAND_MAX];
	char next[256];	 /* what comes next, a sentence */
	char error[512]; /* the last one; "": the last tick had none */
	char pause[512]; /* why it is paused */
};

/* What is no state, and one that is not there, is as nothing. 0 or -errno; ret is set in each case.
 */
int pool_state_read(const struct spool *sp, const char *name, struct pool_state *ret,
		    struct err *e);
int pool_state_write(const struct spool *sp, const char *name, const struct pool_state *st,
		     struct err *e);
/* Of a text; false: it is none, and ret is zeroed. */
bool pool_state_parse(const char *text, size_t len, struct pool_state *ret);

#endif
