/* SPDX-License-Identifier: MIT */

/*
 * A dependency is settled by where the file of the other task lies: as long as it is in pending/ or
 * running/ it is open, then the name in done/, failed/ or cancelled/ says how it went. Those
 * directories may be large, so they are read only when a task that was waited for has left the
 * queue, and once for all that wait.
 */

#include "agent/backlog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/elements.h"
#include "spool/lanes.h"
#include "spool/raw.h"
#include "spool/transit.h"

#define PART_MAX 2000		  /* changes that are told at once, ... */
#define PART_NS	 (50 * NS_PER_MS) /* ... and how long reading for them takes */

/* A task that depends on others; belongs to the spooler's jobs. */
struct place_wait {
	struct place_wait *next;
	uint64_t id, count;
	struct id_list after, after_any;
	enum sched_dep dep;
};

struct seen {
	uint64_t id, count;
	uint32_t priority;
	bool waits;
};

/* What the scan told and nobody has looked at yet; belongs to the spooler's jobs. */
struct place_todo {
	size_t n, at;
	bool settle; /* when all of it is done */
	struct seen *seen;
};

struct worker {
	struct backlog *b;
	struct spool_place *place;
	struct place_todo *todo;
	size_t n_known; /* of todo, before this job */
};

/* ---- dependencies ---- */

struct ended {
	uint64_t id;
	bool found, good;
};

struct endings {
	struct ended *all;
	size_t n;
};

static int take_ending(struct endings *en, const struct task_name *n, bool good)
{
	for (size_t i = 0; i < en->n; i++)
		if (en->all[i].id == n->id && !n->element) {
			en->all[i].found = true;
			en->all[i].good = good;
		}
	return 0;
}

static int on_good(void *data, const struct task_name *n, const char *dir)
{
	return take_ending(data, n, true);
}

static int on_bad(void *data, const struct task_name *n, const char *dir)
{
	return take_ending(data, n, false);
}

static void want(struct endings *en, const struct spool_place *p, const struct id_list *ids)
{
	for (size_t i = 0; i < ids->n; i++) {
		if (scan_find(p->scan, ids->ids[i], 0))
			continue;
		en->all = xrealloc(en->all, en->n + 1, sizeof(*en->all));
		en->all[en->n++] = (struct ended){ .id = ids->ids[i] };
	}
}

static enum sched_dep judge_list(const struct spool_place *p, const struct endings *en,
				 const struct id_list *ids, bool must_be_good)
{
	enum sched_dep dep = SCHED_DEP_READY;

	for (size_t i = 0; i < ids->n; i++) {
		if (scan_find(p->scan, ids->ids[i], 0)) {
			dep = SCHED_DEP_WAIT;
			continue;
		}
		for (size_t k = 0; k < en->n; k++)
			if (en->all[k].id == ids->ids[i] &&
			    (!en->all[k].found || (must_be_good && !en->all[k].good)))
				return SCHED_DEP_NEVER;
	}
	return dep;
}

static enum sched_dep judge(const struct spool_place *p, const struct endings *en,
			    const struct place_wait *w)
{
	enum sched_dep a = judge_list(p, en, &w->after, true);
	enum sched_dep b = judge_list(p, en, &w->after_any, false);

	return a == SCHED_DEP_NEVER || b == SCHED_DEP_NEVER ? SCHED_DEP_NEVER
	       : a == SCHED_DEP_WAIT || b == SCHED_DEP_WAIT ? SCHED_DEP_WAIT
							    : SCHED_DEP_READY;
}

static void look_at_endings(struct spool_place *p, struct endings *en)
{
	if (!en->n)
		return;
	(void)scan_done(p->spool, on_good, en, NULL);
	(void)scan_dir(p->spool, "failed", on_bad, en, NULL);
	(void)scan_dir(p->spool, "cancelled", on_bad, en, NULL);
}

static void free_wait(struct place_wait *w)
{
	free(w->after.ids);
	free(w->after_any.ids);
	free(w);
}

static struct place_wait *find_wait(const struct spool_place *p, uint64_t id)
{
	struct place_wait *w = p->waits;

	while (w && w->id != id)
		w = w->next;
	return w;
}

static void forget_wait(struct spool_place *p, uint64_t id)
{
	for (struct place_wait **w = &p->waits; *w; w = &(*w)->next)
		if ((*w)->id == id) {
			struct place_wait *gone = *w;

			*w = gone->next;
			free_wait(gone);
			return;
		}
}

void backlog_forget(struct spool_place *p)
{
	while (p->waits)
		forget_wait(p, p->waits->id);
	if (p->todo)
		free(p->todo->seen);
	free(p->todo);
	p->todo = NULL;
}

static struct id_list copy_ids(const struct id_list *l)
{
	struct id_list copy = { .n = l->n };

	copy.ids = xrealloc(NULL, l->n ? l->n : 1, sizeof(*copy.ids));
	if (l->n)
		(void)memcpy(copy.ids, l->ids, l->n * sizeof(*l->ids));
	return copy;
}

static void add_wait(struct spool_place *p, uint64_t id, uint64_t count,
		     const struct spool_spec *spec)
{
	const struct place_wait *old = find_wait(p, id);
	enum sched_dep dep = old ? old->dep : SCHED_DEP_WAIT;
	struct place_wait *w;

	forget_wait(p, id);
	if (!spec->after.n && !spec->after_any.n)
		return;
	w = xcalloc(1, sizeof(*w));
	w->id = id;
	w->count = count;
	w->after = copy_ids(&spec->after);
	w->after_any = copy_ids(&spec->after_any);
	w->dep = dep;
	w->next = p->waits;
	p->waits = w;
}

/* ---- changes ---- */

static struct backlog_change *add_change(struct backlog *b, uint64_t id)
{
	struct backlog_change *c;

	if ((b->n_changes & (b->n_changes - 1)) == 0)
		b->changes = xrealloc(b->changes, b->n_changes ? 2 * b->n_changes : 1,
				      sizeof(*b->changes));
	c = &b->changes[b->n_changes++];
	*c = (struct backlog_change){ .task = { .id = id } };
	return c;
}

static uint32_t count_of(uint64_t n)
{
	return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static void fill_task(struct sched_task *t, const struct task_name *n, const struct spool_spec *s)
{
	*t = (struct sched_task){
		.id = n->id,
		.element = n->count ? 1 : 0,
		.n_elements = count_of(n->count),
		.priority = (int32_t)n->priority,
		.order = n->id,
		.array_limit = count_of(s->array.limit),
		.gpus = s->gpus == SPEC_ALL ? SCHED_ALL_GPUS : count_of(s->gpus),
		.mem_bytes = s->memory,
		.shared = s->shared,
		.preemptible = s->preemptible,
		.no_own_python = s->rules == SPEC_RULES_COMPETE,
		.paused = n->flags & (NAME_PAUSED | NAME_EDITED),
		.rules = s->rules != SPEC_RULES_TENURE ? SCHED_RULES_COMPETE : SCHED_RULES_OWN,
		.timeout_ms = s->timeout,
		.begin_wall_ns = n->begin_s * NS_PER_S,
	};
}

static uint64_t to_mono(const struct backlog *b, uint64_t wall_ns)
{
	return wall_ns > b->now_wall_ns ? b->now_ns + (wall_ns - b->now_wall_ns) : 0;
}

static void add_again(struct worker *w, struct backlog_change *c, uint32_t element,
		      const struct batch_again *again)
{
	if ((c->n_again & (c->n_again - 1)) == 0)
		c->again = xrealloc(c->again, c->n_again ? c->n_again * 2 : 1, sizeof(*c->again));
	c->again[c->n_again++] = (struct backlog_again){
		.element = element,
		.not_before_ns = to_mono(w->b, again->not_before_ns),
		.mem_bytes = again->memory,
		.reason = again->reason && again->reason[0] ? xstrdup(again->reason) : NULL,
	};
}

/* What of a batch does not wait as it is written. */
static void look_into_batch(struct worker *w, struct backlog_change *c, uint64_t count)
{
	struct place_batch *p = place_batch(w->place, c->task.id, NULL);
	unsigned int attempts;
	uint64_t epoch;

	for (uint64_t i = 1; p && i <= count; i++) {
		bool waits = batch_state(p->batch, i, &epoch, &attempts) == BATCH_WAITING;
		const struct batch_again *again = waits ? batch_again_of(p->batch, i) : NULL;

		if (waits && !again)
			continue;
		if (again)
			add_again(w, c, (uint32_t)i, again);
		if ((c->n_out & (c->n_out - 1)) == 0)
			c->out = xrealloc(c->out, c->n_out ? c->n_out * 2 : 1, sizeof(*c->out));
		c->out[c->n_out++] = (uint32_t)i;
	}
}

/*
 * It is called otherwise than when it was opened, or was edited, or elements of it were asked for
 * again. True: all its elements have ended, who ended the last one did not come to file it, and it
 * is filed now.
 */
static bool renew_batch(struct worker *w, const struct task_name *n)
{
	struct place_batch *p = place_batch(w->place, n->id, NULL);

	if (!p)
		return false;
	batch_set_name(p->batch, n);
	(void)batch_refresh(p->batch, NULL);
	if (!batch_is_over(p->batch) || batch_file(p->batch, NULL) < 0)
		return false;
	place_forget_batch(w->place, n->id);
	return true;
}

/* Edits of a batch are for the elements that start from now on. */
static void keep_spec(struct worker *w, uint64_t id, struct task_file *t)
{
	struct place_batch *p = place_batch(w->place, id, NULL);

	if (!p)
		return;
	spec_free(p->spec);
	p->spec = take_ptr(t->spec);
}

static void note_bad(struct backlog *b, const struct task_name *n, const char *why)
{
	strbuf_addf(&b->notes, "task %llu cannot be read: %s\n", (unsigned long long)n->id, why);
}

/* Else one of them lies, and elements would be run that nobody has asked for. */
static bool counts_agree(struct worker *w, const struct task_name *n, const struct spool_spec *spec)
{
	uint64_t count = 0;

	if (elements_count(spec, &count, NULL) == 0 && count == n->count)
		return true;
	strbuf_addf(&w->b->notes,
		    "task %llu cannot be read: by its file's name it has %llu elements, by what is "
		    "in it %llu\n",
		    (unsigned long long)n->id, (unsigned long long)n->count,
		    (unsigned long long)count);
	return false;
}

/* Of a task without a device that was never tried there is nothing in the file that the planner
 * wants: it is read, and checked, when it is claimed. */
static bool name_says_all(const struct task_name *n)
{
	return n->gpus == 0 && n->count == 0 && n->epoch == 0 &&
	       !(n->flags & ~(NAME_PAUSED | NAME_EDITED | NAME_PREEMPTIBLE | NAME_SHARED));
}

static void add_by_name(struct worker *w, const struct task_name *n)
{
	struct backlog_change *c = add_change(w->b, n->id);

	c->waits = true;
	fill_task(&c->task, n, &(struct spool_spec){ .preemptible = n->flags & NAME_PREEMPTIBLE });
	(void)str_copy(c->lane, sizeof(c->lane), n->lane);
	forget_wait(w->place, n->id);
}

static void add_waiting(struct worker *w, const struct task_name *n)
{
	char file[NAME_FILE_MAX], path[SPOOL_PATH_MAX];
	struct backlog_change *c;
	struct err e = ERR_INIT;
	struct task_file t;

	if (name_says_all(n)) {
		add_by_name(w, n);
		return;
	}
	if (n->count && renew_batch(w, n))
		return;
	(void)spool_path(SPOOL_PENDING, name_format(n, file), path);

	int r = task_file_read(w->place->spool, path, &t, &e);

	if (r < 0) {
		if (r != -ENOENT)
			note_bad(w->b, n, e.text);
		return;
	}
	if (!counts_agree(w, n, t.spec)) {
		task_file_clear(&t);
		return;
	}
	c = add_change(w->b, n->id);
	c->waits = true;
	fill_task(&c->task, n, t.spec);
	(void)str_copy(c->lane, sizeof(c->lane), n->lane);
	c->note = t.history.reason[0] ? xstrdup(t.history.reason) : NULL;
	c->model = t.spec->model ? xstrdup(t.spec->model) : NULL;
	c->task.not_before_ns = to_mono(w->b, t.history.not_before_ns);
	add_wait(w->place, n->id, n->count, t.spec);
	if (n->count) {
		look_into_batch(w, c, n->count);
		keep_spec(w, n->id, &t);
	}
	task_file_clear(&t);
}

/*
 * Another agent is gone. An element that it had claimed was none of ours then; if it waits again
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

static void on_change(void *data, enum scan_change change, const struct scan_task *t)
{
	struct worker *w = data;
	struct place_todo *todo = w->todo;

	if (t->name.element)
		return; /* of a batch, which its journals speak for */
	if ((todo->n & (todo->n - 1)) == 0)
		todo->seen = xrealloc(todo->seen, todo->n ? 2 * todo->n : 1, sizeof(*todo->seen));
	todo->seen[todo->n++] =
		(struct seen){ .id = t->name.id,
			       .count = t->name.count,
			       .priority = (uint32_t)t->name.priority,
			       .waits = t->dir == SPOOL_PENDING && change != SCAN_REMOVED };
}

static void look_at_ids(struct worker *w)
{
	const struct id_list *ids = &w->b->want.ids;

	for (size_t i = 0; i < ids->n; i++) {
		const struct scan_task *t = scan_find(w->place->scan, ids->ids[i], 0);

		if (t)
			on_change(w, SCAN_CHANGED, t);
	}
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

	if (s->waits && t) {
		struct task_name n = t->name;

		add_waiting(w, &n);
		return;
	}
	forget_wait(w->place, s->id);
	place_forget_batch(w->place, s->id);
	add_change(w->b, s->id)->task.n_elements = count_of(s->count);
}

/* A part at a time: what is read can start while the rest is, and needs no room twice. */
static void look_at_seen(struct worker *w)
{
	struct place_todo *todo = w->todo;

	if (todo->n > w->n_known)
		sort_todo(todo);
	while (todo->at < todo->n && w->b->n_changes < PART_MAX &&
	       clock_mono_ns() - w->b->now_ns < PART_NS)
		look_at(w, &todo->seen[todo->at++]);
	w->b->more = todo->at < todo->n;
	if (w->b->more)
		return;
	free(todo->seen);
	*todo = (struct place_todo){ .settle = todo->settle };
}

/* Every dependency, with what is known now; those that came out otherwise than before change. */
static void settle_waits(struct worker *w)
{
	struct endings en = { 0 };

	for (struct place_wait *p = w->place->waits; p; p = p->next) {
		want(&en, w->place, &p->after);
		want(&en, w->place, &p->after_any);
	}
	look_at_endings(w->place, &en);
	for (struct place_wait *p = w->place->waits; p; p = p->next) {
		struct backlog_change *c;
		enum sched_dep dep = judge(w->place, &en, p);
		if (dep == p->dep)
			continue;
		p->dep = dep;
		c = add_change(w->b, p->id);
		c->dep_only = true;
		c->task.n_elements = count_of(p->count);
	}
	free(en.all);
}

static void set_deps(struct worker *w)
{
	for (size_t i = 0; i < w->b->n_changes; i++) {
		const struct place_wait *p = find_wait(w->place, w->b->changes[i].task.id);

		w->b->changes[i].task.dep = p ? p->dep : SCHED_DEP_READY;
	}
}

/* ---- other tools ---- */

static void import_raw(struct worker *w)
{
	const char *file;

	while ((file = scan_raw_ripe(w->place->scan))) {
		struct err e = ERR_INIT;
		uint64_t id = 0;
		int r = raw_import(w->place->spool, file, w->place->self.agent, &id, &e);

		if (r == 0)
			strbuf_addf(&w->b->notes, "%s in pending/ is task %llu now\n", file,
				    (unsigned long long)id);
		else if (r == RAW_REFUSED || r != -ENOENT)
			strbuf_addf(&w->b->notes, "%s in pending/ is no task: %s\n", file, e.text);
	}
}

/* What waits and is meant by a stop. The next scan tells the planner. */
static void cancel_waiting(struct worker *w, enum control_command command, const char *task)
{
	const struct scan_task *t;
	size_t iter = 0;

	while ((t = scan_next(w->place->scan, &iter))) {
		bool meant = command == CONTROL_STOP_ALL ||
			     (command == CONTROL_STOP && task && !strcmp(t->name.name, task));

		if (meant && t->dir == SPOOL_PENDING)
			(void)transit_cancel(w->place->spool, &t->name, "stopped by control.json",
					     NULL);
	}
}

static void take_orders(struct worker *w)
{
	struct backlog *b = w->b;
	struct control_order order;
	struct err e = ERR_INIT;
	int r = control_file_take(w->place->spool, &order, &e);

	if (r == 0) {
		cancel_waiting(w, order.command, order.task);
		b->orders = xrealloc(b->orders, b->n_orders + 1, sizeof(*b->orders));
		b->orders[b->n_orders++] = order;
	} else if (e.code) {
		strbuf_addf(&b->notes, "control.json: %s\n", e.text);
	}
}

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
	struct backlog_want *want = &w->b->want;

	for (size_t i = 0; i < want->names.n && !want->all; i++)
		want->all = scan_look(w->place->scan, want->names.texts[i], on_change, w) != 0;
}

static void read_all(struct worker *w)
{
	uint64_t begun = clock_mono_ns();

	w->b->code = scan_update(w->place->scan, on_change, w, &w->b->e);
	w->b->read_ms = (clock_mono_ns() - begun) / NS_PER_MS;
}

/* What is done when there is nothing left to look at. */
static void round_off(struct worker *w)
{
	struct backlog *b = w->b;

	if (b->want.all) {
		import_raw(w);
		take_orders(w);
		b->lanes_read = lanes_paused(w->place->spool, add_lane, w, NULL) == 0;
		strbuf_adds(&b->notes, scan_notes(w->place->scan));
	}
	if (b->want.batches)
		look_at_batches(w);
	if (!b->more && w->todo->settle) {
		settle_waits(w);
		w->todo->settle = false;
	}
	set_deps(w);
}

void backlog_work(struct backlog *b, struct spool_place *place)
{
	struct worker w = { .b = b, .place = place };

	if (!place->todo)
		place->todo = xcalloc(1, sizeof(*place->todo));
	w.todo = place->todo;
	w.n_known = w.todo->n;
	b->now_ns = clock_mono_ns();
	b->now_wall_ns = clock_wall_ns();
	look_at_names(&w);
	if (b->want.all)
		read_all(&w);
	look_at_ids(&w);
	w.todo->settle = w.todo->settle || w.todo->n || b->want.all || b->want.settle;
	look_at_seen(&w);
	if (b->code >= 0)
		round_off(&w);
}

void backlog_clear(struct backlog *b)
{
	for (size_t i = 0; i < b->n_changes; i++) {
		free(b->changes[i].model);
		free(b->changes[i].note);
		free(b->changes[i].out);
		for (size_t k = 0; k < b->changes[i].n_again; k++)
			free(b->changes[i].again[k].reason);
		free(b->changes[i].again);
	}
	for (size_t i = 0; i < b->n_orders; i++)
		free(b->orders[i].task);
	free(b->changes);
	free(b->orders);
	text_list_clear(&b->want.names);
	free(b->want.ids.ids);
	text_list_clear(&b->lanes);
	text_list_clear(&b->reasons);
	strbuf_clear(&b->notes);
}
