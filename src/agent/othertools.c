/* SPDX-License-Identifier: MIT */
#include "agent/othertools.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "spool/raw.h"
#include "spool/transit.h"

#define RESUME_NS                                                                                  \
	(10 * NS_PER_S) /* looking whether a task is there already reads all that ended            \
			 */

struct place_tools {
	bool left;	    /* imports that were interrupted may lie in tmp/ */
	uint64_t resume_ns; /* mono: not before then */
	struct control_look control;
};

struct look {
	struct backlog *b;
	struct spool_place *place;
	struct place_tools *tools;
};

/* ---- bare files ---- */

static void tell_taken(struct look *l, const char *file, int r, uint64_t id, const struct err *e)
{
	if (r == 0)
		strbuf_addf(&l->b->notes, "%s in pending/ is task %llu now\n", file,
			    (unsigned long long)id);
	else if (r == RAW_REFUSED)
		strbuf_addf(&l->b->notes, "%s in pending/ is no task: %s\n", file, e->text);
}

static void try_later(struct look *l, const char *file, const struct err *e)
{
	/* Where it is still in pending/ the scan gives it again; else it is ours, in tmp/. */
	if (scan_raw_again(l->place->scan, file) <= 1)
		strbuf_addf(&l->b->notes,
			    "%s in pending/ could not be made a task yet, and is tried again: %s\n",
			    file, e->text);
	l->tools->left = true;
	l->tools->resume_ns = clock_mono_ns() + RESUME_NS;
}

static void import_new(struct look *l)
{
	const struct spool_place *p = l->place;
	const char *file;

	while ((file = scan_raw_ripe(p->scan))) {
		struct err e = ERR_INIT;
		uint64_t id = 0;
		int r = raw_import(p->spool, file, p->self.agent, &id, &e);

		if (r < 0)
			try_later(l, file, &e);
		else
			tell_taken(l, file, r, id, &e);
	}
}

static void on_resumed(void *data, const char *file, int r, uint64_t id, const struct err *e)
{
	tell_taken(data, file, r, id, e);
}

/* Those that came as far as tmp/, by us or by an agent before us. */
static void resume_old(struct look *l)
{
	const struct spool_place *p = l->place;
	struct place_tools *t = l->tools;

	if (!t->left || clock_mono_ns() < t->resume_ns)
		return;
	t->left = raw_resume_all(p->spool, p->self.agent, p->scan, on_resumed, l, NULL) != 0;
	t->resume_ns = clock_mono_ns() + RESUME_NS;
}

/* ---- control.json ---- */

/* What waits and is meant by a stop. The next scan tells the planner. */
static void cancel_waiting(const struct spool_place *p, const struct control_order *order)
{
	const struct scan_task *t;
	size_t iter = 0;

	while ((t = scan_next(p->scan, &iter))) {
		bool meant = order->command == CONTROL_STOP_ALL ||
			     (order->command == CONTROL_STOP && order->task &&
			      strcmp(t->name.name, order->task) == 0);

		if (meant && t->dir == SPOOL_PENDING)
			(void)transit_cancel(p->spool, &t->name, "stopped by control.json", NULL);
	}
}

static void take_order(struct look *l)
{
	struct backlog *b = l->b;
	struct control_order order;
	struct err e = ERR_INIT;
	int r = control_file_take(l->place->spool, &l->tools->control, &order, &e);

	if (r == 0) {
		cancel_waiting(l->place, &order);
		b->orders = xrealloc(b->orders, b->n_orders + 1, sizeof(*b->orders));
		b->orders[b->n_orders++] = order;
	} else if (e.code) {
		strbuf_addf(&b->notes, "control.json: %s\n", e.text);
	}
}

void othertools_look(struct backlog *b, struct spool_place *place)
{
	struct look l = { .b = b, .place = place };

	if (!place->tools) {
		place->tools = xcalloc(1, sizeof(*place->tools));
		place->tools->left = true;
	}
	l.tools = place->tools;
	resume_old(&l); /* first: the scan has seen nothing of what is taken now */
	import_new(&l);
	take_order(&l);
}

void othertools_forget(struct spool_place *place)
{
	free(take_ptr(place->tools));
}
