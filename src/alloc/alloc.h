/* SPDX-License-Identifier: MIT */
#ifndef TENURE_ALLOC_ALLOC_H
#define TENURE_ALLOC_ALLOC_H

/*
 * Allocations: GPUs that somebody has for a purpose, and keeps until he gives them back. One is a
 * task whose spec says `allocation`, so it waits, starts, is adopted, explained and ended as any
 * other. What runs in it is a keeper (alloc/keeper.h), which waits for orders. Files in allocs/:
 *
 *	ID.json		there is such an allocation: why it was made
 *	ID,start.N	the N-th order, from 1: a task's spec that says what is to run in it
 *	ID,state	what the keeper did about them: struct alloc_state
 *
 * Orders are made exclusively, so of two at once one is the N-th. All of it is checked before use
 * (docs/design.md, invariant 8).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "alloc/limits.h"
#include "base/err.h"
#include "spool/files.h"
#include "spool/task_spec.h"

#define ALLOC_POOL_MAX 33

/* "alloc-42": what the pool of that allocation is called. buf: ALLOC_POOL_MAX bytes; returns it. */
char *alloc_pool_name(uint64_t id, char *buf);
/* Of which allocation it is the pool, by its name; 0: of none. */
uint64_t alloc_of_pool(const char *name);

struct alloc_mark {
	uint64_t id;
	enum alloc_kind kind;
	char pool[ALLOC_POOL_MAX]; /* of an engine, that it has for itself; "": none */
	unsigned int gpus;	   /* of the node that it has for itself; 0: it has none */
};

struct alloc_marks {
	size_t n;
	struct alloc_mark *all; /* by their ids */
};

/* Before the task is submitted under that id; durable. One without a task means nothing. 0 or
 * -errno. */
int alloc_mark_write(const struct spool *sp, const struct alloc_mark *mark, struct err *e);
/* All of them, ended ones too. 0 or -errno; alloc_marks_clear() in each case. */
int alloc_marks_read(const struct spool *sp, struct alloc_marks *ret, struct err *e);
void alloc_marks_clear(struct alloc_marks *m);
const struct alloc_mark *alloc_marks_find(const struct alloc_marks *m, uint64_t id);
/* Everything of these tasks, which are gone: their ids are sorted. 0 or -errno. */
int alloc_forget(const struct spool *sp, const uint64_t *ids, size_t n, struct err *e);

/* ---- orders ---- */

#define ALLOC_ORDERS_MAX 1000000000U

/* The number of the last order; 0: there is none. */
int alloc_last_order(const struct spool *sp, uint64_t id, unsigned int *ret, struct err *e);
/* 0; -EEXIST: somebody else has given the n-th; -errno. Survives a power loss. */
int alloc_order_write(const struct spool *sp, uint64_t id, unsigned int n,
		      const struct task_spec *spec, struct err *e);
bool alloc_order_exists(const struct spool *sp, uint64_t id, unsigned int n);
/* 0; -ENOENT: there is none; -EINVAL and the like: what is there is no order; -errno. */
int alloc_order_read(const struct spool *sp, uint64_t id, unsigned int n, struct task_spec **ret,
		     struct err *e);

/* What is done when the devices of an allocation change while its program runs: the spec's
 * on_change. */
enum alloc_change {
	ALLOC_RESTART, /* it is ended, with its signal and grace, and begins anew */
	ALLOC_SIGNAL,  /* SIGUSR1; TENURE_GPUS_FILE says which they are */
	ALLOC_HOOK,    /* a command is run */
	ALLOC_CHANGE_MAX
};

/* 0 and, of a hook, its command, which is part of text; -EINVAL with what it may be. text NULL: the
 * default. */
int alloc_parse_change(const char *text, enum alloc_change *ret, const char **ret_hook,
		       struct err *e);

/* What stands for the devices and the name in words of an order: {gpu_list}, {gpu_count},
 * {task_id}. The caller frees it. */
char *alloc_fill_in(const char *word, const char *gpus, const char *name);
/* How many there are in a list like "0,1". */
unsigned int alloc_count_gpus(const char *gpus);

/* ---- the state ---- */

enum alloc_phase { ALLOC_WAITING, ALLOC_RUNNING, ALLOC_ENDED, ALLOC_PHASE_MAX };

const char *alloc_phase_name(unsigned int phase);

#define ALLOC_GPUS_MAX 4096

struct alloc_state {
	enum alloc_phase phase;
	unsigned int order;    /* the last one that was taken; 0: none */
	unsigned int restarts; /* of its program, for changed devices */
	pid_t pid;	       /* of the program's first process, on host */
	char host[SPOOL_HOST_MAX];
	char gpus[ALLOC_GPUS_MAX];   /* as CUDA_VISIBLE_DEVICES has them */
	uint64_t began_ns, ended_ns; /* wall */
	unsigned int exit;	     /* status, or NAME_SIGNALLED + signal */
	char error[512];	     /* why it could not be started; "" */
};

/* What is none, or is not there, is one that waits. 0 or -errno; ret is set in each case. */
int alloc_state_read(const struct spool *sp, uint64_t id, struct alloc_state *ret, struct err *e);
int alloc_state_write(const struct spool *sp, uint64_t id, const struct alloc_state *st,
		      struct err *e);

#endif
