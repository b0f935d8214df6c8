/* SPDX-License-Identifier: MIT */
#include "agent/nodes.h"

#include <stdlib.h>

#include "agent/resume.h"
#include "base/str.h"
#include "hold/state.h"

static void fill(void *user, struct beat *b)
{
	struct tasks *q = user;
	const struct view *v = q->place.view;

	b->devices = q->told_devices = view_devices(v);
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

	if (!q->open) {
		tasks_no_queue(q, e->text);
		return;
	}
	(void)str_copy(q->trouble, sizeof(q->trouble), e->text);
	eventlog_say(q->place.eventlog, LOG_LEVEL_ERROR, "no more tasks are started here: %s",
		     e->text);
	tasks_drain(q);
	q->ops->over(q->user);
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

	eventlog_say(q->place.eventlog, LOG_LEVEL_WARNING, "%s", text);
}

/* A client decides by it what is too much for every node (spool/capacity.h). */
void nodes_look(struct tasks *q)
{
	if (view_devices(q->place.view) != q->told_devices)
		heartbeat_soon(q->heartbeat);
}

void nodes_tell_room(const struct tasks *q, uint64_t gpus, struct strbuf *b)
{
	struct capacity_node *nodes = NULL;
	size_t n = heartbeat_nodes(q->heartbeat, &nodes);

	if (!n)
		strbuf_adds(b, "; no other node serves the queue now");
	else if (capacity_judge(nodes, n, gpus) == CAPACITY_ENOUGH)
		strbuf_adds(b, "; another node may run it (");
	else
		strbuf_adds(b, "; no other node that serves the queue has so many (");
	capacity_tell(nodes, n, b);
	if (n)
		strbuf_addc(b, ')');
	free(nodes);
}

struct heartbeat *nodes_heartbeat(struct tasks *q)
{
	static const struct heartbeat_ops ops = { .fill = fill,
						  .named = named,
						  .no_spool = no_spool,
						  .clash = clash,
						  .dead = dead,
						  .left = left,
						  .tell = tell };

	return heartbeat_new(q->loop, q->c, q->self, &ops, q);
}
