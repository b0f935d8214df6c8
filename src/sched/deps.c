/* SPDX-License-Identifier: MIT */

/*
 * A graph: a node for every task that waits or is waited for, an edge for every name. An edge hangs
 * in two lists, that of the waiter and that of the task waited for, and is taken out of both when
 * it is satisfied. A node goes when it has neither. The first edge that can never be satisfied is
 * kept as the reason, and the failure goes on to those that wait for the waiter by `after`.
 */
#include "sched/deps.h"

#include <errno.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "sched/hmap.h"
#include "sched/treap.h"

struct edge {
	struct node *from; /* waits */
	struct node *to;
	enum deps_kind kind;
	struct edge *next_of_from;
	struct edge *next_of_to;
};

struct node {
	struct hnode hnode;
	struct sched_ref ref;
	struct edge *waits_for;
	struct edge *waited_by;
	struct sched_ref broken_by; /* can never run because of it; id 0 = not so */
	bool ending;		    /* its waiters are being told: it stays */
	bool unknown;		    /* there is no broken_by */
	uint64_t seen;		    /* by the search of that number */
	struct node *parent;	    /* in the search */
	struct node *next;	    /* to be looked at, or told */
};

struct deps {
	struct hmap nodes;
	uint64_t searches;
};

struct deps *deps_new(void)
{
	return xcalloc(1, sizeof(struct deps));
}

static struct node *find(const struct deps *d, struct sched_ref ref)
{
	struct hnode *n = hmap_find(&d->nodes, hash_u64(ref.id, ref.element));

	for (; n; n = hmap_same(n)) {
		struct node *x = treap_item(n, struct node, hnode);

		if (x->ref.id == ref.id && x->ref.element == ref.element)
			return x;
	}
	return NULL;
}

static struct node *get(struct deps *d, struct sched_ref ref)
{
	struct node *x = find(d, ref);

	if (!x) {
		x = xcalloc(1, sizeof(*x));
		x->ref = ref;
		hmap_insert(&d->nodes, &x->hnode, hash_u64(ref.id, ref.element));
	}
	return x;
}

static void drop_if_alone(struct deps *d, struct node *x)
{
	if (x->waits_for || x->waited_by || x->broken_by.id || x->ending)
		return;
	hmap_remove(&d->nodes, &x->hnode);
	free(x);
}

static void unlink_from(struct edge *e)
{
	struct edge **at = &e->from->waits_for;

	while (*at != e)
		at = &(*at)->next_of_from;
	*at = e->next_of_from;
}

static void unlink_to(struct edge *e)
{
	struct edge **at = &e->to->waited_by;

	while (*at != e)
		at = &(*at)->next_of_to;
	*at = e->next_of_to;
}

static void clear_waits(struct deps *d, struct node *x)
{
	struct edge *e;

	while ((e = x->waits_for)) {
		struct node *to = e->to;

		x->waits_for = e->next_of_from;
		unlink_to(e);
		free(e);
		drop_if_alone(d, to);
	}
}

void deps_forget(struct deps *d, struct sched_ref task)
{
	struct node *x = find(d, task);

	if (!x)
		return;
	clear_waits(d, x);
	x->broken_by = (struct sched_ref){ 0 };
	drop_if_alone(d, x);
}

static const char *name_of(struct sched_ref ref, char *buf, size_t size)
{
	return str_print(buf, size, ref.element ? "%llu.%u" : "%llu", (unsigned long long)ref.id,
			 ref.element);
}

static int tell_cycle(const struct node *last, struct sched_ref task, struct err *e)
{
	cleanup_strbuf struct strbuf way = STRBUF_INIT;
	char name[40], first[40];

	/* From the one that waits for `task` back to the one that the search began with. */
	for (const struct node *x = last; x; x = x->parent) {
		cleanup_free char *rest = strbuf_take(&way);

		strbuf_addf(&way, " -> %s%s", name_of(x->ref, name, sizeof(name)), rest);
	}
	(void)name_of(task, first, sizeof(first));
	return err_set(e, -ELOOP, "task %s would wait for itself: %s%s -> %s", first, first,
		       strbuf_str(&way), first);
}

/* Put x on the list of what the search has to look at, once. */
static void reach(struct deps *d, struct node *x, struct node *parent, struct node **todo)
{
	if (x->seen == d->searches)
		return;
	x->seen = d->searches;
	x->parent = parent;
	x->next = *todo;
	*todo = x;
}

int deps_check_cycle(const struct deps *graph, struct sched_ref task, const struct deps_on *on,
		     size_t n, struct err *e)
{
	/* The marks of a search are not part of what the graph says. */
	struct deps *d = (struct deps *)(uintptr_t)graph;
	struct node *todo = NULL;

	d->searches++;
	for (size_t i = 0; i < n; i++) {
		struct node *x = find(d, on[i].ref);

		if (on[i].ref.id == task.id && on[i].ref.element == task.element)
			return tell_cycle(NULL, task, e);
		if (x && on[i].known == DEPS_PENDING)
			reach(d, x, NULL, &todo);
	}
	while (todo) {
		struct node *x = todo;

		todo = x->next;
		if (x->ref.id == task.id && x->ref.element == task.element)
			return tell_cycle(x->parent, task, e);
		for (struct edge *w = x->waits_for; w; w = w->next_of_from)
			reach(d, w->to, x, &todo);
	}
	return 0;
}

static void add_edge(struct deps *d, struct node *from, const struct deps_on *on)
{
	struct edge *e = xcalloc(1, sizeof(*e));

	*e = (struct edge){ .from = from, .to = get(d, on->ref), .kind = on->kind };
	e->next_of_from = from->waits_for;
	from->waits_for = e;
	e->next_of_to = e->to->waited_by;
	e->to->waited_by = e;
}

static bool is_broken(const struct deps_on *on)
{
	return on->kind == DEPS_AFTER && (on->known == DEPS_FAILED || on->known == DEPS_UNKNOWN);
}

int deps_set(struct deps *d, struct sched_ref task, const struct deps_on *on, size_t n,
	     struct err *e)
{
	int r = deps_check_cycle(d, task, on, n, e);

	if (r < 0)
		return r;
	deps_forget(d, task);

	struct node *x = get(d, task);

	for (size_t i = 0; i < n; i++) {
		if (on[i].known == DEPS_PENDING) {
			add_edge(d, x, &on[i]);
		} else if (is_broken(&on[i]) && !x->broken_by.id) {
			x->broken_by = on[i].ref;
			x->unknown = on[i].known == DEPS_UNKNOWN;
		}
	}

	enum sched_dep state = x->broken_by.id ? SCHED_DEP_NEVER
			       : x->waits_for  ? SCHED_DEP_WAIT
					       : SCHED_DEP_READY;

	if (state == SCHED_DEP_NEVER)
		clear_waits(d, x);
	drop_if_alone(d, x);
	return (int)state;
}

/* One edge of what has ended; the waiter goes to *never when that breaks it. */
static void end_edge(struct deps *d, struct edge *e, bool succeeded, struct node **never,
		     deps_fn fn, void *user)
{
	struct node *from = e->from;
	struct sched_ref ref = from->ref;
	bool broken = e->kind == DEPS_AFTER && !succeeded;

	if (broken) {
		from->broken_by = e->to->ref;
		from->next = *never;
		*never = from;
	}
	unlink_from(e);
	free(e);
	if (broken) {
		clear_waits(d, from);
	} else if (!from->waits_for && !from->broken_by.id) {
		drop_if_alone(d, from);
		fn(ref, SCHED_DEP_READY, user);
	}
}

static void end_node(struct deps *d, struct node *x, bool succeeded, struct node **never,
		     deps_fn fn, void *user)
{
	struct edge *e;

	while ((e = x->waited_by)) {
		x->waited_by = e->next_of_to;
		end_edge(d, e, succeeded, never, fn, user);
	}
}

void deps_ended(struct deps *d, struct sched_ref task, bool succeeded, deps_fn fn, void *user)
{
	struct node *x = find(d, task);
	struct node *never = NULL;

	if (!x)
		return;
	x->ending = true;
	end_node(d, x, succeeded, &never, fn, user);
	x->ending = false;
	drop_if_alone(d, x);
	while ((x = never)) {
		struct sched_ref ref = x->ref;

		never = x->next;
		end_node(d, x, false, &never, fn, user);
		fn(ref, SCHED_DEP_NEVER, user);
	}
}

const char *deps_text(const struct deps *d, struct sched_ref task, char *buf)
{
	const struct node *x = find(d, task);
	char name[40], rest[40] = "";
	size_t more = 0;

	buf[0] = '\0';
	if (!x)
		return buf;
	if (x->broken_by.id) {
		(void)name_of(x->broken_by, name, sizeof(name));
		return str_print(buf, DEPS_TEXT_MAX, "task %s, which it needs, %s", name,
				 x->unknown ? "does not exist" : "failed");
	}
	for (const struct edge *e = x->waits_for; e; e = e->next_of_from)
		more++;
	if (!more)
		return buf;
	(void)name_of(x->waits_for->to->ref, name, sizeof(name));
	if (more > 1)
		(void)str_print(rest, sizeof(rest), " and %zu more", more - 1);
	return str_print(buf, DEPS_TEXT_MAX, "waits for task %s to %s%s", name,
			 x->waits_for->kind == DEPS_AFTER ? "succeed" : "end", rest);
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
