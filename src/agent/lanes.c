/* SPDX-License-Identifier: MIT */
#include "agent/lanes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doubts.h"
#include "agent/tasksin.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "sched/queue.h"

#define KEEP_MS	  2000 /* a lane's next task comes at once, if there is one that can start */
#define BLOCK_MS  3000 /* then the plan may try again */
#define BLOCK_MAX 256

/* The epochs of what is ours belong to the spooler's jobs. */
struct place_lane {
	struct place_lane *next;
	char key[LANE_KEY_MAX];
	uint64_t epoch;
};

struct lanes_entry {
	struct lanes_entry *next;
	char key[LANE_KEY_MAX];
	bool ours;	   /* or blocked: another agent has it */
	uint64_t since_ns; /* blocked, or idle; 0: it is in use */
};

/* ---- on the spooler's thread ---- */

static struct place_lane *epoch_of(struct spool_place *p, const char *key)
{
	struct place_lane *l = p->lanes;

	while (l && strcmp(l->key, key) != 0)
		l = l->next;
	if (l)
		return l;
	l = xcalloc(1, sizeof(*l));
	(void)str_copy(l->key, sizeof(l->key), key);
	l->epoch = LANE_NONE;
	l->next = p->lanes;
	p->lanes = l;
	return l;
}

static void forget_epoch(struct spool_place *p, const char *key)
{
	for (struct place_lane **l = &p->lanes; *l; l = &(*l)->next)
		if (strcmp((*l)->key, key) == 0) {
			struct place_lane *gone = *l;

			*l = gone->next;
			free(gone);
			return;
		}
}

void lanes_forget_epochs(struct spool_place *p)
{
	while (p->lanes)
		forget_epoch(p, p->lanes->key);
}

static int take_one(struct spool_place *p, const char *key, struct lanes_met *m, char *ret_key,
		    struct err *e)
{
	struct place_lane *l = epoch_of(p, key);
	int r = lane_take(p->spool, key, p->self.agent, &l->epoch, m->owner, e);

	if (r <= 0) /* after an error its file may name us all the same: it is let go of */
		(void)str_copy(ret_key, LANE_KEY_MAX, key);
	if (r != 0)
		forget_epoch(p, key);
	if (r == LANE_ELSEWHERE)
		(void)str_copy(m->blocked, sizeof(m->blocked), key);
	return r;
}

int lanes_take(struct spool_place *p, const struct task_name *n, struct lanes_met *m, struct err *e)
{
	char array[LANE_KEY_MAX];
	int r = 0;

	*m = (struct lanes_met){ .id = n->id };
	if (n->lane[0])
		r = take_one(p, n->lane, m, m->keys[0], e);
	if (r == 0 && n->flags & NAME_LIMIT)
		r = take_one(p, lane_of_array(n->id, array), m, m->keys[1], e);
	return r;
}

struct release_job {
	struct spool_job job;
	char key[LANE_KEY_MAX];
	int code;
};

static void release_work(struct spool_job *job, struct spool_place *p)
{
	struct release_job *r = (struct release_job *)job;
	struct place_lane *l = epoch_of(p, r->key);
	char owner[NAME_AGENT_MAX + 1];
	uint64_t id;
	bool gone =
		r->key[0] == '%' && str_to_u64(r->key + 1, &id) == 0 && !scan_find(p->scan, id, 0);

	/* Found after a restart: it is ours, and its epoch is not known yet. */
	r->code = lane_take(p->spool, r->key, p->self.agent, &l->epoch, owner, NULL);
	if (r->code == 0)
		r->code = lane_release(p->spool, r->key, p->self.agent, l->epoch, gone, NULL);
	else if (r->code == LANE_ELSEWHERE && !owner[0]) /* whose it is could not be seen */
		r->code = -EAGAIN;
	forget_epoch(p, r->key);
}

/* ---- on the loop ---- */

static struct lanes_entry *find(const struct tasks *q, const char *key)
{
	struct lanes_entry *l = q->lanes;

	while (l && strcmp(l->key, key) != 0)
		l = l->next;
	return l;
}

static struct lanes_entry *entry_of(struct tasks *q, const char *key)
{
	struct lanes_entry *l = find(q, key);

	if (l)
		return l;
	l = xcalloc(1, sizeof(*l));
	(void)str_copy(l->key, sizeof(l->key), key);
	l->next = q->lanes;
	q->lanes = l;
	return l;
}

/* Nothing of it is planned for that reason; NULL: it is again. */
static void block(struct tasks *q, const char *key, const char *why)
{
	uint64_t id;

	if (key[0] == '%' && str_to_u64(key + 1, &id) == 0)
		sched_array_block(q->plan, id, why);
	else
		sched_lane_block(q->plan, sched_lane(q->plan, key), why);
}

void lanes_found(struct tasks *q, const char *key)
{
	struct lanes_entry *l = entry_of(q, key);

	/* An earlier claim of the same plan may have met its last owner. */
	if (!l->ours) {
		block(q, key, NULL);
		tasks_plan_soon(q);
	}
	l->ours = true;
	l->since_ns = clock_mono_ns();
}

void lanes_met(struct tasks *q, const struct lanes_met *m)
{
	char why[BLOCK_MAX];

	for (size_t i = 0; i < ARRAY_LEN(m->keys); i++)
		if (m->keys[i][0])
			lanes_found(q, m->keys[i]);
	if (!m->blocked[0])
		return;

	struct lanes_entry *l = entry_of(q, m->blocked);

	l->ours = false;
	l->since_ns = clock_mono_ns();
	block(q, l->key,
	      m->owner[0] ? str_print(why, sizeof(why),
				      "the agent %s starts them, one node at a time", m->owner)
			  : "another node takes it just now");
}

static bool is_used(struct tasks *q, const struct lanes_entry *l)
{
	uint32_t lane = l->key[0] == '%' ? 0 : sched_lane(q->plan, l->key);
	uint64_t id = 0;
	struct sched_task t;

	if (!lane)
		(void)str_to_u64(l->key + 1, &id);
	for (struct running *r = q->runs; r; r = r->next)
		if (lane ? sched_get(q->plan, run_ref(r->run), &t) == 0 && t.lane == lane
			 : run_ref(r->run).id == id)
			return true;
	return doubts_use(q, lane, id);
}

/* Its file may name us still, and then no other agent starts anything of it: once more. */
static void release_done(struct spool_job *job)
{
	struct release_job *r = (struct release_job *)job;

	if (r->code < 0)
		lanes_found(job->user, r->key);
	free(r);
}

static void release(struct tasks *q, const char *key)
{
	struct release_job *j = xcalloc(1, sizeof(*j));

	(void)str_copy(j->key, sizeof(j->key), key);
	j->job = (struct spool_job){ .work = release_work, .done = release_done, .user = q };
	spooler_do(q->spooler, &j->job);
}

/* False: it is done with. */
static bool look_at(struct tasks *q, struct lanes_entry *l, uint64_t now)
{
	uint64_t limit_ms = l->ours ? KEEP_MS : BLOCK_MS;

	if (l->ours && is_used(q, l)) {
		l->since_ns = 0;
		return true;
	}
	l->since_ns = l->since_ns ? l->since_ns : now;
	if (now - l->since_ns < limit_ms * NS_PER_MS)
		return true;
	if (l->ours) {
		release(q, l->key);
	} else {
		block(q, l->key, NULL);
		tasks_plan_soon(q);
	}
	return false;
}

void lanes_look(struct tasks *q)
{
	uint64_t now = clock_mono_ns();

	for (struct lanes_entry **l = &q->lanes; *l;) {
		struct lanes_entry *one = *l;

		if (look_at(q, one, now)) {
			l = &one->next;
			continue;
		}
		*l = one->next;
		free(one);
	}
}

void lanes_clear(struct tasks *q)
{
	while (q->lanes) {
		struct lanes_entry *gone = q->lanes;

		q->lanes = gone->next;
		free(gone);
	}
}
