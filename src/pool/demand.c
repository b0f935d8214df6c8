/* SPDX-License-Identifier: MIT */
#include "pool/demand.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/batch.h"
#include "spool/lane.h"
#include "spool/record.h"

#define LEAVE_MS   120000 /* an agent leaves so long before its job ends, at least */
#define READS_MOST 2000	  /* files of tasks that are opened; the names of all are read */

struct counting {
	const struct spool *sp;
	const struct pool *pool;
	const struct scan *queue;
	uint64_t now_ns;
	struct text_list lanes; /* from which a task is ready or runs already */
	uint64_t gpus, whole;	/* that are asked for; nodes of which all is */
	bool cpu;		/* something without a GPU is ready */
	unsigned int reads;
	struct demand *ret;
};

static bool lane_is_taken(struct counting *c, const char *lane)
{
	for (size_t i = 0; i < c->lanes.n; i++)
		if (strcmp(c->lanes.texts[i], lane) == 0)
			return true;
	text_list_add(&c->lanes, lane);
	return false;
}

static bool all_over(const struct counting *c, const struct uint_list *ids)
{
	for (size_t i = 0; i < ids->n; i++)
		if (scan_find(c->queue, ids->nums[i], 0))
			return false;
	return true;
}

/* A job's time is over before such a task has to have ended: no agent of the pool ever starts it.
 */
static bool is_too_long(const struct pool *p, uint64_t timeout_ms)
{
	uint64_t lead_ms = p->lead_s * MS_PER_S > LEAVE_MS ? p->lead_s * MS_PER_S : LEAVE_MS;

	return timeout_ms && p->time_ms && timeout_ms + lead_ms > p->time_ms;
}

/* What only its file tells: whether it may start, and on what. */
static bool may_start(struct counting *c, const struct task_name *n)
{
	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	struct task_file f;
	bool yes;

	if (c->reads++ >= READS_MOST)
		return false;
	if (task_file_read(c->sp, spool_path(SPOOL_PENDING, name_format(n, file), path), &f, NULL) <
	    0)
		return false;
	yes = f.history.not_before_ns <= c->now_ns && all_over(c, &f.spec->after) &&
	      all_over(c, &f.spec->after_any) &&
	      (!f.spec->model || !c->pool->type || strcasestr(f.spec->model, c->pool->type) ||
	       strcasestr(c->pool->type, f.spec->model));
	if (yes && is_too_long(c->pool, f.spec->timeout)) {
		c->ret->unfit++;
		yes = false;
	}
	task_file_clear(&f);
	return yes;
}

/* Elements of a batch that wait. */
static uint64_t waiting_of(struct counting *c, const struct task_name *n)
{
	struct batch *b = NULL;
	uint64_t waiting = n->count;

	if (c->reads++ < READS_MOST && batch_open(c->sp, n, NULL, &b, NULL) == 0)
		waiting = batch_counts(b).waiting;
	b = batch_close(b);
	return waiting;
}

static void add(struct counting *c, const struct task_name *n, uint64_t tasks)
{
	if (n->gpus == SPEC_ALL)
		c->whole += tasks;
	else if (n->gpus)
		c->gpus += tasks * n->gpus;
	else
		c->cpu = true;
}

static bool fits(const struct counting *c, const struct task_name *n)
{
	return n->gpus == SPEC_ALL || n->gpus <= c->pool->gpus;
}

static void add_ready(struct counting *c, const struct task_name *n)
{
	uint64_t tasks;

	if (n->flags & (NAME_PAUSED | NAME_EDITED) || n->begin_s * NS_PER_S > c->now_ns ||
	    (n->lane[0] && lane_is_paused(c->sp, n->lane)))
		return;
	if (!fits(c, n)) {
		c->ret->unfit++;
		return;
	}
	if (!may_start(c, n) || (n->lane[0] && lane_is_taken(c, n->lane)))
		return;
	tasks = n->lane[0] ? 1 : n->count ? waiting_of(c, n) : 1;
	c->ret->ready += tasks;
	add(c, n, tasks);
}

static unsigned int nodes_of(const struct counting *c, unsigned int elsewhere)
{
	uint64_t gpus = c->gpus > elsewhere ? c->gpus - elsewhere : 0;
	uint64_t per = c->pool->gpus ? c->pool->gpus : 1;
	uint64_t nodes = c->whole + (gpus + per - 1) / per;

	if (!nodes && c->cpu)
		nodes = 1;
	return nodes > POOL_JOBS_MAX ? POOL_JOBS_MAX : (unsigned int)nodes;
}

/* What runs on a node of the pool keeps that busy. An element's file says nothing of its GPUs; its
 * batch does. */
static void add_running(struct counting *c, const struct task_name *n, demand_ours_fn ours,
			void *data)
{
	const struct scan_task *batch = n->element ? scan_find(c->queue, n->id, 0) : NULL;

	if (n->agent[0] && !ours(data, n->agent))
		return;
	c->ret->running++;
	if (n->lane[0])
		(void)lane_is_taken(c, n->lane);
	add(c, batch ? &batch->name : n, 1);
}

int demand_read(const struct spool *sp, const struct pool *pool, uint64_t now_wall_ns,
		demand_ours_fn ours, void *data, unsigned int elsewhere, struct demand *ret,
		struct err *e)
{
	struct scan *queue = scan_new(sp, 0);
	struct counting c = {
		.sp = sp, .pool = pool, .queue = queue, .now_ns = now_wall_ns, .ret = ret
	};
	const struct scan_task *t;
	size_t iter = 0;
	int r;

	*ret = (struct demand){ .nodes = 0 };
	r = scan_update(queue, NULL, NULL, e);
	while (r == 0 && (t = scan_next(queue, &iter)))
		if (t->dir == SPOOL_RUNNING)
			add_running(&c, &t->name, ours, data);
	iter = 0;
	while (r == 0 && nodes_of(&c, elsewhere) <= pool_cap(pool) && (t = scan_next(queue, &iter)))
		if (t->dir == SPOOL_PENDING)
			add_ready(&c, &t->name);
	ret->nodes = nodes_of(&c, elsewhere);
	text_list_clear(&c.lanes);
	queue = scan_free(queue);
	return r;
}
