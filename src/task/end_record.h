/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_END_RECORD_H
#define TENURE_TASK_END_RECORD_H

/*
 * How a task ended: the struct that travels in SHMSG_ENDED, and the file that a shim leaves for an
 * agent that is not there.
 *
 * A shim writes DIR/TOKEN.json (DIR is on a local disk and given by the agent), and only then tells
 * whoever is connected. The agent files the result in the spool and then removes the file. So at
 * any moment the end of a task is known from at least one of: a shim that lives, the record, the
 * spool. A shim that is gone and left no record was killed: the task's end is unknown, its orphans
 * are to be found by their token (task/tree.h).
 *
 * The file appears by rename, so a reader sees all of it or nothing. It is only synced to the disk
 * where the agent asks for it (LAUNCH_SYNC): after a power loss nothing of the task runs, and the
 * task is run again or not by the rule for reboots.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/proc.h"

#define TASK_TOKEN_MAX 96
#define TASK_TEXT_MAX  256
#define BOOT_ID_MAX    40

enum task_outcome {
	TASK_UNKNOWN,
	TASK_EXITED,	  /* exit_code */
	TASK_SIGNALLED,	  /* signal */
	TASK_NOT_STARTED, /* its program could not be started; exit_code 126 or 127, and why */
	TASK_CANCELLED,	  /* ended before GO: nothing of it ever ran */
	TASK_REFUSED,	  /* nothing ran, for want of something of the node's (text); there is no
			     record where that was the shim itself */
	TASK_OUTCOME_MAX
};

/* Why it ended then. */
enum task_cause {
	CAUSE_SELF,	 /* by itself */
	CAUSE_STOP,	 /* SHMSG_STOP */
	CAUSE_TIMEOUT,	 /* its time was over */
	CAUSE_TERM,	 /* the shim was told by SIGTERM, as at a shutdown of the node */
	CAUSE_ALONE,	 /* the agent went before GO, or for too long */
	CAUSE_REQUEUE,	 /* SHMSG_STOP that says so: it is to be requeued */
	CAUSE_FENCED,	 /* its claim could not be kept alive: others may take the task over */
	CAUSE_RECLAIMED, /* others have */
	TASK_CAUSE_MAX
};

/* Everything is 0 or empty where it is not known. Times named _ns are durations by the monotonic
 * clock, wall_ns is since the epoch. */
struct task_end {
	uint32_t outcome;     /* enum task_outcome */
	uint32_t cause;	      /* enum task_cause */
	int32_t exit_code;    /* of the task's first process */
	int32_t signal;	      /* that ended it */
	uint32_t leftovers;   /* processes of its tree that still run, because they are not ours to
				 end */
	uint32_t killed;      /* signals KILL that were needed */
	int32_t log_errno;    /* what last went wrong with the log, as errno: the task ran on */
	int32_t record_errno; /* the record could not be written: acknowledge this message */
	uint64_t started_wall_ns;
	uint64_t ended_wall_ns;
	uint64_t leader_ns; /* start of the task to the end of its first process */
	uint64_t run_ns;    /* start of the task to the end of its tree */
	uint64_t user_ns;   /* processor time of the whole tree */
	uint64_t system_ns;
	uint64_t max_rss_bytes; /* of its largest process */
	uint64_t major_faults;
	uint64_t read_bytes; /* from and to block devices */
	uint64_t written_bytes;
	uint64_t log_cut_bytes;	 /* left out of the middle of the log */
	uint64_t gpu_peak_bytes; /* as the agent said (SHMSG_GPU) */
	uint32_t gpu_util_permille;
	int32_t task_pid;	  /* of its first process, also its session */
	char text[TASK_TEXT_MAX]; /* a sentence for people, or empty */
	uint32_t leader_first;	  /* 1: the first process had ended by itself before the rest was
				     stopped (cause): how it ended is how the task did */
	uint32_t unused;
};

struct task_record {
	char token[TASK_TOKEN_MAX];
	char boot_id[BOOT_ID_MAX];
	struct proc_id shim;
	struct task_end end;
};

/* Letters, digits and "._-", not beginning with a dot, 1 to TASK_TOKEN_MAX - 1 of them. */
bool token_valid(const char *token);

/*
 * The directory of records and scripts, made again where somebody has tidied it away: it lies in
 * /var/tmp, which is emptied of what is old. There others may take a name that is free, so neither
 * it nor the directory above it is used if it is not ours alone to write in. 0; -EPERM: others may
 * write in it; -errno.
 */
int end_record_dir_check(const char *dir, struct err *e);
/* The same, and it is there then, and the one above it. */
int end_record_dir_make(const char *dir, struct err *e);

/* Write DIR/TOKEN.json, and DIR where it is gone; sync: as fs_write_atomic() does. 0 or -errno. */
int end_record_write(const char *dir, const struct task_record *r, bool sync, struct err *e);

/*
 * Read DIR/TOKEN.json. 0; -ENOENT: there is none; -EBADMSG: what is there is not one (text says
 * what is wrong); -errno. Unknown members are ignored, so that a newer shim's record can be read.
 */
int end_record_read(const char *dir, const char *token, struct task_record *ret, struct err *e);

/* Whether there is one, or it cannot be said that there is none. */
bool end_record_exists(const char *dir, const char *token);

/* Where what is there is not one: it becomes DIR/TOKEN.json.bad, for people, and is as new as that.
 * 0 or -errno. */
#define RECORD_BAD_END ".json.bad"
int end_record_set_aside(const char *dir, const char *token, struct err *e);

/*
 * DIR/TOKEN.log, and DIR where it is gone: what the task prints, where its log cannot be had. flags
 * as of open(); a path of PATH_MAX bytes in ret_path, which may be NULL. The descriptor, -ENOENT or
 * -errno.
 */
int end_record_open_log(const char *dir, const char *token, int flags, char *ret_path,
			struct err *e);

/* Once its content is safe elsewhere. 0, also where there is none; -errno. */
int end_record_remove(const char *dir, const char *token);

/*
 * No shim for this token starts its task from now on: a shim takes its name first and looks for
 * DIR/TOKEN.void then, so whoever finds nobody under the name after this knows that nothing of the
 * task will ever run. 0, also where it was so; -errno.
 */
int end_record_void(const char *dir, const char *token, struct err *e);
bool end_record_is_void(const char *dir, const char *token);
/* Those made longer ago than this, and records put aside; a start that was asked for is not under
 * way for so long. When one was made is told by its boot and the time since then, so that a clock
 * that is set gives up none too early; a record that was put aside stays while its void does. */
void end_record_clear_voids(const char *dir, uint64_t older_ns);

/* Parse the text of a record. 0 or -EINVAL. */
int end_record_parse(const char *text, size_t len, struct task_record *ret, struct err *e);
/* The text of a record; the caller frees it. */
char *end_record_format(const struct task_record *r, size_t *ret_len);

const char *task_outcome_name(uint32_t outcome);
const char *task_cause_name(uint32_t cause);

/* This boot's id, from the kernel. 0 or -errno. */
int boot_id_read(char *buf, size_t size);

#endif
