/* SPDX-License-Identifier: MIT */
#include "agent/asked.h"

#include <errno.h>

#include "agent/ending.h"
#include "agent/leaving.h"
#include "agent/report.h"
#include "agent/users.h"
#include "base/mem.h"
#include "sched/why.h"

static void answer_ping(struct agent *a, struct ctl_client *client, const struct ctl_request *req)
{
	ctl_answer(client, report_ping(&a->view));
}

static void answer_status(struct agent *a, struct ctl_client *client, const struct ctl_request *req)
{
	json_t *doc;

	a->view.heard_ns = guardlink_heard_ns(a->link);
	doc = report_status(&a->view, a->journal, a->users);
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
	ending_add_client(a, client);
	if (a->queue && req->now)
		tasks_stop_all(a->queue);
	leaving_begin(a, LEAVING_DRAIN,
		      req->now ? "told to stop its tasks (tenure off --stop-tasks)"
			       : "told to drain (tenure off --drain)");
}

static void stop_task(struct agent *a, struct ctl_client *client, const struct ctl_request *req)
{
	struct err e = ERR_INIT;
	int r = a->queue ? tasks_stop(a->queue, req->task, req->element, req->now, req->sweep, &e)
			 : no_queue(&e);

	answer_result(client, r, &e);
}

static void answer_why(struct agent *a, struct ctl_client *client, const struct ctl_request *req)
{
	struct err e = ERR_INIT;
	cleanup_free char *why = NULL;
	char named[SCHED_WHY_MAX];
	int r = a->queue ? tasks_why(a->queue, req->task, req->element, &why, &e) : no_queue(&e);

	if (r < 0) {
		answer_result(client, r, &e);
		return;
	}
	(void)users_put_names(a->users, why, named, sizeof(named));
	ctl_answer(client, json_pack("{s:i, s:s, s:b}", "code", 0, "why", named, "elsewhere",
				     r == TASKS_WHY_ELSEWHERE));
}

static void take_off(struct agent *a, struct ctl_client *client, const struct ctl_request *req)
{
	ending_add_client(a, client);
	ending_stop(a, "told to end (tenure off)");
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
	ending_forget_client(user, client);
}

const struct ctl_ops asked_ops = { .request = on_request, .gone = on_client_gone };
