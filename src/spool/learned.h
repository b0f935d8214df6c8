/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_LEARNED_H
#define TENURE_SPOOL_LEARNED_H

/*
 * What runs of a name have needed: their memory on a GPU, for tasks that say `memory: auto`, and
 * how long they took, for estimates of when what waits behind them starts.
 *
 * It is one file of the instance, learned.jsonl, with a line for each name and at most LEARNED_RUNS
 * runs in it, the newest; LEARNED_ALL of all names. So it is read at once however long the history
 * is, survives `tenure prune`, and is the same for all agents and commands. Agents that end a task
 * replace it. Of two that do so at the same time one wins, and the other one finds with its next
 * look that its runs are missing, and adds them again: what each of them knows is a set of runs
 * (told apart by the attempt), and a file is only ever joined to it. Nothing depends on it but
 * guesses: what cannot be read is begun anew.
 *
 *	l = learned_new();
 *	learned_add(l, "train.sh", &run)	an attempt has ended
 *	learned_sync(l, sp)			now and then, where files may be read and written
 *	learned_memory(l, "train.sh", 1)
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strbuf.h"
#include "spool/files.h"

#define LEARNED_FILE "learned.jsonl"
#define LEARNED_RUNS 50
#define LEARNED_ALL  8000

/* How it ended. What failed in another way than these says nothing of what the next one needs. */
enum learned_how {
	LEARNED_DONE, /* well */
	LEARNED_OOM,  /* out of GPU memory: it needed more than it had */
	LEARNED_HOW_MAX
};

struct learned_run {
	uint64_t id, element, epoch; /* the attempt */
	uint64_t ended_ns;	     /* wall; whole seconds are kept */
	enum learned_how how;
	uint64_t gpus;	      /* as it asked: SPEC_ALL for all */
	uint64_t peak_bytes;  /* the most that it used on one of them; 0: not known */
	uint64_t asked_bytes; /* per GPU; 0: it had whole ones */
	uint64_t room_bytes;  /* the most that a GPU there has; 0: not known */
	uint64_t ran_ms;
};

struct learned;

struct learned *learned_new(void);
struct learned *learned_free(struct learned *l);

/* A run that is there already changes nothing. */
void learned_add(struct learned *l, const char *name, const struct learned_run *run);
/* Joins what others have written, and writes what they have not. 0, or -errno: it is as it was in
 * the spool, and the next call tries again. Cheap where nothing has changed. */
int learned_sync(struct learned *l, const struct spool *sp, struct err *e);
/* The same to read only; there may be no file. */
int learned_load(struct learned *l, const struct spool *sp, struct err *e);
/*
 * Where there is no file yet: of the tasks in done/, the last ones first, at most so many of their
 * files and until that time (clock_mono_ns()). 0 or -errno; what was read counts.
 */
int learned_from_history(struct learned *l, const struct spool *sp, size_t most, uint64_t until_ns,
			 struct err *e);
/* There is no file, as far as was seen. */
bool learned_is_new(const struct learned *l);
/* Changes with whatever may change an answer below. */
uint64_t learned_version(const struct learned *l);

/* ---- what it says; pure ---- */

/* What a run of that name on so many GPUs (or SPEC_ALL) is to ask for on each; bytes 0: nothing is
 * known. */
struct learned_memory {
	uint64_t bytes;
	unsigned int runs;   /* that ended well and whose memory is known, */
	uint64_t peak_bytes; /* the most that one of them used */
	uint64_t oom_bytes;  /* it is more than that, because with so much one ran out of it */
	bool whole;	     /* the sum would be more than a GPU has */
};

struct learned_memory learned_memory(const struct learned *l, const char *name, uint64_t gpus);
/* "20.3 GiB: 10 % above the peak of 42 runs named train.sh" */
void learned_memory_text(const struct learned_memory *m, const char *name, uint64_t gpus,
			 struct strbuf *out);

/* How long such a run takes, by those that ended well: nine of ten took as long as low_ms at least,
 * nine of ten no longer than high_ms. False: that is not known. */
struct learned_time {
	uint64_t low_ms, high_ms;
	unsigned int runs;
};

bool learned_time(const struct learned *l, const char *name, uint64_t gpus,
		  struct learned_time *ret);

/* Every name and number of GPUs of which it is known. */
typedef void (*learned_time_fn)(void *data, const char *name, uint64_t gpus,
				const struct learned_time *t);
void learned_each_time(const struct learned *l, learned_time_fn fn, void *data);

/* ---- for tests and fuzzing ---- */

/* Lines that are none are passed over. */
void learned_parse(struct learned *l, const char *text, size_t len);
/* The file. The caller frees it. */
char *learned_text(const struct learned *l);

#endif
