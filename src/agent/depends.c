/* SPDX-License-Identifier: MIT */
#include "agent/depends.h"

#include <stdlib.h>

#include "base/mem.h"

struct ids {
	size_t n;
	uint64_t *all;
};

struct ended {
	uint64_t id;
	enum deps_state how;
};

struct endings {
	size_t n;
	struct ended *all;
};

struct place_depends {
	struct deps *graph;
	struct ids look;      /* left the queue, or were never seen: how did they end? */
	struct ids changed;   /* wait otherwise than was told */
	struct endings ended; /* filed here, and not told yet */
};

static void add_id(struct ids *l, uint64_t id)
{
	if (l->n && l->all[l->n - 1] == id)
		return;
	if ((l->n & (l->n - 1)) == 0)
		l->all = xrealloc(l->all, l->n ? 2 * l->n : 1, sizeof(*l->all));
	l->all[l->n++] = id;
}

static void add_ended(struct endings *en, uint64_t id, enum deps_state how)
{
	if ((en->n & (en->n - 1)) == 0)
		en->all = xrealloc(en->all, en->n ? 2 * en->n : 1, sizeof(*en->all));
	en->all[en->n++] = (struct ended){ id, how };
}

static void on_change(void *user, uint64_t id, enum sched_dep now)
{
	struct place_depends *d = user;

	add_id(&d->changed, id);
}

static struct place_depends *get(struct spool_place *p)
{
	if (!p->depends) {
		p->depends = xcalloc(1, sizeof(*p->depends));
		p->depends->graph = deps_new(on_change, p->depends);
	}
	return p->depends;
}

/* As it stands now: an end here before that, which is still to be told, does not count any more. */
static void tell(struct place_depends *d, uint64_t id, enum deps_state how)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->ended.n; i++)
		if (d->ended.all[i].id != id)
			d->ended.all[kept++] = d->ended.all[i];
	d->ended.n = kept;
	deps_tell(d->graph, id, how);
}

static void find_out(struct spool_place *p, uint64_t id)
{
	if (scan_find(p->scan, id, 0))
		tell(p->depends, id, DEPS_OPEN);
	else
		add_id(&p->depends->look, id);
}

static struct deps_on *fill(struct deps_on *on, const struct id_list *ids, enum deps_kind kind)
{
	for (size_t i = 0; i < ids->n; i++)
		*on++ = (struct deps_on){ .id = ids->ids[i], .kind = kind };
	return on;
}

void depends_set(struct spool_place *p, uint64_t id, const struct spool_spec *spec)
{
	size_t n = spec ? spec->after.n + spec->after_any.n : 0;
	cleanup_free struct deps_on *on = n ? xcalloc(n, sizeof(*on)) : NULL;
	struct place_depends *d;

	if (!n && !p->depends)
		return;
	d = get(p);
	if (n)
		(void)fill(fill(on, &spec->after, DEPS_AFTER), &spec->after_any, DEPS_AFTER_ANY);
	deps_set(d->graph, id, on, n);
	for (size_t i = 0; i < n; i++)
		if (deps_is_unknown(d->graph, on[i].id))
			find_out(p, on[i].id);
}

void depends_seen(struct spool_place *p, uint64_t id)
{
	if (p->depends && deps_is_waited_for(p->depends->graph, id))
		find_out(p, id);
}

void depends_ended(struct spool_place *p, uint64_t id, bool good)
{
	if (!p->depends)
		return;
	deps_set(p->depends->graph, id, NULL, 0);
	if (deps_is_waited_for(p->depends->graph, id))
		add_ended(&p->depends->ended, id, good ? DEPS_GOOD : DEPS_BAD);
}

/* ---- how they ended ---- */

static int by_id(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int take(struct endings *en, const struct task_name *n, enum deps_state how)
{
	struct ended *found = NULL;

	/* The id is what an ended begins with. */
	if (!n->element)
		found = bsearch(&n->id, en->all, en->n, sizeof(*en->all), by_id);
	if (found)
		found->how = how;
	return 0;
}

static int on_good(void *data, const struct task_name *n, const char *dir)
{
	return take(data, n, DEPS_GOOD);
}

static int on_bad(void *data, const struct task_name *n, const char *dir)
{
	return take(data, n, DEPS_BAD);
}

/* A directory that cannot be read says nothing: they are looked for again. */
static bool look_up(struct spool_place *p, struct endings *en)
{
	return scan_done(p->spool, on_good, en, NULL) >= 0 &&
	       scan_dir(p->spool, "failed", on_bad, en, NULL) >= 0 &&
	       scan_dir(p->spool, "cancelled", on_bad, en, NULL) >= 0;
}

/* What another node claims is in neither directory for a moment: only who has read all may say that
 * there is no such task. */
static void look(struct spool_place *p, struct place_depends *d, bool all)
{
	struct ids ids = d->look;
	struct endings en = { 0 };

	d->look = (struct ids){ 0 };
	if (ids.n)
		qsort(ids.all, ids.n, sizeof(*ids.all), by_id);
	for (size_t i = 0; i < ids.n; i++) {
		if ((i && ids.all[i] == ids.all[i - 1]) ||
		    !deps_is_waited_for(d->graph, ids.all[i]))
			continue;
		if (scan_find(p->scan, ids.all[i], 0))
			tell(d, ids.all[i], DEPS_OPEN);
		else
			add_ended(&en, ids.all[i], DEPS_NONE);
	}
	bool read = !en.n || look_up(p, &en);

	for (size_t i = 0; i < en.n; i++)
		if (read && en.all[i].how != DEPS_NONE)
			tell(d, en.all[i].id, en.all[i].how);
		else if (read && all)
			deps_tell(d->graph, en.all[i].id, DEPS_NONE);
		else
			add_id(&d->look, en.all[i].id);
	free(en.all);
	free(ids.all);
}

static void tell_ended(struct spool_place *p, struct place_depends *d)
{
	for (size_t i = 0; i < d->ended.n; i++) {
		const struct ended *e = &d->ended.all[i];

		/* Asked for again meanwhile, it is open. */
		deps_tell(d->graph, e->id, scan_find(p->scan, e->id, 0) ? DEPS_OPEN : e->how);
	}
	free(d->ended.all);
	d->ended = (struct endings){ 0 };
}

void depends_settle(struct spool_place *p, unsigned int what, depends_fn fn, void *user)
{
	struct place_depends *d = p->depends;
	char text[DEPS_TEXT_MAX];
	struct ids ids;

	if (!d)
		return;
	look(p, d, what & DEPENDS_ALL);
	if (what & DEPENDS_SYNCED)
		tell_ended(p, d);
	ids = d->changed;
	d->changed = (struct ids){ 0 };
	if (ids.n)
		qsort(ids.all, ids.n, sizeof(*ids.all), by_id);
	for (size_t i = 0; i < ids.n; i++) {
		const struct scan_task *t = i && ids.all[i] == ids.all[i - 1]
						    ? NULL
						    : scan_find(p->scan, ids.all[i], 0);

		if (t && t->dir == SPOOL_PENDING)
			fn(user, t, deps_state(d->graph, ids.all[i]),
			   deps_text(d->graph, ids.all[i], text));
	}
	free(ids.all);
}

enum sched_dep depends_state(const struct spool_place *p, uint64_t id)
{
	return p->depends ? deps_state(p->depends->graph, id) : SCHED_DEP_READY;
}

void depends_free(struct spool_place *p)
{
	struct place_depends *d = p->depends;

	if (!d)
		return;
	d->graph = deps_free(d->graph);
	free(d->look.all);
	free(d->changed.all);
	free(d->ended.all);
	free(d);
	p->depends = NULL;
}
