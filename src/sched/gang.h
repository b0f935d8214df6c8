/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_GANG_H
#define TENURE_SCHED_GANG_H

/*
 * What the leader of an instance does about a gang, a task whose ranks run on several nodes at
 * once. Pure: no file, no clock. All that is decided follows from what the files say now (spool/
 * gang.h, the journals), so that another leader goes on where one was lost; only how long a phase
 * has lasted, and how often it failed, is each leader's own memory.
 *
 *	v = gang_judge(&facts, &limits)		and do v.action, every second or so
 *	gang_choose()				for GANG_CALL
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a gang is. It is told by the files, never kept. */
enum gang_phase {
	GANG_IDLE,	/* nothing of it is under way */
	GANG_MUSTERING, /* its ranks were called: each agent takes devices, and makes a shim */
	GANG_STARTING,	/* the word is go */
	GANG_RUNNING,	/* the programs of all ranks were started */
	GANG_CLOSING,	/* it was withdrawn or ended; something of it may still run */
	GANG_PHASE_MAX
};

/* What is the case with it. Of several the first one counts. */
enum gang_event {
	GANG_OVER,    /* the task does not wait any more, and nothing of it is claimed */
	GANG_GONE,    /* it does not wait any more: stopped, as a rule */
	GANG_FAILED,  /* a rank has ended for good, and not well */
	GANG_LOST,    /* a rank, or, before go, its agent: it waits again, refuses, or is dead */
	GANG_CHANGED, /* its task was edited or paused since its ranks were called (MUSTERING) */
	GANG_LATE,    /* the phase has lasted for too long */
	GANG_BETTER,  /* a rank waits for its devices, and other nodes have them (MUSTERING) */
	GANG_ALL,     /* all ranks are ready (MUSTERING), have begun (STARTING) */
	GANG_DUE,     /* it may be called, and there are nodes for it (IDLE) */
	GANG_NOTHING,
	GANG_EVENT_MAX
};

enum gang_action {
	GANG_WAIT,
	GANG_CALL,
	GANG_GO,
	GANG_WITHDRAW,	   /* the word is not go */
	GANG_END,	   /* its ranks end; whether they run again is known when all have */
	GANG_END_FOR_GOOD, /* they end, and never run again */
	GANG_CANCEL_REST,  /* those that wait never run */
	GANG_FORGET,	   /* its files go */
	GANG_ACTION_MAX
};

/* How a rank's element stands, seen from its call. */
enum gang_standing {
	GANG_OPEN,     /* it waits, or runs */
	GANG_WELL,     /* it has ended well */
	GANG_BADLY,    /* it has failed for good */
	GANG_STOPPED,  /* its owner has stopped it */
	GANG_REQUEUED, /* the attempt for which it was called is over, and it waits again */
};

struct gang_rank_facts {
	enum gang_standing standing;
	bool outside; /* GANG_REQUEUED: by what was nothing of the program's, a lost node for one */
	bool lives;   /* its agent does */
	bool ready, begun; /* as its agent has answered */
	bool refuses;
	bool claimed; /* of the call's epoch; looked for where it decides: gang_wants_claims() */
};

struct gang_facts {
	bool waits;	 /* its task is in pending/ */
	bool called;	 /* there is a generation */
	bool decided;	 /* its word was given, */
	bool go;	 /* and is go */
	bool ended;	 /* its end was */
	bool due;	 /* IDLE: it may be called and there are nodes */
	bool changed;	 /* its task's file has another name than when it was called */
	bool better;	 /* MUSTERING: other nodes have room for what is not ready */
	uint64_t for_ms; /* the phase has lasted */
	size_t n;	 /* ranks; of a call that cannot be read 0 */
	const struct gang_rank_facts *ranks;
};

struct gang_limits {
	uint64_t muster_ms; /* for all ranks to have their devices */
	uint64_t start_ms;  /* from go to the start of all programs */
};

struct gang_verdict {
	enum gang_phase phase; /* as it is */
	enum gang_event event;
	enum gang_action action;
	size_t rank; /* FAILED, LOST, LATE: the rank that is the reason; n: none */
};

struct gang_verdict gang_judge(const struct gang_facts *f, const struct gang_limits *limits);
/* What judging needs to know of claims; else they need not be looked for. */
bool gang_wants_claims(const struct gang_facts *f);

struct gang_step {
	enum gang_phase next; /* that the action leads to */
	enum gang_action action;
};
/* The table, for its test. */
extern const struct gang_step gang_steps[GANG_PHASE_MAX][GANG_EVENT_MAX];

/* How long nothing is called after so many generations of it in a row that came to nothing: others
 * have the nodes meanwhile. */
uint64_t gang_backoff_ms(unsigned int failures);

/* An agent that lives and knows gangs. */
struct gang_node {
	const char *agent, *pool;  /* pool "": none */
	unsigned int free, usable; /* devices that would do: now; whoever uses them now */
	bool busy;		   /* another gang is brought together in its pool */
	bool avoid;		   /* the last generation came to nothing because of it */
};

/*
 * The nodes for so many ranks with so many devices each, all of one pool: those with room first,
 * and where those are not enough those that would have it if what runs there were gone. ret: their
 * places among the nodes, in the order of their names, which is the order of the ranks. False:
 * there are not as many.
 */
bool gang_choose(const struct gang_node *nodes, size_t n, size_t ranks, unsigned int devices,
		 size_t *ret);
/* How many have so many devices free now, and how many could have. */
void gang_count_room(const struct gang_node *nodes, size_t n, unsigned int devices, size_t *ret_now,
		     size_t *ret_ever);

const char *gang_phase_name(enum gang_phase phase);

#endif
