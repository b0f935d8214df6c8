/* SPDX-License-Identifier: MIT */

/*
 * All or nothing: a gang is called, each of the agents takes the devices of its rank and prepares
 * its shim, and only when all have answered is the word go. Before go any trouble withdraws the
 * generation, and nothing has run. After go any rank that ends otherwise than well ends the others.
 * Whether all run again is decided when nothing of the gang is claimed any more: a node that is
 * lost makes the programs of the other ranks fail, mostly long before its claim has expired, and
 * then it is not they that are at fault. One table says what is done.
 *
 * An agent that is dead before go is trouble at once. After go its rank may run on without it (an
 * agent that is upgraded, or was killed), so there the claim decides: when that has expired, or was
 * given back, the rank waits again.
 */
#include "sched/gang.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define BACKOFF_FIRST_MS 5000
#define BACKOFF_LAST_MS	 300000
#define BACKOFF_DOUBLES	 6

const struct gang_step gang_steps[GANG_PHASE_MAX][GANG_EVENT_MAX] = {
	[GANG_IDLE] = {
		[GANG_OVER] = { GANG_IDLE, GANG_FORGET },
		[GANG_FAILED] = { GANG_IDLE, GANG_CANCEL_REST },
		[GANG_DUE] = { GANG_MUSTERING, GANG_CALL },
	},
	[GANG_MUSTERING] = {
		[GANG_OVER] = { GANG_IDLE, GANG_FORGET },
		[GANG_GONE] = { GANG_CLOSING, GANG_WITHDRAW },
		[GANG_FAILED] = { GANG_CLOSING, GANG_WITHDRAW },
		[GANG_LOST] = { GANG_CLOSING, GANG_WITHDRAW },
		[GANG_CHANGED] = { GANG_CLOSING, GANG_WITHDRAW },
		[GANG_LATE] = { GANG_CLOSING, GANG_WITHDRAW },
		[GANG_BETTER] = { GANG_CLOSING, GANG_WITHDRAW },
		[GANG_ALL] = { GANG_STARTING, GANG_GO },
	},
	[GANG_STARTING] = {
		[GANG_OVER] = { GANG_IDLE, GANG_FORGET },
		[GANG_GONE] = { GANG_CLOSING, GANG_END_FOR_GOOD },
		[GANG_FAILED] = { GANG_CLOSING, GANG_END },
		[GANG_LOST] = { GANG_CLOSING, GANG_END },
		[GANG_LATE] = { GANG_CLOSING, GANG_END },
		[GANG_ALL] = { GANG_RUNNING, GANG_WAIT },
	},
	[GANG_RUNNING] = {
		[GANG_OVER] = { GANG_IDLE, GANG_FORGET },
		[GANG_GONE] = { GANG_CLOSING, GANG_END_FOR_GOOD },
		[GANG_FAILED] = { GANG_CLOSING, GANG_END },
		[GANG_LOST] = { GANG_CLOSING, GANG_END },
	},
	[GANG_CLOSING] = {
		[GANG_OVER] = { GANG_IDLE, GANG_FORGET },
	},
};

static const char *const phase_names[GANG_PHASE_MAX] = {
	[GANG_IDLE] = "idle",	    [GANG_MUSTERING] = "mustering", [GANG_STARTING] = "starting",
	[GANG_RUNNING] = "running", [GANG_CLOSING] = "closing",
};

const char *gang_phase_name(enum gang_phase phase)
{
	return phase < GANG_PHASE_MAX ? phase_names[phase] : "?";
}

/* ---- what is the case ---- */

typedef bool (*rank_fn)(const struct gang_rank_facts *r);

/* The first for which it is true; n: none. */
static size_t find(const struct gang_facts *f, rank_fn is)
{
	size_t i = 0;

	while (i < f->n && !is(&f->ranks[i]))
		i++;
	return i;
}

static bool is_claimed(const struct gang_rank_facts *r)
{
	return r->claimed;
}

static bool was_stopped(const struct gang_rank_facts *r)
{
	return r->standing == GANG_STOPPED;
}

static bool ended_badly(const struct gang_rank_facts *r)
{
	return r->standing == GANG_BADLY;
}

static bool was_displaced(const struct gang_rank_facts *r)
{
	return r->standing == GANG_REQUEUED && r->outside;
}

static bool is_requeued(const struct gang_rank_facts *r)
{
	return r->standing == GANG_REQUEUED;
}

/* Before go. What ended then did not run. */
static bool is_lost(const struct gang_rank_facts *r)
{
	return r->standing != GANG_OPEN || r->refuses || !r->lives;
}

static bool is_not_ready(const struct gang_rank_facts *r)
{
	return !r->ready;
}

/* One that is over has, though its agent may not have said so. */
static bool has_not_begun(const struct gang_rank_facts *r)
{
	return !r->begun && r->standing == GANG_OPEN;
}

static bool is_withdrawn(const struct gang_facts *f)
{
	return f->ended || (f->decided && !f->go);
}

static enum gang_phase phase_of(const struct gang_facts *f)
{
	if (!f->called)
		return GANG_IDLE;
	if (is_withdrawn(f))
		return find(f, is_claimed) < f->n ? GANG_CLOSING : GANG_IDLE;
	if (!f->decided)
		return GANG_MUSTERING;
	return find(f, has_not_begun) < f->n ? GANG_STARTING : GANG_RUNNING;
}

bool gang_wants_claims(const struct gang_facts *f)
{
	return f->called && (is_withdrawn(f) || !f->waits);
}

/* GANG_NOTHING where there is none; rank: what is at fault. */
static enum gang_event find_trouble(const struct gang_facts *f, enum gang_phase phase, size_t *rank)
{
	if ((*rank = find(f, was_stopped)) < f->n)
		return GANG_FAILED;
	if ((*rank = find(f, ended_badly)) < f->n &&
	    (phase != GANG_IDLE || find(f, was_displaced) == f->n))
		return GANG_FAILED;
	if (phase == GANG_MUSTERING && (*rank = find(f, is_lost)) < f->n)
		return GANG_LOST;
	if (phase == GANG_MUSTERING && !f->n)
		return GANG_LOST;
	if ((phase == GANG_STARTING || phase == GANG_RUNNING) &&
	    (*rank = find(f, is_requeued)) < f->n)
		return GANG_LOST;
	return GANG_NOTHING;
}

static enum gang_event find_event(const struct gang_facts *f, enum gang_phase phase,
				  const struct gang_limits *limits, size_t *rank)
{
	uint64_t limit_ms = phase == GANG_MUSTERING  ? limits->muster_ms
			    : phase == GANG_STARTING ? limits->start_ms
						     : UINT64_MAX;
	rank_fn missing = phase == GANG_MUSTERING ? is_not_ready : has_not_begun;
	enum gang_event trouble;

	*rank = f->n;
	if (!f->waits)
		return find(f, is_claimed) < f->n ? GANG_GONE : GANG_OVER;
	trouble = find_trouble(f, phase, rank);
	if (trouble != GANG_NOTHING)
		return trouble;
	if (phase == GANG_IDLE)
		return f->due ? GANG_DUE : GANG_NOTHING;
	if (phase == GANG_CLOSING)
		return GANG_NOTHING;
	if (phase == GANG_MUSTERING && f->changed)
		return GANG_CHANGED;
	*rank = find(f, missing);
	if (*rank == f->n)
		return GANG_ALL;
	if (f->for_ms > limit_ms)
		return GANG_LATE;
	return phase == GANG_MUSTERING && f->better ? GANG_BETTER : GANG_NOTHING;
}

struct gang_verdict gang_judge(const struct gang_facts *f, const struct gang_limits *limits)
{
	struct gang_verdict v = { .phase = phase_of(f) };

	v.event = find_event(f, v.phase, limits, &v.rank);
	v.action = gang_steps[v.phase][v.event].action;
	return v;
}

uint64_t gang_backoff_ms(unsigned int failures)
{
	uint64_t ms = BACKOFF_FIRST_MS
		      << (failures < BACKOFF_DOUBLES + 1 ? failures - (failures > 0)
							 : BACKOFF_DOUBLES);

	return !failures ? 0 : ms < BACKOFF_LAST_MS ? ms : BACKOFF_LAST_MS;
}

/* ---- on which nodes ---- */

void gang_count_room(const struct gang_node *nodes, size_t n, unsigned int devices, size_t *ret_now,
		     size_t *ret_ever)
{
	*ret_now = *ret_ever = 0;
	for (size_t i = 0; i < n; i++) {
		*ret_now += nodes[i].free >= devices;
		*ret_ever += nodes[i].usable >= devices;
	}
}

struct choosing {
	const struct gang_node *nodes;
	unsigned int devices;
};

static bool has_room(const struct choosing *c, size_t i)
{
	return c->nodes[i].free >= c->devices;
}

/* Not at fault last time; room now; the fewest devices left over, so that whole nodes stay so. */
static int compare(const struct choosing *c, size_t a, size_t b)
{
	const struct gang_node *x = &c->nodes[a], *y = &c->nodes[b];

	if (x->avoid != y->avoid)
		return x->avoid ? 1 : -1;
	if (has_room(c, a) != has_room(c, b))
		return has_room(c, a) ? -1 : 1;
	if (x->free != y->free && has_room(c, a))
		return x->free < y->free ? -1 : 1;
	if (x->free != y->free)
		return x->free > y->free ? -1 : 1;
	return strcmp(x->agent, y->agent);
}

/* The best of a pool into ret, in their order; how many of them have room now, or -1 where the pool
 * has too few. */
static int choose_of_pool(const struct choosing *c, size_t n, const char *pool, size_t ranks,
			  size_t *ret)
{
	size_t k = 0;
	int now = 0;

	for (size_t i = 0; i < n; i++) {
		size_t at;

		if (c->nodes[i].busy || strcmp(c->nodes[i].pool, pool) != 0 ||
		    c->nodes[i].usable < c->devices)
			continue;
		for (at = k < ranks ? k++ : ranks; at > 0 && compare(c, i, ret[at - 1]) < 0; at--)
			if (at < ranks)
				ret[at] = ret[at - 1];
		if (at < ranks)
			ret[at] = i;
	}
	for (size_t i = 0; i < k; i++)
		now += has_room(c, ret[i]);
	return k < ranks ? -1 : now;
}

bool gang_choose(const struct gang_node *nodes, size_t n, size_t ranks, unsigned int devices,
		 size_t *ret)
{
	const struct choosing c = { nodes, devices };
	cleanup_free size_t *tried = xcalloc(ranks + 1, sizeof(*tried));
	int best = -1;

	/* A pool with several nodes is tried as often; its answer is the same. */
	for (size_t i = 0; i < n; i++) {
		int now = choose_of_pool(&c, n, nodes[i].pool, ranks, tried);

		if (now <= best)
			continue;
		best = now;
		(void)memcpy(ret, tried, ranks * sizeof(*ret));
	}
	for (size_t i = 1; best >= 0 && i < ranks; i++)
		for (size_t k = i;
		     k > 0 && strcmp(nodes[ret[k]].agent, nodes[ret[k - 1]].agent) < 0; k--) {
			size_t swap = ret[k];

			ret[k] = ret[k - 1];
			ret[k - 1] = swap;
		}
	return best >= 0;
}
