/* SPDX-License-Identifier: MIT */
#include "agent/lifetime.h"

#include "agent/leaving.h"
#include "agent/node/deadline.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/units.h"

#define CHECK_MS 10000 /* the loop's clock stands still while the machine is suspended */

static const char *what_then(const struct view *v)
{
	return v->c->lifetime_stops ? "what runs then is stopped and waits again"
				    : "what runs then may end, and nothing more is started";
}

/* In the words that perpetual-motion's users know, and may search for. */
static const char *auto_shutdown(const struct view *v, char *buf, size_t size)
{
	char end[CLOCK_TEXT_MAX], whole[UNIT_TEXT_MAX];

	return str_print(buf, size, "Auto-shutdown at: %s (%s)",
			 clock_format_local(deadline_end_wall_ns(v), end),
			 unit_format_duration_exact(v->c->lifetime_ms, whole));
}

void lifetime_describe(const struct view *v, struct strbuf *out)
{
	char text[PROTO_TEXT_MAX];

	if (v->c->lifetime_ms)
		strbuf_addf(out, " %s: %s.", auto_shutdown(v, text, sizeof(text)), what_then(v));
}

static void arm(struct agent *a);

static void on_life(uv_timer_t *timer)
{
	struct agent *a = timer->data;
	uint64_t left = deadline_left_ms(&a->view);
	char end[CLOCK_TEXT_MAX], time[UNIT_TEXT_MAX], why[PROTO_TEXT_MAX];

	if (!left) {
		leaving_begin(a, a->c->lifetime_stops ? LEAVING_STOP : LEAVING_DRAIN,
			      str_print(why, sizeof(why), "the lifetime of %s is over",
					unit_format_duration_exact(a->c->lifetime_ms, time)));
		return;
	}
	if (!a->life_noticed && left <= a->c->notice_ms) {
		a->life_noticed = true;
		eventlog_say(a->eventlog, LOG_LEVEL_WARNING, "auto-shutdown in %s, at %s: %s",
			     unit_format_duration((left + 999) / 1000 * 1000, time),
			     clock_format_local(deadline_end_wall_ns(&a->view), end),
			     what_then(&a->view));
	}
	arm(a);
}

static void arm(struct agent *a)
{
	uint64_t left = deadline_left_ms(&a->view);
	uint64_t wait = left < CHECK_MS ? left : CHECK_MS;

	if (!a->life_noticed && left > a->c->notice_ms && left - a->c->notice_ms < wait)
		wait = left - a->c->notice_ms;
	(void)uv_timer_start(&a->life_timer, on_life, wait, 0);
}

void lifetime_begin(struct agent *a)
{
	a->view.lifetime_end_ns = clock_boot_ns() + a->c->lifetime_ms * NS_PER_MS;
	/* Just told. */
	a->life_noticed = !a->c->notice_ms || a->c->notice_ms >= a->c->lifetime_ms;
}

void lifetime_announce(struct agent *a)
{
	char text[PROTO_TEXT_MAX], start[CLOCK_TEXT_MAX];

	if (!a->c->lifetime_ms)
		return;
	eventlog_say(a->eventlog, LOG_LEVEL_INFO, "Started at: %s",
		     clock_format_local(a->view.started_wall_ns, start));
	eventlog_say(a->eventlog, LOG_LEVEL_INFO, "%s",
		     auto_shutdown(&a->view, text, sizeof(text)));
	arm(a);
}
