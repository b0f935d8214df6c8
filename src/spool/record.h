/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_RECORD_H
#define TENURE_SPOOL_RECORD_H

/*
 * What a task file says: the spec, and behind it one JSON object per line for each thing that
 * happened. A line that cannot be read (cut by a power loss) is passed over.
 *
 *	{"event":"claim","epoch":0,"attempt":1,"agent":..,"host":..,"boot":..,"pid":..,"start":..,"time":..}
 *	{"event":"start","epoch":0,"pid":..,"start":..,"time":..}	keeps the claim from now on;
 *		once more with the same process: it has other devices
 *	{"event":"log","epoch":0,"attempt":1,"error":..,"file":..,"host":..,"time":..}
 *		its log is not in logs/
 *	{"event":"stop","epoch":0,"time":..}	its owner wants it ended, for good
 *	{"event":"end","epoch":0,"attempt":1,"result":"done","exit":0,"begun":..,"time":..}
 *	{"event":"requeue","epoch":1,"attempts":1,"memory":..,"reason":..,"begun":..,"not_before":..,"time":..}
 *
 * The last two also have what the attempt used: "gpus", "gpu_peak_bytes", "gpu_util_permille",
 * "gpu_energy_j" with "gpu_energy_s", "gpu_empty_s" with "gpu_seen_s", and "gpu_s" where the number
 * of its devices has changed.
 *
 *	{"event":"edit","set":{"memory":"30G"},"time":..}
 *	{"event":"past","epoch":99,"attempts":99,"memory":..,"ran_s":..,..}
 *		in place of all records that were there, but for edits (transit.c, usage.h)
 *
 * Times are seconds of the wall clock with a fraction.
 */

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/proc.h"
#include "spool/files.h"
#include "spool/name.h"

#define RECORD_REASON_MAX 256

enum task_result { RESULT_DONE, RESULT_FAILED, RESULT_CANCELLED, RESULT_MAX };

/* Who has a claim. The process is the agent's at first and the shim's from "start" on. */
struct claimer {
	char agent[NAME_AGENT_MAX + 1];
	char host[SPOOL_HOST_MAX];
	char boot[SPOOL_BOOT_MAX];
	struct proc_id proc;
	bool tool; /* a command that ends what it claims at once, and runs nothing */
};

/* What an attempt had and used; 0 is not known, or nothing. */
struct spool_use {
	unsigned int gpus;		/* devices that it had, the most at once */
	uint64_t gpu_ns;		/* times their number, where that changed; else 0 */
	uint64_t gpu_peak_bytes;	/* the most that it used, of all of them together */
	unsigned int gpu_util_permille; /* mean utilisation of them */
	uint64_t energy_mj, energy_ns;	/* of all of them, and times their number, for how long it
					   was counted; 0: it was not */
	uint64_t empty_ns, seen_ns; /* the same: without a process of its own, or idle; and for how
				       long they were looked at */
};

/* How an attempt ended. */
struct spool_end {
	enum task_result result;
	unsigned int exit; /* status, or NAME_SIGNALLED + signal */
	uint64_t epoch;
	unsigned int attempt;
	uint64_t begun_ns, ended_ns; /* wall */
	struct spool_use use;
	char reason[RECORD_REASON_MAX];
};

/* How it goes back to the queue. */
struct spool_again {
	unsigned int attempts;	/* begun ones that count */
	uint64_t not_before_ns; /* wall; 0: at once */
	uint64_t memory;	/* bytes per GPU that it asks for from now on; 0: as before */
	uint64_t begun_ns;	/* wall, of the attempt that is over; 0: none was begun */
	bool outside; /* what ended it was nothing of the task's: its node was lost, others had
			 the device; and no other rank of its gang */
	struct spool_use use;
	char reason[RECORD_REASON_MAX];
};

/* Where an attempt prints to whose log could not be made. */
struct log_away {
	char error[RECORD_REASON_MAX];
	char file[PATH_MAX]; /* on a disk of that host; "": nowhere */
	char host[SPOOL_HOST_MAX];
};

struct task_history {
	uint64_t epoch;	       /* the highest that a record names */
	unsigned int attempts; /* begun ones that count */
	uint64_t not_before_ns;
	bool claimed;	     /* the last claim is not over */
	bool started;	     /* claimer.proc is its shim */
	bool stopped;	     /* of the last claim: its owner wants it ended, */
	uint64_t stopped_ns; /* wall, since then; 0: not known */
	struct claimer claimer;
	uint64_t claimed_ns;
	uint64_t started_ns; /* wall, when the claim became the shim's; 0: it has not */
	uint64_t again_ns;   /* wall, of the last requeue, while it has not been claimed again */
	bool ended;
	struct spool_end end;		/* with ended */
	char reason[RECORD_REASON_MAX]; /* of the last requeue */
	bool edited;			/* the spec was */
	bool grown;			/* a requeue said what memory it asks for */
	/* Before the last requeue, the one with `epoch`: for a claim that was requeued by it, and
	 * whose file still has its name of then. memory: with a spec. */
	struct {
		unsigned int attempts;
		uint64_t memory;
	} was;
	size_t bytes;	     /* of the records, where a whole file was read */
	unsigned int unread; /* lines that were passed over */
};

struct task_file {
	struct task_spec *spec; /* edits applied */
	struct task_history history;
};

/* Of bytes, for tests and fuzzing; of a file. -EINVAL with the key, -EFBIG, -ENOENT, -EPERM. */
int task_file_parse(const char *text, size_t len, struct task_file *ret, struct err *e);
int task_file_read(const struct spool *sp, const char *path, struct task_file *ret, struct err *e);
void task_file_clear(struct task_file *t);
/* Records alone, each line one: what an element's file in running/ holds. */
void history_read(const char *text, size_t len, struct task_history *ret, struct task_spec *spec);
/* The devices that the last `start` of an epoch tells, added to a list. */
void history_devices(const char *text, size_t len, uint64_t epoch, struct text_list *ret);
/* false: that attempt (0: the last one) has its log in logs/. */
bool history_log(const char *text, size_t len, unsigned int attempt, struct log_away *ret);

const char *result_name(enum task_result result);
int result_parse(const char *name, enum task_result *ret);

/* Records. New references. */
json_t *record_claim(const struct claimer *c, uint64_t epoch, unsigned int attempt,
		     uint64_t now_ns);
/* devices: their UUIDs; NULL or empty where it has none. */
json_t *record_start(const struct proc_id *proc, const struct text_list *devices, uint64_t epoch,
		     uint64_t now_ns);
json_t *record_log(const struct log_away *log, uint64_t epoch, unsigned int attempt,
		   uint64_t now_ns);
json_t *record_stop(uint64_t epoch, uint64_t now_ns);
json_t *record_end(const struct spool_end *end);
json_t *record_requeue(const struct spool_again *again, uint64_t epoch, uint64_t now_ns);
/* To be completed by usage_put(). memory 0: as the spec says. */
json_t *record_past(uint64_t epoch, unsigned int attempts, uint64_t memory);
json_t *record_edit(json_t *set, uint64_t now_ns);
/* As a line; the record is released. The caller frees it. */
char *record_line(json_t *record);
/* Opens path for appending (it must be there) and appends the record, which is released. */
int record_append(const struct spool *sp, const char *path, json_t *record, bool durable,
		  struct err *e);

/* Reads an "end" object; false: it is none. */
bool end_from_json(const json_t *object, struct spool_end *ret);
/* The same of a "requeue". */
void again_from_json(const json_t *object, struct spool_again *ret);
double record_seconds(uint64_t ns);
uint64_t record_ns(const json_t *seconds);

#endif
