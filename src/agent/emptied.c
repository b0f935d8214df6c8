/* SPDX-License-Identifier: MIT */
#include "agent/emptied.h"

#include "agent/heard.h"
#include "agent/leaving.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"

void emptied_describe(const struct view *v, struct strbuf *out)
{
	static const char *const what[EMPTY_MAX] = {
		[EMPTY_RELEASE] = "what it holds is released until there are tasks",
		[EMPTY_EXIT] = "it ends",
	};
	char time[UNIT_TEXT_MAX];

	if (v->c->on_empty != EMPTY_HOLD)
		strbuf_addf(out, " When its queue has been empty for %s, %s.",
			    unit_format_duration_exact(v->c->empty_ms, time), what[v->c->on_empty]);
}

static void set_released(struct agent *a, bool released)
{
	char time[UNIT_TEXT_MAX];

	a->view.released = released;
	if (!a->c->policy.hold)
		return;
	if (released)
		eventlog_say(
			a->eventlog, LOG_LEVEL_INFO,
			"the queue has been empty for %s: nothing is held until there are tasks",
			unit_format_duration_exact(a->c->empty_ms, time));
	else
		eventlog_say(a->eventlog, LOG_LEVEL_INFO,
			     "there are tasks again: holding as before");
	heard_tell_policy(a);
}

static void act(struct agent *a)
{
	char why[PROTO_TEXT_MAX], time[UNIT_TEXT_MAX];

	if (a->c->on_empty == EMPTY_RELEASE && !a->view.released)
		set_released(a, true);
	if (a->c->on_empty == EMPTY_EXIT)
		leaving_begin(a, LEAVING_DRAIN,
			      str_print(why, sizeof(why), "the queue has been empty for %s",
					unit_format_duration_exact(a->c->empty_ms, time)));
}

/* What cannot be seen now is not empty, and not full again either. */
static bool is_known(const struct agent *a)
{
	return a->view.ready && !a->view.stopping && !a->view.leaving && !a->pausing &&
	       a->view.guard_up && (a->view.guard.flags & GUARD_SEES) && tasks_are_known(a->queue);
}

void emptied_look(struct agent *a)
{
	uint64_t now = clock_mono_ns();

	if (!a->queue || a->c->on_empty == EMPTY_HOLD || !is_known(a))
		return;
	if (!tasks_is_empty(a->queue)) {
		a->view.empty_ns = 0;
		if (a->view.released)
			set_released(a, false);
		return;
	}
	if (!a->view.empty_ns)
		a->view.empty_ns = now;
	if (now - a->view.empty_ns >= a->c->empty_ms * NS_PER_MS)
		act(a);
}
