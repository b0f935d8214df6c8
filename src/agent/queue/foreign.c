/* SPDX-License-Identifier: MIT */
#include "agent/queue/foreign.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/textlist.h"
#include "spool/raw.h"
#include "spool/transit.h"

/* Looking whether a task is there already reads all that ended. */
#define RESUME_NS (10 * NS_PER_S)

/* A task that a client is changing, or has left so. */
struct held {
	uint64_t id;
	struct timespec changed; /* as its file says, */
	uint64_t since_ns;	 /* and mono: so since then */
};

struct place_tools {
	size_t n_held;
	struct held *held;
	uint64_t resume_ns; /* mono: not before then imports that were interrupted are looked for */
	uint64_t left_ns;   /* mono: the last of them, which are ours; 0: there are none */
	bool taken;	    /* a bare file has become a task in this look */
	struct text_list told; /* files of which it was said that they are tried again */
	struct control_look control;
};

struct look {
	struct strbuf *notes;
	struct spool_place *place;
	struct place_tools *tools;
};

/* ---- bare files ---- */

static void tell_taken(struct look *l, const char *file, int r, uint64_t id, const struct err *e)
{
	l->tools->taken |= r == 0;
	if (r == 0)
		strbuf_addf(l->notes, "%s in pending/ is task %llu now\n", file,
			    (unsigned long long)id);
	else if (r == RAW_REFUSED)
		strbuf_addf(l->notes, "%s in pending/ is no task: %s\n", file, e->text);
}

static void tell_later(struct look *l, const char *file, const struct err *e)
{
	strbuf_addf(l->notes,
		    "%s in pending/ could not be made a task yet, and is tried again: %s\n", file,
		    e->text);
}

/* Where it is still in pending/ the scan gives it again; else it is ours, in tmp/. */
static void try_later(struct look *l, const char *file, const struct err *e)
{
	struct place_tools *t = l->tools;
	char path[SPOOL_PATH_MAX];

	if (scan_raw_again(l->place->scan, file) <= 1)
		tell_later(l, file, e);
	if (!spool_exists(l->place->spool, spool_path(SPOOL_PENDING, file, path))) {
		t->left_ns = clock_mono_ns();
		text_list_add(&t->told, file);
	}
	t->resume_ns = clock_mono_ns() + RESUME_NS;
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
	struct look *l = data;

	if (r < 0 && !text_list_has(&l->tools->told, file)) {
		tell_later(l, file, e);
		text_list_add(&l->tools->told, file);
	}
	tell_taken(l, file, r, id, e);
}

/* Those that came as far as tmp/, by us, an agent before us, or one that is gone by now. */
static void resume_old(struct look *l)
{
	const struct spool_place *p = l->place;
	struct place_tools *t = l->tools;

	if (clock_mono_ns() < t->resume_ns)
		return;
	if (raw_resume_all(p->spool, p->self.agent, p->scan, on_resumed, l, NULL) != 0) {
		t->left_ns = t->left_ns ? t->left_ns : clock_mono_ns(); /* or it cannot be told */
	} else {
		t->left_ns = 0;
		text_list_clear(&t->told);
	}
	t->resume_ns = clock_mono_ns() + RESUME_NS;
}

/* ---- edits that were forgotten ---- */

static void free_forgotten(struct look *l, struct task_name *n)
{
	struct err e = ERR_INIT;
	int r = transit_free_edit(l->place->spool, n, &e);

	if (r == 0)
		strbuf_addf(
			l->notes,
			"task %llu was left as a command was changing it, %d s ago, and waits as it "
			"is\n",
			(unsigned long long)n->id, TRANSIT_HOLD_S);
	else if (r < 0)
		strbuf_addf(l->notes,
			    "task %llu was left as a command was changing it, and cannot be freed: "
			    "%s\n",
			    (unsigned long long)n->id, e.text);
}

static const struct held *find_held(const struct held *all, size_t n, uint64_t id)
{
	for (size_t i = 0; i < n; i++)
		if (all[i].id == id)
			return &all[i];
	return NULL;
}

/* How long it has stood so is counted by our own clock: that of the file may be a server's. */
static void look_at_held(struct look *l)
{
	const struct spool_place *p = l->place;
	struct place_tools *t = l->tools;
	size_t n_old = t->n_held, n = 0, iter = 0;
	cleanup_free struct held *old = take_ptr(t->held);
	const struct scan_task *task;

	t->n_held = 0;
	if (!scan_held(p->scan))
		return;
	t->held = xcalloc(scan_held(p->scan), sizeof(*t->held));
	while ((task = scan_next(p->scan, &iter)) && n < scan_held(p->scan)) {
		struct held h = { .id = task->name.id, .since_ns = clock_mono_ns() };
		const struct held *was = find_held(old, n_old, h.id);
		char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
		struct task_name name = task->name;
		struct stat st;

		if (!(name.flags & NAME_EDITED) || task->dir != SPOOL_PENDING ||
		    spool_stat(p->spool, spool_path(SPOOL_PENDING, name_format(&name, file), path),
			       &st) < 0)
			continue;
		h.changed = st.st_ctim;
		if (was && was->changed.tv_sec == h.changed.tv_sec &&
		    was->changed.tv_nsec == h.changed.tv_nsec)
			h.since_ns = was->since_ns;
		if (clock_mono_ns() - h.since_ns >= TRANSIT_HOLD_S * NS_PER_S)
			free_forgotten(l, &name);
		t->held[n++] = h;
	}
	t->n_held = n;
}

/* ---- control.json ---- */

/* What waits and is meant by a stop. The next scan tells the planner. */
static void cancel_waiting(const struct spool_place *p, struct control_order *order)
{
	const struct scan_task *t;
	size_t iter = 0;

	while ((t = scan_next(p->scan, &iter))) {
		bool meant = order->command == CONTROL_STOP_ALL ||
			     (order->command == CONTROL_STOP && order->task &&
			      strcmp(t->name.name, order->task) == 0);

		if (!meant || t->dir != SPOOL_PENDING)
			continue;
		order->cancelled++;
		(void)transit_cancel(p->spool, &t->name, "stopped by control.json", NULL);
	}
}

static bool take_order(struct look *l, struct control_order *ret)
{
	struct err e = ERR_INIT;
	int r = control_file_take(l->place->spool, &l->tools->control, control_order_read, ret, &e);

	if (r == 0)
		cancel_waiting(l->place, ret);
	else if (e.code)
		strbuf_addf(l->notes, "control.json: %s\n", e.text);
	return r == 0;
}

bool foreign_look(struct spool_place *place, struct strbuf *notes, struct control_order *ret)
{
	struct look l = { .notes = notes, .place = place };

	if (!place->tools)
		place->tools = xcalloc(1, sizeof(*place->tools));
	l.tools = place->tools;
	l.tools->taken = false;
	resume_old(&l); /* first: the scan has seen nothing of what is taken now */
	import_new(&l);
	look_at_held(&l);
	return take_order(&l, ret);
}

bool foreign_waits(const struct spool_place *place)
{
	const struct place_tools *t = place->tools;

	return t && (t->taken || scan_raw_waits(place->scan) ||
		     (t->left_ns && clock_mono_ns() - t->left_ns < SCAN_RAW_WAIT_NS));
}

void foreign_forget(struct spool_place *place)
{
	if (place->tools) {
		free(place->tools->held);
		text_list_clear(&place->tools->told);
	}
	free(take_ptr(place->tools));
}
