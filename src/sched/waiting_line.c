/* SPDX-License-Identifier: MIT */

/*
 * A waiting entry is in one of these places:
 *
 *   aside    paused, waiting for a dependency, or never able to run: in no tree; its begin time has
 *            not come: in q->begins; its back-off has not ended: in q->retries
 *   gated    in the waiting tree of its lane or its limited array. Only the first one of a gate can
 *            be ready. In a lane an entry in its back-off keeps its place, so that the lane waits
 *            for it; an array has no order to keep, there it stands aside
 *   uncalled a rank of a gang that nothing keeps from being called: in q->gangs
 *   ready    in the tree of its shape, and the shape in q->shapes[] by its first entry
 *
 * The order of what is ready is sched_key: tasks that are not preemptible, then priority, then age.
 * (A preemptible task that started first would be pushed aside at once by the one that waits behind
 * it, so it always comes behind.) Lanes take turns: one that is served joins the line again behind
 * the heads of all lanes that wait at that moment with the same priority. Its place is fixed when
 * it joins, so nothing overtakes it for ever; and tasks without a lane keep their age, so a lane
 * loses no turn to what was submitted after all lanes that wait.
 */
#include "sched/waiting_line.h"

#define THREE_WAY(x, y) (((x) > (y)) - ((x) < (y)))

int sched_key_cmp(const struct sched_key *a, const struct sched_key *b)
{
	int r = THREE_WAY(a->after, b->after);

	r = r ? r : THREE_WAY(a->priority, b->priority);
	r = r ? r : THREE_WAY(a->line, b->line);
	r = r ? r : THREE_WAY(a->turn, b->turn);
	r = r ? r : THREE_WAY(a->order, b->order);
	r = r ? r : THREE_WAY(a->id, b->id);
	return r ? r : THREE_WAY(a->element, b->element);
}

static struct sched_key base_key(const struct entry *e)
{
	return (struct sched_key){
		.after = e->t.preemptible,
		.priority = e->t.priority,
		.line = e->t.order,
		.order = e->t.order,
		.id = e->t.id,
		.element = e->t.element,
	};
}

static int cmp_ready(const struct treap_node *a, const struct treap_node *b)
{
	return sched_key_cmp(&treap_item(a, struct entry, ready_node)->key,
			     &treap_item(b, struct entry, ready_node)->key);
}

static int cmp_shape(const struct treap_node *a, const struct treap_node *b)
{
	return sched_key_cmp(&treap_item(a, struct shape, node)->key,
			     &treap_item(b, struct shape, node)->key);
}

static int cmp_head(const struct treap_node *a, const struct treap_node *b)
{
	return sched_key_cmp(&treap_item(a, struct gate, head_node)->ready->key,
			     &treap_item(b, struct gate, head_node)->ready->key);
}

static int cmp_place(const struct treap_node *a, const struct treap_node *b)
{
	struct sched_key x = base_key(treap_item(a, struct entry, place_node));
	struct sched_key y = base_key(treap_item(b, struct entry, place_node));

	return sched_key_cmp(&x, &y);
}

/* Inside a lane a preemptible task is one like the others: they run one after another. */
static int cmp_gate(const struct treap_node *a, const struct treap_node *b)
{
	struct sched_key x = base_key(treap_item(a, struct entry, gate_node));
	struct sched_key y = base_key(treap_item(b, struct entry, gate_node));

	x.after = y.after = 0;
	return sched_key_cmp(&x, &y);
}

static int cmp_gang(const struct treap_node *a, const struct treap_node *b)
{
	struct sched_key x = base_key(treap_item(a, struct entry, gang_node));
	struct sched_key y = base_key(treap_item(b, struct entry, gang_node));

	return sched_key_cmp(&x, &y);
}

static int cmp_time(uint64_t x, uint64_t y, const struct entry *a, const struct entry *b)
{
	int r = THREE_WAY(x, y);

	r = r ? r : THREE_WAY(a->t.id, b->t.id);
	return r ? r : THREE_WAY(a->t.element, b->t.element);
}

static int cmp_begin(const struct treap_node *a, const struct treap_node *b)
{
	const struct entry *x = treap_item(a, struct entry, time_node);
	const struct entry *y = treap_item(b, struct entry, time_node);

	return cmp_time(x->t.begin_wall_ns, y->t.begin_wall_ns, x, y);
}

static int cmp_retry(const struct treap_node *a, const struct treap_node *b)
{
	const struct entry *x = treap_item(a, struct entry, time_node);
	const struct entry *y = treap_item(b, struct entry, time_node);

	return cmp_time(x->t.not_before_ns, y->t.not_before_ns, x, y);
}

void line_init(struct sched_queue *q)
{
	for (int i = 0; i < SHAPES_MAX; i++)
		q->shapes[i].cmp = cmp_shape;
	q->heads.cmp = cmp_head;
	q->places.cmp = cmp_place;
	q->begins.cmp = cmp_begin;
	q->retries.cmp = cmp_retry;
	q->gangs.cmp = cmp_gang;
}

static struct treap *shapes_of(struct sched_queue *q, const struct shape *s)
{
	return &q->shapes[s->gpus ? SHAPES_GPU : SHAPES_CPU];
}

/* The shape's first entry may be another one: the shape moves with it. */
static void shape_moved(struct sched_queue *q, struct shape *s)
{
	struct treap_node *first = treap_first(&s->ready);
	const struct entry *e = first ? treap_item(first, struct entry, ready_node) : NULL;

	if (treap_linked(&s->node)) {
		if (e && sched_key_cmp(&s->key, &e->key) == 0)
			return;
		treap_remove(shapes_of(q, s), &s->node);
	}
	if (e) {
		s->key = e->key;
		treap_insert(shapes_of(q, s), &s->node, 1);
	}
}

void line_show(struct sched_queue *q, struct entry *e)
{
	e->shape->ready.cmp = cmp_ready;
	treap_insert(&e->shape->ready, &e->ready_node, 1);
	shape_moved(q, e->shape);
}

void line_hide(struct sched_queue *q, struct entry *e)
{
	treap_remove(&e->shape->ready, &e->ready_node);
	shape_moved(q, e->shape);
}

static void make_ready(struct sched_queue *q, struct entry *e)
{
	e->key = base_key(e);
	if (e->lane) {
		if (e->lane->line > e->key.line)
			e->key.line = e->lane->line;
		e->key.turn = e->lane->turn;
		treap_insert(&q->heads, &e->lane->head_node, 1);
	}
	line_show(q, e);
}

static void make_unready(struct sched_queue *q, struct entry *e)
{
	line_hide(q, e);
	if (e->lane)
		treap_remove(&q->heads, &e->lane->head_node);
}

static bool gate_full(const struct gate *g)
{
	return g->width && g->running >= g->width;
}

static bool may_pass(const struct gate *g, const struct entry *e)
{
	const struct gate *a = e->array;

	return !g->pause && !g->block && !gate_full(g) && !e->late &&
	       !(a && (gate_full(a) || a->block));
}

void line_refresh(struct sched_queue *q, struct gate *g)
{
	struct treap_node *first = treap_first(&g->waiting);
	struct entry *want = first ? treap_item(first, struct entry, gate_node) : NULL;

	if (want && !may_pass(g, want))
		want = NULL;
	if (g->ready == want)
		return;
	if (g->ready)
		make_unready(q, g->ready);
	g->ready = want;
	if (want)
		make_ready(q, want);
}

static struct gate *gate_of(const struct entry *e)
{
	return e->lane ? e->lane : e->array;
}

static uint32_t weight_of(const struct entry *e)
{
	return e->batch ? e->t.n_elements : 1;
}

void line_place(struct sched_queue *q, struct entry *e)
{
	struct gate *g = gate_of(e);

	e->early = e->t.begin_wall_ns != 0;
	e->late = e->t.not_before_ns != 0;
	if (e->t.paused || e->t.changing || e->t.dep != SCHED_DEP_READY)
		return;
	if (e->early) {
		treap_insert(&q->begins, &e->time_node, 1);
		return;
	}
	if (e->late) {
		treap_insert(&q->retries, &e->time_node, 1);
		if (!e->lane)
			return;
	}
	treap_insert(&q->places, &e->place_node, weight_of(e));
	if (e->t.gang && !e->t.called) {
		treap_insert(&q->gangs, &e->gang_node, 1);
	} else if (g) {
		g->waiting.cmp = cmp_gate;
		treap_insert(&g->waiting, &e->gate_node, 1);
		line_refresh(q, g);
	} else {
		make_ready(q, e);
	}
}

void line_displace(struct sched_queue *q, struct entry *e)
{
	struct gate *g = gate_of(e);

	if (treap_linked(&e->time_node))
		treap_remove(e->early ? &q->begins : &q->retries, &e->time_node);
	if (treap_linked(&e->place_node))
		treap_remove(&q->places, &e->place_node);
	if (treap_linked(&e->gang_node))
		treap_remove(&q->gangs, &e->gang_node);
	if (treap_linked(&e->gate_node)) {
		if (g->ready == e) {
			make_unready(q, e);
			g->ready = NULL;
		}
		treap_remove(&g->waiting, &e->gate_node);
		line_refresh(q, g);
	} else if (treap_linked(&e->ready_node)) {
		make_unready(q, e);
	}
}

void line_serve(struct sched_queue *q, struct gate *lane, const struct sched_key *key)
{
	struct entry bound = { .key = { .after = key->after, .priority = key->priority } };
	struct gate probe = { .ready = &bound };

	bound.key.line = bound.key.turn = bound.key.order = UINT64_MAX;

	struct treap_node *n = treap_before(&q->heads, &probe.head_node);
	const struct sched_key *last =
		n ? &treap_item(n, struct gate, head_node)->ready->key : NULL;

	lane->turn = ++q->turn;
	if (last && last->after == key->after && last->priority == key->priority &&
	    last->line > lane->line)
		lane->line = last->line;
}

void line_wake(struct sched_queue *q, uint64_t now_ns, uint64_t now_wall_ns)
{
	struct treap_node *n;

	while ((n = treap_first(&q->begins))) {
		struct entry *e = treap_item(n, struct entry, time_node);

		if (e->t.begin_wall_ns > now_wall_ns)
			break;
		line_displace(q, e);
		e->t.begin_wall_ns = 0;
		line_place(q, e);
	}
	while ((n = treap_first(&q->retries))) {
		struct entry *e = treap_item(n, struct entry, time_node);

		if (e->t.not_before_ns > now_ns)
			break;
		line_displace(q, e);
		e->t.not_before_ns = 0;
		line_place(q, e);
	}
}

uint64_t line_position(const struct sched_queue *q, const struct entry *e)
{
	return treap_linked(&e->place_node) ? treap_sum_before(&q->places, &e->place_node) + 1 : 0;
}
