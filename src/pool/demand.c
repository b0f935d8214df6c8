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
#define BINS_MAX   1024
#define CLAIM_MAX  65536 /* bytes */
#define READS_MOST 2000	 /* files of tasks that are opened; the names of all are read */

/* A task on several nodes that waits: each rank on one of its own. */
struct gang {
	unsigned int ranks, gpus;
	bool named; /* for nodes of the pool alone */
};

/* An element in running/. */
struct claimed {
	uint64_t id, element, epoch;
};

struct counting {
	const struct spool *sp;
	const struct pool *pool;
	const struct scan *queue;
	uint64_t now_ns;
	struct text_list lanes; /* from which a task is ready or runs already */
	/* Tasks by the GPUs that each asks for, and those that ask for all of a node. */
	uint64_t running[POOL_GPUS_MAX + 1], ready[POOL_GPUS_MAX + 1], whole;
	uint64_t own[POOL_GPUS_MAX + 1]; /* ready, for nodes of the pool alone */
	bool named;			 /* the one that was read last is */
	size_t n_gangs, n_claimed;
	struct gang *gangs;
	struct claimed *claimed;
	bool cpu; /* something without a GPU is ready */
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

/* A task that names a pool is for its nodes alone, and some pools are for such tasks alone. */
static bool is_for(const struct pool *pool, const struct task_spec *spec)
{
	return spec->pool ? strcmp(spec->pool, pool->name) == 0 : !pool->only;
}

/* What only its file tells: whether it may start, and on what. */
static bool may_start(struct counting *c, const struct task_name *n, bool *ret_gang)
{
	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	struct task_file f;
	bool yes;

	if (c->reads++ >= READS_MOST)
		return false;
	if (task_file_read(c->sp, spool_path(SPOOL_PENDING, name_format(n, file), path), &f, NULL) <
	    0)
		return false;
	yes = is_for(c->pool, f.spec) && f.history.not_before_ns <= c->now_ns &&
	      all_over(c, &f.spec->after) && all_over(c, &f.spec->after_any) &&
	      (!f.spec->model || !c->pool->type || strcasestr(f.spec->model, c->pool->type) ||
	       strcasestr(c->pool->type, f.spec->model));
	c->named = f.spec->pool != NULL;
	if (yes && is_too_long(c->pool, f.spec->timeout)) {
		c->ret->unfit++;
		yes = false;
	}
	*ret_gang = spec_is_gang(f.spec);
	task_file_clear(&f);
	return yes;
}

/* Elements of a batch that wait. That one runs its journals do not tell, but its file does. */
static uint64_t waiting_of(struct counting *c, const struct task_name *n)
{
	struct batch *b = NULL;
	uint64_t waiting = n->count;

	if (c->reads++ >= READS_MOST || batch_open(c->sp, n, NULL, &b, NULL) < 0)
		return waiting;
	for (size_t i = 0; i < c->n_claimed; i++)
		if (c->claimed[i].id == n->id)
			batch_mark_running(b, c->claimed[i].element, c->claimed[i].epoch);
	waiting = batch_counts(b).waiting;
	b = batch_close(b);
	return waiting;
}

static void add(struct counting *c, const struct task_name *n, uint64_t tasks, uint64_t *sizes)
{
	if (n->gpus == SPEC_ALL)
		c->whole += tasks;
	else if (n->gpus && n->gpus <= POOL_GPUS_MAX)
		sizes[n->gpus] += tasks;
	else if (!n->gpus)
		c->cpu = true;
}

static bool fits(const struct counting *c, const struct task_name *n)
{
	return n->gpus == SPEC_ALL || n->gpus <= c->pool->gpus;
}

/* A rank that runs, or is being started, has its node, and the others theirs. */
static void add_gang(struct counting *c, const struct task_name *n)
{
	for (uint64_t i = 1; i <= n->count; i++)
		if (scan_find(c->queue, n->id, i))
			return;
	c->ret->ready += n->count;
	c->gangs = xgrow(c->gangs, c->n_gangs, sizeof(*c->gangs));
	c->gangs[c->n_gangs++] = (struct gang){ .ranks = (unsigned int)n->count,
						.gpus = (unsigned int)n->gpus,
						.named = c->named };
}

static void add_ready(struct counting *c, const struct task_name *n)
{
	bool gang = false;
	uint64_t tasks;

	if (n->flags & (NAME_PAUSED | NAME_EDITED) || n->begin_s * NS_PER_S > c->now_ns ||
	    (n->lane[0] && lane_is_paused(c->sp, n->lane)))
		return;
	if (!fits(c, n)) {
		c->ret->unfit += !c->pool->only; /* which most tasks are not for */
		return;
	}
	if (!may_start(c, n, &gang) || (n->lane[0] && lane_is_taken(c, n->lane)))
		return;
	if (gang) {
		add_gang(c, n);
		return;
	}
	tasks = n->lane[0] ? 1 : n->count ? waiting_of(c, n) : 1;
	c->ret->ready += tasks;
	add(c, n, tasks, c->named ? c->own : c->ready);
}

/* ---- on which nodes ---- */

struct bin {
	unsigned int left;
	bool ours, used, fresh; /* fresh: there is none yet */
	size_t gang;		/* the last one of which a rank is there, from 1 */
};

struct bins {
	const struct pool *pool;
	unsigned int cap;
	size_t n;
	struct bin all[BINS_MAX];
};

/* A node with so many GPUs left. */
static struct bin *find_bin(struct bins *b, unsigned int gpus, bool ours_alone, bool unused)
{
	for (size_t i = 0; i < b->n; i++) {
		struct bin *bin = &b->all[i];

		if (bin->left >= gpus && (bin->ours || !ours_alone) && !(unused && bin->used))
			return bin;
	}
	return NULL;
}

/* One more; NULL: the pool may have no more, or so many are asked for that more make no difference.
 */
static struct bin *add_bin(struct bins *b)
{
	size_t fresh = 0;

	for (size_t i = 0; i < b->n; i++)
		fresh += b->all[i].fresh;
	if (fresh > b->cap || b->n == BINS_MAX)
		return NULL;
	b->all[b->n] = (struct bin){ .left = b->pool->gpus, .ours = true, .fresh = true };
	return &b->all[b->n++];
}

static void put(struct bin *bin, unsigned int gpus)
{
	bin->used = true;
	bin->left -= gpus < bin->left ? gpus : bin->left;
}

/* What runs has its node already, whichever it is; where no node of the pool is there, it is one of
 * a node that was lost. */
static void put_running(struct bins *b, uint64_t *tasks, uint64_t *ready)
{
	bool none = !find_bin(b, 0, true, false);

	for (unsigned int size = POOL_GPUS_MAX; size; size--) {
		struct bin *bin;

		for (; tasks[size] && (bin = find_bin(b, size, true, false)); tasks[size]--)
			put(bin, size);
		if (none)
			ready[size] += tasks[size];
	}
}

static void put_ready(struct bins *b, const uint64_t *tasks, bool ours_alone)
{
	for (unsigned int size = POOL_GPUS_MAX; size; size--)
		for (uint64_t n = tasks[size]; n; n--) {
			struct bin *bin = find_bin(b, size, ours_alone, false);

			if (!bin && !(bin = add_bin(b)))
				return;
			put(bin, size);
		}
}

static void put_whole(struct bins *b, uint64_t tasks)
{
	for (; tasks; tasks--) {
		struct bin *bin = find_bin(b, 1, true, true);

		if (!bin && !(bin = add_bin(b)))
			return;
		put(bin, bin->left);
	}
}

/* Nodes that are there have room for all of its ranks: those of others together, or the pool's. */
static bool have_room(const struct bins *b, const struct gang *g, bool ours)
{
	unsigned int n = 0;

	for (size_t i = 0; i < b->n; i++)
		n += b->all[i].ours == ours && b->all[i].left >= g->gpus;
	return n >= g->ranks;
}

static struct bin *find_for_rank(struct bins *b, const struct gang *g, bool ours, size_t gang)
{
	for (size_t i = 0; i < b->n; i++) {
		struct bin *bin = &b->all[i];

		if (bin->ours == ours && bin->left >= g->gpus && bin->gang != gang)
			return bin;
	}
	return NULL;
}

/* Its ranks are on nodes of one pool, or of none, since an agent of a pool leaves when it is not
 * wanted there. */
static void put_gangs(struct counting *c, struct bins *b)
{
	for (size_t i = 0; i < c->n_gangs; i++) {
		const struct gang *g = &c->gangs[i];
		bool ours = g->named || !have_room(b, g, false);

		if (ours && g->ranks > b->cap) {
			c->ret->unfit++;
			continue;
		}
		for (unsigned int r = 0; r < g->ranks; r++) {
			struct bin *bin = find_for_rank(b, g, ours, i + 1);

			if (!bin && !(bin = add_bin(b)))
				break;
			bin->gang = i + 1;
			put(bin, g->gpus);
		}
	}
}

static void count_bins(struct counting *c, struct bins *b, struct demand *ret)
{
	put_running(b, c->running, c->ready);
	put_gangs(c, b);
	put_whole(b, c->whole);
	put_ready(b, c->own, true);
	put_ready(b, c->ready, false);
	for (size_t i = 0; i < b->n; i++) {
		ret->nodes += b->all[i].ours && b->all[i].used;
		ret->more += b->all[i].fresh;
	}
	/* A task without a GPU is one more guest of any node, and a reason for the first. */
	if (c->cpu && !ret->nodes) {
		ret->nodes = 1;
		ret->more = b->n ? 0 : 1;
	}
}

static void make_bins(struct bins *b, const struct pool *pool, const struct demand_node *nodes,
		      size_t n_nodes)
{
	*b = (struct bins){ .pool = pool, .cap = pool_cap(pool) };
	/* Others first: what they can take asks for nothing. */
	for (int ours = 0; ours < 2; ours++)
		for (size_t i = 0; i < n_nodes && b->n < BINS_MAX / 2; i++)
			if (nodes[i].ours == ours)
				b->all[b->n++] = (struct bin){ .left = nodes[i].gpus,
							       .ours = nodes[i].ours };
}

/* Whose an element is its file's name does not say; "": it is not known, as of those behind
 * the first READS_MOST. */
static void find_claimer(struct counting *c, const struct task_name *n,
			 char agent[NAME_AGENT_MAX + 1])
{
	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	cleanup_free char *text = NULL;
	struct task_history h = { .attempts = 0 };
	size_t len;

	agent[0] = '\0';
	if (c->n_claimed > READS_MOST ||
	    spool_read(c->sp, spool_path(SPOOL_RUNNING, name_format(n, file), path), CLAIM_MAX,
		       &text, &len, NULL) < 0)
		return;
	history_read(text, len, &h, NULL);
	(void)str_copy(agent, NAME_AGENT_MAX + 1, h.claimer.agent);
}

static void note_claimed(struct counting *c, const struct task_name *n)
{
	c->claimed = xgrow(c->claimed, c->n_claimed, sizeof(*c->claimed));
	c->claimed[c->n_claimed++] = (struct claimed){ n->id, n->element, n->epoch };
}

/* What runs on a node of the pool keeps that busy. An element's file says nothing of its GPUs; its
 * batch does. */
static void add_running(struct counting *c, const struct task_name *n, demand_ours_fn ours,
			void *data)
{
	const struct scan_task *batch = n->element ? scan_find(c->queue, n->id, 0) : NULL;
	char agent[NAME_AGENT_MAX + 1];
	enum demand_owner owner;

	if (n->element)
		note_claimed(c, n);
	if (n->element)
		find_claimer(c, n, agent);
	else
		(void)str_copy(agent, sizeof(agent), n->agent);
	owner = agent[0] ? ours(data, agent) : DEMAND_OURS;
	if (owner == DEMAND_OTHERS)
		return;
	c->ret->running++;
	if (n->lane[0])
		(void)lane_is_taken(c, n->lane);
	add(c, batch ? &batch->name : n, 1, owner == DEMAND_OURS ? c->running : c->ready);
}

int demand_read(const struct spool *sp, const struct pool *pool, uint64_t now_wall_ns,
		demand_ours_fn ours, void *data, const struct demand_node *nodes, size_t n_nodes,
		struct demand *ret, struct err *e)
{
	struct scan *queue = scan_new(sp, 0);
	struct counting c = {
		.sp = sp, .pool = pool, .queue = queue, .now_ns = now_wall_ns, .ret = ret
	};
	cleanup_free struct bins *bins = xmalloc(sizeof(*bins));
	const struct scan_task *t;
	size_t iter = 0;
	int r;

	*ret = (struct demand){ .nodes = 0 };
	r = scan_update(queue, NULL, NULL, e);
	while (r == 0 && (t = scan_next(queue, &iter)))
		if (t->dir == SPOOL_RUNNING)
			add_running(&c, &t->name, ours, data);
	iter = 0;
	while (r == 0 && (t = scan_next(queue, &iter)))
		if (t->dir == SPOOL_PENDING)
			add_ready(&c, &t->name);
	make_bins(bins, pool, nodes, n_nodes);
	count_bins(&c, bins, ret);
	text_list_clear(&c.lanes);
	free(c.gangs);
	free(c.claimed);
	queue = scan_free(queue);
	return r;
}
