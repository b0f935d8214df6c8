/* SPDX-License-Identifier: MIT */
#include "agent/nodes.h"

#include "agent/resume.h"
#include "base/str.h"
#include "hold/state.h"

static void fill(void *user, struct beat *b)
{
	const struct tasks *q = user;
	const struct view *v = q->place.view;

	b->devices = view_devices(v);
	b->held = view_count(v, DEV_HELD);
	b->idle = view_count(v, DEV_IDLE);
	b->lent = view_count(v, DEV_LENT);
	b->running = (unsigned int)tasks_running(q);
	b->draining = q->draining || q->ending;
}

static void named(void *user)
{
	resume_start(user);
}

static void no_spool(void *user, const struct err *e)
{
	tasks_no_queue(user, e->text);
}

static void clash(void *user, const struct err *e)
{
	struct tasks *q = user;

	(void)str_copy(q->trouble, sizeof(q->trouble), e->text);
	news_say(q->place.news, LOG_LEVEL_ERROR, "%s: %s",
		 q->open ? "no more tasks are started here" : "there is no queue", e->text);
	if (q->open)
		tasks_drain(q);
}

static void dead(void *user, const struct text_list *paths)
{
	resume_reclaim(user, paths);
}

static void left(void *user)
{
	struct tasks *q = user;

	q->want.batches = true;
	tasks_rescan(q);
}

static void tell(void *user, const char *text)
{
	struct tasks *q = user;

	news_say(q->place.news, LOG_LEVEL_WARNING, "%s", text);
}

struct beats *nodes_beats(struct tasks *q, const struct tasks_config *c)
{
	return beats_new(q->loop, &(struct beats_config){ .root = q->root,
							  .instance = q->instance,
							  .agent = q->agent,
							  .beat_ms = c->beat_ms,
							  .expire_ms = c->expire_ms,
							  .fill = fill,
							  .named = named,
							  .no_spool = no_spool,
							  .clash = clash,
							  .dead = dead,
							  .left = left,
							  .tell = tell,
							  .user = q });
}
