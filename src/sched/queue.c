/* SPDX-License-Identifier: MIT */

/*
 * The records of the queue: entries that wait, runs, and the shapes and gates that they share. This
 * file keeps the counts and references right; where an entry stands is waiting_line.c's, and what
 * may start is plan.c's.
 *
 * An entry is known by its id and element, a batch by its id alone, because its first element moves
 * on with each start; the few pieces into which a batch may be cut lie under the same hash. Entries
 * and runs that have ended are kept for the next ones, so that a queue in its steady state does not
 * allocate.
 */
#include "sched/queue.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "sched/state.h"
#include "sched/waiting_line.h"

#define SPARE_MAX 1024

struct sched_queue *sched_queue_new(void)
{
	struct sched_queue *q = xcalloc(1, sizeof(*q));

	line_init(q);
	return q;
}

/* Shapes */

static const char *model_of(const struct sched_task *t)
{
	return t->model ? t->model : "";
}

static uint64_t shape_hash(const struct sched_task *t)
{
	uint64_t flags = (uint64_t)t->rules << 4 | (uint64_t)t->elsewhere << 3 |
			 (uint64_t)t->shared << 2 | (uint64_t)t->preemptible << 1 |
			 t->no_own_python;

	return hash_text(hash_u64(hash_u64(t->gpus, flags), hash_u64(t->mem_bytes, t->timeout_ms)),
			 model_of(t));
}

static bool shape_is(const struct shape *s, const struct sched_task *t)
{
	return s->gpus == t->gpus && s->mem_bytes == t->mem_bytes &&
	       s->timeout_ms == t->timeout_ms && s->rules == t->rules && s->shared == t->shared &&
	       s->preemptible == t->preemptible && s->no_own_python == t->no_own_python &&
	       s->elsewhere == t->elsewhere && !strcmp(s->model, model_of(t));
}

static struct shape *shape_get(struct sched_queue *q, const struct sched_task *t)
{
	uint64_t hash = shape_hash(t);
	struct shape *s;

	for (struct hnode *n = hmap_find(&q->shape_map, hash); n; n = hmap_same(n)) {
		s = treap_item(n, struct shape, hnode);
		if (shape_is(s, t)) {
			s->refs++;
			return s;
		}
	}
	s = xcalloc(1, sizeof(*s));
	*s = (struct shape){
		.refs = 1,
		.gpus = t->gpus,
		.mem_bytes = t->mem_bytes,
		.timeout_ms = t->timeout_ms,
		.rules = t->rules,
		.shared = t->shared,
		.preemptible = t->preemptible,
		.no_own_python = t->no_own_python,
		.elsewhere = t->elsewhere,
		.model = xstrdup(model_of(t)),
	};
	hmap_insert(&q->shape_map, &s->hnode, hash);
	return s;
}

static void shape_put(struct sched_queue *q, struct shape *s)
{
	if (--s->refs)
		return;
	hmap_remove(&q->shape_map, &s->hnode);
	free(s->model);
	free(s);
}

/* Gates */

static void gate_free(struct gate *g)
{
	free(g->name);
	free(g->pause);
	free(g->block);
	free(g);
}

uint32_t sched_lane(struct sched_queue *q, const char *name)
{
	uint64_t hash = hash_text(0, name);

	for (struct hnode *n = hmap_find(&q->lane_map, hash); n; n = hmap_same(n)) {
		const struct gate *g = treap_item(n, struct gate, hnode);

		if (!strcmp(g->name, name))
			return g->handle;
	}

	struct gate *g = xcalloc(1, sizeof(*g));

	g->kind = GATE_LANE;
	g->name = xstrdup(name);
	g->width = 1;
	g->handle = (uint32_t)q->n_lanes + 1;
	q->lanes = xrealloc(q->lanes, q->n_lanes + 1, sizeof(struct gate *));
	q->lanes[q->n_lanes++] = g;
	hmap_insert(&q->lane_map, &g->hnode, hash);
	return g->handle;
}

static struct gate *lane_of(const struct sched_queue *q, uint32_t lane)
{
	return lane && lane <= q->n_lanes ? q->lanes[lane - 1] : NULL;
}

void sched_lane_width(struct sched_queue *q, uint32_t lane, uint32_t width)
{
	struct gate *g = lane_of(q, lane);

	if (!g)
		return;
	g->width = width ? width : 1;
	line_refresh(q, g);
}

void sched_lane_pause(struct sched_queue *q, uint32_t lane, const char *reason)
{
	struct gate *g = lane_of(q, lane);

	if (!g)
		return;
	free(g->pause);
	g->pause = reason ? xstrdup(reason) : NULL;
	line_refresh(q, g);
}

static void set_block(struct gate *g, const char *reason)
{
	free(g->block);
	g->block = reason ? xstrdup(reason) : NULL;
}

void sched_lane_block(struct sched_queue *q, uint32_t lane, const char *reason)
{
	struct gate *g = lane_of(q, lane);

	if (!g)
		return;
	set_block(g, reason);
	line_refresh(q, g);
}

static struct gate *find_array(const struct sched_queue *q, uint64_t id)
{
	for (struct hnode *n = hmap_find(&q->arrays, hash_u64(id, 0)); n; n = hmap_same(n))
		if (treap_item(n, struct gate, hnode)->id == id)
			return treap_item(n, struct gate, hnode);
	return NULL;
}

/* What waits of the array may be in a lane, and in another one than what runs of it. */
static void array_refresh(struct sched_queue *q, struct gate *array)
{
	line_refresh(q, array);
	for (size_t i = 0; i < q->n_lanes; i++)
		line_refresh(q, q->lanes[i]);
}

/* The gate of the array's limit; NULL where there is none. */
static struct gate *array_get(struct sched_queue *q, const struct sched_task *t)
{
	uint64_t hash = hash_u64(t->id, 0);
	struct gate *g;

	if (!t->array_limit)
		return NULL;
	g = find_array(q, t->id);
	if (!g) {
		g = xcalloc(1, sizeof(*g));
		g->kind = GATE_ARRAY;
		g->id = t->id;
		hmap_insert(&q->arrays, &g->hnode, hash);
	}
	g->width = t->array_limit;
	g->refs++;
	return g;
}

static void array_put(struct sched_queue *q, struct gate *g)
{
	if (!g || --g->refs)
		return;
	hmap_remove(&q->arrays, &g->hnode);
	gate_free(g);
}

void sched_array_block(struct sched_queue *q, uint64_t id, const char *reason)
{
	struct gate *g = find_array(q, id);

	if (!g)
		return;

	bool was_blocked = g->block;

	/* The block refers to the array as well: what waits of it is taken out and put in anew when
	 * something about it changes. */
	if (reason)
		g->refs++;
	set_block(g, reason);
	array_refresh(q, g);
	if (was_blocked)
		array_put(q, g);
}

/* Entries */

static uint64_t ref_hash(uint64_t id, uint32_t element, bool batch)
{
	return hash_u64(id, batch ? 0 : element);
}

static bool entry_has(const struct entry *e, struct sched_ref ref)
{
	if (e->t.id != ref.id)
		return false;
	if (!e->batch)
		return e->t.element == ref.element;
	return !ref.element ||
	       (ref.element >= e->t.element && ref.element - e->t.element < e->t.n_elements);
}

static struct entry *find_hashed(const struct sched_queue *q, struct sched_ref ref, uint64_t hash)
{
	for (struct hnode *n = hmap_find(&q->entries, hash); n; n = hmap_same(n))
		if (entry_has(treap_item(n, struct entry, hnode), ref))
			return treap_item(n, struct entry, hnode);
	return NULL;
}

struct entry *queue_find_entry(const struct sched_queue *q, struct sched_ref ref)
{
	struct entry *e = find_hashed(q, ref, ref_hash(ref.id, ref.element, false));

	return e ? e : find_hashed(q, ref, ref_hash(ref.id, 0, true));
}

struct run *queue_find_run(const struct sched_queue *q, struct sched_ref ref)
{
	struct hnode *n = hmap_find(&q->runs, ref_hash(ref.id, ref.element, false));

	for (; n; n = hmap_same(n)) {
		struct run *r = treap_item(n, struct run, hnode);

		if (r->t.id == ref.id && r->t.element == ref.element)
			return r;
	}
	return NULL;
}

static struct entry *entry_new(struct sched_queue *q, const struct sched_task *t)
{
	struct entry *e = q->spare_entries;

	if (e) {
		q->spare_entries =
			e->hnode.next ? treap_item(e->hnode.next, struct entry, hnode) : NULL;
		q->n_spare_entries--;
	} else {
		e = xmalloc(sizeof(*e));
	}
	*e = (struct entry){ .t = *t, .batch = t->n_elements > 1 };
	if (!e->batch)
		e->t.n_elements = 1;
	e->shape = shape_get(q, t);
	e->t.model = e->shape->model;
	e->lane = lane_of(q, t->lane);
	e->array = array_get(q, t);
	hmap_insert(&q->entries, &e->hnode, ref_hash(t->id, t->element, e->batch));
	q->waiting += e->t.n_elements;
	line_place(q, e);
	return e;
}

/* e has no place any more. */
static void entry_free(struct sched_queue *q, struct entry *e)
{
	hmap_remove(&q->entries, &e->hnode);
	q->waiting -= e->t.n_elements;
	shape_put(q, e->shape);
	array_put(q, e->array);
	free(e->note);
	if (q->n_spare_entries >= SPARE_MAX) {
		free(e);
		return;
	}
	e->hnode.next = q->spare_entries ? &q->spare_entries->hnode : NULL;
	q->spare_entries = e;
	q->n_spare_entries++;
}

static int check_task(const struct sched_queue *q, const struct sched_task *t, struct err *e)
{
	if (!t->id)
		return err_set(e, -EINVAL, "a task needs an id");
	if (t->gpus > SCHED_DEVICES_MAX && t->gpus != SCHED_ALL_GPUS)
		return err_set(e, -EINVAL, "%u GPUs: a node has at most %d", t->gpus,
			       SCHED_DEVICES_MAX);
	if (t->mem_bytes > SCHED_MEM_MAX)
		return err_set(e, -EINVAL, "so much memory does not exist");
	if (t->n_elements > 1 && (!t->element || t->element > UINT32_MAX - t->n_elements))
		return err_set(e, -EINVAL, "the elements of a batch are numbered from 1");
	if (t->lane > q->n_lanes)
		return err_set(e, -EINVAL, "there is no lane %u", t->lane);
	return 0;
}

/* Whether anything with the id has one of these elements. Cheap for what the spool numbers. */
static bool is_known(const struct sched_queue *q, const struct sched_task *t)
{
	struct sched_ref ref = ref_of(t);

	return queue_find_entry(q, ref) || queue_find_run(q, ref);
}

/* What a batch is in the queue, from *element on, which begins with 0; NULL behind the last. */
static struct entry *next_of_batch(const struct sched_queue *q, const struct sched_task *t,
				   uint32_t *element)
{
	while (*element < t->element + t->n_elements) {
		struct entry *e = queue_find_entry(q, (struct sched_ref){ t->id, ++*element });

		if (!e)
			continue;
		if (e->batch)
			*element = e->t.element + e->t.n_elements - 1;
		return e;
	}
	return NULL;
}

static bool waits_already(const struct sched_queue *q, const struct sched_task *t)
{
	uint32_t element = 0;

	return t->n_elements > 1 ? next_of_batch(q, t, &element) != NULL : is_known(q, t);
}

int sched_add(struct sched_queue *q, const struct sched_task *t, struct err *e)
{
	int r = check_task(q, t, e);

	if (r < 0)
		return r;
	if (waits_already(q, t))
		return err_set(e, -EEXIST, "task %llu is in the queue already",
			       (unsigned long long)t->id);
	(void)entry_new(q, t);
	for (struct run *run = q->first_run; run && t->n_elements > 1; run = run->next)
		if (run->t.id == t->id)
			(void)sched_remove_element(q, ref_of(&run->t));
	return 0;
}

static void change_entry(struct sched_queue *q, struct entry *old, const struct sched_task *t)
{
	struct sched_task now = *t;
	char *note = take_ptr(old->note);

	now.element = old->t.element;
	now.n_elements = old->t.n_elements;
	if (t->n_elements > 1 && !old->batch) /* its own back-off */
		now.not_before_ns = old->t.not_before_ns;
	/* model may be the old shape's own text, so the new entry comes first. */
	line_displace(q, old);
	entry_new(q, &now)->note = note;
	entry_free(q, old);
}

int sched_change(struct sched_queue *q, const struct sched_task *t, struct err *e)
{
	struct entry *old;
	struct sched_task now = *t;
	int r = check_task(q, t, e);
	uint32_t element = 0, n = 0;

	if (r < 0)
		return r;
	if (t->n_elements <= 1) {
		old = queue_find_entry(q, ref_of(t));
		if (!old)
			return err_set(e, -ENOENT, "task %llu does not wait",
				       (unsigned long long)t->id);
		change_entry(q, old, t);
		return 0;
	}

	cleanup_free char *model = t->model ? xstrdup(t->model) : NULL;

	now.model = model;
	while ((old = next_of_batch(q, t, &element))) {
		change_entry(q, old, &now);
		n++;
	}
	return n ? 0 : err_set(e, -ENOENT, "task %llu does not wait", (unsigned long long)t->id);
}

/* It runs on as it is, but counts for a limit that its array has now. */
static void change_run(struct sched_queue *q, struct run *r, const struct sched_task *t)
{
	struct shape *old = r->again_shape;

	r->again_shape = shape_get(q, t);
	r->again = *t;
	r->again.element = r->t.element;
	r->again.n_elements = 1;
	r->again.not_before_ns = 0;
	r->again.called = false;
	r->again.model = r->again_shape->model;
	shape_put(q, old);
	if (r->array || !t->array_limit)
		return;
	r->array = array_get(q, t);
	r->array->running++;
	array_refresh(q, r->array);
}

void sched_change_running(struct sched_queue *q, const struct sched_task *t)
{
	for (struct run *r = q->first_run; r; r = r->next)
		if (r->t.id == t->id)
			change_run(q, r, t);
}

int sched_depend(struct sched_queue *q, struct sched_ref ref, enum sched_dep dep)
{
	struct entry *e = queue_find_entry(q, ref);
	struct run *r = e ? NULL : queue_find_run(q, ref);

	if (r)
		r->again.dep = dep;
	if (!e)
		return r ? 0 : -ENOENT;
	line_displace(q, e);
	e->t.dep = dep;
	line_place(q, e);
	return 0;
}

static void drop(struct sched_queue *q, struct entry *e)
{
	line_displace(q, e);
	entry_free(q, e);
}

int sched_remove(struct sched_queue *q, struct sched_ref ref)
{
	struct entry *e = queue_find_entry(q, ref);

	if (!e)
		return -ENOENT;
	drop(q, e);
	return 0;
}

int sched_remove_batch(struct sched_queue *q, uint64_t id, uint32_t n_elements)
{
	const struct sched_task t = { .id = id, .element = 1, .n_elements = n_elements };
	uint32_t element = 0, n = 0;
	struct entry *e;

	for (; (e = next_of_batch(q, &t, &element)); n++)
		drop(q, e);
	return n ? 0 : -ENOENT;
}

int sched_remove_element(struct sched_queue *q, struct sched_ref ref)
{
	struct entry *e = queue_find_entry(q, ref);

	if (!e || !ref.element)
		return -ENOENT;

	struct sched_task before = e->t, after = e->t;
	cleanup_free char *model = xstrdup(e->shape->model);

	before.n_elements = ref.element - e->t.element;
	after.element = ref.element + 1;
	after.n_elements = e->t.n_elements - before.n_elements - 1;
	before.model = after.model = model;
	line_displace(q, e);
	entry_free(q, e);
	if (before.n_elements)
		(void)entry_new(q, &before);
	if (after.n_elements)
		(void)entry_new(q, &after);
	return 0;
}

/* It is an entry of its own then. */
static struct entry *take_out(struct sched_queue *q, struct entry *batch, uint32_t element)
{
	struct sched_task t = batch->t;
	cleanup_free char *model = xstrdup(batch->shape->model);
	char *note = batch->note ? xstrdup(batch->note) : NULL;
	struct entry *e;

	t.element = element;
	t.n_elements = 1;
	t.model = model;
	(void)sched_remove_element(q, ref_of(&t));
	e = entry_new(q, &t);
	e->note = note;
	return e;
}

int sched_call(struct sched_queue *q, struct sched_ref ref, bool called)
{
	struct entry *e = queue_find_entry(q, ref);

	if (!e || !e->t.gang || !ref.element)
		return -ENOENT;
	if (e->batch && called)
		e = take_out(q, e, ref.element);
	if (e->t.called == called)
		return 0;
	line_displace(q, e);
	e->t.called = called;
	line_place(q, e);
	return 0;
}

void sched_each_gang(const struct sched_queue *q, sched_gang_fn fn, void *data)
{
	for (struct treap_node *n = treap_first(&q->gangs); n; n = treap_after(&q->gangs, n))
		fn(data, &treap_item(n, struct entry, gang_node)->t);
}

int sched_note(struct sched_queue *q, struct sched_ref ref, const char *note)
{
	struct entry *e = queue_find_entry(q, ref);

	if (!e)
		return -ENOENT;
	free(e->note);
	e->note = note ? xstrdup(note) : NULL;
	return 0;
}

int sched_get(const struct sched_queue *q, struct sched_ref ref, struct sched_task *ret)
{
	const struct entry *e = queue_find_entry(q, ref);
	const struct run *r = e ? NULL : queue_find_run(q, ref);

	if (!e && !r)
		return -ENOENT;
	*ret = e ? e->t : r->t;
	return 0;
}

/* Runs */

static uint64_t ends_at(const struct sched_task *t, uint64_t started_ns, uint64_t grace_ms)
{
	uint64_t limit_ms = (UINT64_MAX - started_ns) / NS_PER_MS;

	if (!t->timeout_ms || t->timeout_ms >= limit_ms || grace_ms >= limit_ms - t->timeout_ms)
		return UINT64_MAX;
	return started_ns + (t->timeout_ms + grace_ms) * NS_PER_MS;
}

static struct run *run_alloc(struct sched_queue *q)
{
	struct run *r = q->spare_runs;

	if (!r)
		return xcalloc(1, sizeof(*r));
	q->spare_runs = r->next;
	q->n_spare_runs--;
	*r = (struct run){ 0 };
	return r;
}

/* t is one task or element; its shape and gates are referred to once more. */
static struct run *run_new(struct sched_queue *q, const struct sched_task *t, struct devset devices,
			   uint64_t started_ns)
{
	struct run *r = run_alloc(q);

	r->t = *t;
	r->t.n_elements = 1;
	r->t.begin_wall_ns = r->t.not_before_ns = 0;
	r->shape = shape_get(q, t);
	r->t.model = r->shape->model;
	r->again = r->t;
	r->again.called = false;
	r->again_shape = r->shape;
	r->again_shape->refs++;
	r->lane = lane_of(q, t->lane);
	r->array = array_get(q, t);
	r->devices = devices;
	r->started_ns = started_ns;
	r->ends_ns = UINT64_MAX;
	r->next = q->first_run;
	if (r->next)
		r->next->prev = r;
	q->first_run = r;
	hmap_insert(&q->runs, &r->hnode, ref_hash(t->id, t->element, false));
	q->cpu_running += t->gpus == 0;
	if (r->lane)
		r->lane->running++;
	if (r->array)
		r->array->running++;
	return r;
}

static void run_free(struct sched_queue *q, struct run *r)
{
	hmap_remove(&q->runs, &r->hnode);
	if (r->prev)
		r->prev->next = r->next;
	else
		q->first_run = r->next;
	if (r->next)
		r->next->prev = r->prev;
	q->cpu_running -= r->t.gpus == 0;
	/* Both are told before either is asked: the head of a lane may be of a limited array. */
	if (r->lane)
		r->lane->running--;
	if (r->array)
		r->array->running--;
	if (r->lane)
		line_refresh(q, r->lane);
	if (r->array) {
		array_refresh(q, r->array);
		array_put(q, r->array);
	}
	shape_put(q, r->shape);
	shape_put(q, r->again_shape);
	if (q->n_spare_runs >= SPARE_MAX) {
		free(r);
		return;
	}
	r->next = q->spare_runs;
	q->spare_runs = r;
	q->n_spare_runs++;
}

struct run *queue_start(struct sched_queue *q, struct entry *e, struct devset devices,
			uint64_t now_ns, uint64_t grace_ms)
{
	struct sched_key key = e->key;
	struct gate *lane = e->lane, *array = e->array;

	line_displace(q, e);

	struct run *r = run_new(q, &e->t, devices, now_ns);

	r->ends_ns = ends_at(&r->t, now_ns, grace_ms);
	if (lane)
		line_serve(q, lane, &key);
	if (e->batch && e->t.n_elements > 1) {
		e->t.element++;
		e->t.n_elements--;
		q->waiting--;
		line_place(q, e);
	} else {
		entry_free(q, e);
	}
	if (lane)
		line_refresh(q, lane);
	if (array)
		line_refresh(q, array);
	return r;
}

/* It was taken for what waits, since somebody else had started it, and waits again as that. */
static void stop_waiting(struct sched_queue *q, struct run *run)
{
	struct sched_ref ref = ref_of(&run->t);
	struct entry *e = queue_find_entry(q, ref);

	if (!e)
		return;
	change_run(q, run, &e->t);
	(void)(ref.element ? sched_remove_element : sched_remove)(q, ref);
}

int sched_adopt(struct sched_queue *q, const struct sched_task *t, struct devset devices,
		uint64_t started_ns, struct err *e)
{
	int r = check_task(q, t, e);

	if (r < 0)
		return r;
	if (t->n_elements > 1)
		return err_set(e, -EINVAL, "a batch does not run, its elements do");
	if (queue_find_run(q, ref_of(t)))
		return err_set(e, -EEXIST, "task %llu runs already", (unsigned long long)t->id);

	struct run *run = run_new(q, t, devices, started_ns);

	run->ends_ns = ends_at(t, started_ns, 0);
	stop_waiting(q, run);
	if (run->lane)
		line_refresh(q, run->lane);
	if (run->array)
		array_refresh(q, run->array);
	return 0;
}

int sched_started(struct sched_queue *q, struct sched_ref ref, uint64_t now_ns, uint64_t grace_ms)
{
	struct run *r = queue_find_run(q, ref);

	if (!r)
		return -ENOENT;
	r->started_ns = now_ns;
	r->ends_ns = ends_at(&r->t, now_ns, grace_ms);
	return 0;
}

int sched_moved(struct sched_queue *q, struct sched_ref ref, struct devset devices)
{
	struct run *r = queue_find_run(q, ref);

	if (!r)
		return -ENOENT;
	r->devices = devices;
	(void)memset(r->used, 0, sizeof(r->used));
	return 0;
}

int sched_used(struct sched_queue *q, struct sched_ref ref, unsigned int slot, uint64_t bytes)
{
	struct run *r = queue_find_run(q, ref);

	if (!r || slot >= SCHED_DEVICES_MAX)
		return -ENOENT;
	r->used[slot] = bytes;
	return 0;
}

int sched_end(struct sched_queue *q, struct sched_ref ref)
{
	struct run *r = queue_find_run(q, ref);

	if (!r)
		return -ENOENT;
	run_free(q, r);
	return 0;
}

int sched_requeue(struct sched_queue *q, struct sched_ref ref, uint64_t not_before_ns,
		  uint64_t mem_bytes, const char *note)
{
	struct run *r = queue_find_run(q, ref);

	if (!r)
		return -ENOENT;

	struct sched_task t = r->again;
	cleanup_free char *model = xstrdup(r->again_shape->model);

	t.model = model;
	t.not_before_ns = not_before_ns;
	if (mem_bytes)
		t.mem_bytes = mem_bytes < SCHED_MEM_MAX ? mem_bytes : SCHED_MEM_MAX;
	run_free(q, r);

	struct entry *e = entry_new(q, &t);

	e->note = note ? xstrdup(note) : NULL;
	return 0;
}

struct sched_counts sched_count(const struct sched_queue *q)
{
	size_t idle_workloads = 0;

	for (const struct run *r = q->first_run; r; r = r->next)
		idle_workloads += r->t.idle_workload;
	return (struct sched_counts){
		.entries = q->entries.n,
		.waiting = q->waiting,
		.retries = q->retries.root ? q->retries.root->sum : 0,
		.running = q->runs.n - idle_workloads,
		.shapes = q->shape_map.n,
	};
}

/* All of it at once: no tree is kept in order on the way. */
static void free_map(struct hmap *m, void (*free_one)(struct hnode *n))
{
	for (struct hnode *n = hmap_next(m, NULL), *next; n; n = next) {
		next = hmap_next(m, n);
		free_one(n);
	}
	hmap_clear(m);
}

static void free_entry_node(struct hnode *n)
{
	free(treap_item(n, struct entry, hnode)->note);
	free(treap_item(n, struct entry, hnode));
}

static void free_run_node(struct hnode *n)
{
	free(treap_item(n, struct run, hnode));
}

static void free_shape_node(struct hnode *n)
{
	free(treap_item(n, struct shape, hnode)->model);
	free(treap_item(n, struct shape, hnode));
}

static void free_gate_node(struct hnode *n)
{
	gate_free(treap_item(n, struct gate, hnode));
}

struct sched_queue *sched_queue_free(struct sched_queue *q)
{
	if (!q)
		return NULL;
	free_map(&q->entries, free_entry_node);
	free_map(&q->runs, free_run_node);
	free_map(&q->shape_map, free_shape_node);
	free_map(&q->arrays, free_gate_node);
	free_map(&q->lane_map, free_gate_node);
	for (struct entry *e = q->spare_entries, *next; e; e = next) {
		next = e->hnode.next ? treap_item(e->hnode.next, struct entry, hnode) : NULL;
		free(e);
	}
	for (struct run *r = q->spare_runs, *next; r; r = next) {
		next = r->next;
		free(r);
	}
	free(q->lanes);
	free(q);
	return NULL;
}
