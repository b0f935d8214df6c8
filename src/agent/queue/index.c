/* SPDX-License-Identifier: MIT */

#include "agent/queue/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/queue/depends.h"
#include "agent/queue/foreign.h"
#include "agent/queue/learning.h"
#include "agent/queue/planview.h"
#include "agent/queue/waiting.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/elements.h"
#include "spool/lane.h"
#include "spool/transit.h"

#define PART_MAX  2000		   /* changes that are told at once, ... */
#define PART_NS	  (50 * NS_PER_MS) /* ... and how long reading for them takes */
#define UNREAD_NS NS_PER_S	   /* until a file is read again, twice as long each time, ... */
#define DOUBLINGS 6		   /* ... so often */
#define REASONS	  100		   /* of unread files are kept; and so many are told by one job */
#define TRIM_NS	  (10 * NS_PER_S)  /* between two times that memory is given back */
#define ROUND_NS  (5 * NS_PER_MS)  /* for journals of batches that still wait, per reading of all */

struct seen {
	uint64_t id, count;
	uint32_t priority;
	bool waits;
};

/* A file that could not be read. One that was missing once has mostly just been claimed elsewhere,
 * so that is said when it is missing again. */
struct unread {
	uint64_t id, at_ns;
	unsigned int tries;
	int code;
	char *why;
};

/* What the scan told and nobody has looked at yet; belongs to the spooler's jobs. */
struct place_todo {
	size_t n_unread, n_why;
	struct unread *unread; /* in the order in which it failed */
	size_t n, at;
	unsigned int settle; /* DEPENDS_..., when all of it is done */
	struct seen *seen;
	bool used; /* memory, since it was given back at: */
	uint64_t trimmed_ns;
};

struct worker {
	struct index_reading *b;
	struct spool_place *place;
	struct place_todo *todo;
	size_t n_known; /* of todo, before this job */
	size_t n_noted; /* files that cannot be read, of which it was said */
	bool unread_changed;
};

static void drop_unread(struct place_todo *todo, struct unread *u)
{
	todo->n_why -= u->why != NULL;
	free(u->why);
	u->why = NULL;
}

void index_forget(struct spool_place *p)
{
	depends_free(p);
	foreign_forget(p);
	learning_free(p);
	for (size_t i = 0; p->todo && i < p->todo->n_unread; i++)
		drop_unread(p->todo, &p->todo->unread[i]);
	if (p->todo) {
		free(p->todo->unread);
		free(p->todo->seen);
	}
	free(p->todo);
	p->todo = NULL;
}

/* ---- changes ---- */

static struct index_change *add_change(struct index_reading *b, uint64_t id)
{
	struct index_change *c;

	b->changes = xgrow(b->changes, b->n_changes, sizeof(*b->changes));
	c = &b->changes[b->n_changes++];
	*c = (struct index_change){ .task = { .id = id } };
	return c;
}

/* The end of a back-off that was noted at since_wall_ns. The wall clock may have been stepped since
 * then: nothing waits longer than it was to. */
static uint64_t to_mono(const struct index_reading *b, uint64_t wall_ns, uint64_t since_wall_ns)
{
	uint64_t left = wall_ns > b->now_wall_ns ? wall_ns - b->now_wall_ns : 0;
	uint64_t whole = wall_ns > since_wall_ns ? wall_ns - since_wall_ns : 0;

	left = left < whole ? left : whole;
	return left ? b->now_ns + left : 0;
}

static void add_again(struct worker *w, struct index_change *c, uint32_t element,
		      const struct batch_again *again, uint64_t most)
{
	c->again = xgrow(c->again, c->n_again, sizeof(*c->again));
	c->again[c->n_again++] = (struct index_again){
		.element = element,
		.not_before_ns = to_mono(w->b, again->not_before_ns, again->noted_ns),
		.mem_bytes = most ? most : again->memory,
		.reason = again->reason && again->reason[0] ? xstrdup(again->reason) : NULL,
	};
}

/* What of a batch does not wait as it is written. */
static void look_into_batch(struct worker *w, struct index_change *c, uint64_t count)
{
	struct place_batch *p = place_batch(w->place, c->task.id, NULL);
	unsigned int attempts;
	uint64_t epoch, most = 0;

	if (p && spec_is_gang(p->spec))
		most = batch_memory_most(p->batch);
	for (uint64_t i = 1; p && i <= count; i++) {
		bool waits = batch_state(p->batch, i, &epoch, &attempts) == BATCH_WAITING;
		const struct batch_again *again = waits ? batch_again_of(p->batch, i) : NULL;

		if (waits && !again)
			continue;
		if (again)
			add_again(w, c, (uint32_t)i, again, most);
		c->out = xgrow(c->out, c->n_out, sizeof(*c->out));
		c->out[c->n_out++] = (uint32_t)i;
	}
}

/* All its elements have ended, and who ended the last one did not come to file it. */
static bool file_batch(struct worker *w, struct place_batch *p)
{
	uint64_t id = p->id;
	bool good = batch_result(p->batch) == RESULT_DONE;

	if (!batch_is_over(p->batch) || waiting_file(p->batch, w->place, id, NULL) != 0)
		return false;
	depends_ended(w->place, id, good);
	w->b->filed = true;
	place_forget_batch(w->place, id);
	return true;
}

/*
 * It is called otherwise than when it was opened, or was edited, or elements of it were asked for
 * again. 1: it was over, and is filed now; 0, or negative.
 */
static int renew_batch(struct worker *w, const struct task_name *n, struct err *e)
{
	struct place_batch *p = place_batch(w->place, n->id, e);
	int r;

	if (!p)
		return e->code;
	batch_set_name(p->batch, n);
	r = batch_refresh(p->batch, e);
	return r < 0 ? r : file_batch(w, p);
}

/* Edits of a batch are for the elements that start from now on. */
static void keep_spec(struct worker *w, uint64_t id, struct task_file *t)
{
	struct place_batch *p = place_batch(w->place, id, NULL);

	if (!p)
		return;
	p->returned = batch_returned(p->batch);
	spec_free(p->spec);
	p->spec = take_ptr(t->spec);
}

/* It waits, and is in nobody's plan until it can be read. was: how it stood before this try. */
static void keep_unread(struct worker *w, const struct task_name *n, const struct unread *was,
			int code, const char *why)
{
	struct place_todo *todo = w->todo;
	unsigned int tries = was ? was->tries : 0;
	bool said = code == -ENOENT ? tries != 1 : was && was->code == code;
	unsigned int doublings = tries < DOUBLINGS ? tries : DOUBLINGS;

	todo->unread = xgrow(todo->unread, todo->n_unread, sizeof(*todo->unread));
	todo->unread[todo->n_unread++] =
		(struct unread){ .id = n->id,
				 .at_ns = clock_mono_ns() + (UNREAD_NS << doublings),
				 .tries = tries + 1,
				 .code = code,
				 .why = todo->n_why < REASONS ? xstrdup(why) : NULL };
	todo->n_why += todo->n_why < REASONS;
	w->unread_changed = true;
	if (said || w->n_noted++ > REASONS)
		return;
	if (w->n_noted > REASONS)
		strbuf_adds(&w->b->notes, "more tasks cannot be read; tenure why tells of each\n");
	else
		strbuf_addf(&w->b->notes, "task %llu cannot be read: %s; looking again\n",
			    (unsigned long long)n->id, why);
}

/* Else one of them lies, and elements would be run that nobody has asked for. */
static int check_count(const struct task_name *n, const struct task_spec *spec, struct err *e)
{
	uint64_t count = 0;

	if (spec_count(spec, &count, NULL) == 0 && count == n->count)
		return 0;
	return err_set(e, -EINVAL, "by its file's name it has %llu elements, by what is in it %llu",
		       (unsigned long long)n->count, (unsigned long long)count);
}

bool index_name_says_all(const struct spool_place *place, const struct task_name *n)
{
	return !place_has_timeout(place, n->id) && n->gpus == 0 && n->count == 0 && n->epoch == 0 &&
	       !(n->flags & ~(NAME_PAUSED | NAME_EDITED | NAME_PREEMPTIBLE | NAME_SHARED));
}

static void add_by_name(struct worker *w, const struct task_name *n)
{
	struct index_change *c = add_change(w->b, n->id);

	c->waits = true;
	sched_task_from_spec(n, NULL, &c->task);
	c->task.elsewhere = place_is_elsewhere(w->place, NULL); /* one with a pool has GPUs */
	(void)str_copy(c->lane, sizeof(c->lane), n->lane);
	depends_set(w->place, n->id, NULL);
}

static void add_after(struct uint_list *to, const struct uint_list *from)
{
	for (size_t i = 0; i < from->n; i++) {
		to->nums = xgrow(to->nums, to->n, sizeof(*to->nums));
		to->nums[to->n++] = from->nums[i];
	}
}

static void read_waiting(struct worker *w, const struct task_name *n, const struct unread *was)
{
	char file[NAME_FILE_MAX], path[SPOOL_PATH_MAX];
	struct index_change *c;
	struct err e = ERR_INIT;
	struct task_file t;
	int r;

	if (index_name_says_all(w->place, n)) {
		add_by_name(w, n);
		return;
	}
	r = n->count ? renew_batch(w, n, &e) : 0;
	if (r > 0)
		return;
	if (r == 0)
		r = task_file_read(w->place->spool,
				   spool_path(SPOOL_PENDING, name_format(n, file), path), &t, &e);
	if (r == 0 && (r = check_count(n, t.spec, &e)) < 0)
		task_file_clear(&t);
	if (r < 0) {
		keep_unread(w, n, was, r, e.text);
		return;
	}
	c = add_change(w->b, n->id);
	c->waits = true;
	sched_task_from_spec(n, t.spec, &c->task);
	learning_plan(w->place, t.spec, &c->task);
	c->task.elsewhere = place_is_elsewhere(w->place, t.spec->pool);
	c->task.model = NULL; /* which the spec takes with it */
	(void)str_copy(c->lane, sizeof(c->lane), n->lane);
	c->note = t.history.reason[0] ? xstrdup(t.history.reason) : NULL;
	c->model = t.spec->model ? xstrdup(t.spec->model) : NULL;
	if (transit_backs_off(n, &t.history)) { /* else what the name says was asked for since */
		c->task.begin_wall_ns = 0;
		c->task.not_before_ns = to_mono(w->b, t.history.not_before_ns, t.history.again_ns);
	}
	depends_set(w->place, n->id, t.spec);
	add_after(&c->after, &t.spec->after);
	add_after(&c->after, &t.spec->after_any);
	if (n->count) {
		look_into_batch(w, c, n->count);
		keep_spec(w, n->id, &t);
	}
	task_file_clear(&t);
}

static void add_waiting(struct worker *w, const struct task_name *n)
{
	read_waiting(w, n, NULL);
}

static int by_unread_id(const void *a, const void *b)
{
	const struct unread *x = a, *y = b;

	return x->id != y->id ? (x->id > y->id) - (x->id < y->id)
			      : (x->tries < y->tries) - (x->tries > y->tries);
}

/* What could not be read, and is not told anew by any scan because nothing of it changes. */
static void look_at_unread(struct worker *w)
{
	struct place_todo *todo = w->todo;
	struct unread *all = todo->unread;
	size_t n = todo->n_unread;
	uint64_t now = clock_mono_ns(), last = 0;
	bool first = true;

	if (!n)
		return;
	todo->unread = NULL;
	todo->n_unread = 0;
	qsort(all, n, sizeof(*all), by_unread_id); /* one may have failed in two ways */
	for (size_t i = 0; i < n; i++) {
		const struct scan_task *t = scan_find(w->place->scan, all[i].id, 0);
		bool due = now >= all[i].at_ns && w->b->n_changes < PART_MAX &&
			   (first || clock_mono_ns() - now < PART_NS);
		bool waits = t && t->dir == SPOOL_PENDING && all[i].id != last;
		struct task_name name;

		last = all[i].id;
		if (waits && !due) {
			todo->unread = xgrow(todo->unread, todo->n_unread, sizeof(*todo->unread));
			todo->unread[todo->n_unread++] = all[i];
			continue;
		}
		w->unread_changed = true;
		drop_unread(todo, &all[i]);
		if (!waits)
			continue;
		first = false;
		name = t->name;
		read_waiting(w, &name, &all[i]);
	}
	free(all);
}

static void tell_unread(struct worker *w)
{
	struct place_todo *todo = w->todo;
	struct index_reading *b = w->b;

	if (!w->unread_changed)
		return;
	b->unread_known = true;
	b->n_unread = todo->n_unread;
	b->unread = xcalloc(todo->n_unread + 1, sizeof(*b->unread));
	for (size_t i = 0; i < todo->n_unread; i++)
		b->unread[i] = (struct index_unread){
			.id = todo->unread[i].id,
			.bad = spool_is_bad(todo->unread[i].code) || todo->unread[i].code == -EFBIG,
			.why = todo->unread[i].why ? xstrdup(todo->unread[i].why) : NULL
		};
}

/*
 * Another agent is gone. An element that it had claimed was none of ours then; if it was requeued
 * since, because it had failed there or the claim had expired, it is in nobody's plan.
 */
static void look_at_batches(struct worker *w)
{
	const struct scan_task *t;
	size_t iter = 0;

	while ((t = scan_next(w->place->scan, &iter)))
		if (t->dir == SPOOL_PENDING && t->name.count)
			add_waiting(w, &t->name);
}

static bool is_claimed(void *data, uint64_t element)
{
	const struct place_batch *p = ((void **)data)[0];
	const struct spool_place *place = ((void **)data)[1];

	return scan_find(place->scan, p->id, element) != NULL;
}

/*
 * What other agents do to elements nobody tells: they end the last ones, or requeue one that failed
 * there. Whoever did it may have died before it filed the batch, or starts nothing more. So
 * the journals are looked at whenever the directories have been read: at each time of what has
 * nothing left that waits, and as far as there is time of the others, in turn.
 */
static void look_at_journals(struct worker *w)
{
	uint64_t begun = clock_mono_ns();
	struct place_batch *p = w->place->batches, *next;
	bool time_left = true, passed_over = false;

	for (; p; p = next) {
		struct batch_counts c = batch_counts(p->batch);
		const struct scan_task *t = scan_find(w->place->scan, p->id, 0);
		void *data[] = { p, w->place };
		struct task_name n;

		next = p->next;
		if (!t || t->dir != SPOOL_PENDING)
			continue;
		n = t->name;
		if (c.waiting && (!time_left || p->round == w->place->round)) {
			passed_over = passed_over || p->round != w->place->round;
			continue;
		}
		p->round = w->place->round;
		if (batch_refresh(p->batch, NULL) < 0)
			continue;
		if (!c.waiting)
			(void)batch_check_running(p->batch, is_claimed, data, NULL);
		if (!file_batch(w, p) && p->returned != batch_returned(p->batch))
			add_waiting(w, &n);
		time_left = clock_mono_ns() - begun < ROUND_NS;
	}
	w->place->round += !passed_over;
}

static void on_change(void *data, enum scan_change change, const struct scan_task *t)
{
	struct worker *w = data;
	struct place_todo *todo = w->todo;

	if (t->name.element)
		return; /* of a batch, which its journals speak for */
	todo->seen = xgrow(todo->seen, todo->n, sizeof(*todo->seen));
	todo->seen[todo->n++] =
		(struct seen){ .id = t->name.id,
			       .count = t->name.count,
			       .priority = (uint32_t)t->name.priority,
			       .waits = t->dir == SPOOL_PENDING && change != SCAN_REMOVED };
}

/*
 * The index is as old as the last look at the directories: whether it waits is asked of its file. A
 * batch that is not called so any more was renamed by somebody, and is there: what runs of it is
 * filed in it, so it is never out of the index until all was read again.
 */
static void look_at_id(struct worker *w, const struct scan_task *t)
{
	struct scan_task seen = *t;
	char file[NAME_FILE_MAX];
	bool gone = seen.dir == SPOOL_PENDING && !spool_is_there_now(w->place->spool, SPOOL_PENDING,
								     name_format(&seen.name, file));

	if (gone && seen.name.count) {
		w->b->want.all = true;
		gone = false;
	}
	if (gone)
		scan_note(w->place->scan, SPOOL_PENDING, &seen.name, false);
	on_change(w, gone ? SCAN_REMOVED : SCAN_CHANGED, &seen);
}

static void look_at_ids(struct worker *w)
{
	const struct uint_list *ids = &w->b->want.ids;

	for (size_t i = 0; i < ids->n; i++) {
		const struct scan_task *t = scan_find(w->place->scan, ids->nums[i], 0);

		if (t)
			look_at_id(w, t);
	}
}

/* What runs have needed since says of some that wait how much they ask for. */
static void look_at_learned(struct worker *w)
{
	struct learning_news news;

	learning_look(w->place, w->b->now_ns, &news);
	for (size_t i = 0; i < news.ids.n; i++) {
		const struct scan_task *t = scan_find(w->place->scan, news.ids.nums[i], 0);

		if (t)
			look_at_id(w, t);
	}
	uint_list_clear(&news.ids);
	w->b->times_known = news.some;
	w->b->n_times = news.n_times;
	w->b->times = news.times;
}

/* What is gone first, then as the planner would start them: a part of it may be all that is known
 * for a moment. */
static int by_turn(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	if (x->waits != y->waits)
		return x->waits ? 1 : -1;
	if (x->priority != y->priority)
		return x->priority < y->priority ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

static size_t room_for(size_t n)
{
	size_t room = 1;

	while (room < n)
		room *= 2;
	return room;
}

static void sort_todo(struct place_todo *todo)
{
	if (todo->at) {
		(void)memmove(todo->seen, todo->seen + todo->at,
			      (todo->n - todo->at) * sizeof(*todo->seen));
		todo->n -= todo->at;
		todo->at = 0;
		todo->seen = xrealloc(todo->seen, room_for(todo->n), sizeof(*todo->seen));
	}
	if (todo->n > 1)
		qsort(todo->seen, todo->n, sizeof(*todo->seen), by_turn);
}

static void look_at(struct worker *w, const struct seen *s)
{
	const struct scan_task *t = scan_find(w->place->scan, s->id, 0);

	depends_seen(w->place, s->id);
	if (s->waits && t) {
		struct task_name n = t->name;

		add_waiting(w, &n);
		return;
	}
	depends_set(w->place, s->id, NULL);
	place_forget_batch(w->place, s->id);
	add_change(w->b, s->id)->task.n_elements = planview_count(s->count);
}

/* A part at a time: what is read can start while the rest is, and needs no room twice. One of them
 * in any case, as slow as the queue may be. */
static void look_at_seen(struct worker *w)
{
	struct place_todo *todo = w->todo;
	uint64_t begun = clock_mono_ns();
	size_t first;

	if (todo->n > w->n_known)
		sort_todo(todo);
	first = todo->at;
	while (todo->at < todo->n && w->b->n_changes < PART_MAX &&
	       (todo->at == first || clock_mono_ns() - begun < PART_NS))
		look_at(w, &todo->seen[todo->at++]);
	w->b->more = todo->at < todo->n;
	if (w->b->more)
		return;
	free(todo->seen);
	todo->seen = NULL;
	todo->n = todo->at = 0;
}

/* ---- dependencies ---- */

static void on_depends(void *user, const struct scan_task *t, enum sched_dep dep, const char *text)
{
	struct worker *w = user;
	struct index_change *c = add_change(w->b, t->name.id);

	c->dep_only = true;
	c->task.n_elements = planview_count(t->name.count);
	c->task.dep = dep;
	c->note = text[0] ? xstrdup(text) : NULL;
}

static void set_deps(struct worker *w)
{
	for (size_t i = 0; i < w->b->n_changes; i++)
		if (w->b->changes[i].waits)
			w->b->changes[i].task.dep =
				depends_state(w->place, w->b->changes[i].task.id);
}

/* ---- all of it ---- */

static int add_lane(void *data, const char *lane)
{
	struct worker *w = data;
	cleanup_free char *reason = lane_reason(w->place->spool, lane);

	if (reason) {
		text_list_add(&w->b->lanes, lane);
		text_list_add(&w->b->reasons, reason);
	}
	return 0;
}

/* What inotify told, one by one; where that does not say it all, everything. */
static void look_at_names(struct worker *w)
{
	struct index_want *want = &w->b->want;

	for (size_t i = 0; i < want->names.n && !want->all; i++)
		want->all = scan_look(w->place->scan, want->names.texts[i], on_change, w) != 0;
}

static void read_all(struct worker *w)
{
	uint32_t before = scan_generation(w->place->scan);
	uint64_t begun = clock_mono_ns();

	w->b->code = scan_update(w->place->scan, on_change, w, &w->b->e);
	if (w->b->code < 0 || scan_generation(w->place->scan) != before)
		w->b->read_ns = clock_mono_ns() - begun;
	/* Without it, what waits in a paused lane would be taken for what can start. */
	if (w->b->code >= 0)
		w->b->code = lanes_paused(w->place->spool, add_lane, w, &w->b->e);
	w->b->lanes_read = w->b->code >= 0;
}

/* What the directories do not say by themselves. */
static void look_around(struct worker *w)
{
	struct index_reading *b = w->b;

	if (b->want.all) {
		b->ordered = foreign_look(w->place, &b->notes, &b->order);
		strbuf_adds(&b->notes, scan_notes(w->place->scan));
		b->raw_known = true;
		b->raw_waits = foreign_waits(w->place);
	}
	if (b->want.batches)
		look_at_batches(w);
	if (b->want.all && !b->more)
		look_at_journals(w);
}

static void settle(struct worker *w)
{
	depends_settle(w->place, w->todo->settle, on_depends, w);
	w->todo->settle = 0;
}

/* Anybody may put files of many MiB here, and JSON takes a multiple of them. */
static void give_memory_back(struct worker *w)
{
	struct place_todo *todo = w->todo;

	todo->used = todo->used || w->b->n_changes || w->b->notes.len || w->unread_changed;
	if (!todo->used || w->b->more || w->b->now_ns - todo->trimmed_ns < TRIM_NS)
		return;
	mem_give_back();
	todo->used = false;
	todo->trimmed_ns = w->b->now_ns;
}

void index_work(struct index_reading *b, struct spool_place *place)
{
	struct worker w = { .b = b, .place = place };

	if (!place->todo) {
		place->todo = xcalloc(1, sizeof(*place->todo));
		place->todo->used = true; /* by what opened the queue */
	}
	w.todo = place->todo;
	w.n_known = w.todo->n;
	b->now_ns = clock_mono_ns();
	b->now_wall_ns = clock_wall_ns();
	place_undo_again(place);
	look_at_names(&w);
	look_at_ids(&w);
	if (b->want.all)
		read_all(&w);
	look_at_learned(&w);
	w.todo->settle |= (b->want.all && b->code >= 0 ? DEPENDS_ALL : 0) |
			  (b->want.settle ? DEPENDS_SYNCED : 0);
	look_at_seen(&w);
	if (b->want.all && b->code >= 0 && !b->more)
		look_at_unread(&w);
	if (b->code >= 0)
		look_around(&w);
	/* Whatever could not be read: what is told is told with what it waits for. */
	set_deps(&w);
	if (b->code >= 0 && !b->more)
		settle(&w);
	tell_unread(&w);
	give_memory_back(&w);
}

void index_unread_clear(struct index_unread *all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(all[i].why);
	free(all);
}

void index_clear(struct index_reading *b)
{
	index_unread_clear(b->unread, b->n_unread);
	for (size_t i = 0; i < b->n_changes; i++) {
		free(b->changes[i].model);
		free(b->changes[i].note);
		uint_list_clear(&b->changes[i].after);
		free(b->changes[i].out);
		for (size_t k = 0; k < b->changes[i].n_again; k++)
			free(b->changes[i].again[k].reason);
		free(b->changes[i].again);
	}
	free(b->order.task);
	free(b->changes);
	text_list_clear(&b->want.names);
	free(b->want.ids.nums);
	free(b->times);
	text_list_clear(&b->lanes);
	text_list_clear(&b->reasons);
	strbuf_clear(&b->notes);
}

/* ---- what has changed, told to the planner on the loop ---- */

/* Each has its own back-off, its own memory and its own reason. */
static void apply_again(struct sched_queue *plan, const struct index_change *c)
{
	for (size_t i = 0; i < c->n_again; i++) {
		const struct index_again *a = &c->again[i];
		struct sched_ref ref = { c->task.id, a->element };
		struct sched_task t = c->task;

		t.element = a->element;
		t.n_elements = 1;
		t.not_before_ns = a->not_before_ns;
		t.mem_bytes = a->mem_bytes ? a->mem_bytes : t.mem_bytes;
		if (sched_add(plan, &t, NULL) == 0 && a->reason)
			(void)sched_note(plan, ref, a->reason);
	}
}

/*
 * A batch is put in anew, without what does not wait: elements that are asked for again come back,
 * and so do those whose claim was lost because the batch was called otherwise just then.
 */
static int plan_batch(struct sched_queue *plan, const struct index_change *c, struct err *e)
{
	int r;

	sched_change_running(plan, &c->task);
	(void)sched_remove_batch(plan, c->task.id, c->task.n_elements);
	r = sched_add(plan, &c->task, e);
	if (r == -EEXIST && c->task.n_elements == 1) /* that one runs */
		return 0;
	for (size_t i = 0; i < c->n_out && r == 0; i++)
		(void)sched_remove_element(plan, (struct sched_ref){ c->task.id, c->out[i] });
	if (r == 0)
		apply_again(plan, c);
	return r;
}

static int plan_task(struct sched_queue *plan, const struct index_change *c, struct err *e)
{
	int r = sched_add(plan, &c->task, e);

	if (r == -EEXIST)
		r = sched_change(plan, &c->task, e);
	/* It is being claimed. Where that fails, or it is tried again, it is what it is now. */
	if (r == -ENOENT) {
		sched_change_running(plan, &c->task);
		return 0;
	}
	if (r == 0 && c->note)
		(void)sched_note(plan, (struct sched_ref){ c->task.id, 0 }, c->note);
	return r;
}

static void apply_waiting(struct sched_queue *plan, struct eventlog *eventlog,
			  struct index_change *c)
{
	struct err e = ERR_INIT;

	c->task.model = c->model;
	c->task.lane = planview_lane(plan, c->lane);
	if ((c->task.n_elements ? plan_batch : plan_task)(plan, c, &e) < 0)
		eventlog_tell_trouble(eventlog, c->task.id, 0, "plan", e.text, NULL);
}

/* What it waits for is what there is to say of it; where that is over, nothing. */
static int depend(struct sched_queue *plan, const struct index_change *c, struct sched_ref ref)
{
	struct sched_task t;
	int r = sched_get(plan, ref, &t);

	if (r == 0)
		r = sched_depend(plan, ref, c->task.dep);
	if (r == 0 && (c->note || t.dep != SCHED_DEP_READY))
		r = sched_note(plan, ref, c->note);
	return r;
}

/* Of all that waits of it. */
static void apply_dep(struct sched_queue *plan, const struct index_change *c)
{
	uint32_t element = c->task.n_elements ? 1 : 0;
	struct sched_task t;

	do {
		struct sched_ref ref = { c->task.id, element };

		if (depend(plan, c, ref) == 0 && sched_get(plan, ref, &t) == 0 && t.n_elements > 1)
			element = t.element + t.n_elements - 1;
	} while (++element <= c->task.n_elements);
}

void index_apply(struct sched_queue *plan, struct eventlog *eventlog, struct index_change *c)
{
	if (c->dep_only)
		apply_dep(plan, c);
	else if (c->waits)
		apply_waiting(plan, eventlog, c);
	else if (c->task.n_elements)
		(void)sched_remove_batch(plan, c->task.id, c->task.n_elements);
	else
		(void)sched_remove(plan, (struct sched_ref){ c->task.id, 0 });
}
