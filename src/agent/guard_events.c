/* SPDX-License-Identifier: MIT */

/*
 * What the guard says goes into the view, and from there to those whom it concerns. The watchdog
 * looks once a second whether it says anything at all.
 */

#include "agent/guard_events.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "agent/allocations.h"
#include "agent/asks.h"
#include "agent/dispatch.h"
#include "agent/lifecycle.h"
#include "agent/meter.h"
#include "agent/parts.h"
#include "agent/reload.h"
#include "agent/report/agentlog.h"
#include "agent/report/eventlog.h"
#include "agent/startup.h"
#include "agent/watch.h"
#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "hold/device_state.h"
#include "hold/holder_proto.h"

static void no_gpus(struct agent *a, const char *why)
{
	life_post(a, LIFE_FATAL,
		  &(struct life_cause){ .end = AGENT_NO_GPUS, .code = -ENODEV, .why = why });
}

static void look_at_guard(struct agent *a, const struct msg_guard *g)
{
	bool none = a->c->devices && !a->c->devices[0];
	char text[PROTO_TEXT_MAX + 128];

	a->view.guard = *g;
	if (a->view.life.phase > LIFE_STARTING_DRAIN)
		return;
	/* In a job those that it was given may come later. One that was given none runs what needs
	 * none, and its node need not have a driver; nor where they are known by name alone. */
	if (g->flags & GUARD_SEES && (g->n_devices || a->c->devices || a->c->n_devices))
		life_tell_policy(a);
	else if (none && (g->flags & GUARD_SEES || g->trouble[0]))
		life_tell_policy(a);
	else if (g->trouble[0] && g->n_unseen && g->n_devices)
		life_tell_policy(a);
	else if (g->flags & GUARD_SEES)
		no_gpus(a, "there are no GPUs on this node; to try tenure without one: tenure sim "
			   "--gpus 4 -- tenure hold");
	else if (g->trouble[0])
		no_gpus(a,
			str_print(text, sizeof(text),
				  "cannot see any GPU: %s; tenure doctor tells more", g->trouble));
}

static void on_welcome(void *user, const struct msg_guard *g, bool started)
{
	struct agent *a = user;

	a->view.guard_up = true;
	a->view.n_slots = 0;
	a->view.trouble[0] = '\0';
	(void)memset(a->view.seen, 0, sizeof(a->view.seen));
	(void)memset(a->view.health, 0, sizeof(a->view.health));
	if (view_is_ready(&a->view))
		eventlog_tell(a->eventlog, OWN_GUARD_FOUND,
			      json_pack("{si sb}", "pid", (int)g->pid, "started", started));
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

static void on_policy_reply(void *user, int code, const char *text)
{
	if (reload_on_reply(user, code, text))
		return;
	if (code == 0)
		life_post(user, LIFE_READY, NULL);
	else
		life_post(user, LIFE_REFUSED,
			  &(struct life_cause){ .end = AGENT_REFUSED,
						.code = code < 0 ? code : -EINVAL,
						.why = text });
}

static void on_device(void *user, uint32_t slot, const struct dev_status *dev)
{
	struct agent *a = user;

	a->view.devices[slot] = *dev;
	a->view.seen[slot] = true;
	a->view.awaited[slot] = false;
	if (slot >= a->view.n_slots)
		a->view.n_slots = slot + 1;
	meter_on_device(a, slot);
	(void)eventlog_knows(a->eventlog, &dev->reason); /* so that it does when asked */
	startup_on_device(a, slot);
	watch_device(a, slot);
	allocations_look_free(a, true);
	asks_on_device(a);
	if (a->queue)
		dispatch_look(a->queue);
}

static void on_health(void *user, uint32_t slot, const struct gpu_health *health)
{
	struct agent *a = user;

	a->view.health[slot] = *health;
	watch_device(a, slot);
}

static void on_event(void *user, const struct guard_event *ev)
{
	struct agent *a = user;

	eventlog_take(a->eventlog, ev);
	if (ev->kind == EVENT_YIELD)
		meter_on_yield(a, ev);
}

static void on_dropped(void *user)
{
	life_dropped(user);
}

static void on_lost(void *user, const char *why)
{
	struct agent *a = user;

	a->view.guard_up = false;
	(void)str_print(a->view.trouble, sizeof(a->view.trouble), "the guard (PID %d) %s",
			(int)a->view.guard.pid, why);
	for (uint32_t i = 0; i < a->view.n_slots; i++)
		a->view.seen[i] = a->view.awaited[i] = false;
	eventlog_tell(a->eventlog, OWN_GUARD_LOST,
		      json_pack("{so}", "why", json_new_text(a->view.trouble)));
}

static void on_failed(void *user, const struct err *why)
{
	struct agent *a = user;
	bool again = strcmp(a->view.trouble, why->text) == 0;

	a->view.guard_up = false;
	(void)str_copy(a->view.trouble, sizeof(a->view.trouble), why->text);
	if (!again || a->view.life.phase <= LIFE_STARTING_DRAIN)
		life_post(a, LIFE_FATAL,
			  &(struct life_cause){
				  .end = AGENT_FAILED, .code = why->code, .why = why->text });
}

static void on_lease(void *user, const struct msg_head *head)
{
	const struct msg_unleased *m = (const void *)head;
	struct agent *a = user;

	if (head->type == MSG_UNLEASED && m->slot >= 0 && m->slot < PROTO_DEVICES_MAX)
		a->view.awaited[m->slot] = true;
	if (a->queue)
		dispatch_on_lease(a->queue, head);
}

const struct guardlink_ops guard_events_ops = {
	.lease = on_lease,
	.welcome = on_welcome,
	.policy_reply = on_policy_reply,
	.device = on_device,
	.health = on_health,
	.event = on_event,
	.guard = on_guard,
	.dropped = on_dropped,
	.lost = on_lost,
	.failed = on_failed,
};

/* -------- the watchdog -------- */

struct watchdog {
	bool silent;
	uint64_t watched_ns; /* looked last */
	uint64_t unseen_ns;  /* nobody sees who comes, since then; 0: the guard does */
};

struct watchdog *watchdog_new(void)
{
	return xcalloc(1, sizeof(struct watchdog));
}
/* If that is a holder of that guard, whatever the number was before. What is looked at is what is
 * signalled. */
static bool end_holder(pid_t pid, pid_t guard)
{
	struct proc_peek p;

	if (pid <= 0 || proc_peek(pid, &p) < 0 || p.uid != geteuid() || p.parent != guard ||
	    strcmp(p.comm, HOLDER_COMM) != 0)
		return false;
	return proc_signal(&(struct proc_id){ .pid = pid, .start = p.start }, SIGKILL) == 0;
}

static void end_holders(struct agent *a)
{
	const struct view *v = &a->view;

	for (uint32_t i = 0; i < v->n_slots; i++)
		if (v->seen[i] && end_holder(v->devices[i].holder_pid, v->guard.pid))
			eventlog_say(
				a->eventlog, LOG_LEVEL_WARNING,
				"the holder of GPU %u (PID %d) did not let go without its guard, "
				"and was ended",
				v->devices[i].index, (int)v->devices[i].holder_pid);
}

static void say_silent(struct agent *a, uint64_t for_ns)
{
	struct proc_peek guard = { .state = '?' };

	(void)proc_peek(a->view.guard.pid, &guard);
	eventlog_say(a->eventlog, LOG_LEVEL_WARNING,
		     guard.state == 'T'
			     ? "the guard (PID %d) has been stopped for %llu s, so nothing "
			       "is held; kill -CONT resumes it"
			     : "the guard (PID %d) has sent no heartbeat for %llu s",
		     (int)a->view.guard.pid, (unsigned long long)(for_ns / NS_PER_S));
}

/* Who would come is seen by the guard alone. The workload goes as a hold does without it. */
static void watch_workload(struct agent *a, bool silent, uint64_t now)
{
	struct watchdog *w = a->watchdog;
	bool up = guardlink_is_up(a->link), sees = up && a->view.guard.flags & GUARD_SEES;

	w->unseen_ns = sees ? 0 : w->unseen_ns ? w->unseen_ns : now;
	if (!a->queue)
		return;
	if (silent)
		dispatch_watch_workload(a->queue, "the guard sends no heartbeat");
	else if (w->unseen_ns && now - w->unseen_ns > GUARD_AWAIT_MS * NS_PER_MS)
		dispatch_watch_workload(a->queue,
					up ? "the GPUs cannot be seen" : "there is no guard");
	else
		dispatch_watch_workload(a->queue, NULL);
}

void watchdog_look(struct agent *a, uint64_t interval_ms)
{
	struct watchdog *w = a->watchdog;
	uint64_t heard = guardlink_heard_ns(a->link), now = clock_mono_ns();
	bool slept = now - w->watched_ns > 2 * interval_ms * NS_PER_MS; /* what it said waits */
	bool silent = guardlink_is_up(a->link) && now - heard > GUARD_AWAIT_MS * NS_PER_MS;

	w->watched_ns = now;
	if (slept)
		return;
	if (silent)
		end_holders(a);
	watch_workload(a, silent, now);
	if (silent && !w->silent)
		say_silent(a, now - heard);
	else if (!silent && w->silent)
		eventlog_say(a->eventlog, LOG_LEVEL_INFO, "the guard answers again");
	w->silent = silent;
}
