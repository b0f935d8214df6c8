/* SPDX-License-Identifier: MIT */
#include "agent/heard.h"

#include <errno.h>
#include <string.h>

#include "agent/ending.h"
#include "agent/leases.h"
#include "agent/ready.h"
#include "base/clock.h"
#include "base/str.h"
#include "hold/state.h"

#define REFUSED_WAIT_MS 30000 /* a policy that was refused later is sent again */

void heard_tell_policy(struct agent *a)
{
	a->view.policy.hold =
		a->c->policy.hold && !a->view.leaving && !a->view.released && !a->c->workload;
	a->told_ns = clock_mono_ns();
	guardlink_set_policy(a->link, &a->view.policy);
}

static void look_at_guard(struct agent *a, const struct msg_guard *g)
{
	char text[PROTO_TEXT_MAX + 128];

	a->view.guard = *g;
	if (a->view.ready || a->view.stopping)
		return;
	if (g->flags & GUARD_SEES) {
		if (!g->n_devices)
			ending_give_up(
				a, AGENT_NO_GPUS, -ENODEV,
				"there are no GPUs on this node; to try tenure without one: tenure "
				"sim --gpus 4 -- tenure hold");
		else
			heard_tell_policy(a);
		return;
	}
	if (g->trouble[0])
		ending_give_up(a, AGENT_NO_GPUS, -ENODEV,
			       str_print(text, sizeof(text),
					 "cannot see any GPU: %s; tenure doctor tells more",
					 g->trouble));
}

static void on_welcome(void *user, const struct msg_guard *g, bool started)
{
	struct agent *a = user;

	a->view.guard_up = true;
	a->view.n_slots = 0;
	a->view.trouble[0] = '\0';
	(void)memset(a->view.seen, 0, sizeof(a->view.seen));
	if (a->view.ready)
		eventlog_say(a->eventlog, LOG_LEVEL_INFO,
			     "%s guard (PID %d); it is told again what to hold",
			     started ? "started a new" : "found a", (int)g->pid);
	else
		agentlog_log(a->agentlog, LOG_LEVEL_INFO, "%s guard: PID %d, driver %s",
			     started ? "started a" : "found a", (int)g->pid,
			     g->driver[0] ? g->driver : "unknown");
	look_at_guard(a, g);
}

static void on_guard(void *user, const struct msg_guard *g)
{
	look_at_guard(user, g);
}

static void on_resend(uv_timer_t *timer)
{
	struct agent *a = timer->data;

	if (!a->view.stopping && !a->pausing)
		guardlink_set_policy(a->link, &a->view.policy);
}

static void on_policy_reply(void *user, int code, const char *text)
{
	struct agent *a = user;

	if (a->view.stopping || a->ended)
		return;
	if (code == 0 && !a->view.ready)
		ready_become(a);
	if (code == 0)
		return;
	if (!a->view.ready) {
		ending_give_up(a, AGENT_REFUSED, code < 0 ? code : -EINVAL, text);
		return;
	}
	eventlog_say(a->eventlog, LOG_LEVEL_ERROR, "the guard does not take the policy: %s", text);
	(void)uv_timer_start(&a->phase_timer, on_resend, REFUSED_WAIT_MS, 0);
}

static void on_device(void *user, uint32_t slot, const struct dev_status *dev)
{
	struct agent *a = user;

	a->view.devices[slot] = *dev;
	a->view.seen[slot] = true;
	a->view.awaited[slot] = false;
	/* What is left for others is not looked at for us. */
	a->fresh[slot] = dev->state == DEV_LEFT ||
			 (dev->looked_ns >= a->told_ns && !(dev->flags & DEVICE_UNJUDGED));
	if (slot >= a->view.n_slots)
		a->view.n_slots = slot + 1;
	(void)users_put_names(a->users, dev->reason, NULL, 0); /* so that it is known when asked */
	ready_look(a);
	if (a->queue)
		tasks_look(a->queue);
}

static void on_event(void *user, const struct guard_event *ev)
{
	struct agent *a = user;

	eventlog_take(a->eventlog, ev);
}

static void say_free(struct agent *a)
{
	double ms = (double)(clock_mono_ns() - a->stop_ns) / (double)NS_PER_MS;
	size_t running = a->queue ? tasks_running(a->queue) : 0;

	if (!running)
		eventlog_say(a->eventlog, LOG_LEVEL_INFO, "all is free after %.0f ms", ms);
	else
		eventlog_say(
			a->eventlog, LOG_LEVEL_INFO,
			"what was held is free after %.0f ms; %zu task%s on, and the next agent "
			"takes %s over",
			ms, running, running == 1 ? " runs" : "s run",
			running == 1 ? "it" : "them");
}

static void on_dropped(void *user)
{
	struct agent *a = user;

	if (a->ended)
		return;
	if (a->pausing && !a->view.stopping) {
		a->dropped = true;
		return;
	}
	say_free(a);
	ending_finish(a, AGENT_ENDED);
}

static void on_lost(void *user, const char *why)
{
	struct agent *a = user;

	a->view.guard_up = false;
	(void)str_print(a->view.trouble, sizeof(a->view.trouble), "the guard (PID %d) %s",
			(int)a->view.guard.pid, why);
	for (uint32_t i = 0; i < a->view.n_slots; i++)
		a->view.seen[i] = a->view.awaited[i] = false;
	eventlog_say(a->eventlog, LOG_LEVEL_WARNING, "%s: nothing is held until the next one is up",
		     a->view.trouble);
}

static void on_failed(void *user, const struct err *why)
{
	struct agent *a = user;
	bool again = strcmp(a->view.trouble, why->text) == 0;

	a->view.guard_up = false;
	(void)str_copy(a->view.trouble, sizeof(a->view.trouble), why->text);
	if (!a->view.ready)
		ending_give_up(a, AGENT_FAILED, why->code, why->text);
	else if (!again && !a->ended)
		eventlog_say(a->eventlog, LOG_LEVEL_WARNING, "%s; trying again", why->text);
}

static void on_lease(void *user, const struct msg_head *head)
{
	const struct msg_unleased *m = (const void *)head;
	struct agent *a = user;

	if (head->type == MSG_UNLEASED && m->slot >= 0 && m->slot < PROTO_DEVICES_MAX)
		a->view.awaited[m->slot] = true;
	if (a->queue)
		leases_on_message(a->queue, head);
}

const struct guardlink_ops heard_ops = {
	.lease = on_lease,
	.welcome = on_welcome,
	.policy_reply = on_policy_reply,
	.device = on_device,
	.event = on_event,
	.guard = on_guard,
	.dropped = on_dropped,
	.lost = on_lost,
	.failed = on_failed,
};
