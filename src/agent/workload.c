/* SPDX-License-Identifier: MIT */
#include "agent/workload.h"

#include "base/mem.h"
#include "base/str.h"

static void on_changed(void *user)
{
	struct tasks *q = user;

	tasks_plan_soon(q);
	q->ops->over(q->user);
}

struct fillers *workload_new(struct tasks *q)
{
	const struct agent_config *c = q->c;
	cleanup_free char *logs = xasprintf("%s/%s/logs", c->state_dir, c->instance);

	return fillers_new(&(struct fillers_config){ .command = c->workload,
						     .cwd = c->workload_cwd,
						     .log_dir = logs,
						     .grace_ms = c->workload_grace_ms,
						     .place = &q->place,
						     .plan = q->plan,
						     .changed = on_changed,
						     .user = q });
}

void workload_look(struct tasks *q)
{
	const struct view *v = q->place.view;
	struct devset busy = tasks_busy_devices(q);
	bool wanted = v->c->workload && v->ready && !v->leaving && !v->released && !q->paused &&
		      !q->unwatched;

	for (unsigned int i = 0; i < PROTO_DEVICES_MAX; i++)
		if (q->reserving.slots[i].want.id)
			devset_add(&busy, i);
	fillers_look(q->fillers, wanted, busy);
}

void workload_watch(struct tasks *q, const char *why)
{
	q->unwatched = why != NULL;
	if (why && devset_count(fillers_devices(q->fillers)))
		fillers_stop_all(q->fillers, UINT32_MAX, why);
	fillers_attend(q->fillers);
}

size_t tasks_workloads(const struct tasks *q)
{
	return devset_count(fillers_devices(q->fillers));
}

const struct view_workload *tasks_workload_view(const struct tasks *q)
{
	return fillers_view(q->fillers);
}
