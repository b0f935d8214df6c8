/* SPDX-License-Identifier: MIT */
#include "pool/plan.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"

#define MS_OF_S 1000ULL

static unsigned int least(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

static unsigned int most(unsigned int a, unsigned int b)
{
	return a > b ? a : b;
}

static unsigned int less(unsigned int a, unsigned int b)
{
	return a > b ? a - b : 0;
}

/* ---- what is remembered between ticks ---- */

uint64_t pool_backoff_s(const struct pool_state *st, uint64_t now_s)
{
	static const uint64_t waits[] = { 0, 60, 300, 900, 3600 };
	unsigned int failures = most(st->refusals, less(st->vain, 1));
	uint64_t wait = waits[least(failures, ARRAY_LEN(waits) - 1)];

	return st->tried_s + wait > now_s ? st->tried_s + wait - now_s : 0;
}

void pool_note_refused(struct pool_state *st, uint64_t now_s)
{
	st->refusals++;
	st->tried_s = now_s;
}

void pool_note_submitted(struct pool_state *st)
{
	st->refusals = 0;
	st->error[0] = '\0';
	st->given++;
}

void pool_note_reported(struct pool_state *st)
{
	st->lost = 0;
}

static void say_last(char *ret, size_t size, unsigned int n, const char *what,
		     const struct pool_job *job, const char *tail)
{
	(void)str_print(ret, size, "%u jobs in a row %s; the last one, %s%s%s%s, %s%s", n, what,
			job->id[0] ? job->id : job->token, job->node[0] ? " on " : "", job->node,
			job->reason[0] ? "" : " without a reason",
			tail ? "printed: " : "printed nothing", tail ? tail : "");
}

void pool_note_lost(struct pool_state *st, const struct pool_job *job, const char *tail)
{
	if (++st->lost < POOL_LOST_MOST)
		return;
	st->paused = true;
	say_last(st->pause, sizeof(st->pause), st->lost, "ended and no agent of theirs reported",
		 job, tail);
}

/* Once may be chance: it was cancelled, or preempted. */
void pool_note_vain(struct pool_state *st, const struct pool_job *job, const char *tail,
		    uint64_t now_s)
{
	if (++st->vain < 2)
		return;
	st->tried_s = now_s;
	say_last(st->error, sizeof(st->error), st->vain,
		 "had agents that left at once, with no task ended", job, tail);
}

void pool_note_useful(struct pool_state *st)
{
	st->vain = 0;
}

/* ---- the plan ---- */

struct counts {
	unsigned int live, waiting; /* waiting: without an agent yet, whatever the engine says */
	unsigned int first;	    /* of those that wait, for `up` */
};

static bool is_open(const struct pool_job *job)
{
	return job->phase != POOL_JOB_ENDED && !job->cancelled;
}

/* It takes the place of one that has its node yet. */
static bool is_behind(const struct pool_view *v, const struct pool_job *job)
{
	for (size_t i = 0; job->after[0] && !job->agent[0] && i < v->jobs->n; i++)
		if (strcmp(v->jobs->all[i].token, job->after) == 0)
			return is_open(&v->jobs->all[i]);
	return false;
}

/* It waits, and is not what the pool asks for now. */
static bool is_outdated(const struct pool_view *v, size_t i)
{
	const struct pool_job *job = &v->jobs->all[i];

	return is_open(job) && !v->live[i] && !job->agent[0] && !job->began_s && job->id[0] &&
	       job->shape && job->shape != pool_shape(v->pool);
}

static struct counts count(const struct pool_view *v)
{
	struct counts c = { .live = 0 };

	for (size_t i = 0; i < v->jobs->n; i++) {
		const struct pool_job *job = &v->jobs->all[i];

		if (!is_open(job) || is_behind(v, job) || is_outdated(v, i))
			continue;
		/* One that is silent may be cut off, and has its node all the same. */
		if (v->live[i] || job->agent[0])
			c.live++;
		else
			c.waiting++;
		c.first += job->first && !job->agent[0];
	}
	return c;
}

static void cancel(struct pool_decision *d, size_t i, const char *why)
{
	if (d->n_cancel >= POOL_JOBS_MAX)
		return;
	d->why[d->n_cancel] = why;
	d->cancel[d->n_cancel++] = i;
}

/* Its job runs, by the engine's word, and nothing of its agent has been seen. */
static bool is_late(const struct pool_view *v, const struct pool_job *job)
{
	return is_open(job) && !job->agent[0] && job->began_s &&
	       v->now_s > job->began_s + v->pool->start_ms / MS_OF_S;
}

static void cancel_outdated(const struct pool_view *v, struct pool_decision *d)
{
	for (size_t i = 0; i < v->jobs->n; i++)
		if (is_outdated(v, i))
			cancel(d, i, "it is not what the pool asks for now");
}

/* Those that wait beyond what is wanted, the youngest first. */
static void cancel_surplus(const struct pool_view *v, unsigned int surplus, uint64_t settle_s,
			   bool all, struct pool_decision *d)
{
	for (size_t i = v->jobs->n; i-- > 0 && surplus;) {
		const struct pool_job *job = &v->jobs->all[i];

		if (!is_open(job) || v->live[i] || job->agent[0] ||
		    (!all && (job->first || is_behind(v, job) || is_outdated(v, i))) ||
		    job->submitted_s + settle_s > v->now_s)
			continue;
		cancel(d, i, all ? "the pool is down" : "no task needs it any more");
		surplus--;
	}
}

static bool has_successor(const struct pool_view *v, const struct pool_job *job)
{
	for (size_t i = 0; i < v->jobs->n; i++)
		if (is_open(&v->jobs->all[i]) && strcmp(v->jobs->all[i].after, job->token) == 0)
			return true;
	return false;
}

/* As one job ends the next one begins: of as many as would have something to do. */
static void plan_relay(const struct pool_view *v, unsigned int needed, struct pool_decision *d)
{
	unsigned int have = 0;

	for (size_t i = 0; i < v->jobs->n && have < needed; i++) {
		const struct pool_job *job = &v->jobs->all[i];
		bool soon = job->end_ns && job->end_ns / NS_PER_S < v->now_s + POOL_RELAY_S;

		if (!is_open(job) || !job->agent[0] || !job->id[0])
			continue;
		have++;
		if ((v->follows || soon) && !has_successor(v, job) && d->n_follow < POOL_JOBS_MAX)
			d->follow[d->n_follow++] = i;
	}
}

unsigned int pool_kept(const struct pool *p, uint64_t now_s)
{
	if (p->keep_ms && now_s > p->asked_ns / NS_PER_S + p->keep_ms / MS_OF_S)
		return 0;
	return p->min;
}

#define STAY_RANKS 4

/* Who has an agent comes before who waits for one, and who was told to stay before who was not:
 * what an agent was told holds. 0: it is over. */
static unsigned int stay_rank(const struct pool_job *job)
{
	return is_open(job) ? 1 + job->stay + 2 * (job->agent[0] != '\0') : 0;
}

void pool_plan_stay(struct pool_jobs *jobs, unsigned int kept,
		    void (*changed)(void *user, struct pool_job *job), void *user)
{
	cleanup_free bool *stay = xcalloc(jobs->n + 1, sizeof(*stay));

	for (unsigned int rank = STAY_RANKS; rank; rank--)
		for (size_t i = 0; i < jobs->n; i++)
			if (stay_rank(&jobs->all[i]) == rank && kept) {
				stay[i] = true;
				kept--;
			}
	for (size_t i = 0; i < jobs->n; i++) {
		struct pool_job *job = &jobs->all[i];

		if (!is_open(job) || job->stay == stay[i])
			continue;
		job->stay = stay[i];
		changed(user, job);
	}
}

/* Nothing that the pool could do helps them. */
static void say_unfit(struct pool_state *st)
{
	size_t at = strlen(st->next);

	(void)str_print(
		st->next + at, sizeof(st->next) - at,
		"; %u task%s more GPUs, or more time, than a node of it has, or for more nodes",
		st->unfit, st->unfit == 1 ? " asks for" : "s ask for");
}

void pool_say_next(const struct pool_view *v, struct pool_state *st)
{
	uint64_t wait_s = pool_backoff_s(st, v->now_s);
	unsigned int needed = most(v->needed, pool_kept(v->pool, v->now_s));
	char wait[UNIT_TEXT_MAX];
	size_t n = sizeof(st->next);

	if (v->pool->down)
		(void)str_print(st->next, n, "nothing: it is down%s",
				st->live ? "; its agents end when their tasks have" : "");
	else if (st->paused)
		(void)str_print(st->next, n, "nothing, until tenure up is called again");
	else if (wait_s && st->live + st->waiting < st->wanted)
		(void)str_print(st->next, n, "tries again in %s",
				unit_format_duration(wait_s * MS_OF_S, wait));
	else if (st->waiting)
		(void)str_print(st->next, n, "waits for %u job%s to start", st->waiting,
				st->waiting == 1 ? "" : "s");
	else if (needed > st->cap || (v->more && st->live + st->waiting >= st->cap))
		(void)str_print(st->next, n, "nothing: it has the %u node%s that it may have",
				st->cap, st->cap == 1 ? "" : "s");
	else if (st->wanted && st->live + st->waiting < st->wanted)
		(void)str_print(st->next, n, "submits another job");
	else if (st->wanted)
		(void)str_print(st->next, n, "nothing: it has what it wants");
	else
		(void)str_print(st->next, n, "nothing: no task that is ready needs a node of it");
	if (st->unfit && !v->pool->down)
		say_unfit(st);
}

/* Of the nodes that `up` asked for, those that were not submitted yet and are not there already. */
static unsigned int first_left(const struct pool_view *v, const struct pool_state *st,
			       unsigned int there)
{
	return least(less(v->pool->first, st->given), less(v->pool->first, there));
}

void pool_plan(const struct pool_view *v, struct pool_state *st, struct pool_decision *ret)
{
	struct counts c = count(v);
	unsigned int there = c.live + c.waiting,
		     needed = most(v->needed, pool_kept(v->pool, v->now_s));
	unsigned int cap = pool_cap(v->pool), first, missing;

	*ret = (struct pool_decision){ .submit = 0 };
	if (st->asked_ns != v->pool->asked_ns) { /* `up` again is a new beginning */
		st->asked_ns = v->pool->asked_ns;
		st->given = st->refusals = st->lost = st->vain = 0;
		st->paused = false;
		st->pause[0] = st->error[0] = '\0';
	}
	for (size_t i = 0; i < v->jobs->n; i++)
		if (is_late(v, &v->jobs->all[i]))
			cancel(ret, i, "its agent has not reported in time");
	st->cap = cap;
	st->live = c.live;
	st->waiting = c.waiting;
	st->wanted = 0;
	if (v->pool->down) {
		cancel_surplus(v, POOL_JOBS_MAX, 0, true, ret);
		return;
	}
	first = first_left(v, st, there);
	st->wanted = least(cap, most(needed, first ? there + first : c.first));
	missing = most(less(v->more, c.waiting), less(pool_kept(v->pool, v->now_s), there));
	/* What is late does not count as on its way, but its node is not free yet. */
	missing =
		least(missing, less(most(POOL_BACKLOG, less(pool_kept(v->pool, v->now_s), c.live)),
				    c.waiting));
	missing = most(missing, first);
	ret->submit =
		st->paused || pool_backoff_s(st, v->now_s)
			? 0
			: least(least(missing, less(cap, there + v->strange)), POOL_TICK_JOBS);
	ret->first = least(first, ret->submit);
	cancel_outdated(v, ret);
	if (v->pool->relay && !st->paused && !pool_backoff_s(st, v->now_s))
		plan_relay(v, needed, ret);
	cancel_surplus(v,
		       less(c.waiting, most(v->more, less(pool_kept(v->pool, v->now_s), c.live))),
		       POOL_SETTLE_S, false, ret);
}
