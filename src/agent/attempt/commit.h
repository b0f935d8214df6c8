/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_COMMIT_H
#define TENURE_AGENT_ATTEMPT_COMMIT_H

/*
 * The end of an attempt goes into the spool: done, failed, or requeued, as the rules for
 * retries say. One job off the loop's thread; to be repeated where it could not be written.
 */

#include "agent/attempt/device_use.h"
#include "agent/queue/spooler.h"
#include "sched/retry.h"
#include "task/end_record.h"

#define COMMIT_GPUS_MAX 256

struct commit {
	struct spool_job job; /* commit_work() */
	/* What is known. The texts and the spec are the caller's, as long as the job runs. */
	struct claim claim;
	const struct task_spec *spec;
	const struct task_end *end;
	unsigned int gpus;   /* the most at once */
	uint64_t gpu_ns;     /* times their number, where that changed; else 0 */
	uint64_t most_bytes; /* the peak on one device; 0: not known, but for that of all */
	struct use_meter meter;
	uint64_t room_bytes; /* the most memory that a device here has; 0: not known */
	struct retry_end ended;
	const char *token, *run_dir;	 /* the shim's record, which is removed at last */
	const char *log_path;		 /* in the spool */
	const struct text_list *uuids;	 /* of its devices, ... */
	char gpus_text[COMMIT_GPUS_MAX]; /* ... and their indices: "0,1" */
	bool log_away;			 /* or it may be elsewhere: claim_find_log() */
	bool heartbeats;		 /* its shim may have left heartbeats */
	struct retry_state state;	 /* in: before this attempt; out: with it */
	struct retry_streak streak;	 /* the same */
	uint64_t now_ns, now_wall_ns;
	/* What came of it. */
	struct retry_verdict verdict;
	uint64_t next_memory; /* of the next attempt, per device; 0: what its batch says */
	bool failed;	      /* by itself, not for want of memory */
	char fault[64]; /* then what its log says has failed of its device: "an ECC error"; or "" */
	bool told;	/* the log says so */
	bool followed;	/* a command is to be run for its end, and is due */
	struct err unfollowed; /* why none is, though one was wanted */
	bool superseded;       /* it came too late: somebody else has the task */
	struct err e;
	int code; /* 0; -ENOENT: somebody else has filed it; negative: it is not in the spool yet */
};

void commit_work(struct spool_job *commit, struct spool_place *place);

/* What the shim said, in the words of the rules for retries. ours: what we ended it for, or
 * END_MAX; why: that in words. What is answered points into both. */
struct retry_end commit_judge(const struct task_end *end, enum end_kind ours, const char *why);

#endif
