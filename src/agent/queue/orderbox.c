/* SPDX-License-Identifier: MIT */

/*
 * Taken by a job of the spooler, carried out on the loop, answered by another job, after those that
 * write down what is stopped: the answer says where that failed. What ends the agent is answered
 * first, because nobody is there to do it afterwards.
 */

#include "agent/queue/orderbox.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "agent/queue/dirwatch.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/instance.h"

#define LOOK_MS	 2000 /* what other nodes write is told by nobody */
#define TAKE_MAX 64   /* at once; the others with the next look */

struct taken {
	struct order order;
	char sent[SPOOL_PATH_MAX];
	json_t *answer; /* of it, once it has been carried out */
};

struct orderbox {
	struct spooler *spooler;
	struct spoolwatch *spoolwatch;
	struct eventlog *eventlog;
	const struct orderbox_ops *ops;
	void *user;
	uv_timer_t timer;
	struct dirwatch *watch;
	bool started, looking, again, stopped;
	int code; /* of the last look; what keeps failing is told once */
};

struct orders_job {
	struct spool_job job;
	struct spool_reader reader;
	struct orderbox *o;
	bool forget; /* in: what lies there is not for us, and the directory is to be watched */
	int watch_fd;
	size_t n;
	struct taken all[TAKE_MAX];
	struct err e;
};

/* ---- on the spooler's thread ---- */

static void take_work(struct spool_job *job, struct spool_place *p)
{
	struct orders_job *j = (struct orders_job *)job;

	if (j->forget) {
		cleanup_free char *dir =
			xasprintf("%s/%s", spool_path_of(p->spool), spool_dir_name(SPOOL_CONTROL));

		(void)dirwatch_add(j->watch_fd, dir);
		control_forget(p->spool, p->self.agent);
		return;
	}
	while (j->n < TAKE_MAX && control_next(p->spool, p->self.agent, order_take,
					       &j->all[j->n].order, j->all[j->n].sent, &j->e) == 0)
		j->n++;
}

static void answer_work(struct spool_job *job, struct spool_place *p)
{
	struct orders_job *j = (struct orders_job *)job;

	for (size_t i = 0; i < j->n; i++)
		(void)control_answer(p->spool, j->all[i].sent, take_ptr(j->all[i].answer), &j->e);
}

/* ---- on the loop: looking ---- */

static void on_timer(uv_timer_t *timer)
{
	orderbox_look(timer->data);
}

static void on_watch(void *user, const char *file)
{
	orderbox_look(user);
}

static void free_job(struct orders_job *j)
{
	for (size_t i = 0; i < j->n; i++)
		order_clear(&j->all[i].order);
	free(j);
}

static void answer_done(struct spool_job *job)
{
	struct orders_job *j = (struct orders_job *)job;
	struct orderbox *o = j->o;

	if (j->e.code)
		eventlog_say(o->eventlog, LOG_LEVEL_WARNING, "an order cannot be answered: %s",
			     j->e.text);
	for (size_t i = 0; i < j->n; i++)
		o->ops->answered(o->user, &j->all[i].order);
	free_job(j);
}

static void written_work(struct spool_job *job, struct spool_place *p)
{
	/* What was given to the spooler before it is done. */
}

static void written_done(struct spool_job *job)
{
	struct orders_job *j = (struct orders_job *)job;
	struct orderbox *o = j->o;

	for (size_t i = 0; i < j->n; i++)
		if (o->ops->is_open(
			    o->user, &j->all[i].order,
			    j->all[i].answer)) { /* what it waits for goes before it again */
			spooler_do(o->spooler, &j->job);
			return;
		}
	for (size_t i = 0; i < j->n; i++)
		o->ops->settle(o->user, &j->all[i].order, j->all[i].answer);
	j->e = (struct err)ERR_INIT;
	j->job.work = answer_work;
	j->job.done = answer_done;
	spooler_do(o->spooler, &j->job);
}

static void carry_out(struct orders_job *j)
{
	struct orderbox *o = j->o;

	for (size_t i = 0; i < j->n; i++)
		j->all[i].answer = o->ops->obey(o->user, &j->all[i].order);
	j->job.work = written_work;
	j->job.done = written_done;
	spooler_do(o->spooler, &j->job);
}

static void on_read(struct spool_reader *r)
{
	struct orders_job *j =
		(struct orders_job *)((char *)r - offsetof(struct orders_job, reader));

	carry_out(j);
}

/* Somebody asks about what was submitted just now. */
static bool asks_for_new(const struct orders_job *j)
{
	const struct orderbox *o = j->o;

	for (size_t i = 0; i < j->n; i++)
		if (o->ops->asks_for_new(o->user, &j->all[i].order))
			return true;
	return false;
}

static void take_done(struct spool_job *job)
{
	struct orders_job *j = (struct orders_job *)job;
	struct orderbox *o = j->o;

	o->looking = false;
	if (j->e.code && j->e.code != o->code)
		eventlog_say(o->eventlog, LOG_LEVEL_WARNING, "an order to this agent: %s",
			     j->e.text);
	o->code = j->e.code;
	if (!o->stopped) {
		(void)uv_timer_start(&o->timer, on_timer, LOOK_MS, 0);
		if (o->again || j->n == TAKE_MAX)
			orderbox_look(o);
	}
	j->reader.read = on_read;
	if (!j->n)
		free_job(j);
	else if (!asks_for_new(j) || spoolwatch_when_read(o->spoolwatch, &j->reader) < 0)
		carry_out(j);
}

static void look(struct orderbox *o, bool forget)
{
	struct orders_job *j = xcalloc(1, sizeof(*j));

	o->looking = true;
	o->again = false;
	j->o = o;
	j->forget = forget;
	j->watch_fd = o->watch->fd;
	j->job = (struct spool_job){ .work = take_work, .done = take_done, .user = o };
	spooler_do(o->spooler, &j->job);
}

void orderbox_look(struct orderbox *o)
{
	if (!o->started || o->stopped)
		return;
	if (o->looking)
		o->again = true;
	else
		look(o, false);
}

void orderbox_start(struct orderbox *o)
{
	if (o->started || o->stopped)
		return;
	o->started = true;
	look(o, true);
}

struct orderbox *orderbox_new(uv_loop_t *loop, const struct orderbox_parts *parts,
			      const struct orderbox_ops *ops, void *user)
{
	struct orderbox *o = xcalloc(1, sizeof(*o));

	o->spooler = parts->spooler;
	o->spoolwatch = parts->spoolwatch;
	o->eventlog = parts->eventlog;
	o->ops = ops;
	o->user = user;
	(void)uv_timer_init(loop, &o->timer);
	o->watch = dirwatch_new(loop, parts->spooler, on_watch, o);
	o->timer.data = o;
	return o;
}

void orderbox_stop(struct orderbox *o)
{
	o->stopped = true;
	(void)uv_timer_stop(&o->timer);
	dirwatch_stop(o->watch);
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

void orderbox_free(struct orderbox *o)
{
	dirwatch_stop(o->watch);
	o->watch = dirwatch_free(o->watch);
	uv_close((uv_handle_t *)&o->timer, on_closed);
}
