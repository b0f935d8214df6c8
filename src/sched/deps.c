/* SPDX-License-Identifier: MIT */

/*
 * A graph: a node for every task that waits or is waited for, an edge for every name. An edge hangs
 * in two lists, that of the waiter and that of the task waited for, and remembers what it counts
 * as; the waiter has the sums. What changes is carried on over a list of nodes, not by recursion:
 * chains may be long.
 */
#include "sched/deps.h"

#include "base/hash.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "sched/reason.h"
#include "sched/treap.h"

enum counts_as { EDGE_FINE, EDGE_OPEN, EDGE_BROKEN, EDGE_MAX };

struct edge {
	struct node *from; /* waits */
	struct node *to;
	enum deps_kind kind;
	enum counts_as as;
	struct edge *next_of_from;
	struct edge *next_of_to, **at_of_to;
};

struct node {
	struct hnode hnode;
	uint64_t id;
	enum deps_state told;
	bool known;	    /* it has been told */
	bool loops;	    /* it waits for itself */
	bool todo;	    /* on the list of those whose waiters are to be looked at */
	enum sched_dep now; /* as last told to the agent */
	size_t n[EDGE_MAX]; /* of what it waits for */
	struct edge *waits_for, *waited_by;
	struct node *next;	/* on that list, or in a search */
	struct node *next_loop; /* of those that loop */
	struct node *parent;	/* in a search */
	uint64_t seen;		/* by the search of that number */
};

struct deps {
	struct hmap nodes;
	struct node *loops;
	uint64_t searches;
	deps_fn fn;
	void *user;
};

struct deps *deps_new(deps_fn fn, void *user)
{
	struct deps *d = xcalloc(1, sizeof(*d));

	d->fn = fn;
	d->user = user;
	return d;
}

static struct node *find(const struct deps *d, uint64_t id)
{
	struct hnode *n = hmap_find(&d->nodes, hash_u64(id, 0));

	for (; n; n = hmap_same(n)) {
		struct node *x = treap_item(n, struct node, hnode);

		if (x->id == id)
			return x;
	}
	return NULL;
}

static struct node *get(struct deps *d, uint64_t id)
{
	struct node *x = find(d, id);

	if (!x) {
		x = xcalloc(1, sizeof(*x));
		x->id = id;
		x->now = SCHED_DEP_READY;
		hmap_insert(&d->nodes, &x->hnode, hash_u64(id, 0));
	}
	return x;
}

static void drop_if_alone(struct deps *d, struct node *x)
{
	if (x->waits_for || x->waited_by)
		return;
	hmap_remove(&d->nodes, &x->hnode);
	free(x);
}

/* ---- states ---- */

static enum counts_as judge_edge(const struct edge *e)
{
	switch (e->to->told) {
	case DEPS_GOOD:
		return EDGE_FINE;
	case DEPS_BAD:
		return e->kind == DEPS_AFTER ? EDGE_BROKEN : EDGE_FINE;
	case DEPS_NONE:
		return EDGE_BROKEN;
	case DEPS_OPEN:
	default:
		return e->kind == DEPS_AFTER && e->to->now == SCHED_DEP_NEVER ? EDGE_BROKEN
									      : EDGE_OPEN;
	}
}

static enum sched_dep judge_node(const struct node *x)
{
	return x->loops || x->n[EDGE_BROKEN] ? SCHED_DEP_NEVER
	       : x->n[EDGE_OPEN]	     ? SCHED_DEP_WAIT
					     : SCHED_DEP_READY;
}

/* Told, and put on the list where those that wait for it may have to be told as well. */
static void renew(struct deps *d, struct node *x, struct node **todo)
{
	enum sched_dep was = x->now;

	x->now = judge_node(x);
	if (x->waits_for)
		d->fn(d->user, x->id, x->now);
	if ((was == SCHED_DEP_NEVER) == (x->now == SCHED_DEP_NEVER) || x->todo)
		return;
	x->todo = true;
	x->next = *todo;
	*todo = x;
}

static void look_at_waiters(struct deps *d, struct node *x, struct node **todo)
{
	for (struct edge *e = x->waited_by; e; e = e->next_of_to) {
		enum counts_as is = judge_edge(e);

		if (is == e->as)
			continue;
		e->from->n[e->as]--;
		e->from->n[is]++;
		e->as = is;
		renew(d, e->from, todo);
	}
}

static void carry_on(struct deps *d, struct node *todo)
{
	while (todo) {
		struct node *x = todo;

		todo = x->next;
		x->todo = false;
		look_at_waiters(d, x, &todo);
	}
}

/* ---- ways round ---- */

/* The last node before x on a way from x to itself, whose parents lead back to x; or NULL. */
static struct node *find_loop(struct deps *d, struct node *x)
{
	struct node *todo = x;

	if (!x->waited_by)
		return NULL;
	x->next = x->parent = NULL;
	x->seen = ++d->searches;
	while (todo) {
		struct node *at = todo;

		todo = at->next;
		for (struct edge *e = at->waits_for; e; e = e->next_of_from) {
			struct node *to = e->to;

			if (to == x)
				return at;
			if (to->told != DEPS_OPEN || to->seen == d->searches)
				continue;
			to->seen = d->searches;
			to->parent = at;
			to->next = todo;
			todo = to;
		}
	}
	return NULL;
}

static void set_loops(struct deps *d, struct node *x, bool loops)
{
	struct node **at = &d->loops;

	if (x->loops == loops)
		return;
	x->loops = loops;
	while (*at && *at != x)
		at = &(*at)->next_loop;
	if (loops) {
		x->next_loop = d->loops;
		d->loops = x;
	} else {
		*at = x->next_loop;
	}
}

/* Those that may not loop any more, since an edge is gone or somebody has ended. */
static void look_at_loops(struct deps *d)
{
	for (struct node *x = d->loops, *after; x; x = after) {
		struct node *todo = NULL;

		after = x->next_loop;
		if (find_loop(d, x))
			continue;
		set_loops(d, x, false);
		renew(d, x, &todo);
		carry_on(d, todo);
	}
}

/* ---- edges ---- */

static void add_edge(struct deps *d, struct node *from, const struct deps_on *on)
{
	struct edge *e = xcalloc(1, sizeof(*e));

	*e = (struct edge){ .from = from, .to = get(d, on->id), .kind = on->kind };
	e->as = judge_edge(e);
	from->n[e->as]++;
	e->next_of_from = from->waits_for;
	from->waits_for = e;
	e->next_of_to = e->to->waited_by;
	e->at_of_to = &e->to->waited_by;
	if (e->next_of_to)
		e->next_of_to->at_of_to = &e->next_of_to;
	e->to->waited_by = e;
}

static void clear_edges(struct deps *d, struct node *x, struct edge *first)
{
	struct edge *e;

	while ((e = first)) {
		struct node *to = e->to;

		first = e->next_of_from;
		x->n[e->as]--;
		*e->at_of_to = e->next_of_to;
		if (e->next_of_to)
			e->next_of_to->at_of_to = e->at_of_to;
		free(e);
		if (to->waited_by)
			continue;
		to->known = false; /* nobody keeps that true */
		to->told = DEPS_OPEN;
		if (to != x)
			drop_if_alone(d, to);
	}
}

void deps_set(struct deps *d, uint64_t id, const struct deps_on *on, size_t n)
{
	struct node *x = n ? get(d, id) : find(d, id), *todo = NULL;
	struct edge *before;

	if (!x)
		return;
	before = x->waits_for;
	x->waits_for = NULL;
	/* From the last: the first that is named is then the first of the list. */
	for (size_t i = n; i-- > 0;)
		add_edge(d, x, &on[i]);
	clear_edges(d, x, before); /* then, because what is in both stays known */
	set_loops(d, x, find_loop(d, x) != NULL);
	renew(d, x, &todo);
	carry_on(d, todo);
	if (!n)
		drop_if_alone(d, x);
	look_at_loops(d);
}

void deps_tell(struct deps *d, uint64_t id, enum deps_state state)
{
	struct node *x = find(d, id), *todo = NULL;

	if (!x || !x->waited_by)
		return;
	x->known = true;
	if (x->told == state)
		return;
	x->told = state;
	look_at_waiters(d, x, &todo);
	carry_on(d, todo);
	look_at_loops(d);
}

/* ---- questions ---- */

bool deps_is_waited_for(const struct deps *d, uint64_t id)
{
	const struct node *x = find(d, id);

	return x && x->waited_by;
}

enum deps_state deps_told(const struct deps *d, uint64_t id)
{
	const struct node *x = find(d, id);

	return x ? x->told : DEPS_OPEN;
}

bool deps_is_unknown(const struct deps *d, uint64_t id)
{
	const struct node *x = find(d, id);

	return x && x->waited_by && !x->known;
}

enum sched_dep deps_state(const struct deps *d, uint64_t id)
{
	const struct node *x = find(d, id);

	return x ? x->now : SCHED_DEP_READY;
}

static void tell_loop(struct deps *d, struct node *x, struct strbuf *out)
{
	cleanup_strbuf struct strbuf way = STRBUF_INIT, round = STRBUF_INIT;

	for (struct node *at = find_loop(d, x); at && at != x; at = at->parent) {
		cleanup_free char *rest = strbuf_take(&way);

		strbuf_addf(&way, " -> %llu%s", (unsigned long long)at->id, rest);
	}
	strbuf_addf(&round, "%llu%.80s -> %llu", (unsigned long long)x->id, strbuf_str(&way),
		    (unsigned long long)x->id);
	reason_text(&(struct reason){ .code = REASON_DEPENDS_LOOP, .text = strbuf_str(&round) },
		    NULL, out);
}

/* The first that x waits for in that way. */
static const struct edge *first_edge(const struct node *x, enum counts_as as)
{
	const struct edge *e = x->waits_for;

	while (e->as != as)
		e = e->next_of_from;
	return e;
}

static void tell_broken(const struct node *x, struct strbuf *out)
{
	static const char *const why[] = { [DEPS_OPEN] = "can never run",
					   [DEPS_BAD] = "has not ended well",
					   [DEPS_NONE] = "is not there any more" };
	const struct edge *e = first_edge(x, EDGE_BROKEN);

	reason_text(&(struct reason){ .code = REASON_DEPENDS_BROKEN,
				      .other.id = e->to->id,
				      .text = why[e->to->told] },
		    NULL, out);
}

static void tell_open(const struct node *x, struct strbuf *out)
{
	const struct edge *e = first_edge(x, EDGE_OPEN);

	reason_text(&(struct reason){ .code = REASON_DEPENDS,
				      .other.id = e->to->id,
				      .well = e->kind == DEPS_AFTER,
				      .more = (uint32_t)(x->n[EDGE_OPEN] - 1) },
		    NULL, out);
}

void deps_text(const struct deps *graph, uint64_t id, struct strbuf *out)
{
	/* The marks of a search are not part of what the graph says. */
	struct deps *d = (struct deps *)(uintptr_t)graph;
	struct node *x = find(d, id);

	if (!x || x->now == SCHED_DEP_READY)
		return;
	if (x->loops)
		tell_loop(d, x, out);
	else if (x->now == SCHED_DEP_NEVER)
		tell_broken(x, out);
	else
		tell_open(x, out);
}

struct deps *deps_free(struct deps *d)
{
	if (!d)
		return NULL;
	for (struct hnode *n = hmap_next(&d->nodes, NULL), *next; n; n = next) {
		struct node *x = treap_item(n, struct node, hnode);

		next = hmap_next(&d->nodes, n);
		for (struct edge *e = x->waits_for, *after; e; e = after) {
			after = e->next_of_from;
			free(e);
		}
		free(x);
	}
	hmap_clear(&d->nodes);
	free(d);
	return NULL;
}
