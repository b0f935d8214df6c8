/* SPDX-License-Identifier: MIT */
#include "agent/asked.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/ctl.h"
#include "agent/lifecycle.h"
#include "agent/node/guardlink.h"
#include "agent/parts.h"
#include "agent/report/status.h"
#include "agent/report/users.h"
#include "agent/stops.h"
#include "agent/tasks.h"
#include "base/clock.h"
#include "base/mem.h"
#include "sched/why.h"

static void answer_ping(struct agent *a, struct ctl_client *client, const struct ctl_request *req)
{
	ctl_answer(client, status_ping(&a->view));
}

static void answer_status(struct agent *a, struct ctl_client *client, const struct ctl_request *req)
{
	json_t *doc;

	a->view.heard_ns = guardlink_heard_ns(a->link);
	doc = status_json(&a->view, a->agentlog, a->users);
	if (a->queue)
		(void)json_object_set_new(doc, "queue", tasks_report(a->queue));
	ctl_answer(client, doc);
}

static void answer_result(struct ctl_client *client, int code, const struct err *e)
{
	ctl_answer(client, code < 0 ? json_pack("{s:i, s:s}", "code", code, "error", e->text)
				    : json_pack("{s:i}", "code", code));
}

static int no_queue(struct err *e)
{
	return err_set(e, -ENOENT,
		       "the agent here runs no tasks (a `tenure hold`); tenure on starts one that "
		       "does");
}

static void rescan(struct agent *a, struct ctl_client *client, const struct ctl_request *req)
{
	struct err e = ERR_INIT;

	if (a->queue)
		tasks_rescan(a->queue);
	answer_result(client, a->queue ? 0 : no_queue(&e), &e);
}

/* Answered when the tasks have ended, all is free, and so on: as with take_off(). */
static void drain(struct agent *a, struct ctl_client *client, const struct ctl_request *req)
{
	life_add_client(a, client);
	life_drain(a, req->now ? DRAIN_CANCEL : DRAIN_WAIT,
		   req->now ? "told to stop its tasks (tenure off --stop-tasks)"
			    : "told to drain (tenure off --drain)");
}

#define READ_LIMIT_MS 1500 /* who asked waits no longer than 3 s, on a node that may be busy */

/*
 * It is answered when the spool has been read: it asked for a task that is not known here, so that
 * what was submitted just now is; or had one stopped, which has been written down by then.
 */
struct asked_later {
	struct spool_reader reader;
	void (*late)(struct asked_later *l); /* answers when that takes too long */
	struct asked_later *next;
	struct agent *a;
	struct ctl_client *client;
	struct ctl_request req;
	uint64_t late_ns;
};

struct asked {
	struct agent *a;
	struct asked_later *all; /* not answered yet; the last one asked first */
	uv_timer_t timer;	 /* who waits for an answer gets one in time */
};

static int ask_why(struct agent *a, const struct ctl_request *req, char **ret, struct err *e)
{
	return a->queue ? tasks_why(a->queue, req->task, req->element, ret, e) : no_queue(e);
}

static void tell_why(struct agent *a, struct ctl_client *client, const struct ctl_request *req)
{
	struct err e = ERR_INIT;
	cleanup_free char *why = NULL;
	char named[SCHED_WHY_MAX];
	int r = ask_why(a, req, &why, &e);

	if (r < 0) {
		answer_result(client, r, &e);
		return;
	}
	(void)users_put_names(a->users, why, named, sizeof(named));
	ctl_answer(client, json_pack("{s:i, s:s, s:b}", "code", 0, "why", named, "elsewhere",
				     r == TASKS_WHY_ELSEWHERE));
}

static void drop_later(struct asked_later *l)
{
	struct asked_later **at = &l->a->asked->all;

	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	tasks_forget_reader(l->a->queue, &l->reader);
	free(l);
}

static void on_read(struct spool_reader *r)
{
	struct asked_later *l = (struct asked_later *)r;

	tell_why(l->a, l->client, &l->req);
	drop_later(l);
}

static void arm_late(struct agent *a);

static void on_late(uv_timer_t *timer)
{
	struct agent *a = ((const struct asked *)timer->data)->a;
	uint64_t now = clock_mono_ns();

	for (struct asked_later *l = a->asked->all, *next; l; l = next) {
		next = l->next;
		if (now < l->late_ns)
			continue;
		l->late(l);
		drop_later(l);
	}
	arm_late(a);
}

/* The last of them is who asked first. */
static void arm_late(struct agent *a)
{
	uint64_t now = clock_mono_ns(), first = UINT64_MAX;

	for (const struct asked_later *l = a->asked->all; l; l = l->next)
		first = l->late_ns;
	if (a->asked->all)
		(void)uv_timer_start(&a->asked->timer, on_late,
				     first > now ? (first - now) / NS_PER_MS + 1 : 0, 0);
}

/* False: there is no queue to be read. */
static bool answer_later(struct agent *a, struct ctl_client *client, const struct ctl_request *req,
			 void (*read)(struct spool_reader *r), void (*late)(struct asked_later *l))
{
	struct asked_later *l = xcalloc(1, sizeof(*l));

	*l = (struct asked_later){ .reader = { .read = read },
				   .late = late,
				   .next = a->asked->all,
				   .a = a,
				   .client = client,
				   .req = *req,
				   .late_ns = clock_mono_ns() + READ_LIMIT_MS * NS_PER_MS };
	if (tasks_when_read(a->queue, &l->reader) < 0) {
		free(l);
		return false;
	}
	a->asked->all = l;
	arm_late(a);
	return true;
}

static void why_is_late(struct asked_later *l)
{
	struct err e = ERR_INIT;

	answer_result(l->client,
		      err_set(&e, -ENOENT,
			      "the agent has not seen it yet: it is still reading the queue"),
		      &e);
}

static void answer_why(struct agent *a, struct ctl_client *client, const struct ctl_request *req)
{
	cleanup_free char *why = NULL;

	if (!a->queue || ask_why(a, req, &why, NULL) != -ENOENT ||
	    !answer_later(a, client, req, on_read, why_is_late))
		tell_why(a, client, req);
}

static void tell_stopped(struct ctl_client *client, const char *unwritten)
{
	ctl_answer(client, json_pack("{s:i, s:s*}", "code", 0, "unwritten", unwritten));
}

static int what_was_stopped(const struct asked_later *l, struct err *e)
{
	return stops_settled(l->a->queue, l->req.task, l->req.element, e);
}

static void stop_is_late(struct asked_later *l)
{
	struct err e = ERR_INIT;
	int r = what_was_stopped(l, &e);

	if (r < 0 && r != -EAGAIN)
		answer_result(l->client, r, &e);
	else
		tell_stopped(l->client, "the spool does not answer");
}

/* That it is to end may be written only after it was claimed, or given up. */
static void on_written(struct spool_reader *reader)
{
	struct asked_later *l = (struct asked_later *)reader;
	struct err e = ERR_INIT;
	int r = what_was_stopped(l, &e);

	if ((r == -EBUSY || r == -EAGAIN) && tasks_when_read(l->a->queue, reader) == 0)
		return;
	if (r < 0)
		stop_is_late(l);
	else
		tell_stopped(l->client, stops_unwritten(l->a->queue, l->req.task, l->req.element));
	drop_later(l);
}

static void stop_task(struct agent *a, struct ctl_client *client, const struct ctl_request *req)
{
	struct err e = ERR_INIT;
	int r = a->queue ? stops_order(a->queue, req->task, req->element, req->now, req->sweep, &e)
			 : no_queue(&e);

	if (r < 0 || !answer_later(a, client, req, on_written, stop_is_late))
		answer_result(client, r, &e);
}

static void take_off(struct agent *a, struct ctl_client *client, const struct ctl_request *req)
{
	life_add_client(a, client);
	life_shut_down(a, "told to end (tenure off)");
}

static void on_request(void *user, struct ctl_client *client, const struct ctl_request *req)
{
	static void (*const verbs[CTL_VERB_MAX])(struct agent * a, struct ctl_client * client,
						 const struct ctl_request *req) = {
		[CTL_PING] = answer_ping, [CTL_STATUS] = answer_status, [CTL_OFF] = take_off,
		[CTL_DRAIN] = drain,	  [CTL_RESCAN] = rescan,	[CTL_STOP] = stop_task,
		[CTL_WHY] = answer_why,
	};

	verbs[req->verb](user, client, req);
}

static void on_client_gone(void *user, struct ctl_client *client)
{
	struct agent *a = user;

	for (struct asked_later *l = a->asked->all, *next; l; l = next) {
		next = l->next;
		if (l->client == client)
			drop_later(l);
	}
	life_forget_client(user, client);
}

/* Two agents of an instance would each believe to be the one: the one that can be found stays. */
static void on_name_lost(void *user)
{
	life_shut_down(user, "another agent of this instance is found in its place");
}

const struct ctl_ops asked_ops = { .request = on_request,
				   .gone = on_client_gone,
				   .lost = on_name_lost };

struct asked *asked_new(struct agent *a)
{
	struct asked *k = xcalloc(1, sizeof(*k));

	k->a = a;
	(void)uv_timer_init(&a->loop, &k->timer);
	k->timer.data = k;
	return k;
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

void asked_close(struct agent *a)
{
	uv_close((uv_handle_t *)&a->asked->timer, on_closed);
}
