/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_NAME_H
#define TENURE_SPOOL_NAME_H

/*
 * The names of task files. They carry what a list and the planner's first look need, so that a
 * hundred thousand files cost one reading of the directory and no open. Fields are separated by
 * commas, which names cannot contain, in this order; those at their default are left out:
 *
 *	PRIORITY,ID[,eEPOCH][,vEDITS][,gGPUS][,xCOUNT][,fFLAGS][,tBEGIN][,lLANE],nNAME
 *	    [,cAGENT|,uENDED,zEXIT]
 *	00500,42,ntrain.sh                     pending: one GPU, no lane
 *	00100,43,g2,x100000,fd,lweek,nsweep    pending: a batch that depends on another task
 *	00500,42,e1,ntrain.sh,cnode7           running: second claim, by the agent node7
 *	42.7,e1                                running: element 7 of task 42, second claim
 *
 * A name is read only in this very form: what name_format() would not write is no task file. What a
 * file says changes only together with its name: who has seen the name knows what is in it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "spool/task_spec.h"

#define NAME_FILE_MAX  256 /* with the NUL; NAME_MAX of Linux */
#define NAME_AGENT_MAX 40
#define NAME_EPOCH_MAX 999999999ULL /* a task that is tried ten times a second for years */

/* Of a node, and of the time since its kernel has begun, as records name them. */
#define SPOOL_HOST_MAX 64
#define SPOOL_BOOT_MAX 64

#define NAME_PAUSED	 (1u << 0) /* p: not started until it is resumed */
#define NAME_DEPENDS	 (1u << 1) /* d: on other tasks; the file says on which */
#define NAME_SHARED	 (1u << 2) /* s */
#define NAME_PREEMPTIBLE (1u << 3) /* y */
#define NAME_COMPETE	 (1u << 4) /* c: rules compete */
#define NAME_MODEL	 (1u << 5) /* m: only on some devices */
#define NAME_LIMIT	 (1u << 6) /* i: an array with a limit */
#define NAME_EDITED	 (1u << 7) /* h: a client changes it at this moment */

#define NAME_SIGNALLED 256 /* added to the signal's number in exit */
#define NAME_EXIT_MAX  (NAME_SIGNALLED + 64)

struct task_name {
	uint64_t priority, id;
	uint64_t element;  /* from 1; 0: no element. Of an element only id and epoch are there */
	uint64_t epoch;	   /* how often it was taken back from its claimer */
	uint64_t edits;	   /* how often a client renamed it since it was submitted or ended */
	uint64_t gpus;	   /* or SPEC_ALL */
	uint64_t count;	   /* elements; 0: a single task */
	uint64_t begin_s;  /* not before, seconds since the epoch; 0: at once */
	uint64_t ended_s;  /* 0: has not */
	unsigned int exit; /* status, or NAME_SIGNALLED + signal; with ended_s */
	unsigned int flags;
	char lane[SPEC_NAME_MAX + 1]; /* "": none */
	char name[SPEC_NAME_MAX + 1];
	char agent[NAME_AGENT_MAX + 1]; /* "": not claimed */
};
/* Its numbers, which are compared and copied as they lie there. */
#define NAME_NUMBERS offsetof(struct task_name, lane)
_Static_assert(NAME_NUMBERS == 9 * sizeof(uint64_t) + 2 * sizeof(unsigned int),
	       "nothing is between");

/* The fields that a spec decides; id and the rest stay. */
void name_of_spec(const struct task_spec *s, uint64_t id, struct task_name *ret);

/* Writes NAME_FILE_MAX bytes at most; returns buf. */
char *name_format(const struct task_name *n, char buf[NAME_FILE_MAX]);
/* false: no name of a task file. */
bool name_parse(const char *file, struct task_name *ret);

/* The planner's order: priority, then age. <0, 0, >0. */
int name_compare(const struct task_name *a, const struct task_name *b);
/* All of it is the same. */
bool name_same(const struct task_name *a, const struct task_name *b);

#endif
