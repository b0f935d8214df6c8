/* SPDX-License-Identifier: MIT */
#include "agent/leaving.h"

#include "agent/ending.h"
#include "agent/heard.h"
#include "base/mem.h"
#include "base/str.h"

static void tell(struct agent *a, size_t running)
{
	static const char *const what[LEAVING_MAX] = {
		[LEAVING_DRAIN] = "may end first",
		[LEAVING_STOP] = "is stopped and waits again",
	};

	eventlog_say(a->eventlog, LOG_LEVEL_INFO,
		     running ? "%s: nothing more is started or held; what runs (%zu task%s) %s"
			     : "%s: nothing more is started or held",
		     a->view.leaving_why, running, running == 1 ? "" : "s", what[a->view.leaving]);
}

void leaving_begin(struct agent *a, enum leaving how, const char *why)
{
	size_t running = a->queue ? tasks_running(a->queue) : 0;

	if (a->view.stopping || a->ended || a->view.leaving >= how)
		return;
	a->view.leaving = how;
	(void)str_copy(a->view.leaving_why, sizeof(a->view.leaving_why), why);
	tell(a, running);
	if (a->queue)
		tasks_drain(a->queue);
	if (a->queue && how == LEAVING_STOP)
		tasks_requeue_all(a->queue);
	if (a->view.ready && !a->pausing) /* else it is told then */
		heard_tell_policy(a);
	leaving_look(a);
}

void leaving_order(struct agent *a, enum order_how how)
{
	static const char *const texts[] = {
		[ORDER_RUN_ON] = "told to end through the spool (tenure shutdown)",
		[ORDER_DRAIN] = "told to drain (tenure shutdown --drain)",
		[ORDER_STOP_TASKS] = "told to stop its tasks (tenure shutdown --stop-tasks)",
	};
	_Static_assert(ARRAY_LEN(texts) == ORDER_HOW_MAX, "a text for every order");

	if (how == ORDER_RUN_ON) {
		ending_stop(a, texts[how]);
		return;
	}
	if (a->queue && how == ORDER_STOP_TASKS)
		tasks_stop_all(a->queue);
	leaving_begin(a, LEAVING_DRAIN, texts[how]);
}

void leaving_look(struct agent *a)
{
	if (a->view.leaving && !(a->queue && tasks_may_run(a->queue)))
		ending_stop(a, a->view.leaving_why);
}
