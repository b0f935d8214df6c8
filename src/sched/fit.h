/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_FIT_H
#define TENURE_SCHED_FIT_H

/*
 * Whether what a task asks of one device is there. The rules are one table, looked through in
 * order; the first that is broken is the cause that people are shown.
 */

#include <stdbool.h>
#include <stdint.h>

enum sched_cause {
	CAUSE_NONE,	/* it fits */
	CAUSE_EXCLUDED, /* not selected */
	CAUSE_LEFT,	/* left for others */
	CAUSE_UNSEEN,
	CAUSE_PROHIBITED,  /* by its compute mode nothing runs there */
	CAUSE_FAULTY,	   /* it has an error */
	CAUSE_QUARANTINED, /* tasks have failed there with errors of the device */
	CAUSE_MODEL,
	CAUSE_SMALL,   /* it never has so much memory */
	CAUSE_FOREIGN, /* somebody else uses it */
	CAUSE_LENT,    /* lent by the guard to something that this queue does not know */
	CAUSE_TESTED,  /* a burn of ours tests it, and is not to be disturbed */
	CAUSE_OURS,    /* our tasks are there, and it or they want to be alone */
	CAUSE_PYTHON,  /* another Python process of the owner's */
	CAUSE_PROCESS, /* one process at a time, and there is one */
	CAUSE_BLIND,   /* how much memory is free is not known */
	CAUSE_MEMORY,  /* not enough is free */
	CAUSE_KEPT,    /* it would fit, but an earlier task waits for the device */
	CAUSE_MAX
};

/* A device, as it is or as it would be without some of our tasks. */
struct fit_dev {
	enum sched_cause shut; /* EXCLUDED .. QUARANTINED, or NONE */
	bool foreign;
	bool lent; /* to something that is not ours */
	bool tested;
	bool one_process, own_python, mem_known, unmeasured;
	uint64_t total_bytes;
	int64_t room_bytes; /* free now, without our holder, less what is promised; negative where
			       others took what we had promised */
	unsigned int runs;  /* of our tasks there */
	unsigned int alone; /* of them, that want to be alone */
};

struct shape;
struct sched_view;

/* It ends by its time-out before everything here is stopped, or has none, or nothing is. */
bool fit_time(const struct shape *s, const struct sched_view *view);
/* model_ok: the device's model is one that the shape asks for. */
enum sched_cause fit_check(const struct shape *s, const struct fit_dev *d, bool model_ok);
/* Whether a cause lasts as long as the machine is as it is, whoever uses it. */
bool fit_is_fixed(enum sched_cause cause);
/* One of the names or patterns, separated by commas, matches; a name matches as a part of the
 * model, capitals or not. "" matches everything. */
bool fit_model(const char *patterns, const char *model);

#endif
