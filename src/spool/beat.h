/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_BEAT_H
#define TENURE_SPOOL_BEAT_H

/*
 * Signs of life in agents/, for other nodes: files of a fixed size that are rewritten in place,
 * each time with a counter that is one higher. Whoever looks compares counters and measures with
 * its own clock (spool/life.h); no time in them is compared with anybody's.
 *
 *	agents/AGENT		by the agent, with what it has and does
 *	agents/42.7,e1		by the shim of a claim, once it has run for as long as a beat
 *	agents/42.7,e1,end	the record of its end, by a shim that found no agent to tell, or has
 *				written the above while other agents were there
 *	agents/AGENT,gone	somebody's word that the node does not exist any more: the last sign
 *				of life of that agent
 *
 * promise_ms: who writes it ends, or has ended what it runs, when it could not write for that long;
 * 0: it promises nothing, because nobody else is there who could take over.
 */

#include <stdbool.h>
#include <stdint.h>

#include "spool/record.h"

#define BEAT_BYTES 1024

struct beat {
	uint64_t count;
	struct claimer who;
	uint64_t promise_ms;
	bool ended;    /* told to end, and it has; what it started may run on */
	bool draining; /* starts nothing more */
	unsigned int devices, held, idle, lent, running;
	uint64_t began_ns; /* wall, for people */
};

/* "agents/node7", "agents/42.7,e1", "agents/42.7,e1,end". buf: SPOOL_PATH_MAX bytes; return it. */
char *beat_agent_path(const char *agent, char *buf);
char *beat_claim_path(const struct task_name *n, char *buf);
char *beat_end_path(const struct task_name *n, char *buf);
char *beat_gone_path(const char *agent, char *buf);

/* Errors of a network filesystem come when the file is closed, so it is. What somebody else put in
 * its place goes to bad/. 0 or -errno. */
int beat_write(const struct spool *sp, const char *path, const struct beat *b, struct err *e);
/* The text of one: 0, -EAGAIN or -EINVAL, as beat_read(). path is for the text of an error. */
int beat_parse(const char *path, const char *text, size_t len, struct beat *ret, struct err *e);
/* 0; -ENOENT; -EAGAIN: it is being written; -EINVAL, -errno. ret_mtime_ns may be NULL: when it was
 * written by the clock of whoever keeps the file, for people. */
int beat_read(const struct spool *sp, const char *path, struct beat *ret, uint64_t *ret_mtime_ns,
	      struct err *e);

/* Agents that have a file there, ended ones too; fn gets their names. As spool_each(). */
typedef int (*beat_agent_fn)(void *data, const char *agent);
int beat_each_agent(const struct spool *sp, beat_agent_fn fn, void *data, struct err *e);

/* The name of this node's agent: the setting, or what can be made of the host's name. ret has
 * NAME_AGENT_MAX + 1 bytes; it is returned. */
char *beat_agent_name(const char *setting, const char *host, char *ret);

/* The kernel of two boots (struct claimer) is the same; what differs is a container's processes. */
bool beat_same_kernel(const char *boot, const char *other);

#endif
