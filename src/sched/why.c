/* SPDX-License-Identifier: MIT */

/*
 * The reasons are a table of functions, the most lasting one first; the first that has something to
 * say ends the search. For devices each gets a phrase, and those with the same one are named
 * together.
 */
#include "sched/why.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "sched/device_board.h"
#include "sched/state.h"
#include "sched/waiting_line.h"

struct why {
	struct sched_queue *q;
	const struct sched_view *view;
	const struct entry *e;
	struct strbuf text;
	bool noted; /* the note is part of the text already */
	int where;  /* SCHED_WHY_NOT_HERE, SCHED_WHY_ELSEWHERE or 0 */
};

#define PHRASE_MAX 160

static void add_ref(struct strbuf *text, struct sched_ref t)
{
	strbuf_addf(text, t.element ? "task %llu.%u" : "task %llu", (unsigned long long)t.id,
		    t.element);
}

static const char *note_or(struct why *w, const char *otherwise)
{
	w->noted = true;
	return w->e->note ? w->e->note : otherwise;
}

static bool says_never(struct why *w)
{
	if (w->e->t.dep != SCHED_DEP_NEVER)
		return false;
	strbuf_addf(&w->text, "can never run: %s", note_or(w, "a task that it needs has failed"));
	return true;
}

static bool says_paused(struct why *w)
{
	if (!w->e->t.paused)
		return false;
	strbuf_addf(&w->text, "is paused; `tenure resume %llu` resumes it",
		    (unsigned long long)w->e->t.id);
	return true;
}

static bool says_changing(struct why *w)
{
	if (w->e->t.changing)
		strbuf_adds(&w->text,
			    "is being changed by a command, and waits until that is done; "
			    "if it was interrupted, for a minute");
	return w->e->t.changing;
}

static bool says_dependency(struct why *w)
{
	if (w->e->t.dep != SCHED_DEP_WAIT)
		return false;
	strbuf_adds(&w->text, note_or(w, "waits for another task to end"));
	return true;
}

static bool says_begin(struct why *w)
{
	char when[CLOCK_TEXT_MAX];

	if (!w->e->early || w->e->t.begin_wall_ns <= w->view->now_wall_ns)
		return false;
	strbuf_addf(&w->text, "is not to begin before %s",
		    clock_format_local(w->e->t.begin_wall_ns, when));
	return true;
}

static bool says_lane_paused(struct why *w)
{
	if (!w->e->lane || !w->e->lane->pause)
		return false;
	strbuf_addf(&w->text, "its lane %s is paused: %s; `tenure resume %s` resumes it",
		    w->e->lane->name, w->e->lane->pause, w->e->lane->name);
	return true;
}

static bool says_elsewhere(struct why *w)
{
	const struct gate *lane = w->e->lane, *array = w->e->array;

	if (lane && lane->block)
		strbuf_addf(&w->text, "waits for its lane %s: %s", lane->name, lane->block);
	else if (array && array->block)
		strbuf_addf(&w->text, "waits for its array: %s", array->block);
	else
		return false;
	w->where = SCHED_WHY_ELSEWHERE;
	return true;
}

static bool says_backoff(struct why *w)
{
	char left[UNIT_TEXT_MAX];
	uint64_t at = w->e->t.not_before_ns;

	if (!w->e->late || at <= w->view->now_ns)
		return false;
	strbuf_addf(&w->text, "waits %s before its next attempt",
		    unit_format_duration((at - w->view->now_ns + NS_PER_MS - 1) / NS_PER_MS, left));
	return true;
}

static const struct run *run_in(const struct why *w, const struct gate *lane)
{
	const struct run *r = w->q->first_run;

	while (r && r->lane != lane)
		r = r->next;
	return r;
}

static bool says_lane(struct why *w)
{
	const struct gate *g = w->e->lane;

	if (!g || g->ready == w->e)
		return false;

	const struct run *r = run_in(w, g);
	const struct treap_node *first = treap_first(&g->waiting);
	const struct entry *head = first ? treap_item(first, struct entry, gate_node) : NULL;

	if (r && g->running >= g->width && g->width > 1) {
		strbuf_addf(
			&w->text,
			"waits in lane %s until one of it has ended: %u run, which is its width",
			g->name, g->running);
	} else if (r && g->running >= g->width) {
		strbuf_addf(&w->text, "waits in lane %s until ", g->name);
		add_ref(&w->text, ref_of(&r->t));
		strbuf_adds(&w->text, " has ended");
	} else if (head && head != w->e) {
		strbuf_addf(&w->text, "waits in lane %s behind ", g->name);
		add_ref(&w->text, ref_of(&head->t));
	} else {
		return false;
	}
	return true;
}

static bool says_array(struct why *w)
{
	const struct gate *g = w->e->array;

	if (!g || g->running < g->width)
		return false;
	strbuf_addf(&w->text, "waits until one of its array has ended: %u run, which is its limit",
		    g->running);
	return true;
}

static bool says_slots(struct why *w)
{
	uint32_t slots = w->view->policy.cpu_slots;

	if (w->e->t.gpus || !slots || w->q->cpu_running < slots)
		return false;
	strbuf_addf(&w->text, "waits until one of %zu tasks without a GPU has ended",
		    w->q->cpu_running);
	return true;
}

/* Devices */

struct devices {
	struct devset could; /* usable by this task, if nobody was there */
	struct devset fits;  /* now */
	unsigned int usable; /* so many of them */
	unsigned int want;
	unsigned int free;
	char phrase[SCHED_DEVICES_MAX][PHRASE_MAX]; /* why not; "" = free, or not worth a word */
};

typedef void (*phrase_fn)(const struct why *w, unsigned int slot, char *buf);

static void phrase_foreign(const struct why *w, unsigned int slot, char *buf)
{
	const struct sched_device *d = &w->view->devices[slot];

	if (!d->foreign && d->busy)
		str_print(buf, PHRASE_MAX, "busy: %s", d->busy);
	else
		str_print(buf, PHRASE_MAX, "taken by %s",
			  d->foreign ? d->foreign : "somebody else");
}

static void phrase_lent(const struct why *w, unsigned int slot, char *buf)
{
	const struct sched_device *d = &w->view->devices[slot];
	cleanup_strbuf struct strbuf text = STRBUF_INIT;

	if (!d->lent_instance) {
		str_copy(buf, PHRASE_MAX, "lent to another task");
		return;
	}
	strbuf_adds(&text, !d->lent_task.id ? "with the workload"
			   : d->lent_waits  ? "held for "
					    : "used by ");
	if (d->lent_task.id)
		add_ref(&text, d->lent_task);
	strbuf_addf(&text, " of instance %s", d->lent_instance);
	str_copy(buf, PHRASE_MAX, strbuf_str(&text));
}

static void phrase_ours(const struct why *w, unsigned int slot, char *buf)
{
	for (const struct run *r = w->q->first_run; r; r = r->next) {
		if (!devset_has(r->devices, slot))
			continue;
		if (r->t.idle_workload) {
			str_copy(buf, PHRASE_MAX, "with the workload, which any task preempts");
			return;
		}
		str_print(buf, PHRASE_MAX,
			  r->t.element ? "used by task %llu.%u" : "used by task %llu",
			  (unsigned long long)r->t.id, r->t.element);
		return;
	}
	str_copy(buf, PHRASE_MAX, "used by another task");
}

static void phrase_memory(const struct why *w, unsigned int slot, char *buf)
{
	int64_t room = w->q->board.d[slot].now.room_bytes;
	char size[UNIT_TEXT_MAX];

	str_print(buf, PHRASE_MAX, "with only %s to give",
		  unit_format_gib(room > 0 ? (uint64_t)room : 0, size));
}

static void phrase_small(const struct why *w, unsigned int slot, char *buf)
{
	char size[UNIT_TEXT_MAX];

	str_print(buf, PHRASE_MAX, "with only %s of memory",
		  unit_format_gib(w->view->devices[slot].total_bytes, size));
}

static void phrase_kept(const struct why *w, unsigned int slot, char *buf)
{
	struct sched_ref k = w->q->board.d[slot].keeper;

	str_print(buf, PHRASE_MAX, k.element ? "kept for task %llu.%u" : "kept for task %llu",
		  (unsigned long long)k.id, k.element);
}

static void phrase_faulty(const struct why *w, unsigned int slot, char *buf)
{
	str_print(buf, PHRASE_MAX, "with an error (XID %u)", w->view->devices[slot].xid);
}

static void phrase_model(const struct why *w, unsigned int slot, char *buf)
{
	str_print(buf, PHRASE_MAX, "not of its model (%s)", w->view->devices[slot].model);
}

static const struct {
	const char *text;
	phrase_fn say; /* instead of text */
} phrases[] = {
	[CAUSE_NONE] = { "", NULL },
	[CAUSE_EXCLUDED] = { "", NULL },
	[CAUSE_LEFT] = { "left for others", NULL },
	[CAUSE_UNSEEN] = { "not to be seen", NULL },
	[CAUSE_PROHIBITED] = { "in compute mode PROHIBITED", NULL },
	[CAUSE_FAULTY] = { NULL, phrase_faulty },
	[CAUSE_MODEL] = { NULL, phrase_model },
	[CAUSE_SMALL] = { NULL, phrase_small },
	[CAUSE_FOREIGN] = { NULL, phrase_foreign },
	[CAUSE_LENT] = { NULL, phrase_lent },
	[CAUSE_OURS] = { NULL, phrase_ours },
	[CAUSE_PYTHON] = { "used by another Python process of yours", NULL },
	[CAUSE_PROCESS] = { "in use, and for one process at a time", NULL },
	[CAUSE_BLIND] = { "of which the free memory is not known", NULL },
	[CAUSE_MEMORY] = { NULL, phrase_memory },
	[CAUSE_KEPT] = { NULL, phrase_kept },
};
_Static_assert(ARRAY_LEN(phrases) == CAUSE_MAX, "a phrase for every cause");

static enum sched_cause cause_on(const struct why *w, unsigned int slot)
{
	const struct board *b = &w->q->board;
	struct shape *s = w->e->shape;
	bool model_ok = devset_has(board_models(b, s, w->view), slot);
	enum sched_cause cause = fit_check(s, &b->d[slot].now, model_ok);
	struct sched_ref k = b->d[slot].keeper;
	bool mine = k.id == w->e->t.id && k.element == w->e->t.element;

	if (cause == CAUSE_NONE && !mine && !board_is_open(b, slot, s, w->view->policy.grace_ms))
		return CAUSE_KEPT;
	return cause;
}

/* Free, and collected for this one, which waits for others. */
static bool is_held_for(const struct why *w, unsigned int slot)
{
	const struct board_dev *d = &w->q->board.d[slot];

	return d->collected && d->keeper.id == w->e->t.id && d->keeper.element == w->e->t.element;
}

static void look_at_devices(const struct why *w, struct devices *d)
{
	*d = (struct devices){ .want = w->e->t.gpus };
	for (unsigned int i = 0; i < w->q->board.n && i < w->view->n_devices; i++) {
		enum sched_cause cause = cause_on(w, i);

		if (!fit_is_fixed(cause))
			devset_add(&d->could, i);
		if (cause == CAUSE_NONE)
			devset_add(&d->fits, i);
		if (cause == CAUSE_NONE && is_held_for(w, i))
			str_copy(d->phrase[i], PHRASE_MAX, "held for it");
		else if (phrases[cause].say)
			phrases[cause].say(w, i, d->phrase[i]);
		else
			str_copy(d->phrase[i], PHRASE_MAX, phrases[cause].text);
	}
	d->usable = devset_count(d->could);
	d->free = devset_count(d->fits);
	if (d->want == SCHED_ALL_GPUS)
		d->want = d->usable;
	if (w->e->t.gpus == SCHED_ALL_GPUS && w->view->policy.limits_devices &&
	    w->view->policy.max_devices < d->want)
		d->want = w->view->policy.max_devices;
}

/* "GPU 1, 3 and 4": those from `first` on with the same phrase, which are then done. */
static void add_indices(struct why *w, struct devices *d, unsigned int first)
{
	char phrase[PHRASE_MAX];
	unsigned int left = 0, n = 0;

	str_copy(phrase, sizeof(phrase), d->phrase[first]);
	for (unsigned int i = first; i < w->q->board.n; i++)
		left += !strcmp(d->phrase[i], phrase);
	for (unsigned int i = first; i < w->q->board.n; i++) {
		if (strcmp(d->phrase[i], phrase) != 0)
			continue;
		strbuf_addf(&w->text, "%s%u",
			    !n		  ? ", GPU "
			    : --left == 1 ? " and "
					  : ", ",
			    w->view->devices[i].index);
		d->phrase[i][0] = '\0';
		n++;
	}
	strbuf_addf(&w->text, " %s", phrase);
}

/* There is no room for a holder beside the task, so nobody keeps others from such a device. */
static void add_one_process(struct why *w, const struct devices *d)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < w->q->board.n; i++) {
		if (!w->view->devices[i].exclusive_process || !devset_has(d->could, i))
			continue;
		strbuf_addf(&w->text, n++ ? ", %u" : "; before a task nothing is held on GPU %u",
			    w->view->devices[i].index);
	}
	if (n)
		strbuf_adds(&w->text, " (compute mode EXCLUSIVE_PROCESS)");
}

/* However they are used, there are not so many. */
static bool says_too_many(struct why *w, const struct devices *d)
{
	unsigned int n = w->q->board.n;

	if (!n || d->want <= n)
		return false;
	w->where = SCHED_WHY_NOT_HERE;
	strbuf_addf(&w->text, "cannot run on this node: it needs %u GPUs, and there %s %u here",
		    d->want, n == 1 ? "is" : "are", n);
	return true;
}

/* There would be devices, but it may not have so many. */
static bool says_limit(struct why *w, const struct devices *d)
{
	const struct sched_policy *p = &w->view->policy;
	struct devset used = board_used(&w->q->board);
	unsigned int beside = devset_count(devset_and(used, d->fits));
	unsigned int more = d->want > beside ? d->want - beside : 0;

	if (!p->limits_devices || !d->want)
		return false;
	if (d->want > p->max_devices)
		w->where = SCHED_WHY_NOT_HERE;
	if (w->where)
		strbuf_addf(&w->text,
			    "cannot run on this node as it is: it needs %u GPU%s, max_devices "
			    "leaves %u to this instance",
			    d->want, d->want > 1 ? "s" : "", p->max_devices);
	else if (d->free >= d->want && devset_count(used) + more > p->max_devices)
		strbuf_addf(&w->text,
			    "waits for %u GPU%s: max_devices leaves %u to this instance, and its "
			    "tasks have %u",
			    d->want, d->want > 1 ? "s" : "", p->max_devices, devset_count(used));
	else
		return false;
	return true;
}

static bool says_devices(struct why *w)
{
	struct devices d;

	if (!w->e->t.gpus)
		return false;
	look_at_devices(w, &d);
	if (says_too_many(w, &d) || says_limit(w, &d))
		return true;
	if (d.want && d.usable >= d.want && d.free >= d.want)
		return false;
	if (!d.want || d.usable < d.want)
		w->where = SCHED_WHY_NOT_HERE;
	if (w->where)
		strbuf_addf(&w->text,
			    "cannot run on this node as it is: it needs %u GPU%s, %u of %u "
			    "would do",
			    d.want ? d.want : 1, d.want > 1 ? "s" : "", d.usable, w->q->board.n);
	else
		strbuf_addf(&w->text, "waits for %u GPU%s: %u of %u free", d.want,
			    d.want > 1 ? "s" : "", d.free, d.usable);
	for (unsigned int i = 0; i < w->q->board.n; i++)
		if (d.phrase[i][0])
			add_indices(w, &d, i);
	add_one_process(w, &d);
	return true;
}

/* Of what is in line for a gate only the first one is looked at by a plan. */
static bool says_behind(struct why *w)
{
	struct gate *g = w->e->lane ? w->e->lane : w->e->array;
	const struct treap_node *first = g ? treap_first(&g->waiting) : NULL;
	const struct entry *head = first ? treap_item(first, struct entry, gate_node) : NULL;

	if (!head || g->ready == w->e || !treap_linked(&w->e->gate_node))
		return false;
	if (head == w->e) { /* the gate was not asked anew when it should have been */
		line_refresh(w->q, g);
		return false;
	}
	strbuf_adds(&w->text, "waits behind ");
	add_ref(&w->text, ref_of(&head->t));
	strbuf_adds(&w->text, ", which comes first in its array");
	return true;
}

static bool says_soon(struct why *w)
{
	strbuf_adds(&w->text, "can start, and will with the next plan");
	return true;
}

static bool (*const reasons[])(struct why *w) = {
	says_never,	  says_changing,  says_paused,	says_dependency, says_begin,
	says_lane_paused, says_elsewhere, says_backoff, says_lane,	 says_array,
	says_slots,	  says_devices,	  says_behind,	says_soon,
};

static void add_place(struct why *w)
{
	uint64_t place = line_position(w->q, w->e);
	uint64_t ten = place % 100 / 10, one = place % 10;
	const char *th = ten == 1 || one > 3 || !one ? "th"
			 : one == 1		     ? "st"
			 : one == 2		     ? "nd"
						     : "rd";

	/* A lane is paused with what its last task said. */
	if (w->e->note && !w->noted && !strstr(strbuf_str(&w->text), w->e->note))
		strbuf_addf(&w->text, " (%s)", w->e->note);
	if (place)
		strbuf_addf(&w->text, "; %llu%s in order", (unsigned long long)place, th);
}

static void say_run(struct strbuf *text, const struct run *r, const struct sched_view *view)
{
	char ran[UNIT_TEXT_MAX];
	uint64_t ns = view->now_ns > r->started_ns ? view->now_ns - r->started_ns : 0;

	strbuf_addf(text, "has run for %s%s", unit_format_duration(ns / NS_PER_MS, ran),
		    r->preempting ? ", and was told to make room for another task" : "");
}

int sched_why(struct sched_queue *q, struct sched_ref ref, const struct sched_view *view, char *buf)
{
	struct why w = { .q = q, .view = view, .e = queue_find_entry(q, ref) };
	const struct run *r = w.e ? NULL : queue_find_run(q, ref);
	size_t i = 0;

	if (!w.e && !r)
		return -ENOENT;
	if (r) {
		say_run(&w.text, r, view);
	} else {
		while (!reasons[i](&w))
			i++;
		add_place(&w);
	}
	(void)str_copy(buf, SCHED_WHY_MAX, strbuf_str(&w.text));
	strbuf_clear(&w.text);
	return w.where;
}
