/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_HEARTBEAT_H
#define TENURE_SPOOL_HEARTBEAT_H

/*
 * Heartbeats of agents and of claims, for other nodes: files in agents/ of a fixed size that are
 * rewritten in place, each time with a counter that is one higher. Whoever looks compares counters
 * and measures with its own clock (struct heartbeat_watch); no time in them is compared with
 * anybody's.
 *
 *	agents/AGENT		by the agent, with what it has and does
 *	agents/42.7,e1		by the shim of a claim, once it has run for as long as a heartbeat
 *	agents/42.7,e1,end	the record of its end, by a shim that found no agent to tell, or has
 *				written the above while other agents were there
 *	agents/AGENT,gone	a person has declared the node dead: the last heartbeat of its agent
 *
 * fence_timeout_ms ("promise_ms" in the file): the writer ends itself, or has ended what it runs,
 * when it could not write for that long; 0: it promises nothing, because no other agent is there
 * that could take over. In a job of an engine it always promises: the next job is to take over.
 */

#include <stdbool.h>
#include <stdint.h>

#include "spool/record.h"

#define HEARTBEAT_BYTES 1024

struct heartbeat {
	uint64_t count;
	struct claimer who;
	uint64_t fence_timeout_ms;
	bool ended;    /* told to end, and it has; what it started may run on */
	bool draining; /* starts nothing more */
	unsigned int devices, held, idle, lent, running;
	uint64_t began_ns; /* wall, for people */
};

/* "agents/node7", "agents/42.7,e1", "agents/42.7,e1,end". buf: SPOOL_PATH_MAX bytes; return it. */
char *heartbeat_agent_path(const char *agent, char *buf);
char *heartbeat_claim_path(const struct task_name *n, char *buf);
char *heartbeat_end_path(const struct task_name *n, char *buf);
char *heartbeat_declared_dead_path(const char *agent, char *buf);

/* Errors of a network filesystem come when the file is closed, so it is. What somebody else put in
 * its place goes to bad/. 0 or -errno. */
int heartbeat_write(const struct spool *sp, const char *path, const struct heartbeat *b,
		    struct err *e);
/* The text of one: 0, -EAGAIN or -EINVAL, as heartbeat_read(). path is for the text of an error. */
int heartbeat_parse(const char *path, const char *text, size_t len, struct heartbeat *ret,
		    struct err *e);
/* 0; -ENOENT; -EAGAIN: it is being written; -EINVAL, -errno. ret_mtime_ns may be NULL: when it was
 * written by the clock of whoever keeps the file, for people. */
int heartbeat_read(const struct spool *sp, const char *path, struct heartbeat *ret,
		   uint64_t *ret_mtime_ns, struct err *e);

/* Agents that have a file there, ended ones too; fn gets their names. As spool_each(). */
typedef int (*heartbeat_agent_fn)(void *data, const char *agent);
int heartbeat_each_agent(const struct spool *sp, heartbeat_agent_fn fn, void *data, struct err *e);

/* The name of this node's agent: the setting, or what can be made of the host's name; in a job with
 * that one's key behind it ("n7-slurm.12"), because there are as many agents on a node as jobs.
 * job: the key, NULL: in none. ret has NAME_AGENT_MAX + 1 bytes; it is returned. */
char *heartbeat_agent_name(const char *setting, const char *host, const char *job, char *ret);

/* The kernel of two boots (struct claimer) is the same; what differs is a container's processes. */
bool heartbeat_same_kernel(const char *boot, const char *other);

/*
 * How long one has been silent. Pure: no file, no clock.
 *
 * A watch remembers, for each thing that is looked at, since when its counter has not moved, by the
 * clock of whoever looks. Time in which nobody looked (the observer slept, or was stopped) does not
 * count: what had been silent for a second before has been so for little more after it.
 *
 *	w = heartbeat_watch_new(10000);
 *	heartbeat_watch_begin(w, now_ns);
 *	    silent_ms = heartbeat_watch_see(w, "agents/node7", count); ...	each that is there
 *	heartbeat_watch_finish(w);					the others are forgotten
 */
struct heartbeat_watch;

/* step_ms: between two looks. */
struct heartbeat_watch *heartbeat_watch_new(uint64_t step_ms);
struct heartbeat_watch *heartbeat_watch_free(struct heartbeat_watch *w);
void heartbeat_watch_begin(struct heartbeat_watch *w, uint64_t now_ns);
/* Milliseconds for which its counter has stood still; 0 at first sight and when it has moved. */
uint64_t heartbeat_watch_see(struct heartbeat_watch *w, const char *key, uint64_t count);
void heartbeat_watch_finish(struct heartbeat_watch *w);

enum liveness { LIVENESS_ALIVE, LIVENESS_DEAD, LIVENESS_UNKNOWN };

/* What is known of a claim, or of an agent. */
struct liveness_facts {
	bool same_node;	  /* its processes are in our list of processes: that decides */
	bool runs;	  /* then: its process is there */
	bool same_kernel; /* a neighbour (a container): it cannot lose the filesystem alone */
	bool local_files; /* the filesystem belongs to one kernel at a time */
	bool gone;	  /* a person has declared its node dead */
	bool tool;	  /* a command's claim: nothing runs under it that could be cut off */
	uint64_t silent_ms;
	uint64_t fence_timeout_ms; /* as it wrote last; 0: none */
	uint64_t expire_ms;	   /* ours */
};

/* Unknown: it has been silent for too long, and promised nothing. */
enum liveness liveness_judge(const struct liveness_facts *f);

/* A claim that is certainly gone: somebody else has the task, or it has ended. It is not certain
 * where a filesystem was unmounted below us. */
#define HEARTBEAT_CLAIM_GONE 1

/*
 * One step of a shim, whose claim is `claim` in the instance's directory dir: the next heartbeat
 * into `file`. It promises fence_timeout_ms while another agent has a file there, or `always`, else
 * nothing; b->fence_timeout_ms says which. All is opened anew each time, and nothing stays open,
 * because the filesystem may go and come. 0, HEARTBEAT_CLAIM_GONE; -ENOENT: there is no such
 * directory; -ESTALE, -errno.
 */
int heartbeat_keep(const char *dir, const char *claim, const char *file, struct heartbeat *b,
		   uint64_t fence_timeout_ms, bool always);
/* The record of a claim's end at path, while the claim is there: 0, and as above. */
int heartbeat_leave_end(const char *dir, const char *claim, const char *path, const char *text,
			size_t len);

#endif
