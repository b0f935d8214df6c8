/* SPDX-License-Identifier: MIT */
#ifndef TENURE_ENGINE_ENGINE_H
#define TENURE_ENGINE_ENGINE_H

/*
 * Engines: what gives us nodes. One struct of functions for each (Slurm, Grid Engine, SCO ACP,
 * Kubernetes, this machine itself), which run the engine's own commands and read what these print.
 *
 *	eng = engine_find("slurm");
 *	eng->render(req, &script, e)		pure: what --dry-run prints
 *	eng->submit(env, req, script, &id, e)	ENGINE_UNSURE: look before it is repeated
 *	eng->jobs(env, prefix, &jobs, e)	one command for all of ours
 *	eng->cancel(env, &ids, e)
 *
 * One job is one node with one agent. An engine's word is asked only of jobs whose agent has not
 * come or has gone silent: who is alive is told by heartbeats in the spool.
 *
 * Everything but render() runs commands and waits for them, at most ENGINE_LIMIT_MS each, so it is
 * called on a thread that may wait. Texts of an error are what the engine said, cut to one line.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strbuf.h"
#include "base/textlist.h"

struct engine_key;

#define ENGINE_LIMIT_MS	    15000
#define ENGINE_POLL_MS	    60000 /* the engine is asked at most so often, by all of one pool */
#define ENGINE_TOKEN_MAX    16	  /* lower-case letters and digits; the first is a letter */
#define ENGINE_JOB_ID_MAX   128
#define ENGINE_JOB_NAME_MAX 128

/* What a job is doing, in words that all engines have in common. */
enum engine_job_state {
	ENGINE_JOB_WAITING,  /* for its turn */
	ENGINE_JOB_HELD,     /* it waits, and will not start by itself: somebody has to act */
	ENGINE_JOB_STARTING, /* it has a node; nothing of ours runs yet */
	ENGINE_JOB_RUNNING,
	ENGINE_JOB_SUSPENDED, /* it has its node and does not run */
	ENGINE_JOB_ENDING,
	ENGINE_JOB_DONE,
	ENGINE_JOB_EXPIRED, /* its time was up, or it was preempted: no failure */
	ENGINE_JOB_CANCELLED,
	ENGINE_JOB_FAILED,
	ENGINE_JOB_UNKNOWN, /* a word that we do not know: it is asked again, and is no error */
	ENGINE_JOB_STATE_MAX
};

/* "waiting", ... */
const char *engine_job_state_name(unsigned int state);
/* It will not run any more. */
bool engine_job_is_over(enum engine_job_state state);

struct engine_job {
	char *id;     /* as the engine writes it */
	char *name;   /* as we gave it: engine_job_name() */
	char *node;   /* NULL: it has none, or that is not known */
	char *reason; /* why it waits, or has ended, in the engine's words; NULL: it does not say */
	enum engine_job_state state;
	uint64_t start_ns, end_ns; /* wall; of one that waits the engine's estimate; 0: not known */
	unsigned int gpus;	   /* that it has, or waits for, on all of its nodes */
	bool gpus_known;	   /* else the engine does not say how many */
};

/* Zeroed: empty. A job of ours that is not listed has ended, and how is not known any more. */
struct engine_jobs {
	size_t n;
	struct engine_job *all;
};

/* A new one at the end, zeroed. */
struct engine_job *engine_jobs_add(struct engine_jobs *jobs);
void engine_jobs_clear(struct engine_jobs *jobs);

/* GPUs of a node as the engine counts them; a node that has several types may be there once for
 * each. */
struct engine_node {
	char *name;
	char *type; /* in the engine's words; NULL: it has none */
	char *why;  /* why it is not usable; NULL */
	unsigned int total, used;
	unsigned int free;    /* 0 where it is not usable */
	unsigned int blocked; /* of the free ones, those that no job can get: no processor or no
				 memory is left */
	bool usable;
	bool unknown; /* what of it is in use, and so what is free, is not for us to see */
};

struct engine_nodes {
	size_t n;
	struct engine_node *all;
};

struct engine_node *engine_nodes_add(struct engine_nodes *nodes);
void engine_nodes_clear(struct engine_nodes *nodes);

/* One job that is to be submitted. All of it is the caller's. */
struct engine_request {
	const char *name;    /* engine_job_name() */
	const char *title;   /* what people look for: the name without its token */
	const char *token;   /* tells it from every other job of this spool, for good */
	unsigned int gpus;   /* on its node; 0: none */
	unsigned int cpus;   /* 0: as many as go with the GPUs there: CPUS_PER_GPU each */
	uint64_t mem_mib;    /* 0: MEM_PER_GPU_MIB each; it is always said, because a job that says
				nothing may get the whole node's */
	uint64_t minutes;    /* 0: the engine's own limit */
	unsigned int warn_s; /* so long before the end the job wants a signal */
	const char *type;    /* of the GPUs; NULL: any */
	const char *dir;     /* where it begins, and its output goes: below the spool */
	const char *output;  /* path of that */
	const char *const *agent;	 /* the command that it runs, to NULL */
	const struct text_list *options; /* the user's own directives, as he wrote them */
	const struct text_list *drop;	 /* of ours, those that begin so are left out: "--mem" */
	const char *after; /* id of a job that has to have ended before it begins (engine.follows);
			      NULL */
	const struct text_list *exclude;  /* nodes on which agents did not come up */
	const char *template_text;	  /* of the script, instead of the engine's own; NULL */
	const struct text_list *settings; /* KEY=VALUE of the pool's, which the engine's page names:
					     image=.., workspace=.. */
};

#define ENGINE_CPUS_PER_GPU    4
#define ENGINE_MEM_PER_GPU_MIB 16384

/* What engine_submit() gives besides 0 and a negative errno, which is transient: try again later.
 */
#define ENGINE_REFUSED 1 /* the engine does not want such a job, whenever it is asked; e: why */
#define ENGINE_UNSURE  2 /* no answer: it may have it or not, which find() tells */

/* By what the engine's commands are run. */
struct engine_env {
	const char *const
		*environ;  /* of whoever asks; the engine's own changes are made on a copy */
	uint64_t limit_ms; /* of one command; 0: ENGINE_LIMIT_MS */
	const struct text_list *settings; /* as in a request; may be NULL */
	bool gpus; /* jobs() is to say how many GPUs each has, though it may take a command more */
};

/* What a job's processes know of it. Strings are the caller's: engine_here_clear(). */
struct engine_here {
	const char *engine; /* the engine's name */
	char *id;	    /* of the job */
	char *key;  /* what tells this allocation from all others on this node: the engine, the
		       job and how often it was restarted, [a-z0-9.-] */
	char *node; /* as the engine calls it; NULL */
	char *gpus; /* the devices that it was given, as CUDA_VISIBLE_DEVICES writes them; NULL:
		       the engine does not say which */
	unsigned int n_gpus; /* how many; 0: it does not say */
	unsigned int restarts;
	uint64_t end_ns; /* wall; 0: not known from here, deadline() asks */
};

void engine_here_clear(struct engine_here *here);

struct engine {
	const char *name;
	/* A sentence for `tenure engines`. */
	const char *title;
	bool here_alone; /* its jobs are of the machine on which they were asked for */
	bool as_root;	 /* its jobs are mostly root's in a container, whoever asked for them */
	bool follows;	 /* its jobs can wait for the end of another one: request.after */
	/* What a pool may set for it (engine/keys.h), to a NULL name; NULL: nothing. */
	const struct engine_key *keys;
	/* Which cluster its commands speak to, and so whose nodes an answer is about, is decided by
	 * these variables of the environment, to NULL, by which program PATH has for the command
	 * that lists nodes, and by a file below the home directory. Each may be NULL. */
	const char *const *cluster_variables;
	const char *cluster_command, *cluster_file;

	/* The commands are there and answer: 0; -ENOENT: they are not installed here; -errno. */
	int (*probe)(const struct engine_env *env, struct err *e);
	/* The script. Pure. 0; -EINVAL: something that this engine needs was not said; e names
	 * each. */
	int (*render)(const struct engine_request *req, struct strbuf *script, struct err *e);
	/* 0 and its id, which the caller frees; ENGINE_REFUSED, ENGINE_UNSURE; -errno. */
	int (*submit)(const struct engine_env *env, const struct engine_request *req,
		      const char *script, char **ret_id, struct err *e);
	/* All jobs of this user whose names begin so (engine_name_begins()), those too that ended
	 * lately where the engine still lists them. 0 or -errno. */
	int (*jobs)(const struct engine_env *env, const char *prefix, struct engine_jobs *ret,
		    struct err *e);
	/* Those that have ended by themselves meanwhile are no error. 0 or -errno. */
	int (*cancel)(const struct engine_env *env, const struct text_list *ids, struct err *e);
	/* What there is. 0; -ENOTSUP: it does not tell; -errno. */
	int (*inventory)(const struct engine_env *env, struct engine_nodes *ret, struct err *e);
	/* When such a job would start, by the engine's own estimate: 0, and the time (0: it does
	 * not know) and its words; ENGINE_REFUSED: never; -ENOTSUP, -errno. id: of one that waits,
	 * or NULL: nothing is submitted, a dry run. */
	int (*when)(const struct engine_env *env, const struct engine_request *req, const char *id,
		    uint64_t *ret_ns, struct strbuf *words, struct err *e);
	/* What the environment of a process says of the job that it is in. Pure. 0; -ENOENT: it is
	 * in none of this engine. */
	int (*inside)(const char *const *variables, struct engine_here *ret, struct err *e);
	/* When the job ends by the engine's clock, asked on its node: 0 and *ret (0: never);
	 * -errno. */
	int (*deadline)(const struct engine_env *env, const struct engine_here *here,
			uint64_t *ret_ns, struct err *e);
};

extern const struct engine engine_slurm, engine_sge, engine_sco, engine_k8s, engine_local;

/* NULL: there is none of that name. */
const struct engine *engine_find(const char *name);
/* The i-th; NULL behind the last. */
const struct engine *engine_at(size_t i);
/* The engine in whose job a process with that environment is, and what it says: 0; -ENOENT: in
 * none. */
int engine_inside(const char *const *variables, const struct engine **ret,
		  struct engine_here *ret_here, struct err *e);

/* The key of the job that a process with that environment belongs to, which the caller frees; NULL:
 * of none. A task of a job is told by its agent (ENGINE_KEY_VARIABLE), because its environment is
 * that of whoever submitted it, maybe elsewhere. */
#define ENGINE_KEY_VARIABLE "TENURE_JOB_KEY"
char *engine_job_key(const char *const *variables);

/* "PREFIX-INSTANCE-TOKEN": what a job is called, cut in its middle to what all engines take (a
 * letter first; small letters, digits and "-"; 63 bytes). Without a token ("") it is what the names
 * of all jobs begin with that have the other two in common. buf: ENGINE_JOB_NAME_MAX bytes; returns
 * it. */
const char *engine_job_name(const char *prefix, const char *instance, const char *token, char *buf);
/* Whether a name begins so, written as engine_job_name() writes both: "NDFS_exp1" with "ndfs-". */
bool engine_name_begins(const char *name, const char *prefix);

#endif
