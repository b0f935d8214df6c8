/* SPDX-License-Identifier: MIT */

/*
 * Everything here is found by names and records, so that an interrupted recovery is simply run
 * again. Before a dead claim is changed it is taken over: renamed to our own name with the same
 * epoch, which one of several recoverers wins. Of an element nothing has to be won: its new epoch
 * is in the journal before its old file goes, and the new claim has another name.
 *
 * Events of an earlier boot are what a power loss left of ends whose renames it took back. They are
 * matched by id, element and epoch with what lies in pending/ and running/.
 */

#include "spool/recover.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/batch.h"
#include "spool/heartbeat.h"
#include "spool/own.h"
#include "spool/raw.h"
#include "spool/scan.h"
#include "spool/submit.h"
#include "spool/transit.h"

/* A submission takes milliseconds; a suspended client may wake up late. */
#define TMP_LIMIT_S 86400

#define ELEMENT_FILE_MAX 65536
#define LOST_REASON	 "its node or agent went away"
#define STOPPED_REASON	 "stopped by its owner; its node or agent went away meanwhile"

struct recovery {
	const struct spool *sp;
	const struct claimer *self;
	struct endlog *ev;
	const struct recover_calls *calls;
	struct recover_counts counts;
	bool others;	  /* we run: claims of our own may be in use */
	bool events_stay; /* what one tells could not be brought to where it belongs */
	bool events_read;
	size_t n_events;
	struct endlog_line *events; /* sorted by id and element */
	struct scan *scan;
	struct batch *batch; /* of the last element */
	uint64_t batch_id;
	uint64_t gone_id; /* a batch that waits no more */
	struct task_spec *batch_spec;
};

static void tell(struct recovery *rc, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void tell(struct recovery *rc, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX + NAME_FILE_MAX];
	va_list ap;

	if (!rc->calls || !rc->calls->tell)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	rc->calls->tell(rc->calls->data, text);
}

static void problem(struct recovery *rc, const char *path, const struct err *e)
{
	rc->counts.problems++;
	rc->events_stay = true;
	tell(rc, "%s could not be recovered: %s", path, e->text);
}

enum liveness recover_life_here(const struct spool *sp, const struct claimer *c)
{
	if (strcmp(c->boot, sp->boot) == 0)
		return proc_alive(&c->proc) ? LIVENESS_ALIVE : LIVENESS_DEAD;
	/* What was before this kernel was started, on a disk that it has to itself. */
	return !sp->network && !heartbeat_same_kernel(c->boot, sp->boot) ? LIVENESS_DEAD
									 : LIVENESS_UNKNOWN;
}

/* ---- events of an earlier boot ---- */

/* Of the claim that it is about. */
static uint64_t epoch_before(const struct endlog_line *ev)
{
	return ev->requeue ? ev->epoch - 1 : ev->end.epoch;
}

static int by_task(const void *a, const void *b)
{
	const struct endlog_line *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	if (x->element != y->element)
		return x->element < y->element ? -1 : 1;
	return epoch_before(x) < epoch_before(y) ? -1 : epoch_before(x) > epoch_before(y);
}

/* An end that came while the requeue of the same claim could not be brought on goes first. */
static int ends_first(const void *a, const void *b)
{
	const struct endlog_line *x = a, *y = b;
	int r = by_task(a, b);

	return r ? r : x->requeue - y->requeue;
}

static void keep_event(void *data, const struct endlog_line *ev)
{
	struct recovery *rc = data;

	if (!scan_find(rc->scan, ev->id, 0)) /* it is where it belongs */
		return;
	rc->events = xgrow(rc->events, rc->n_events, sizeof(*ev));
	rc->events[rc->n_events++] = *ev;
}

/* What the events of earlier boots tell of what is in the queue; once, and not before it is needed:
 * there may be some MiB of them for each agent. */
static int read_events(struct recovery *rc, struct err *e)
{
	int r = rc->events_read ? 0 : endlog_read_old(rc->sp, keep_event, rc, e);

	if (!rc->events_read && rc->n_events)
		qsort(rc->events, rc->n_events, sizeof(*rc->events), ends_first);
	rc->events_read = r == 0;
	return r;
}

/* The place of the first that is not before those of that claim. */
static size_t events_from(const struct recovery *rc, uint64_t id, uint64_t element, uint64_t epoch)
{
	struct endlog_line key = { .id = id, .element = element, .end = { .epoch = epoch } };
	size_t low = 0, high = rc->n_events;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (by_task(&rc->events[mid], &key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool is_of(const struct recovery *rc, size_t at, uint64_t id, uint64_t element)
{
	return at < rc->n_events && rc->events[at].id == id && rc->events[at].element == element;
}

/* What became of the claim with that epoch; NULL: nothing is known. */
static const struct endlog_line *find_event(const struct recovery *rc, uint64_t id,
					    uint64_t element, uint64_t epoch)
{
	size_t at = events_from(rc, id, element, epoch);

	return is_of(rc, at, id, element) && epoch_before(&rc->events[at]) == epoch
		       ? &rc->events[at]
		       : NULL;
}

/* The next requeue above an epoch, up to another one; NULL: there is none. */
static const struct endlog_line *find_requeue(const struct recovery *rc, uint64_t id,
					      uint64_t element, uint64_t above, uint64_t last)
{
	size_t at = events_from(rc, id, element, above);

	while (is_of(rc, at, id, element) && !rc->events[at].requeue)
		at++;
	return is_of(rc, at, id, element) && rc->events[at].epoch <= last ? &rc->events[at] : NULL;
}

/* ---- single tasks ---- */

/* It is not known when the attempt was interrupted, so nothing is recorded of how long it ran. */
static struct spool_end lost_end(const struct claim *c)
{
	struct spool_end end = { .result = RESULT_FAILED,
				 .exit = NAME_SIGNALLED,
				 .epoch = c->name.epoch,
				 .attempt = c->attempt,
				 .ended_ns = clock_wall_ns() };

	(void)str_copy(end.reason, sizeof(end.reason), LOST_REASON);
	return end;
}

/* The task was being stopped, and it is not known whether it had ended. */
static struct spool_end stopped_end(const struct claim *c)
{
	struct spool_end end = lost_end(c);

	end.result = RESULT_CANCELLED;
	(void)str_copy(end.reason, sizeof(end.reason), STOPPED_REASON);
	return end;
}

static struct spool_again lost_again(const struct claim *c)
{
	struct spool_again again = { .attempts = c->attempt ? c->attempt - 1 : 0, .outside = true };

	(void)str_copy(again.reason, sizeof(again.reason), LOST_REASON);
	return again;
}

/* The claim becomes ours, unless it is already. CLAIM_LOST: another recoverer has it. */
static int take_over(struct recovery *rc, struct claim *c, struct err *e)
{
	char file[NAME_FILE_MAX], to[SPOOL_PATH_MAX];
	struct task_name n = c->name;

	if (strcmp(n.agent, rc->self->agent) == 0)
		return 0;
	(void)str_copy(n.agent, sizeof(n.agent), rc->self->agent);
	(void)spool_path(SPOOL_RUNNING, name_format(&n, file), to);

	int r = spool_rename(rc->sp, c->path, to, e);

	if (r < 0)
		return r == -ENOENT ? CLAIM_LOST : r;
	c->name = n;
	(void)str_copy(c->path, sizeof(c->path), to);
	return 0;
}

/* The file has our name and its record another agent's: a recovery of ours judged that agent
 * dead, took the claim over, and was interrupted before it brought it on. */
bool recover_taken_over(const struct claim *c, const char *self)
{
	return strcmp(c->name.agent, self) == 0 && strcmp(c->who.agent, self) != 0;
}

/* It was requeued, and whoever did that was interrupted between the record and the rename. */
static bool was_requeued(const struct task_name *n, const struct task_history *h)
{
	return h->epoch > n->epoch;
}

static void tell_end(const struct recovery *rc, const struct claim *c, const struct task_spec *spec,
		     const struct spool_end *end)
{
	if (rc->calls && rc->calls->ends)
		rc->calls->ends(rc->calls->data, c, spec, end);
}

static int settle_dead(struct recovery *rc, struct claim *c, const struct task_file *t,
		       struct err *e)
{
	const struct endlog_line *known = find_event(rc, c->name.id, 0, c->name.epoch);
	struct spool_end end = lost_end(c);
	struct spool_again again;
	int r = take_over(rc, c, e);

	if (r != 0)
		return r < 0 ? r : 0;
	if (t->history.ended)
		end = t->history.end;
	else if (known && !known->requeue)
		end = known->end;
	if (t->history.ended || (known && !known->requeue)) {
		rc->counts.filed++;
		return transit_end(rc->sp, rc->ev, c, &end, e);
	}
	if (c->stopped) {
		rc->counts.filed++;
		end = stopped_end(c);
		tell_end(rc, c, t->spec, &end);
		return transit_end(rc->sp, rc->ev, c, &end, e);
	}
	if (t->spec->no_requeue && t->history.claimed && !known) {
		rc->counts.failed++;
		tell(rc, "task %" PRIu64 " (%s) failed: " LOST_REASON, c->name.id, c->name.name);
		tell_end(rc, c, t->spec, &end);
		return transit_end(rc->sp, rc->ev, c, &end, e);
	}
	rc->counts.requeued++;
	tell(rc, "task %" PRIu64 " (%s) is requeued: " LOST_REASON, c->name.id, c->name.name);
	/* Being interrupted is no failure of the task: the attempt does not count. */
	again = lost_again(c);
	if (was_requeued(&c->name, &t->history)) { /* that has counted it */
		again.attempts = t->history.attempts;
		again.not_before_ns = t->history.not_before_ns;
		(void)str_copy(again.reason, sizeof(again.reason), t->history.reason);
	}
	return transit_requeue(rc->sp, rc->ev, c, known ? &known->again : &again, e);
}

static enum liveness life_of(struct recovery *rc, const struct claim *c)
{
	if (rc->calls && rc->calls->life)
		return rc->calls->life(rc->calls->data, c);

	enum liveness life = recover_life_here(rc->sp, &c->who);
	bool ours = strcmp(c->who.agent, rc->self->agent) == 0;

	if (!c->who.agent[0])
		return rc->others ? LIVENESS_UNKNOWN : LIVENESS_DEAD;

	/* A claim of our own that this process has not made is one of an agent before it; nobody
	 * else has our name. */
	if (ours && (!c->who.proc.pid || life == LIVENESS_UNKNOWN))
		return LIVENESS_DEAD;
	if (recover_taken_over(c, rc->self->agent))
		return LIVENESS_DEAD;
	return life;
}

/* 0: it is dead; 1: it has been dealt with. */
static int look_at_holder(struct recovery *rc, const struct claim *c, const struct task_spec *spec)
{
	enum liveness life = life_of(rc, c);

	if (life != LIVENESS_DEAD && find_event(rc, c->name.id, c->name.element, c->name.epoch))
		rc->events_stay = true;
	if (life == LIVENESS_UNKNOWN)
		rc->counts.unknown++;
	if (life == LIVENESS_ALIVE) {
		rc->counts.adopted++;
		if (rc->calls && rc->calls->adopt)
			rc->calls->adopt(rc->calls->data, c, spec);
	}
	return life != LIVENESS_DEAD;
}

static bool is_own(const struct recovery *rc, const struct claim *c)
{
	return strcmp(c->who.agent, rc->self->agent) == 0;
}

static void make_claim(const struct task_name *n, const struct task_history *h, const char *path,
		       struct claim *ret)
{
	/* A claim without a record was interrupted before it was written. */
	bool requeued = was_requeued(n, h), recorded = h->claimed || h->ended || requeued;

	*ret = (struct claim){ .name = *n,
			       .attempt = requeued ? h->was.attempts : h->attempts + !recorded,
			       .claimed_ns = h->claimed_ns,
			       .record_bytes = h->bytes };
	if (recorded)
		ret->who = h->claimer;
	ret->started = h->claimed && h->started;
	ret->stopped = h->stopped;
	if (!ret->who.agent[0])
		(void)str_copy(ret->who.agent, sizeof(ret->who.agent), n->agent);
	(void)str_copy(ret->path, sizeof(ret->path), path);
}

/* A power loss may leave the name of a requeue and take its record: n tells what the file does not.
 * 1: the file has it now; 0: it had. */
static int restore_requeues(struct recovery *rc, const struct task_name *n, const char *path,
			    const struct task_history *h, struct err *e)
{
	const struct endlog_line *ev;
	uint64_t epoch = h->epoch;

	while ((ev = find_requeue(rc, n->id, 0, epoch, n->epoch))) {
		int r = record_append(rc->sp, path,
				      record_requeue(&ev->again, ev->epoch, ev->noted_ns),
				      rc->sp->no_syncfs, e);

		if (r < 0)
			return r;
		epoch = ev->epoch;
	}
	return epoch > h->epoch;
}

static int read_claimed(struct recovery *rc, const struct task_name *n, const char *path,
			struct task_file *ret, struct claim *ret_claim, struct err *e)
{
	int r = spool_confirm(rc->sp, path, task_file_read(rc->sp, path, ret, e), e);

	if (r < 0)
		return r;
	make_claim(n, &ret->history, path, ret_claim);
	if (was_requeued(n, &ret->history)) /* what its attempt has, and not what the next is to */
		ret->spec->memory = ret->history.was.memory;
	return 0;
}

/* The same with what events tell of how it came to be what was claimed; of a claim that nobody else
 * may be working at. */
static int restore_claimed(struct recovery *rc, const struct task_name *n, struct task_file *t,
			   struct claim *c, struct err *e)
{
	char path[SPOOL_PATH_MAX];
	struct task_file whole;
	int r;

	(void)str_copy(path, sizeof(path), c->path);
	r = restore_requeues(rc, n, path, &t->history, e);
	if (r <= 0)
		return r;
	r = read_claimed(rc, n, path, &whole, c, e);
	if (r == 0) {
		task_file_clear(t);
		*t = whole;
	}
	return r;
}

static int recover_dead(struct recovery *rc, const struct task_name *n, struct task_file *t,
			struct claim *c, struct err *e)
{
	int r = read_events(rc, e);

	if (r == 0)
		r = restore_claimed(rc, n, t, c, e);
	return r == 0 ? settle_dead(rc, c, t, e) : r;
}

/* path: also where it is when it could not be brought on, which may be another name. */
static int recover_task(struct recovery *rc, const struct task_name *n, char *path, struct err *e)
{
	struct task_file t;
	struct claim c;
	int r = read_claimed(rc, n, path, &t, &c, e);

	if (r == -ENOENT)
		return 0;
	if (r == -EINVAL) {
		cleanup_free char *why = xstrdup(e->text);

		tell(rc, "%s was refused: %s", path, why);
		return spool_refuse(rc->sp, path, why, e);
	}
	if (r < 0)
		return r;
	/* An attempt of ours that lives keeps its own number. */
	if (!rc->others && strcmp(n->agent, rc->self->agent) == 0)
		r = restore_claimed(rc, n, &t, &c, e);
	/* A claim with an end in it is being committed by its agent, which lives. */
	if (r == 0 &&
	    ((is_own(rc, &c) && t.history.ended && !rc->others) || !look_at_holder(rc, &c, t.spec)))
		r = recover_dead(rc, n, &t, &c, e);
	(void)str_copy(path, SPOOL_PATH_MAX, c.path);
	task_file_clear(&t);
	return r;
}

/* ---- elements ---- */

/* A name that is changed while the directory is read may be missed by one look, and an element
 * would lose its claim for it. */
static const struct scan_task *find_waiting_batch(struct recovery *rc, uint64_t id, struct err *e)
{
	const struct scan_task *t = scan_find(rc->scan, id, 0);

	if (!t && rc->gone_id != id && scan_update(rc->scan, NULL, NULL, e) == 0) {
		t = scan_find(rc->scan, id, 0);
		rc->gone_id = t ? rc->gone_id : id;
	}
	return t && t->dir == SPOOL_PENDING && t->name.count ? t : NULL;
}

static struct batch *batch_of(struct recovery *rc, uint64_t id, struct err *e)
{
	if (rc->batch && rc->batch_id == id)
		return rc->batch;
	rc->batch = batch_close(rc->batch);
	rc->batch_spec = spec_free(rc->batch_spec);
	rc->batch_id = id;

	const struct scan_task *t = find_waiting_batch(rc, id, e);

	if (!t)
		return NULL;

	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	struct task_file f;

	if (task_file_read(rc->sp, spool_path(SPOOL_PENDING, name_format(&t->name, file), path), &f,
			   e) < 0)
		return NULL;
	rc->batch_spec = take_ptr(f.spec);
	task_file_clear(&f);
	if (batch_open(rc->sp, &t->name, rc->self->agent, &rc->batch, e) == 0 &&
	    batch_refresh_now(rc->batch, e) < 0)
		rc->batch = batch_close(rc->batch);
	return rc->batch;
}

/* The element was requeued, and stopped before its file went. An attempt that has begun since was
 * not meant. */
static int end_requeued(struct recovery *rc, struct batch *b, const struct claim *c, struct err *e)
{
	struct spool_end end;
	struct claim again;
	int r = batch_claim_to_end(b, c->name.element, rc->self, &again, e);

	if (r == 0) {
		end = stopped_end(&again);
		rc->counts.filed++;
		r = batch_end(b, rc->ev, &again, &end, e);
	}
	return r < 0 ? r : spool_unlink(rc->sp, c->path, e);
}

/* Into the journal of its batch, where a power loss took that. path: of the claim that it is about;
 * SPOOL_PATH_MAX bytes. */
static int bring_to_journal(struct recovery *rc, struct batch *b, const struct endlog_line *ev,
			    char *path, struct err *e)
{
	struct claim c = {
		.name = { .id = ev->id, .element = ev->element, .epoch = epoch_before(ev) }
	};
	char file[NAME_FILE_MAX];

	(void)str_copy(path, SPOOL_PATH_MAX,
		       spool_path(SPOOL_RUNNING, name_format(&c.name, file), c.path));
	return ev->requeue ? batch_requeue(b, rc->ev, &c, &ev->again, e)
			   : batch_end(b, rc->ev, &c, &ev->end, e);
}

/* By its claim the element was requeued so often: the endlog knows how, where the journals do not
 * have it. */
static int restore_element(struct recovery *rc, struct batch *b, const struct task_name *n,
			   struct err *e)
{
	const struct endlog_line *ev;
	char path[SPOOL_PATH_MAX];
	unsigned int attempts;
	uint64_t epoch;
	int r = 0;

	while (r == 0 && batch_state(b, n->element, &epoch, &attempts) < BATCH_DONE &&
	       (ev = find_requeue(rc, n->id, n->element, epoch, n->epoch)))
		r = bring_to_journal(rc, b, ev, path, e);
	return r;
}

static int settle_element(struct recovery *rc, struct batch *b, struct claim *c, struct err *e)
{
	const struct endlog_line *known =
		find_event(rc, c->name.id, c->name.element, c->name.epoch);
	unsigned int attempts;
	uint64_t epoch;
	enum batch_state state = batch_state(b, c->name.element, &epoch, &attempts);
	struct spool_again again;
	struct spool_end end;

	/* Without a record of its own its file says nothing of the attempts before. */
	if (!c->claimed_ns)
		c->attempt = attempts + 1;
	if (c->stopped && state == BATCH_WAITING && epoch == c->name.epoch + 1)
		return end_requeued(rc, b, c, e);
	/* The journal tells what became of the element: only its file was left. */
	if (state >= BATCH_DONE || epoch > c->name.epoch)
		return spool_unlink(rc->sp, c->path, e);
	if (known && !known->requeue) {
		rc->counts.filed++;
		return batch_end(b, rc->ev, c, &known->end, e);
	}
	if (c->stopped) {
		end = stopped_end(c);
		rc->counts.filed++;
		tell_end(rc, c, rc->batch_spec, &end);
		return batch_end(b, rc->ev, c, &end, e);
	}
	/* A claim that was never written, or that was made to end the element at once, has run
	 * nothing. */
	if (rc->batch_spec->no_requeue && !known && c->claimed_ns && !c->who.tool) {
		end = lost_end(c);
		rc->counts.failed++;
		tell_end(rc, c, rc->batch_spec, &end);
		return batch_end(b, rc->ev, c, &end, e);
	}
	rc->counts.requeued++;
	again = lost_again(c);
	return batch_requeue(b, rc->ev, c, known ? &known->again : &again, e);
}

static int recover_element(struct recovery *rc, const struct task_name *n, char *path,
			   struct err *e)
{
	struct task_history h = { .epoch = 0 };
	struct err why = ERR_INIT;
	cleanup_free char *text = NULL;
	struct claim c;
	size_t len;
	int r = spool_read(rc->sp, path, ELEMENT_FILE_MAX, &text, &len, e);

	r = spool_confirm(rc->sp, path, r, e);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	history_read(text, len, &h, NULL);
	make_claim(n, &h, path, &c);
	if (look_at_holder(rc, &c, NULL))
		return 0;
	r = read_events(rc, e);
	if (r < 0)
		return r;

	struct batch *b = batch_of(rc, n->id, &why);

	if (why.code) {
		if (e)
			*e = why;
		return why.code;
	}
	if (!b) /* it was stopped or is over */
		return spool_unlink(rc->sp, path, e);
	r = restore_element(rc, b, n, e);
	return r < 0 ? r : settle_element(rc, b, &c, e);
}

static int recover_running(void *data, const char *file, unsigned char type)
{
	struct recovery *rc = data;
	char path[SPOOL_PATH_MAX];
	struct err e = ERR_INIT;
	struct task_name n;

	if (!name_parse(file, &n))
		return 0;
	(void)spool_path(SPOOL_RUNNING, file, path);
	if ((n.element ? recover_element : recover_task)(rc, &n, path, &e) < 0) {
		problem(rc, path, &e);
		if (rc->calls && rc->calls->failed)
			rc->calls->failed(rc->calls->data, path);
	}
	return 0;
}

/* ---- pending ---- */

/* A power loss took the claims back, and the endlog tells what came of them. */
static int replay(struct recovery *rc, const struct task_name *n, struct err *e)
{
	struct claim c = { .name = *n };
	const struct endlog_line *known;
	char file[NAME_FILE_MAX];

	while ((known = find_event(rc, n->id, 0, c.name.epoch))) {
		(void)spool_path(SPOOL_PENDING, name_format(&c.name, file), c.path);
		if (!known->requeue) {
			rc->counts.filed++;
			return transit_end(rc->sp, rc->ev, &c, &known->end, e);
		}
		rc->counts.requeued++;

		int r = transit_requeue(rc->sp, rc->ev, &c, &known->again, e);

		if (r < 0)
			return r;
		transit_requeued_name(&c.name, known->again.not_before_ns);
	}
	return 0;
}

static int restore_waiting(struct recovery *rc, const struct task_name *n, struct err *e)
{
	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	struct task_file t;
	int r;

	if (!find_requeue(rc, n->id, 0, 0, n->epoch))
		return 0;
	(void)spool_path(SPOOL_PENDING, name_format(n, file), path);
	r = task_file_read(rc->sp, path, &t, e);
	if (r < 0) /* who claims it finds what is wrong with it */
		return r == -EINVAL ? 0 : r;
	r = restore_requeues(rc, n, path, &t.history, e);
	task_file_clear(&t);
	return r < 0 ? r : 0;
}

static void recover_pending(struct recovery *rc)
{
	const struct scan_task *t;
	size_t iter = 0;

	while ((t = scan_next(rc->scan, &iter))) {
		struct task_name name = t->name;
		struct err e = ERR_INIT;
		char file[NAME_FILE_MAX];
		int r;

		if (t->dir != SPOOL_PENDING)
			continue;
		r = name.flags & NAME_EDITED ? transit_free_forgotten(rc->sp, &name, &e) : 0;
		if (r == 0)
			r = restore_waiting(rc, &name, &e);
		if (r == 0)
			r = replay(rc, &name, &e);
		if (r < 0 && r != -ENOENT)
			problem(rc, name_format(&t->name, file), &e);
	}
}

/* Ends of elements whose journal a power loss cut, while their files in running/ are gone, too. */
static void recover_journals(struct recovery *rc)
{
	for (size_t i = 0; i < rc->n_events; i++) {
		const struct endlog_line *ev = &rc->events[i];
		struct err e = ERR_INIT;
		struct batch *b = ev->element ? batch_of(rc, ev->id, &e) : NULL;
		char path[SPOOL_PATH_MAX];
		unsigned int attempts;
		uint64_t epoch;

		if (!b || batch_state(b, ev->element, &epoch, &attempts) >= BATCH_DONE ||
		    epoch != epoch_before(ev))
			continue;
		rc->counts.filed++;
		if (bring_to_journal(rc, b, ev, path, &e) < 0)
			problem(rc, path, &e);
	}
}

/* ---- tmp/ ---- */

static int clear_tmp(void *data, const char *file, unsigned char type)
{
	struct recovery *rc = data;
	char path[SPOOL_PATH_MAX];
	struct err e = ERR_INIT;
	struct stat st;
	uint64_t id;
	int r = raw_resume(rc->sp, file, rc->self->agent, rc->scan, &id, &e);

	(void)spool_path(SPOOL_TMP, file, path);
	if (r < 0)
		problem(rc, path, &e);
	else if (!id && !str_has_prefix(file, "raw,") && !str_has_prefix(file, SPOOL_PRUNED ",") &&
		 fstatat(rc->sp->fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		 clock_wall_ns() / NS_PER_S > (uint64_t)st.st_ctim.tv_sec + TMP_LIMIT_S)
		(void)unlinkat(rc->sp->fd, path, 0);
	return 0;
}

/* A power loss may have taken the last files of ids/ back. */
static int reserve_ids(struct recovery *rc, struct err *e)
{
	const struct scan_task *t;
	uint64_t largest = 0;
	size_t iter = 0;

	while ((t = scan_next(rc->scan, &iter)))
		largest = t->name.id > largest ? t->name.id : largest;
	return largest ? submit_reserve_id(rc->sp, largest, e) : 0;
}

/* What is not a claim. */
static int recover_rest(struct recovery *rc, struct err *e)
{
	/* A task that went back to pending/ may have gone on from there. */
	int r = scan_update(rc->scan, NULL, NULL, e);

	if (r < 0)
		return r;
	recover_pending(rc);
	recover_journals(rc);
	if (rc->ev && !rc->events_stay)
		endlog_recovered(rc->ev);
	return spool_each(rc->sp, "tmp", clear_tmp, rc, e);
}

static int recover(struct recovery *rc, struct recover_counts *ret, struct err *e)
{
	bool all = !rc->others;
	int r;

	rc->scan = scan_new(rc->sp, 0);
	r = scan_update(rc->scan, NULL, NULL, e);
	if (r == 0 && all)
		r = read_events(rc, e);
	if (r == 0 && all)
		r = reserve_ids(rc, e);
	if (r == 0)
		r = spool_each(rc->sp, "running", recover_running, rc, e);
	if (r == 0 && all)
		r = recover_rest(rc, e);
	(void)batch_close(rc->batch);
	(void)spec_free(rc->batch_spec);
	(void)scan_free(rc->scan);
	free(rc->events);
	if (r == 0)
		*ret = rc->counts;
	return r;
}

int recover_run(const struct spool *sp, const struct claimer *self, struct endlog *ev,
		const struct recover_calls *calls, struct recover_counts *ret, struct err *e)
{
	struct recovery rc = { .sp = sp, .self = self, .ev = ev, .calls = calls };

	return recover(&rc, ret, e);
}

int recover_claims(const struct spool *sp, const struct claimer *self, struct endlog *ev,
		   const struct recover_calls *calls, struct recover_counts *ret, struct err *e)
{
	struct recovery rc = { .sp = sp, .self = self, .ev = ev, .calls = calls, .others = true };

	return recover(&rc, ret, e);
}
