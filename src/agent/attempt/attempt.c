/* SPDX-License-Identifier: MIT */
#include "agent/attempt/attempt.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#define RETRY_FIRST_MS 1000

/* In the status (docs/json.md): what is not named here shows as what it was before. */
static const char *const state_names[AT_STATE_MAX] = {
	[AT_CLAIMING] = "claiming",  [AT_LEASING] = "leasing",	  [AT_LAUNCHING] = "starting",
	[AT_PREPARING] = "starting", [AT_NOTING] = "starting",	  [AT_GRANTING] = "granting",
	[AT_MUSTERED] = "mustered",  [AT_RUNNING] = "running",	  [AT_FREEING] = "freeing",
	[AT_COMMITTING] = "filing",  [AT_UNCOMMITTED] = "filing",
};

void attempt_stop_for(struct attempt *a, enum end_kind kind, const struct dev_reason *why)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT;

	if (a->end_kind == END_MAX) {
		a->has_reason = true;
		a->reason = *why;
	}
	dev_reason_text(why, eventlog_names(a->place->eventlog), &text);
	attempt_stop(a, kind, UINT32_MAX, strbuf_str(&text));
}

const char *attempt_why(struct attempt *a)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT;

	if (a->has_reason && a->end_kind != END_STOPPED && a->end_kind != END_MAX) {
		dev_reason_text(&a->reason, eventlog_names(a->place->eventlog), &text);
		(void)str_copy(a->why, sizeof(a->why), strbuf_str(&text));
	}
	return a->why;
}

const char *attempt_state_name(enum attempt_state state)
{
	return state < AT_STATE_MAX ? state_names[state] : NULL;
}

struct attempt *attempt_new(struct attempt_place *place, const struct attempt_ops *ops,
			    const struct attempt_step (*steps)[ON_MAX])
{
	struct attempt *a = xcalloc(1, sizeof(*a));

	a->ops = ops;
	a->steps = steps;
	a->place = place;
	a->log_fd = -1;
	a->end_kind = END_MAX;
	a->stop_grace_ms = UINT32_MAX;
	(void)uv_timer_init(place->loop, &a->timer);
	a->timer.data = a;
	return a;
}

static void on_timer_closed(uv_handle_t *h)
{
	struct attempt *a = h->data;

	spec_free(a->spec);
	use_clear(&a->use);
	text_list_clear(&a->uuids);
	free(a->resize);
	text_list_clear(&a->go_env);
	free(a);
}

void attempt_free(struct attempt *a)
{
	uv_close((uv_handle_t *)&a->timer, on_timer_closed);
}

static bool is_of_commit(enum attempt_state state)
{
	return state == AT_COMMITTING || state == AT_UNCOMMITTED;
}

/* A timer is its state's; that a commit was tried before stays known. */
static void enter(struct attempt *a, enum attempt_state next)
{
	if (next == a->state)
		return;
	(void)uv_timer_stop(&a->timer);
	if (!is_of_commit(a->state) || !is_of_commit(next))
		a->retry_ms = 0;
	a->state = next;
	if (attempt_state_name(next))
		a->shown = next;
}

void attempt_event(struct attempt *a, enum attempt_event ev, const void *with)
{
	const struct attempt_step *step = &a->steps[a->state][ev];

	if (!step->action)
		return;
	/* First, so that an action may go further. */
	enter(a, step->next);
	step->action(a, with);
	if (a->ops->changed)
		a->ops->changed(a);
}

static void on_timer(uv_timer_t *timer)
{
	attempt_event(timer->data, ON_TIMER, NULL);
}

bool attempt_later(struct attempt *a, uint64_t last_ms)
{
	bool first = !a->retry_ms;

	a->retry_ms = first ? RETRY_FIRST_MS : a->retry_ms * 2;
	a->retry_ms = a->retry_ms < last_ms ? a->retry_ms : last_ms;
	attempt_soon(a, a->retry_ms);
	return first;
}

void attempt_soon(struct attempt *a, uint64_t ms)
{
	(void)uv_timer_start(&a->timer, on_timer, ms, 0);
}

void attempt_stop(struct attempt *a, enum end_kind kind, uint32_t grace_ms, const char *why)
{
	/* It has ended; whether it is requeued is all that is left to say. */
	if (a->state >= AT_ENDED && kind != END_STOPPED)
		return;
	if (a->state == AT_COMMITTING) { /* the spooler's thread reads the rest */
		a->stopped_late = true;
		return;
	}
	/* What its owner says is the last word: a task that is about to be requeued is not. */
	if (a->end_kind == END_MAX || kind == END_STOPPED) {
		a->end_kind = kind;
		(void)str_copy(a->why, sizeof(a->why), why);
	}
	a->stop_grace_ms = grace_ms < a->stop_grace_ms ? grace_ms : a->stop_grace_ms;
	attempt_event(a, ON_STOP, NULL);
}
