/* SPDX-License-Identifier: MIT */

/*
 * What is held would stay so with nobody to ask for it back. So everything is let go of first, then
 * we stop as any program does, and the guard is told anew when we are continued.
 */

#include "agent/pause.h"

#include <signal.h>

#include "agent/heard.h"
#include "agent/ready.h"
#include "base/clock.h"
#include "base/proc.h"

static void on_pause(uv_signal_t *handle, int signum);

/* Stop as the terminal wants it; back when we are continued, or at once where no shell waits. */
static void stop_here(struct agent *a)
{
	uv_signal_t *tstp = &a->signals[SLOT_TSTP];

	(void)uv_timer_stop(&a->pause_timer);
	(void)uv_signal_stop(tstp); /* with it the default comes back */
	(void)raise(SIGTSTP);
	(void)uv_signal_start(tstp, on_pause, SIGTSTP);
	a->pausing = false;
	if (a->queue)
		tasks_pause(a->queue, false);
	uv_update_time(&a->loop);
	if (!a->view.ready) {
		ready_wait(a);
		return;
	}
	eventlog_say(a->eventlog, LOG_LEVEL_INFO, "continued: holding as before");
	heard_tell_policy(a);
}

static void on_pause_step(uv_timer_t *timer)
{
	struct agent *a = timer->data;
	uint64_t waited = clock_mono_ns() - a->pause_ns;

	if (a->view.stopping || a->ended) {
		a->pausing = false;
		(void)uv_timer_stop(timer);
	} else if ((a->dropped && agentlog_is_flushed(a->agentlog) &&
		    !(a->queue && tasks_workloads(a->queue))) ||
		   waited > STOP_LIMIT_MS * NS_PER_MS) {
		stop_here(a);
	}
}

static void on_pause(uv_signal_t *handle, int signum)
{
	struct agent *a = handle->data;

	if (a->view.stopping || a->ended || a->pausing)
		return;
	a->pausing = true;
	a->pause_ns = clock_mono_ns();
	a->dropped = !a->view.ready || !guardlink_is_up(a->link); /* nothing is held then */
	if (a->view.ready)
		eventlog_say(
			a->eventlog, LOG_LEVEL_INFO,
			"stopped (Ctrl-Z): letting go of everything until it is continued (fg)");
	if (!a->dropped)
		guardlink_drop(a->link);
	if (a->queue)
		tasks_pause(a->queue, true);
	(void)uv_timer_start(&a->pause_timer, on_pause_step, FLUSH_STEP_MS, FLUSH_STEP_MS);
}

/* Not where nobody could continue us: in the background, or where Ctrl-Z is ignored on purpose. */
void pause_start(struct agent *a)
{
	uv_signal_t *tstp = &a->signals[SLOT_TSTP];

	(void)uv_signal_init(&a->loop, tstp);
	tstp->data = a;
	if (!a->c->ignore_hangup && !proc_ignores(SIGTSTP))
		(void)uv_signal_start(tstp, on_pause, SIGTSTP);
}
