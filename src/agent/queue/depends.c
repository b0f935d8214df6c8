/* SPDX-License-Identifier: MIT */
#include "agent/queue/depends.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"

#define MISSES	   2   /* readings in a row; then there is no such task, ... */
#define DOUBLINGS  8   /* ... and it is looked for ever more rarely */
#define CHECKS_MAX 200 /* of files that may have gone, per reading */
#define NEVER	   UINT64_MAX

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

/* Left the queue, or was never seen: how did it end? */
struct absent {
	uint64_t id;
	uint64_t at;	     /* it is looked for with that reading; or NEVER */
	unsigned int misses; /* readings in a row with which it was found nowhere */
	enum deps_state how; /* by this look; OPEN: it is not looked for */
	char *path;	     /* of one that has not ended well, and may be asked for again */
};

struct absents {
	size_t n;
	struct absent *all;
};

struct place_depends {
	struct deps *graph;
	struct absents absent;
	bool due;	      /* some are to be looked for now */
	uint64_t n_read;      /* how often the queue was read whole */
	uint64_t checked;     /* the last one, where there are too many for one reading */
	struct ids changed;   /* wait otherwise than was told */
	struct endings ended; /* filed here, and not told yet */
};

static void add_absent(struct place_depends *d, uint64_t id, uint64_t at)
{
	struct absents *l = &d->absent;

	d->due = d->due || at <= d->n_read;
	if (l->n && l->all[l->n - 1].id == id && l->all[l->n - 1].at == at)
		return;
	l->all = xgrow(l->all, l->n, sizeof(*l->all));
	l->all[l->n++] = (struct absent){ .id = id, .at = at };
}

static void on_change(void *user, uint64_t id, enum sched_dep now)
{
	struct ids *l = &((struct place_depends *)user)->changed;

	if (l->n && l->all[l->n - 1] == id)
		return;
	l->all = xgrow(l->all, l->n, sizeof(*l->all));
	l->all[l->n++] = id;
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
		add_absent(p->depends, id, 0);
}

static struct deps_on *fill(struct deps_on *on, const struct uint_list *ids, enum deps_kind kind)
{
	for (size_t i = 0; i < ids->n; i++)
		*on++ = (struct deps_on){ .id = ids->nums[i], .kind = kind };
	return on;
}

void depends_set(struct spool_place *p, uint64_t id, const struct task_spec *spec)
{
	size_t n = spec ? spec->after.n + spec->after_any.n : 0;
	cleanup_free struct deps_on *on = n ? xcalloc(n, sizeof(*on)) : NULL;
	struct place_depends *d = p->depends;

	if (!n && !d)
		return;
	if (!d) {
		d = p->depends = xcalloc(1, sizeof(*d));
		d->graph = deps_new(on_change, d);
	}
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
	struct endings *en = p->depends ? &p->depends->ended : NULL;

	if (!en)
		return;
	deps_set(p->depends->graph, id, NULL, 0);
	if (!deps_is_waited_for(p->depends->graph, id))
		return;
	en->all = xgrow(en->all, en->n, sizeof(*en->all));
	en->all[en->n++] = (struct ended){ id, good ? DEPS_GOOD : DEPS_BAD };
}

/* ---- how they ended ---- */

static int by_id(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int by_id_and_at(const void *a, const void *b)
{
	const struct absent *x = a, *y = b;

	return x->id != y->id ? by_id(a, b) : (x->at > y->at) - (x->at < y->at);
}

static int take(struct absents *l, const struct task_name *n, const char *dir, enum deps_state how)
{
	char file[NAME_FILE_MAX];
	struct absent *found = NULL;

	/* The id is what an absent begins with. */
	if (!n->element && l->n)
		found = bsearch(&n->id, l->all, l->n, sizeof(*l->all), by_id);
	if (!found || found->how == DEPS_OPEN)
		return 0;
	found->how = how;
	free(found->path);
	found->path = how == DEPS_BAD ? xasprintf("%s/%s", dir, name_format(n, file)) : NULL;
	return 0;
}

static int on_ended(void *data, const struct task_name *n, const char *dir)
{
	return take(data, n, dir, spool_dir_of(dir) == SPOOL_DONE ? DEPS_GOOD : DEPS_BAD);
}

/* A directory that cannot be read says nothing: they are looked for again. */
static bool look_up(struct spool_place *p, struct absents *l)
{
	static const enum spool_dir dirs[] = { SPOOL_DONE, SPOOL_FAILED, SPOOL_CANCELLED };

	return scan_dirs(p->spool, dirs, ARRAY_LEN(dirs), on_ended, l, NULL) >= 0;
}

static bool is_absent(struct spool_place *p, struct place_depends *d, uint64_t id)
{
	bool here = scan_find(p->scan, id, 0);

	if (here)
		tell(d, id, DEPS_OPEN);
	return !here && deps_is_waited_for(d->graph, id);
}

/* Asked for again, it may have begun and ended between two readings, of which neither met it. No
 * task is called so twice: its epoch is in the name. */
static void check_path(struct spool_place *p, struct place_depends *d, struct absent *a)
{
	d->checked = a->id;
	if (spool_exists(p->spool, a->path))
		return;
	free(take_ptr(a->path));
	a->at = 0;
}

/* True: some of them are to be looked for. */
static bool choose(struct spool_place *p, struct place_depends *d, bool all)
{
	struct absents *l = &d->absent;
	size_t n = 0, checks = 0;
	bool any = false;

	if (l->n)
		qsort(l->all, l->n, sizeof(*l->all), by_id_and_at);
	for (size_t i = 0; i < l->n; i++) {
		struct absent a = l->all[i];

		if ((n && l->all[n - 1].id == a.id) || !is_absent(p, d, a.id)) {
			free(a.path);
			continue;
		}
		if (all && a.path && a.id > d->checked && checks++ < CHECKS_MAX)
			check_path(p, d, &a);
		a.how = a.at <= d->n_read ? DEPS_NONE : DEPS_OPEN;
		any = any || a.how == DEPS_NONE;
		l->all[n++] = a;
	}
	l->n = n;
	if (all && checks <= CHECKS_MAX)
		d->checked = 0;
	return any;
}

/*
 * What another node claims is in neither directory for a moment, and a reading may miss what comes
 * while it goes on: only who has read all, and twice, may say that there is no such task. A file
 * server may hide it for longer. What has ended and is not found any more was removed.
 */
static void tell_missing(struct place_depends *d, struct absent *a)
{
	uint64_t wait = 1ULL << (a->misses < DOUBLINGS ? a->misses : DOUBLINGS);

	a->misses++;
	a->at = (d->n_read | (wait - 1)) + 1; /* together with others */
	if (a->misses >= MISSES && deps_told(d->graph, a->id) == DEPS_OPEN)
		deps_tell(d->graph, a->id, DEPS_NONE);
}

/* False: nothing more is to be known of it. */
static bool conclude(struct place_depends *d, struct absent *a, bool all)
{
	if (a->how == DEPS_NONE && all)
		tell_missing(d, a);
	if (a->how == DEPS_NONE || a->how == DEPS_OPEN)
		return true;
	tell(d, a->id, a->how);
	a->misses = 0;
	a->at = NEVER;
	return a->how == DEPS_BAD;
}

static void look(struct spool_place *p, struct place_depends *d, bool all)
{
	struct absents *l = &d->absent;
	size_t n = 0;

	d->n_read += all;
	if (!all && !d->due)
		return;
	d->due = choose(p, d, all);
	if (d->due && !look_up(p, l))
		return;
	d->due = false;
	for (size_t i = 0; i < l->n; i++) {
		struct absent a = l->all[i];

		if (!conclude(d, &a, all))
			continue;
		d->due = d->due || a.at <= d->n_read;
		l->all[n++] = a;
	}
	l->n = n;
}

static void tell_ended(struct spool_place *p, struct place_depends *d)
{
	for (size_t i = 0; i < d->ended.n; i++) {
		const struct ended *e = &d->ended.all[i];

		/* Asked for again meanwhile, it is open. */
		deps_tell(d->graph, e->id, scan_find(p->scan, e->id, 0) ? DEPS_OPEN : e->how);
		if (e->how == DEPS_BAD) /* where does it lie? */
			add_absent(d, e->id, d->n_read + 1);
	}
	free(d->ended.all);
	d->ended = (struct endings){ 0 };
}

void depends_settle(struct spool_place *p, unsigned int what, depends_fn fn, void *user)
{
	struct place_depends *d = p->depends;
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

		cleanup_strbuf struct strbuf text = STRBUF_INIT;

		if (!t || t->dir != SPOOL_PENDING)
			continue;
		deps_text(d->graph, ids.all[i], &text);
		fn(user, t, deps_state(d->graph, ids.all[i]), strbuf_str(&text));
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
	for (size_t i = 0; i < d->absent.n; i++)
		free(d->absent.all[i].path);
	free(d->absent.all);
	free(d->changed.all);
	free(d->ended.all);
	free(d);
	p->depends = NULL;
}
