/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_REASON_H
#define TENURE_SCHED_REASON_H

/*
 * Why a task does not run: a code with its arguments, and the one place that makes a sentence, or
 * an object for programs, of it. Pure.
 *
 *	waits for 2 GPUs: 1 of 4 free, GPU 1 and 3 taken by alice (PID 77); 5th in order
 *
 * The planner finds most of them (sched/why.h), dependencies some (sched/deps.h); an agent and the
 * commands add what they alone know of the queue's files.
 */

#include <jansson.h>

#include "base/strbuf.h"
#include "sched/fit.h"
#include "sched/types.h"

enum reason_code {
	REASON_RUNS, /* ms; preempting */
	REASON_NEVER,
	REASON_CHANGING,
	REASON_PAUSED,
	REASON_DEPENDS,	       /* other, well, more; or text */
	REASON_DEPENDS_BROKEN, /* other, and in text what is wrong with it */
	REASON_DEPENDS_LOOP,   /* text: the way round */
	REASON_BEGIN,	       /* wall_ns */
	REASON_GANG,	       /* text: what its ranks wait for, or NULL */
	REASON_LANE_PAUSED,    /* lane, text */
	REASON_LANE_ELSEWHERE, /* lane, text */
	REASON_ARRAY_ELSEWHERE,
	REASON_BACKOFF,	    /* ms */
	REASON_LANE_FULL,   /* lane, running */
	REASON_LANE_TASK,   /* lane, other */
	REASON_LANE_BEHIND, /* lane, other */
	REASON_ARRAY_FULL,  /* running */
	REASON_POOL,	    /* it is for nodes of another pool */
	REASON_TOO_LATE,    /* ms: its time-out; wall_ns: what runs here is stopped then */
	REASON_CPU_SLOTS,   /* running */
	REASON_FEW_GPUS,    /* want, total: there are not so many here */
	REASON_MAX_DEVICES, /* want, limit: it may never have so many here */
	REASON_MAX_NOW,	    /* want, limit, running: its instance's tasks have as many */
	REASON_NO_FIT,	    /* want, usable, total, devices */
	REASON_GPUS,	    /* want, free, usable, devices */
	REASON_ARRAY_BEHIND,
	REASON_NEXT_PLAN,
	/* Of an agent and of commands. */
	REASON_DRAINING,   /* where, text */
	REASON_READ_AGAIN, /* text */
	REASON_UNREADABLE, /* where: its file; text */
	REASON_REQUEUED,   /* note */
	REASON_READY,
	REASON_NO_AGENT, /* where: the instance; text: the command that starts one */
	REASON_MAX
};

/* Why a device is not, or is, among those that are free for the task. */
struct reason_device {
	unsigned int slot;
	unsigned int index;
	enum sched_cause cause;
	bool held_for_it; /* free, and collected for this task, which waits for more */
	bool one_process; /* the task could have it, but nothing is held there before it */
	/* CAUSE_LENT, CAUSE_OURS: the task there, id 0: its instance's workload. CAUSE_KEPT: for
	 * whom. */
	struct sched_ref other;
	const char *instance;	/* CAUSE_LENT: whose; NULL: ours */
	bool waits;		/* CAUSE_LENT: that task waits for more devices */
	bool known;		/* CAUSE_OURS: other is known */
	uint64_t bytes;		/* CAUSE_MEMORY, CAUSE_SMALL */
	uint32_t xid;		/* CAUSE_FAULTY */
	const char *text;	/* CAUSE_QUARANTINED: why; CAUSE_LEFT: to whom; or NULL */
	uint64_t until_wall_ns; /* CAUSE_LEFT, with text: for so long at most */
	const char *model;	/* CAUSE_MODEL */
};

/* Texts belong to whoever made it, and are valid as long as that says. */
struct reason {
	enum reason_code code;
	struct sched_ref task; /* that waits */
	struct sched_ref other;
	const char *lane;
	const char *where;
	const char *text;
	const char *note; /* what its last attempt ended with, where the rest does not say it */
	uint64_t ms, wall_ns;
	uint64_t place; /* in the order of what waits, from 1; 0: it stands aside */
	uint32_t want, free, usable, total, running, limit;
	uint32_t more; /* REASON_DEPENDS: on so many other tasks as well */
	bool well;     /* REASON_DEPENDS: the other one has to end well */
	bool preempting;
	size_t n_devices;
	const struct reason_device *devices;
};

/*
 * Who, or what, is on a device with CAUSE_FOREIGN: words are added to out. False: these say what is
 * wrong with it, not who is there; there may be none.
 */
typedef bool (*reason_who_fn)(void *user, unsigned int slot, struct strbuf *out);

struct reason_words {
	reason_who_fn who; /* NULL: nothing is known */
	void *user;
};

/* The sentence, without the task's name. words may be NULL. */
void reason_text(const struct reason *r, const struct reason_words *words, struct strbuf *out);
/* A few words for a column of a list: "needs 2 GPUs, 1 is free". */
void reason_brief(const struct reason *r, struct strbuf *out);
/* {"code": "gpus", "want": 2, ..}: docs/json.md. New reference. */
json_t *reason_json(const struct reason *r, const struct reason_words *words);
/* "gpus"; "?" where it is none. */
const char *reason_code_name(enum reason_code code);

/* One sentence of two says what the other one says: a lane is paused with what its last task said,
 * and so is the note of that task. */
bool reason_repeats(const char *text, const char *note);

#endif
