/* SPDX-License-Identifier: MIT */
#include "agent/dispatch_state.h"

struct devset tasks_busy_devices(const struct tasks *q)
{
	struct devset busy = { { 0 } };

	for (const struct attempt *r = q->place.tasks; r; r = r->next)
		busy = devset_or(busy, r->devices);
	return busy;
}

void tasks_plan_soon(struct tasks *q)
{
	if (tasks_are_open(q) && !q->ending)
		(void)uv_timer_start(&q->plan_timer, q->on_plan, 0, 0);
}

bool tasks_are_open(const struct tasks *q)
{
	return spoolwatch_state(q->spoolwatch) >= QUEUE_OPEN;
}

size_t tasks_running(const struct tasks *q)
{
	size_t n = 0;

	for (struct attempt *r = q->place.tasks; r; r = r->next)
		n++;
	return n;
}

void tasks_drain(struct tasks *q)
{
	q->draining = true;
	reserving_clear(&q->reserving);
	tasks_plan_soon(q);
}
