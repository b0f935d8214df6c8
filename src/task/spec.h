/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_SPEC_H
#define TENURE_TASK_SPEC_H

/*
 * The description of a task as a shim gets it: what to run, where, with which environment, and how
 * it is to end. The agent builds it with spec_encode() into a memory file; the shim reads it with
 * spec_load(). Both are the same executable, or two versions of it only where an upgraded agent
 * still has its old fork server, so the format has a version and no compatibility.
 *
 *	struct task_spec s = { .token = "default-42.1", .argv = argv, .n_argv = 2, ... };
 *	fd = spec_encode(&s, &e);
 *
 * Strings of a spec that was read point into it; spec_clear() frees it. In a spec to be encoded
 * they belong to the caller. NULL is allowed where "may be NULL" is said, and reads back as "".
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define SPEC_BYTES_MAX	(16UL * 1024 * 1024)
#define SPEC_WORDS_MAX	65536U
#define SPEC_LOG_LEAST	(1UL * 1024 * 1024)
#define SPEC_NO_TIMEOUT 0U

enum spec_flags {
	SPEC_GO = 1 << 0,	/* start at once, until go_until_ns: it has no lease to wait for */
	SPEC_SYNC = 1 << 1,	/* the record is to be on the disk before its end is told */
	SPEC_END_TREE = 1 << 2, /* when the first process has exited, end what is left of the tree;
				   without it the task goes on until all of the tree is gone */
	SPEC_BARE_LOG = 1 << 3, /* no header and trailer */
	SPEC_ATTENDED = 1 << 4, /* ended when no agent was heard for GUARD_AWAIT_MS */
};

struct task_spec {
	const char *token; /* unique for this attempt: see token_valid() */
	const char *title; /* for people: "task 42 train, attempt 1" */
	const char *shown; /* the command as it was submitted, for the log; may be NULL */
	const char *node;  /* this node's name, for the log; may be NULL */
	const char *cwd;
	const char *run_dir;	 /* local directory, 0700: the script's file lies in it meanwhile */
	const char *record_dir;	 /* local directory, 0700 */
	const char *script_name; /* the base name that $0 shows; may be NULL: "script" */
	const char *cgroup; /* delegated cgroup v2 directory to make the task's in; may be NULL */
	/* How its claim is kept (task/claim_heartbeat.h); all may be NULL where beat_ms is 0. */
	const char *beat_dir;	 /* the spool's directory */
	const char *beat_file;	 /* in it, rewritten every beat_ms */
	const char *beat_agent;	 /* who started it */
	const char *claim;	 /* in it: as long as this file is there, the task is ours */
	const char *const *argv; /* the command; with a script: its arguments, without its name */
	const char *const *env;	 /* the task's whole environment, NAME=VALUE */
	const char *script;	 /* text, may hold anything; NULL: argv is a command */
	uint32_t n_argv;
	uint32_t n_env;
	uint64_t script_bytes;
	uint64_t log_limit;	   /* bytes; at least SPEC_LOG_LEAST; 0: none */
	uint64_t timeout_ms;	   /* from its start; SPEC_NO_TIMEOUT */
	uint64_t beat_ms;	   /* 0: nobody else could take the task */
	uint64_t fence_timeout_ms; /* after so long without a beat others take it over */
	uint64_t go_until_ns; /* of SPEC_GO, by clock_boot_ns(): later than this somebody else may
				 have the task, and GO is waited for; 0: at any time */
	uint32_t grace_ms;    /* between the first signal and KILL */
	int32_t stop_signal;  /* the first signal; 0: SIGTERM */
	uint32_t umask;	      /* of the task */
	uint32_t flags;	      /* enum spec_flags */
	void *memory;	      /* of a spec that was read */
};

/* A memory file with the description, its offset at the start. The descriptor, -E2BIG, -EINVAL
 * (what a shim would refuse), -errno. */
int spec_encode(const struct task_spec *s, struct err *e);

/* Read and check a description. 0, -EPROTO (it is none), -EINVAL, -errno. */
int spec_load(int fd, struct task_spec *ret, struct err *e);
void spec_clear(struct task_spec *s);

/* The same from memory of n bytes, which ret then owns (malloc'ed; freed on error as well). */
int spec_parse(char *memory, size_t n, struct task_spec *ret, struct err *e);

#endif
