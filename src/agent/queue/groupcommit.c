/* SPDX-License-Identifier: MIT */

/*
 * A syncfs writes what everybody has written to that filesystem, and may take minutes where
 * somebody saves a large model at that moment. It cannot be interrupted, so it is done by a process
 * of its own: the queue goes on, and the agent can end. The child is forked on the spooler's
 * thread, which has the spool's descriptor; it closes all others, so that it keeps nothing from
 * being let go of.
 */

#include "agent/queue/groupcommit.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

#define SYNC_MS 200 /* ends are made durable in groups of so long */
#define SYNC_LAST_MS                                                                               \
	60000 /* one that failed is tried again after twice as long, and this at most */

struct groupcommit {
	uv_loop_t *loop;
	struct spooler *spooler;
	struct eventlog *eventlog;
	void (*synced)(void *user);
	void *user;
	uv_timer_t timer;
	uv_poll_t poll; /* with a child */
	pid_t child;	/* 0: there is none */
	int pipe;	/* that it tells its end through */
	uint64_t part;	/* of the events, that it is for */
	bool waiting;	/* the timer runs */
	bool cutting;	/* from a part's beginning to its end */
	bool stopped;
	uint64_t again_ms; /* the last one failed, and how long it waits; 0: it did not */
	unsigned int handles;
};

struct groupcommit_job {
	struct spool_job job;
	struct err e;
	int code;
	bool may_cut;
	uint64_t part; /* cut off, or to be dropped; 0: none */
	pid_t child;
	int pipe;
};

/* ---- on the spooler's thread ---- */

static void sync_work(struct spool_job *job, struct spool_place *p)
{
	struct groupcommit_job *j = (struct groupcommit_job *)job;
	struct err e = ERR_INIT;

	j->code = endlog_sync(p->events, &j->e);
	if (j->code < 0 || !j->may_cut || !endlog_is_long(p->events) ||
	    endlog_cut(p->events, &j->part, &e) != 0)
		return;
	if (spool_sync_child(p->spool, &j->child, &j->pipe) <
	    0) /* the part goes with the next one */
		j->part = 0;
}

static void drop_work(struct spool_job *job, struct spool_place *p)
{
	struct groupcommit_job *j = (struct groupcommit_job *)job;

	j->code = endlog_drop(p->events, j->part, &j->e);
}

/* ---- on the loop ---- */

static struct groupcommit_job *new_job(struct groupcommit *d,
				       void (*work)(struct spool_job *, struct spool_place *),
				       void (*done)(struct spool_job *))
{
	struct groupcommit_job *j = xcalloc(1, sizeof(*j));

	j->job = (struct spool_job){ .work = work, .done = done, .user = d };
	return j;
}

static void drop_done(struct spool_job *job)
{
	struct groupcommit *d = job->user;

	d->cutting = false; /* a part that could not be removed goes with the next one */
	free(job);
}

static void on_closed(uv_handle_t *h)
{
	struct groupcommit *d = h->data;

	if (--d->handles == 0)
		free(d);
}

static void forget_child(struct groupcommit *d)
{
	d->child = 0;
	uv_close((uv_handle_t *)&d->poll, on_closed);
	d->pipe = fd_close(d->pipe);
}

static void on_child(uv_poll_t *poll, int status, int events)
{
	struct groupcommit *d = poll->data;
	pid_t child = d->child;
	int errnum = ECHILD;
	bool told = read(d->pipe, &errnum, sizeof(errnum)) == (ssize_t)sizeof(errnum);

	forget_child(d);
	(void)waitpid(child, NULL, 0); /* that was the last that it did */
	if (told && errnum == 0 && !d->stopped) {
		struct groupcommit_job *j = new_job(d, drop_work, drop_done);

		j->part = d->part;
		spooler_do(d->spooler, &j->job);
		return;
	}
	d->cutting = false;
	if (!d->stopped)
		eventlog_say(
			d->eventlog, LOG_LEVEL_WARNING,
			"the spool's filesystem could not be synced (%s), so the journal of what "
			"has ended grows; trying again later",
			told ? strerror(errnum) : "the process was ended");
}

static void watch_child(struct groupcommit *d, struct groupcommit_job *j)
{
	d->cutting = true;
	d->child = j->child;
	d->pipe = j->pipe;
	d->part = j->part;
	d->handles++;
	(void)uv_poll_init(d->loop, &d->poll, d->pipe);
	d->poll.data = d;
	(void)uv_poll_start(&d->poll, UV_READABLE | UV_DISCONNECT, on_child);
	uv_unref((uv_handle_t *)&d->poll); /* nobody waits for it */
}

static void tell_sync(struct groupcommit *d, int code, const struct err *e)
{
	if (code < 0 && !d->again_ms)
		eventlog_say(
			d->eventlog, LOG_LEVEL_ERROR,
			"the ends of tasks are not safe from a power loss yet: %s; trying again",
			e->text);
	else if (code == 0 && d->again_ms)
		eventlog_say(d->eventlog, LOG_LEVEL_INFO,
			     "the ends of tasks are safe from a power loss");
	if (code == 0)
		d->again_ms = 0;
}

static void on_timer(uv_timer_t *timer);

static void sync_done(struct spool_job *job)
{
	struct groupcommit_job *j = (struct groupcommit_job *)job;
	struct groupcommit *d = job->user;

	int code = j->code;

	tell_sync(d, code, &j->e);
	if (j->may_cut)
		d->cutting = false;
	if (j->child)
		watch_child(d, j);
	free(j);
	if (code >= 0) {
		d->synced(d->user);
		return;
	}
	/* Again, also where nothing ends any more. */
	d->again_ms = d->again_ms ? 2 * d->again_ms : 2 * SYNC_MS;
	d->again_ms = d->again_ms < SYNC_LAST_MS ? d->again_ms : SYNC_LAST_MS;
	if (d->stopped)
		return;
	d->waiting = true;
	(void)uv_timer_start(&d->timer, on_timer, d->again_ms, 0);
}

static void on_timer(uv_timer_t *timer)
{
	struct groupcommit *d = timer->data;
	struct groupcommit_job *j = new_job(d, sync_work, sync_done);

	d->waiting = false;
	j->may_cut = !d->cutting;
	d->cutting = true;
	spooler_do(d->spooler, &j->job);
}

void groupcommit_soon(struct groupcommit *d)
{
	if (d->waiting || d->stopped)
		return;
	d->waiting = true;
	(void)uv_timer_start(&d->timer, on_timer, SYNC_MS, 0);
}

struct groupcommit *groupcommit_new(uv_loop_t *loop, struct spooler *spooler,
				    struct eventlog *eventlog, void (*synced)(void *user),
				    void *user)
{
	struct groupcommit *d = xcalloc(1, sizeof(*d));

	*d = (struct groupcommit){ .loop = loop,
				   .spooler = spooler,
				   .eventlog = eventlog,
				   .synced = synced,
				   .user = user,
				   .pipe = -1,
				   .handles = 1 };
	(void)uv_timer_init(loop, &d->timer);
	d->timer.data = d;
	return d;
}

void groupcommit_stop(struct groupcommit *d)
{
	d->stopped = true;
}

void groupcommit_free(struct groupcommit *d)
{
	d->stopped = true;
	if (d->child) /* it ends by itself */
		forget_child(d);
	uv_close((uv_handle_t *)&d->timer, on_closed);
}
