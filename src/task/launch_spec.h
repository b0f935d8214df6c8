/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_LAUNCH_SPEC_H
#define TENURE_TASK_LAUNCH_SPEC_H

/*
 * The description of a task as a shim gets it: what to run, where, with which environment, and how
 * it is to end. The agent builds it with launch_spec_encode() into a memory file; the shim reads it
 * with launch_spec_load(). Both are the same executable, or two versions of it only where an
 * upgraded agent still has its old fork server, so the format has a version and no compatibility.
 *
 *	struct launch_spec s = { .token = "default-42.1", .argv = argv, .n_argv = 2, ... };
 *	fd = launch_spec_encode(&s, &e);
 *
 * Strings of a spec that was read point into it; launch_spec_clear() frees it. In a spec to be
 * encoded they belong to the caller. NULL is allowed where "may be NULL" is said, and reads back as
 * "".
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define LAUNCH_BYTES_MAX  (16UL * 1024 * 1024)
#define LAUNCH_WORDS_MAX  65536U
#define LAUNCH_LOG_LEAST  (1UL * 1024 * 1024)
#define LAUNCH_NO_TIMEOUT 0U

enum spec_flags {
	LAUNCH_GO = 1 << 0,   /* start at once, until go_until_ns: it has no lease to wait for */
	LAUNCH_SYNC = 1 << 1, /* the record is to be on the disk before its end is told */
	LAUNCH_END_TREE =
		1 << 2, /* when the first process has exited, end what is left of the tree;
			 without it the task goes on until all of the tree is gone */
	LAUNCH_BARE_LOG = 1 << 3, /* no header and trailer */
	LAUNCH_ATTENDED = 1 << 4, /* ended when no agent was heard for GUARD_AWAIT_MS */
	LAUNCH_IN_JOB = 1 << 5, /* of an engine: its program ignores USR1 and USR2 at first, and is
				   ended when its agent has been gone for GUARD_AWAIT_MS */
};

struct launch_spec {
	const char *token; /* unique for this attempt: see token_valid() */
	const char *title; /* for people: "task 42 train, attempt 1" */
	const char *shown; /* the command as it was submitted, for the log; may be NULL */
	const char *node;  /* this node's name, for the log; may be NULL */
	const char *cwd;
	const char *output, *error; /* files that it prints to; "" or NULL: the log, as output */
	const char *run_dir;	 /* local directory, 0700: the script's file lies in it meanwhile */
	const char *record_dir;	 /* local directory, 0700 */
	const char *script_name; /* the base name that $0 shows; may be NULL: "script" */
	const char *cgroup; /* delegated cgroup v2 directory to make the task's in; may be NULL */
	/* How its claim is kept (task/claim_heartbeat.h); NULL where heartbeat_ms is 0. */
	const char *heartbeat_dir;   /* the spool's directory */
	const char *heartbeat_file;  /* in it, rewritten every heartbeat_ms */
	const char *heartbeat_agent; /* who started it */
	const char *claim;	     /* in it: as long as this file is there, the task is ours */
	const char *const *argv; /* the command; with a script: its arguments, without its name */
	const char *const *env;	 /* the task's whole environment, NAME=VALUE */
	const char *script;	 /* text, may hold anything; NULL: argv is a command */
	uint32_t n_argv;
	uint32_t n_env;
	uint64_t script_bytes;
	uint64_t log_limit;	   /* bytes; at least LAUNCH_LOG_LEAST; 0: none */
	uint64_t timeout_ms;	   /* from its start; LAUNCH_NO_TIMEOUT */
	uint64_t heartbeat_ms;	   /* 0: nobody else could take the task */
	uint64_t fence_timeout_ms; /* after so long without a heartbeat others take it over */
	uint64_t go_until_ns; /* of LAUNCH_GO, by clock_boot_ns(): later than this somebody else may
				 have the task, and GO is waited for; 0: at any time */
	uint32_t grace_ms;    /* between the first signal and KILL */
	int32_t stop_signal;  /* the first signal; 0: SIGTERM */
	uint32_t umask;	      /* of the task */
	uint32_t flags;	      /* enum spec_flags */
	void *memory;	      /* of a spec that was read */
};

/* A memory file with the description, its offset at the start. The descriptor, -E2BIG, -EINVAL
 * (what a shim would refuse), -errno. */
int launch_spec_encode(const struct launch_spec *s, struct err *e);

/* Read and check a description. 0, -EPROTO (it is none), -EINVAL, -errno. */
int launch_spec_load(int fd, struct launch_spec *ret, struct err *e);
void launch_spec_clear(struct launch_spec *s);

/* The same from memory of n bytes, which ret then owns (malloc'ed; freed on error as well). */
int launch_spec_parse(char *memory, size_t n, struct launch_spec *ret, struct err *e);

#endif
