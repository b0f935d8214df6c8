/* SPDX-License-Identifier: MIT */
#include "agent/dispatch_state.h"

#include "base/str.h"

struct devset dispatch_busy_devices(const struct dispatch *q)
{
	struct devset busy = { { 0 } };

	for (const struct attempt *r = q->place.tasks; r; r = r->next)
		busy = devset_or(busy, r->devices);
	return busy;
}

void dispatch_plan_soon(struct dispatch *q)
{
	if (dispatch_is_open(q) && q->mode < DISPATCH_END)
		(void)uv_timer_start(&q->plan_timer, q->on_plan, 0, 0);
}

bool dispatch_is_open(const struct dispatch *q)
{
	return spoolwatch_state(q->spoolwatch) >= QUEUE_OPEN;
}

size_t dispatch_running(const struct dispatch *q)
{
	size_t n = 0;

	for (struct attempt *r = q->place.tasks; r; r = r->next)
		n++;
	return n;
}

size_t dispatch_outliving(const struct dispatch *q)
{
	size_t n = 0;

	for (const struct attempt *r = q->place.tasks; r; r = r->next)
		n += r->state != AT_MUSTERED;
	return n;
}

void dispatch_drain(struct dispatch *q, const char *why)
{
	if (q->mode < DISPATCH_DRAIN)
		q->mode = DISPATCH_DRAIN;
	(void)str_copy(q->why, sizeof(q->why), why);
	reserving_clear(&q->reserving);
	dispatch_plan_soon(q);
}
