/* SPDX-License-Identifier: MIT */
#include "agent/queue/spoolwatch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cost.h"
#include "base/mem.h"
#include "base/str.h"

#define SCAN_NS	     (2 * NS_PER_S)   /* inotify does not see what other nodes write */
#define SCAN_SHARE   50		      /* reading all takes at most this part of the time */
#define SCAN_MOST_NS (120 * NS_PER_S) /* or it rests so long */
#define NAMES_MAX    1000	      /* more of them at once, and all is read */

enum reading {
	READING_IDLE,
	READING_BUSY, /* a job reads */
	READING_MORE, /* more of what the last one saw is to be looked at */
};

struct spoolwatch {
	struct spooler *spooler;
	struct eventlog *eventlog;
	const struct spoolwatch_ops *ops;
	void *user;
	uv_timer_t timer;
	struct dirwatch *dir; /* pending/ */
	enum queue_state state;
	enum reading reading;
	struct cost scan_cost;
	bool stopped;
	char trouble[ERR_TEXT_MAX];
	struct index_want want;	  /* what to look at */
	uint64_t n_reads, n_read; /* readings of the directories begun, and done with */
	struct spool_reader *readers;
	size_t n_unread;	     /* tasks that are in no plan, because ... */
	struct index_unread *unread; /* ... their files cannot be read */
	bool raw_waits;		     /* nor are these, bare files that will be tasks */
};

struct scan_job {
	struct spool_job job;
	uint64_t n_read; /* readings of the directories up to this */
	struct index_reading b;
};

static void scan(struct spoolwatch *w);

/* ---- who waits for a reading ---- */

static void tell_readers(struct spoolwatch *w)
{
	struct spool_reader *all = take_ptr(w->readers);

	while (all) {
		struct spool_reader *r = all;

		all = r->next;
		if (r->at > w->n_read) {
			r->next = w->readers;
			w->readers = r;
		} else {
			r->read(r);
		}
	}
}

int spoolwatch_when_read(struct spoolwatch *w, struct spool_reader *r)
{
	if (!w->state || w->stopped)
		return -EAGAIN;
	r->at = w->n_reads + 1; /* one that begins after this */
	r->next = w->readers;
	w->readers = r;
	spoolwatch_rescan(w);
	return 0;
}

void spoolwatch_forget_reader(struct spoolwatch *w, const struct spool_reader *r)
{
	for (struct spool_reader **at = &w->readers; *at; at = &(*at)->next)
		if (*at == r) {
			*at = r->next;
			return;
		}
}

/* ---- a reading ---- */

static void on_timer(uv_timer_t *timer)
{
	spoolwatch_rescan(timer->data);
}

static void scan_work(struct spool_job *job, struct spool_place *p)
{
	index_work(&((struct scan_job *)job)->b, p);
}

/* What waits and is in no plan. */
static void take_unread(struct spoolwatch *w, struct index_reading *b)
{
	w->raw_waits = b->raw_known ? b->raw_waits : w->raw_waits;
	if (!b->unread_known)
		return;
	index_unread_clear(w->unread, w->n_unread);
	w->n_unread = b->n_unread;
	w->unread = take_ptr(b->unread);
	b->n_unread = 0;
}

/* True: all is known since this reading. */
static bool take_state(struct spoolwatch *w, const struct index_reading *b)
{
	bool known = w->state == QUEUE_KNOWN;

	if (b->code < 0) {
		if (spoolwatch_set_trouble(w, b->e.text))
			eventlog_say(w->eventlog, LOG_LEVEL_ERROR, "the queue cannot be read: %s",
				     b->e.text);
		return false;
	}
	w->trouble[0] = '\0';
	if (b->want.all && w->state < QUEUE_LISTED)
		w->state = QUEUE_LISTED;
	if (w->state == QUEUE_LISTED && !b->more)
		w->state = QUEUE_KNOWN;
	return !known && w->state == QUEUE_KNOWN;
}

static void scan_done(struct spool_job *job)
{
	struct scan_job *s = (struct scan_job *)job;
	struct spoolwatch *w = job->user;
	struct index_reading *b = &s->b;
	bool first = take_state(w, b);

	w->reading = READING_IDLE;
	take_unread(w, b);
	w->ops->read(w->user, b, first);
	if (b->want.all && !w->stopped) {
		uint64_t rest_ns;

		if (b->read_ns)
			cost_add(&w->scan_cost, b->read_ns);
		rest_ns = cost_rest_ns(&w->scan_cost, SCAN_SHARE, SCAN_NS, SCAN_MOST_NS);
		(void)uv_timer_start(&w->timer, on_timer, rest_ns / NS_PER_MS, 0);
	}
	if (b->more && w->reading == READING_IDLE)
		w->reading = READING_MORE;
	/* What comes in parts was all read by the first of them. */
	if (!b->more)
		w->n_read = s->n_read;
	index_clear(b);
	free(s);
	w->ops->after(w->user);
	scan(w);
	tell_readers(w);
}

/* Looks at what is wanted, if anything is and nobody does already. */
static void scan(struct spoolwatch *w)
{
	const struct index_want *want = &w->want;
	struct scan_job *s;

	if (!w->state || w->reading == READING_BUSY || w->stopped ||
	    !(want->all || want->settle || want->batches || want->names.n || want->ids.n ||
	      w->reading == READING_MORE))
		return;
	w->reading = READING_BUSY;
	s = xcalloc(1, sizeof(*s));
	s->b.want = w->want;
	w->n_reads += w->want.all;
	s->n_read = w->n_reads;
	w->want = (struct index_want){ 0 };
	s->job = (struct spool_job){ .work = scan_work, .done = scan_done, .user = w };
	spooler_do(w->spooler, &s->job);
}

void spoolwatch_rescan(struct spoolwatch *w)
{
	w->ops->rescan(w->user);
	w->want.all = true;
	scan(w);
}

void spoolwatch_rescan_batches(struct spoolwatch *w)
{
	w->want.batches = true;
	spoolwatch_rescan(w);
}

void spoolwatch_settle(struct spoolwatch *w)
{
	w->want.settle = true;
	scan(w);
}

void spoolwatch_look_at(struct spoolwatch *w, uint64_t id, bool now)
{
	struct uint_list *ids = &w->want.ids;

	if (!ids->n || ids->nums[ids->n - 1] != id) {
		ids->nums = xrealloc(ids->nums, ids->n + 1, sizeof(*ids->nums));
		ids->nums[ids->n++] = id;
	}
	if (now)
		scan(w);
}

/* Our own claims are heard here, too; with many waiting, reading all for each would be the cost of
 * a task. */
static void on_change(void *user, const char *file)
{
	struct spoolwatch *w = user;
	struct task_name n;

	if (file && name_parse(file, &n) && n.id &&
	    w->ops->owns(w->user, (struct sched_ref){ n.id, 0 }))
		return;
	if (!file || w->want.names.n >= NAMES_MAX)
		w->want.all = true;
	else
		text_list_add(&w->want.names, file);
	scan(w);
}

/* ---- what is known ---- */

enum queue_state spoolwatch_state(const struct spoolwatch *w)
{
	return w->state;
}

const char *spoolwatch_trouble(const struct spoolwatch *w)
{
	return w->trouble[0] ? w->trouble : NULL;
}

bool spoolwatch_set_trouble(struct spoolwatch *w, const char *why)
{
	bool another = strcmp(w->trouble, why) != 0;

	(void)str_copy(w->trouble, sizeof(w->trouble), why);
	return another;
}

const struct index_unread *spoolwatch_unread(const struct spoolwatch *w, size_t *ret_n)
{
	*ret_n = w->n_unread;
	return w->unread;
}

bool spoolwatch_raw_waits(const struct spoolwatch *w)
{
	return w->raw_waits;
}

const struct dirwatch *spoolwatch_dirwatch(const struct spoolwatch *w)
{
	return w->dir;
}

/* ---- its life ---- */

struct spoolwatch *spoolwatch_new(uv_loop_t *loop, struct spooler *spooler,
				  struct eventlog *eventlog, const struct spoolwatch_ops *ops,
				  void *user)
{
	struct spoolwatch *w = xcalloc(1, sizeof(*w));

	w->spooler = spooler;
	w->eventlog = eventlog;
	w->ops = ops;
	w->user = user;
	(void)uv_timer_init(loop, &w->timer);
	w->timer.data = w;
	w->dir = dirwatch_new(loop, spooler, on_change, w);
	return w;
}

void spoolwatch_open(struct spoolwatch *w)
{
	w->state = QUEUE_OPEN;
	w->trouble[0] = '\0';
}

void spoolwatch_stop(struct spoolwatch *w)
{
	w->stopped = true;
	w->n_read = UINT64_MAX; /* nothing is any more */
	tell_readers(w);
	(void)uv_timer_stop(&w->timer);
	dirwatch_stop(w->dir);
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

void spoolwatch_free(struct spoolwatch *w)
{
	dirwatch_stop(w->dir);
	w->dir = dirwatch_free(w->dir);
	text_list_clear(&w->want.names);
	free(w->want.ids.nums);
	index_unread_clear(w->unread, w->n_unread);
	uv_close((uv_handle_t *)&w->timer, on_closed);
}
