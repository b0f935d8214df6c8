/* SPDX-License-Identifier: MIT */
#include "agent/silence.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "hold/holder_proto.h"

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
			       "is held; kill -CONT lets it go on"
			     : "the guard (PID %d) has not spoken for %llu s",
		     (int)a->view.guard.pid, (unsigned long long)(for_ns / NS_PER_S));
}

/* Who would come is seen by the guard alone. The workload goes as a hold does without it. */
static void watch_workload(struct agent *a, bool silent, uint64_t now)
{
	bool up = guardlink_is_up(a->link), sees = up && a->view.guard.flags & GUARD_SEES;

	a->unseen_ns = sees ? 0 : a->unseen_ns ? a->unseen_ns : now;
	if (!a->queue)
		return;
	if (silent)
		tasks_watch_workload(a->queue, "the guard does not speak");
	else if (a->unseen_ns && now - a->unseen_ns > GUARD_ORPHAN_MS * NS_PER_MS)
		tasks_watch_workload(a->queue,
				     up ? "the GPUs cannot be seen" : "there is no guard");
	else
		tasks_watch_workload(a->queue, NULL);
}

void silence_look(struct agent *a, uint64_t interval_ms)
{
	uint64_t heard = guardlink_heard_ns(a->link), now = clock_mono_ns();
	bool slept = now - a->watched_ns > 2 * interval_ms * NS_PER_MS; /* what it said waits */
	bool silent = guardlink_is_up(a->link) && now - heard > GUARD_ORPHAN_MS * NS_PER_MS;

	a->watched_ns = now;
	if (slept)
		return;
	if (silent)
		end_holders(a);
	watch_workload(a, silent, now);
	if (silent && !a->silent)
		say_silent(a, now - heard);
	else if (!silent && a->silent)
		eventlog_say(a->eventlog, LOG_LEVEL_INFO, "the guard speaks again");
	a->silent = silent;
}
