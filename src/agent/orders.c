/* SPDX-License-Identifier: MIT */

/*
 * Taken by a job of the spooler, carried out on the loop, answered by another job, after those that
 * write down what is stopped: the answer says where that failed. What ends the agent is answered
 * first, because nobody is there to do it afterwards.
 */

#include "agent/orders.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "agent/dispatch_state.h"
#include "agent/queue/dirwatch.h"
#include "agent/stops.h"
#include "agent/tasks.h"
#include "base/mem.h"
#include "base/str.h"
#include "sched/why.h"
#include "spool/instance.h"

#define LOOK_MS	 2000 /* what other nodes write is told by nobody */
#define TAKE_MAX 64   /* at once; the others with the next look */

struct taken {
	struct order order;
	char sent[SPOOL_PATH_MAX];
	json_t *answer; /* of it, once it has been carried out */
};

struct orders {
	struct tasks *q;
	uv_timer_t timer;
	struct dirwatch *watch;
	bool started, looking, again, stopped;
	int code; /* of the last look; what keeps failing is told once */
};

struct orders_job {
	struct spool_job job;
	struct spool_reader reader;
	struct orders *o;
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
	while (j->n < TAKE_MAX && control_next(p->spool, p->self.agent, &j->all[j->n].order,
					       j->all[j->n].sent, &j->e) == 0)
		j->n++;
}

static void answer_work(struct spool_job *job, struct spool_place *p)
{
	struct orders_job *j = (struct orders_job *)job;

	for (size_t i = 0; i < j->n; i++)
		(void)control_answer(p->spool, j->all[i].sent, take_ptr(j->all[i].answer), &j->e);
}

/* ---- on the loop: carried out ---- */

static json_t *result_of(int code, const struct err *e)
{
	return code < 0 ? json_pack("{s:i, s:s}", "code", code, "error", e->text)
			: json_pack("{s:i}", "code", 0);
}

static json_t *obey_stop(struct tasks *q, const struct order *o)
{
	json_t *tasks = json_object();
	char id[ORDER_ID_MAX];

	for (size_t i = 0; i < o->n; i++) {
		const struct order_task *t = &o->tasks[i];
		struct err e = ERR_INIT;
		int r = stops_order(q, t->id, (uint32_t)t->element, o->now,
				    sweep_of_clean(o->sweep), &e);

		(void)json_object_set_new(tasks, order_format_task(t, id), result_of(r, &e));
	}
	return json_pack("{s:i, s:o}", "code", 0, "tasks", tasks);
}

static json_t *obey_why(struct tasks *q, const struct order *o)
{
	cleanup_free char *why = NULL;
	char named[SCHED_WHY_MAX];
	struct err e = ERR_INIT;
	int r = tasks_why(q, o->tasks[0].id, (uint32_t)o->tasks[0].element, &why, &e);

	if (r < 0)
		return result_of(r, &e);
	q->ops->put_names(q->user, why, named, sizeof(named));
	return json_pack("{s:i, s:s}", "code", 0, "why", named);
}

/* It ends once this is answered. */
static json_t *obey_shutdown(struct tasks *q, const struct order *o)
{
	return json_pack("{s:i, s:I}", "code", 0, "running", (json_int_t)tasks_running(q));
}

static json_t *obey(struct tasks *q, const struct order *o)
{
	static json_t *(*const commands[])(struct tasks * q, const struct order *o) = {
		[ORDER_STOP] = obey_stop,
		[ORDER_WHY] = obey_why,
		[ORDER_SHUTDOWN] = obey_shutdown,
	};
	_Static_assert(ARRAY_LEN(commands) == ORDER_COMMAND_MAX, "every command is obeyed");

	return commands[o->command](q, o);
}

static void end_it(struct tasks *q, const struct order *o)
{
	q->ops->ordered(q->user, o->how);
}

/* ---- on the loop: looking ---- */

static void on_timer(uv_timer_t *timer)
{
	orders_look(timer->data);
}

static void on_watch(void *user, const char *file)
{
	orders_look(user);
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
	struct tasks *q = job->user;

	if (j->e.code)
		eventlog_say(q->place.eventlog, LOG_LEVEL_WARNING,
			     "an order cannot be answered: %s", j->e.text);
	for (size_t i = 0; i < j->n; i++)
		if (j->all[i].order.command == ORDER_SHUTDOWN)
			end_it(q, &j->all[i].order);
	free_job(j);
}

/* Tasks that are told to end, of which that is not on disk; and those that are not ours after all.
 */
static void add_stopped(const struct tasks *q, const struct order *o, json_t *answer)
{
	json_t *tasks = json_object_get(answer, "tasks");
	char id[ORDER_ID_MAX];

	for (size_t i = 0; i < o->n; i++) {
		const struct order_task *t = &o->tasks[i];
		struct err e = ERR_INIT;
		int r = stops_settled(q, t->id, (uint32_t)t->element, &e);
		const char *why = stops_unwritten(q, t->id, (uint32_t)t->element);

		(void)order_format_task(t, id);
		if (r < 0)
			(void)json_object_set_new(tasks, id, result_of(r, &e));
		else if (why)
			(void)json_object_set_new(json_object_get(tasks, id), "unwritten",
						  json_string(why));
	}
}

/* What came of one of its stops is not known yet. */
static bool is_open(const struct tasks *q, const struct order *o)
{
	for (size_t i = 0; o->command == ORDER_STOP && i < o->n; i++) {
		int r = stops_settled(q, o->tasks[i].id, (uint32_t)o->tasks[i].element, NULL);

		if (r == -EBUSY || r == -EAGAIN)
			return true;
	}
	return false;
}

static void written_work(struct spool_job *job, struct spool_place *p)
{
	/* What was given to the spooler before it is done. */
}

static void written_done(struct spool_job *job)
{
	struct orders_job *j = (struct orders_job *)job;
	struct tasks *q = job->user;

	for (size_t i = 0; i < j->n; i++)
		if (is_open(q, &j->all[i].order)) { /* what it waits for goes before it again */
			spooler_do(q->spooler, &j->job);
			return;
		}
	for (size_t i = 0; i < j->n; i++)
		if (j->all[i].order.command == ORDER_STOP)
			add_stopped(q, &j->all[i].order, j->all[i].answer);
	j->e = (struct err)ERR_INIT;
	j->job.work = answer_work;
	j->job.done = answer_done;
	spooler_do(q->spooler, &j->job);
}

static void carry_out(struct tasks *q, struct orders_job *j)
{
	for (size_t i = 0; i < j->n; i++)
		j->all[i].answer = obey(q, &j->all[i].order);
	j->job.work = written_work;
	j->job.done = written_done;
	spooler_do(q->spooler, &j->job);
}

static void on_read(struct spool_reader *r)
{
	struct orders_job *j =
		(struct orders_job *)((char *)r - offsetof(struct orders_job, reader));

	carry_out(j->o->q, j);
}

/* Somebody asks about what was submitted just now. */
static bool asks_for_new(struct tasks *q, const struct orders_job *j)
{
	for (size_t i = 0; i < j->n; i++) {
		const struct order *o = &j->all[i].order;
		cleanup_free char *why = NULL;

		if (o->command == ORDER_WHY &&
		    tasks_why(q, o->tasks[0].id, (uint32_t)o->tasks[0].element, &why, NULL) ==
			    -ENOENT)
			return true;
	}
	return false;
}

static void take_done(struct spool_job *job)
{
	struct orders_job *j = (struct orders_job *)job;
	struct tasks *q = job->user;
	struct orders *o = q->orders;

	o->looking = false;
	if (j->e.code && j->e.code != o->code)
		eventlog_say(q->place.eventlog, LOG_LEVEL_WARNING, "an order to this agent: %s",
			     j->e.text);
	o->code = j->e.code;
	if (!o->stopped) {
		(void)uv_timer_start(&o->timer, on_timer, LOOK_MS, 0);
		if (o->again || j->n == TAKE_MAX)
			orders_look(o);
	}
	j->reader.read = on_read;
	if (!j->n)
		free_job(j);
	else if (!asks_for_new(q, j) || tasks_when_read(q, &j->reader) < 0)
		carry_out(q, j);
}

static void look(struct orders *o, bool forget)
{
	struct orders_job *j = xcalloc(1, sizeof(*j));

	o->looking = true;
	o->again = false;
	j->o = o;
	j->forget = forget;
	j->watch_fd = o->watch->fd;
	j->job = (struct spool_job){ .work = take_work, .done = take_done, .user = o->q };
	spooler_do(o->q->spooler, &j->job);
}

void orders_look(struct orders *o)
{
	if (!o->started || o->stopped)
		return;
	if (o->looking)
		o->again = true;
	else
		look(o, false);
}

void orders_start(struct orders *o)
{
	if (o->started || o->stopped)
		return;
	o->started = true;
	look(o, true);
}

struct orders *orders_new(uv_loop_t *loop, struct tasks *q)
{
	struct orders *o = xcalloc(1, sizeof(*o));

	o->q = q;
	(void)uv_timer_init(loop, &o->timer);
	o->watch = dirwatch_new(loop, q->spooler, on_watch, o);
	o->timer.data = o;
	return o;
}

void orders_stop(struct orders *o)
{
	o->stopped = true;
	(void)uv_timer_stop(&o->timer);
	dirwatch_stop(o->watch);
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

void orders_free(struct orders *o)
{
	dirwatch_stop(o->watch);
	o->watch = dirwatch_free(o->watch);
	uv_close((uv_handle_t *)&o->timer, on_closed);
}

/* ---- control.json ---- */

void orders_obey_file(struct tasks *q, const struct control_order *o)
{
	unsigned int sweep =
		o->sweep < SPEC_CLEAN_MAX ? sweep_of_clean(o->sweep) : q->sweeping.on_stop;
	bool any = false;

	for (struct attempt *r = q->place.tasks; r; r = r->next) {
		const struct spool_spec *spec = r->spec;
		bool meant = o->command != CONTROL_STOP ||
			     (spec && o->task && strcmp(spec->name, o->task) == 0);

		if (!meant)
			continue;
		any = true;
		r->sweep |= sweep;
		stops_write(q, r);
		attempt_stop(r, END_STOPPED, UINT32_MAX, "stopped by control.json");
	}
	if (o->command == CONTROL_STOP && !any && !o->cancelled)
		eventlog_say(q->place.eventlog, LOG_LEVEL_WARNING,
			     "control.json: no task called %s waits, or runs on this node",
			     o->task);
	if (o->command != CONTROL_SHUTDOWN && !any) /* else with the end of what was stopped */
		(void)sweep_start(&q->sweeping, sweep, "", NULL, NULL);
	if (o->command == CONTROL_SHUTDOWN)
		q->ops->ordered(q->user, ORDER_RUN_ON);
}
