/* SPDX-License-Identifier: MIT */
#include "agent/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/asks.h"
#include "agent/attempt/steps.h"
#include "agent/attempt/sweep.h"
#include "agent/burns.h"
#include "agent/dispatch.h"
#include "agent/dispatch_state.h"
#include "agent/history.h"
#include "agent/lifecycle.h"
#include "agent/parts.h"
#include "agent/reload.h"
#include "agent/report/eventlog.h"
#include "agent/report/status_json.h"
#include "agent/stops.h"
#include "agent/watch.h"
#include "base/clock.h"
#include "base/mem.h"
#include "sched/why.h"

#define READ_LIMIT_MS 1500 /* who asked waits no longer than 3 s, on a node that may be busy */
#define AGAIN_MS      200  /* behind that */

/* About one task, or none: task 0. */
struct verb_args {
	uint64_t task;
	uint32_t element;	   /* 0: all of it */
	bool now;		   /* without grace; what runs is stopped */
	unsigned int sweep;	   /* SWEEP_BIT()s */
	struct ctl_client *client; /* of begin; NULL: it was no client of the socket */
};

/* When a verb is asked for its answer. */
enum verb_time {
	VERB_READ,  /* what was in the spool has been read, or written */
	VERB_LATE,  /* that takes too long */
	VERB_NEVER, /* it cannot be waited for */
};

struct verb {
	const char *name;
	bool at_end;  /* answered when the agent has let go of everything */
	bool streams; /* not one answer, but many: nothing below */
	/* Does it. The answer, a new reference; or NULL: it comes later. */
	json_t *(*begin)(struct agent *a, const struct verb_args *v);
	/* The same, after that. NULL: at VERB_READ only, it is not known yet. */
	json_t *(*settle)(struct agent *a, const struct verb_args *v, enum verb_time when);
};

static json_t *result(int code, const struct err *e)
{
	return code < 0 ? json_pack("{s:i, s:s}", "code", code, "error", e->text)
			: json_pack("{s:i}", "code", code);
}

static int no_queue(const struct agent *a, struct err *e)
{
	return err_set(e, -ENOENT,
		       "the agent here runs no tasks (a `tenure hold`); tenure off%s, then tenure "
		       "on%s starts one that does",
		       a->c->options, a->c->options);
}

/* -------- the agent -------- */

static json_t *ping(struct agent *a, const struct verb_args *v)
{
	json_t *doc = status_ping(&a->view);

	(void)json_object_set_new(doc, "options", reload_options(a));
	(void)json_object_set_new(doc, "variables", reload_variables(a));
	return doc;
}

static json_t *status(struct agent *a, const struct verb_args *v)
{
	a->asked_ns = clock_mono_ns();
	return watch_status(a, true);
}

static json_t *off(struct agent *a, const struct verb_args *v)
{
	life_shut_down(a, "stopping (tenure off)");
	return NULL;
}

static json_t *drain(struct agent *a, const struct verb_args *v)
{
	life_drain(a, v->now ? DRAIN_CANCEL : DRAIN_WAIT,
		   v->now ? "stopping its tasks (tenure off --stop-tasks)"
			  : "draining (tenure off --drain)");
	return NULL;
}

/* -------- its queue -------- */

static json_t *rescan(struct agent *a, const struct verb_args *v)
{
	struct err e = ERR_INIT;

	if (a->queue)
		dispatch_rescan(a->queue);
	return result(a->queue ? 0 : no_queue(a, &e), &e);
}

static json_t *why_now(struct agent *a, const struct verb_args *v, int *ret_code)
{
	struct err e = ERR_INIT;
	json_t *answer = NULL;
	int r = a->queue ? dispatch_why(a->queue, v->task, v->element, &answer, &e)
			 : no_queue(a, &e);

	*ret_code = r;
	return r < 0 ? result(r, &e) : answer;
}

/* One that is not known here may have been submitted just now. */
static json_t *why(struct agent *a, const struct verb_args *v)
{
	int r;
	json_t *answer = why_now(a, v, &r);

	if (r != -ENOENT || !a->queue)
		return answer;
	json_decref(answer);
	return NULL;
}

static json_t *why_read(struct agent *a, const struct verb_args *v, enum verb_time when)
{
	struct err e = ERR_INIT;
	int r;

	if (when != VERB_LATE)
		return why_now(a, v, &r);
	return result(err_set(&e, -ENOENT,
			      "the agent has not seen it yet: it is still reading the queue"),
		      &e);
}

static json_t *forecast(struct agent *a, const struct verb_args *v)
{
	struct err e = ERR_INIT;

	return a->queue ? dispatch_forecast(a->queue) : result(no_queue(a, &e), &e);
}

static json_t *reasons(struct agent *a, const struct verb_args *v)
{
	struct err e = ERR_INIT;

	return a->queue ? dispatch_reasons(a->queue) : result(no_queue(a, &e), &e);
}

static json_t *history(struct agent *a, const struct verb_args *v)
{
	return history_report(a, v->task, v->element);
}

static json_t *stop(struct agent *a, const struct verb_args *v)
{
	struct err e = ERR_INIT;
	int r = a->queue ? stops_order(a->queue, v->task, v->element, v->now, v->sweep, &e)
			 : no_queue(a, &e);

	return r < 0 ? result(r, &e) : NULL;
}

static json_t *reload(struct agent *a, const struct verb_args *v)
{
	return reload_begin(a, v->client, ctl_payload(v->client));
}

static json_t *answer(struct agent *a, const struct verb_args *v)
{
	return asks_answer(a, ctl_payload(v->client));
}

static json_t *stopped(const char *unwritten)
{
	return json_pack("{s:i, s:s*}", "code", 0, "unwritten", unwritten);
}

/* That it is to end may be written only after it was claimed, or given up. */
static json_t *stop_settle(struct agent *a, const struct verb_args *v, enum verb_time when)
{
	struct err e = ERR_INIT;
	int r = stops_settled(a->queue, v->task, v->element, &e);
	bool open = r == -EBUSY || r == -EAGAIN;

	if (when == VERB_NEVER)
		return stopped(NULL);
	if (when == VERB_READ && open)
		return NULL;
	if (r < 0 && r != -EAGAIN)
		return result(r, &e);
	return stopped(when == VERB_LATE ? "the spool does not answer"
					 : stops_unwritten(a->queue, v->task, v->element));
}

static const struct verb verbs[CTL_VERB_MAX] = {
	[CTL_PING] = { "ping", .begin = ping },
	[CTL_STATUS] = { "status", .begin = status },
	[CTL_OFF] = { "off", .begin = off, .at_end = true },
	[CTL_RESCAN] = { "rescan", .begin = rescan },
	[CTL_STOP] = { "stop", .begin = stop, .settle = stop_settle },
	[CTL_WHY] = { "why", .begin = why, .settle = why_read },
	[CTL_DRAIN] = { "drain", .begin = drain, .at_end = true },
	[CTL_FORECAST] = { "forecast", .begin = forecast },
	[CTL_HISTORY] = { "history", .begin = history },
	[CTL_WATCH] = { "watch", .streams = true },
	[CTL_REASONS] = { "reasons", .begin = reasons },
	[CTL_RELOAD] = { "reload", .begin = reload },
	[CTL_ANSWER] = { "answer", .begin = answer },
};

/* -------- on the socket -------- */

/* Who waits until the spool has been read, or what was asked for has been written there. */
struct waiter {
	struct spool_reader reader;
	struct waiter *next;
	struct agent *a;
	struct ctl_client *client;
	const struct verb *verb;
	struct verb_args args;
	uint64_t late_ns;
	bool was_late;
};

struct verbs {
	struct agent *a;
	struct waiter *waiters; /* the last one asked first */
	uv_timer_t timer;	/* who waits for an answer gets one in time */
};

static void drop_waiter(struct waiter *w)
{
	struct waiter **at = &w->a->verbs->waiters;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	dispatch_forget_reader(w->a->queue, &w->reader);
	free(w);
}

static void answer_waiter(struct waiter *w, json_t *answer)
{
	ctl_answer(w->client, answer);
	drop_waiter(w);
}

static void on_read(struct spool_reader *r)
{
	struct waiter *w = (struct waiter *)r;
	json_t *answer = w->verb->settle(w->a, &w->args, VERB_READ);

	if (!answer && dispatch_when_read(w->a->queue, r) == 0)
		return;
	answer_waiter(w, answer ? answer : w->verb->settle(w->a, &w->args, VERB_LATE));
}

static void arm_late(struct verbs *k);

static void on_late(uv_timer_t *timer)
{
	struct verbs *k = timer->data;
	uint64_t now = clock_mono_ns();

	/* It may be the agent that stood still, and who reads for it: once more. */
	for (struct waiter *w = k->waiters, *next; w; w = next) {
		next = w->next;
		if (now < w->late_ns)
			continue;
		if (w->was_late) {
			answer_waiter(w, w->verb->settle(w->a, &w->args, VERB_LATE));
			continue;
		}
		w->was_late = true;
		w->late_ns = now + AGAIN_MS * NS_PER_MS;
	}
	arm_late(k);
}

static void arm_late(struct verbs *k)
{
	uint64_t now = clock_mono_ns(), first = UINT64_MAX;

	for (const struct waiter *w = k->waiters; w; w = w->next)
		first = w->late_ns;
	if (k->waiters)
		(void)uv_timer_start(&k->timer, on_late,
				     first > now ? (first - now) / NS_PER_MS + 1 : 1, 0);
}

static void answer_later(struct agent *a, struct ctl_client *client, const struct verb *verb,
			 const struct verb_args *args)
{
	struct waiter *w = xcalloc(1, sizeof(*w));

	*w = (struct waiter){ .reader = { .read = on_read },
			      .next = a->verbs->waiters,
			      .a = a,
			      .client = client,
			      .verb = verb,
			      .args = *args,
			      .late_ns = clock_mono_ns() + READ_LIMIT_MS * NS_PER_MS };
	if (dispatch_when_read(a->queue, &w->reader) < 0) {
		free(w);
		ctl_answer(client, verb->settle(a, args, VERB_NEVER));
		return;
	}
	a->verbs->waiters = w;
	arm_late(a->verbs);
}

static void on_request(void *user, struct ctl_client *client, const struct ctl_request *req)
{
	const struct verb *verb = &verbs[req->verb];
	const struct verb_args args = { .task = req->task,
					.element = req->element,
					.now = req->now,
					.sweep = req->sweep,
					.client = client };
	json_t *answer;

	if (verb->streams) {
		watch_add(user, client);
		return;
	}
	if (verb->at_end) /* first: it may be over at once */
		life_add_client(user, client);
	answer = verb->begin(user, &args);
	if (answer)
		ctl_answer(client, answer);
	else if (verb->settle)
		answer_later(user, client, verb, &args);
}

static void on_client_gone(void *user, struct ctl_client *client)
{
	struct agent *a = user;

	for (struct waiter *w = a->verbs->waiters, *next; w; w = next) {
		next = w->next;
		if (w->client == client)
			drop_waiter(w);
	}
	life_forget_client(a, client);
	reload_forget(a, client);
	watch_forget(a, client);
}

static char *on_next(void *user, struct ctl_client *client)
{
	return watch_next(user, client);
}

static void on_slow(void *user, struct ctl_client *client)
{
	watch_slow(user, client);
}

/* Two agents of an instance would each believe to be the one: the one that can be found stays. */
static void on_name_lost(void *user)
{
	life_shut_down(user, "another agent of this instance is found in its place");
}

const struct ctl_ops verbs_socket = { .request = on_request,
				      .gone = on_client_gone,
				      .next = on_next,
				      .slow = on_slow,
				      .lost = on_name_lost };

/* -------- in control/ -------- */

static struct verb_args args_of(const struct order *o, size_t i)
{
	return (struct verb_args){ .task = o->tasks[i].id,
				   .element = (uint32_t)o->tasks[i].element,
				   .now = o->now,
				   .sweep = sweep_of_clean(o->sweep) };
}

static json_t *obey_stop(struct agent *a, const struct order *o)
{
	json_t *tasks = json_object();
	char id[ORDER_ID_MAX];

	for (size_t i = 0; i < o->n; i++) {
		const struct verb_args args = args_of(o, i);
		json_t *answer = stop(a, &args);

		(void)json_object_set_new(tasks, order_format_task(&o->tasks[i], id),
					  answer ? answer : result(0, NULL));
	}
	return json_pack("{s:i, s:o}", "code", 0, "tasks", tasks);
}

static json_t *obey_why(struct agent *a, const struct order *o)
{
	const struct verb_args args = args_of(o, 0);
	json_t *answer = why_read(a, &args, VERB_NEVER);

	(void)json_object_del(answer, "elsewhere");
	return answer;
}

/* It ends once this is answered. */
static json_t *obey_shutdown(struct agent *a, const struct order *o)
{
	return json_pack("{s:i, s:I}", "code", 0, "running",
			 (json_int_t)dispatch_running(a->queue));
}

static json_t *obey(void *user, const struct order *o)
{
	static json_t *(*const commands[])(struct agent * a, const struct order *o) = {
		[ORDER_STOP] = obey_stop,
		[ORDER_WHY] = obey_why,
		[ORDER_SHUTDOWN] = obey_shutdown,
		[ORDER_BURN] = burns_begin,
	};
	_Static_assert(ARRAY_LEN(commands) == ORDER_COMMAND_MAX, "every command is obeyed");

	return commands[o->command](user, o);
}

static bool asks_for_new(void *user, const struct order *o)
{
	struct verb_args args;
	json_t *answer;

	if (o->command != ORDER_WHY)
		return false;
	args = args_of(o, 0);
	answer = why(user, &args);
	json_decref(answer);
	return !answer;
}

/* Whether that stop was given at all: what ran here is stopped. */
static bool was_stopped(const json_t *answer, const char *id)
{
	const json_t *task = json_object_get(json_object_get(answer, "tasks"), id);

	return json_integer_value(json_object_get(task, "code")) == 0;
}

static bool is_open(void *user, const struct order *o, const json_t *answer)
{
	char id[ORDER_ID_MAX];

	for (size_t i = 0; o->command == ORDER_STOP && i < o->n; i++) {
		const struct verb_args args = args_of(o, i);
		json_t *settled;

		if (!was_stopped(answer, order_format_task(&o->tasks[i], id)))
			continue;
		settled = stop_settle(user, &args, VERB_READ);
		if (!settled)
			return true;
		json_decref(settled);
	}
	return false;
}

/* Of those that are not ours after all, and where it is not on disk that they are to end. */
static void settle(void *user, const struct order *o, json_t *answer)
{
	json_t *tasks = json_object_get(answer, "tasks");
	char id[ORDER_ID_MAX];

	for (size_t i = 0; o->command == ORDER_STOP && i < o->n; i++) {
		const struct verb_args args = args_of(o, i);

		if (was_stopped(answer, order_format_task(&o->tasks[i], id)))
			(void)json_object_set_new(tasks, id, stop_settle(user, &args, VERB_READ));
	}
}

static void on_answered(void *user, const struct order *o)
{
	if (o->command == ORDER_SHUTDOWN)
		life_order(user, o->how);
}

const struct orderbox_ops verbs_orders = {
	.asks_for_new = asks_for_new,
	.obey = obey,
	.is_open = is_open,
	.settle = settle,
	.answered = on_answered,
};

/* -------- in control.json -------- */

/* By name, and what is swept is swept also where nothing runs. */
void verbs_file_order(void *user, const struct control_order *o)
{
	struct agent *a = user;
	struct dispatch *q = a->queue;
	unsigned int sweep = o->sweep < SPEC_CLEAN_MAX ? sweep_of_clean(o->sweep) : q->c->sweep;
	bool any = false;

	for (struct attempt *r = q->place.tasks; r; r = r->next) {
		const struct task_spec *spec = r->spec;
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
		eventlog_say(a->eventlog, LOG_LEVEL_WARNING,
			     "control.json: no task called %s waits, or runs on this node",
			     o->task);
	if (o->command != CONTROL_SHUTDOWN && !any) /* else with the end of what was stopped */
		(void)sweep_start(&q->sweeping, sweep, "", NULL, NULL);
	if (o->command == CONTROL_SHUTDOWN)
		life_order(a, ORDER_RUN_ON);
}

/* -------- all of it -------- */

struct verbs *verbs_new(struct agent *a)
{
	struct verbs *k = xcalloc(1, sizeof(*k));

	k->a = a;
	(void)uv_timer_init(&a->loop, &k->timer);
	k->timer.data = k;
	return k;
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

void verbs_close(struct agent *a)
{
	uv_close((uv_handle_t *)&a->verbs->timer, on_closed);
}
