/* SPDX-License-Identifier: MIT */
#ifndef TENURE_ENGINE_INVENTORY_H
#define TENURE_ENGINE_INVENTORY_H

/*
 * What an engine's nodes have (engine.inventory()), and which jobs it lists of this user
 * (engine.jobs()), remembered for all commands and agents of a user, so that the engine is asked
 * once a minute at most, whoever wants to know.
 *
 *	r = inventory_read(engine, &env, dir, INVENTORY_MAX_AGE_MS, &inventory, &e);
 *	if (r == 0 || inventory.known)
 *		... inventory.nodes, as they were inventory.age_ms ago
 *	inventory_clear(&inventory);
 *
 * In the directory of the cache (~/.cache/tenure, 0700) there are, for each engine, the settings
 * that it was asked with and the cluster that its commands speak to (and, of jobs, the beginning of
 * their names):
 *
 *	nodes-ENGINE-SUM.json	what it answered last, and how the last try failed, 0600
 *	nodes-ENGINE-SUM.lock	locked (flock) by who asks: who comes meanwhile waits for his answer
 *	jobs-ENGINE-SUM.json, .lock	the same of its jobs
 *
 * An engine whose commands are not here leaves nothing. What nobody has asked for in a week goes. A
 * file that is not whole, or that this user has not written, or that is from the future, is as good
 * as none, and where there can be no directory the engine is asked each time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/engine.h"

#define INVENTORY_MAX_AGE_MS ENGINE_POLL_MS
#define INVENTORY_RETRY_MS   5000 /* between two tries, whoever asks, and whatever for */
#define INVENTORY_WAIT_MS                                                                          \
	5000 /* so much longer than the engine may take, whoever asks it now is waited for */
#define INVENTORY_FILE_MAX (16UL << 20)

struct inventory {
	struct engine_nodes nodes; /* node_sums_tidy() */
	struct engine_jobs jobs;   /* of inventory_read_jobs(), without their reasons and times */
	bool known;		   /* there is an answer; else they have nothing */
	bool cached;		   /* and it was not given just now */
	uint64_t asked_ns;	   /* wall: when it was given */
	uint64_t age_ms;	   /* since then */
	/* The last try, if that failed after the answer was given. */
	uint64_t failed_ns; /* wall; 0: it did not */
	int code;	    /* negative errno */
	char error[ERR_TEXT_MAX];
};

/* What is done about what is remembered. Pure. */
enum inventory_step { INVENTORY_USE, INVENTORY_FAIL, INVENTORY_ASK };
/* max_age_ms: an answer that is older will not do; what is below INVENTORY_RETRY_MS means that. */
enum inventory_step inventory_judge(const struct inventory *known, uint64_t now_ns,
				    uint64_t max_age_ms);

/*
 * 0: the engine's answer, asked for now or not older than max_age_ms. Negative: it failed, as
 * engine.inventory() does, or -EBUSY: another process asks it and has no answer for longer than
 * that may take; ret has the answer of before if there is one (known). dir: the directory, made
 * where it is not there; NULL: nothing is remembered. inventory_clear() in each case.
 */
int inventory_read(const struct engine *engine, const struct engine_env *env, const char *dir,
		   uint64_t max_age_ms, struct inventory *ret, struct err *e);
/* The same of the jobs whose names begin so, with their GPUs. */
int inventory_read_jobs(const struct engine *engine, const struct engine_env *env,
			const char *prefix, const char *dir, uint64_t max_age_ms,
			struct inventory *ret, struct err *e);
/* What is remembered of them is not so any more: one was submitted, or cancelled. */
void inventory_forget_jobs(const struct engine *engine, const struct engine_env *env,
			   const char *prefix, const char *dir);
void inventory_clear(struct inventory *inventory);

/* Where that is remembered, without ".json" and ".lock"; the caller frees it. */
char *inventory_path(const struct engine *engine, const struct engine_env *env, const char *dir);
/* The contents of a file: 0; -EINVAL: it is none. Texts and the caller's, as above. Pure. */
int inventory_parse(const char *text, size_t len, struct inventory *ret);
char *inventory_text(const struct inventory *inventory);

#endif
