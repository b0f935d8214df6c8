/* SPDX-License-Identifier: MIT */
#include "agent/nodes.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/attempt/task.h"
#include "agent/dispatch_state.h"
#include "agent/gangs.h"
#include "agent/leases.h"
#include "agent/on_end.h"
#include "agent/queue/planview.h"
#include "agent/report/status_json.h"
#include "agent/stops.h"
#include "agent/task_events.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "hold/device_state.h"
#include "spool/agent_history.h"
#include "spool/agent_status.h"

static void fill(void *user, struct heartbeat *b)
{
	struct dispatch *q = user;
	struct tally n;

	view_tally(q->place.view, &n);
	b->devices = q->told_devices = view_devices(q->place.view);
	b->held = n.states[DEV_HELD];
	b->idle = n.states[DEV_IDLE];
	b->lent = n.states[DEV_LENT];
	b->running = (unsigned int)dispatch_running(q);
	b->draining = q->mode != DISPATCH_RUN;
}

/* As the guard told it last. */
static void fill_figures(const struct view *v, const struct dev_status *d, uint64_t now_ns,
			 struct agent_status_device *to)
{
	static const struct {
		uint32_t known;
		unsigned int knows;
	} same[] = { { KNOWN_MEM, AGENT_STATUS_USED },
		     { KNOWN_UTIL, AGENT_STATUS_UTIL },
		     { KNOWN_POWER, AGENT_STATUS_POWER },
		     { KNOWN_POWER_LIMIT, AGENT_STATUS_LIMIT },
		     { KNOWN_TEMP, AGENT_STATUS_TEMP } };
	char use[STATUS_USE_MAX];

	to->knows = AGENT_STATUS_GPU | AGENT_STATUS_HELD;
	for (size_t i = 0; i < ARRAY_LEN(same); i++)
		to->knows |= d->known & same[i].known ? same[i].knows : 0;
	to->gpu = d->index;
	if (d->mig >= 0) {
		to->knows |= AGENT_STATUS_MIG;
		to->mig = (unsigned int)d->mig;
	}
	if (d->since_ns && d->since_ns <= now_ns) {
		to->knows |= AGENT_STATUS_FOR;
		to->for_s = (now_ns - d->since_ns) / NS_PER_S;
	}
	to->used_bytes = d->mem_used;
	to->held_bytes = d->held_bytes;
	to->util = d->util;
	to->power_w = (d->power_mw + 500) / 1000;
	to->limit_w = (d->power_limit_mw + 500) / 1000;
	to->temp_c = d->temp_c;
	to->xid = d->xid;
	if (status_device_use(v, d, use))
		(void)str_copy(to->use, sizeof(to->use), use);
}

/* As `status` says it; a card for which its MIG instances stand is none. */
static void fill_devices(const struct view *v, struct agent_status *s)
{
	uint64_t now = clock_mono_ns();

	for (uint32_t i = 0; i < v->n_slots && s->n_devices < AGENT_STATUS_DEVICES_MAX; i++) {
		const struct dev_status *d = &v->devices[i];
		struct agent_status_device *to = &s->devices[s->n_devices];

		if (!v->seen[i] || view_is_mig_card(v, i))
			continue;
		(void)str_copy(to->uuid, sizeof(to->uuid), d->uuid);
		(void)str_copy(to->model, sizeof(to->model), d->name);
		(void)str_copy(to->state, sizeof(to->state), dev_state_shown(d->state, d->flags));
		to->mem_bytes = d->known & KNOWN_MEM ? d->mem_total : 0;
		fill_figures(v, d, now, to);
		to->shut = v->quarantine && v->quarantine[i].shut;
		s->n_devices++;
	}
	s->seen_ns = s->n_devices ? clock_wall_ns() : 0;
}

static char *status(void *user)
{
	struct dispatch *q = user;
	const struct agent_config *c = q->c;
	const struct view *v = q->place.view;
	const struct engine_here *job = c->job;
	cleanup_free struct agent_status *s = xcalloc(1, sizeof(*s));

	q->told_seen = view_seen(v);
	(void)str_copy(s->agent, sizeof(s->agent), q->self->name);
	(void)str_copy(s->host, sizeof(s->host), q->self->host);
	(void)str_copy(s->version, sizeof(s->version), TENURE_VERSION);
	s->began_ns = v->started_wall_ns;
	(void)str_copy(s->token, sizeof(s->token), c->token ? c->token : "");
	(void)str_copy(s->pool, sizeof(s->pool), c->pool ? c->pool : "");
	if (job) {
		(void)str_copy(s->engine, sizeof(s->engine), job->engine);
		(void)str_copy(s->job, sizeof(s->job), job->id);
		s->restarts = job->restarts;
		s->end_ns = v->job_end_ns;
		s->unseen = v->guard.n_unseen;
	}
	s->only = c->pool_only;
	s->knows_gangs = true;
	s->free = q->mode == DISPATCH_RUN ? planview_free(v, c->instance, dispatch_busy_devices(q))
					  : 0;
	fill_devices(v, s);
	return agent_status_text(s);
}

static char *history(void *user, bool last)
{
	const struct dispatch *q = user;
	json_t *doc = q->ops->history(q->user, last);
	char *text = doc ? agent_history_text(q->self->name, TENURE_VERSION, doc) : NULL;

	json_decref(doc);
	return text;
}

static void named(void *user)
{
	const struct dispatch *q = user;

	recovery_start(q->recovery);
}

static void say_no_queue(struct dispatch *q, const char *why)
{
	if (spoolwatch_set_trouble(q->spoolwatch, why))
		eventlog_say(q->place.eventlog, LOG_LEVEL_ERROR,
			     "there is no queue: %s; trying again", why);
	q->ops->over(q->user);
}

static void no_spool(void *user, const struct err *e)
{
	say_no_queue(user, e->text);
}

static void clash(void *user, const struct err *e)
{
	struct dispatch *q = user;

	if (!dispatch_is_open(q)) {
		say_no_queue(q, e->text);
		return;
	}
	(void)spoolwatch_set_trouble(q->spoolwatch, e->text);
	eventlog_say(q->place.eventlog, LOG_LEVEL_ERROR, "no more tasks are started here: %s",
		     e->text);
	dispatch_drain(q, e->text);
	q->ops->over(q->user);
}

static void dead(void *user, const struct dead_claims *claims)
{
	const struct dispatch *q = user;

	recovery_reclaim(q->recovery, claims);
}

static void left(void *user)
{
	struct dispatch *q = user;

	spoolwatch_rescan_batches(q->spoolwatch);
	gangs_soon(q->gangs);
}

/* A client decides by it what is too much for every node (spool/capacity.h). */
void nodes_look(struct dispatch *q)
{
	const struct view *v = q->place.view;
	/* The devices of a new guard come one by one. */
	bool complete = v->guard.n_devices && view_seen(v) >= v->guard.n_devices;

	if (view_devices(v) != q->told_devices || (complete && view_seen(v) != q->told_seen))
		node_watch_soon(q->node_watch);
}

void nodes_status_changed(struct dispatch *q)
{
	node_watch_soon(q->node_watch);
}

void nodes_tell_room(const struct dispatch *q, uint64_t gpus, struct strbuf *b)
{
	struct capacity_node *nodes = NULL;
	size_t n = node_watch_nodes(q->node_watch, &nodes);

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

struct node_watch *nodes_watch(struct dispatch *q)
{
	static const struct node_watch_ops ops = { .fill = fill,
						   .status = status,
						   .history = history,
						   .named = named,
						   .no_spool = no_spool,
						   .clash = clash,
						   .dead = dead,
						   .left = left };

	return node_watch_new(q->loop, q->c, q->self, q->place.eventlog, &ops, q);
}

/* ---- what ran before ---- */

static void no_queue(void *user, const char *why)
{
	say_no_queue(user, why);
}

static void opened(void *user, const char *cgroup)
{
	struct dispatch *q = user;

	spoolwatch_open(q->spoolwatch);
	q->place.cgroup = cgroup;
}

static void recovered(void *user, const struct text_list *lanes)
{
	struct dispatch *q = user;

	for (size_t i = 0; i < lanes->n; i++)
		lanes_found(&q->lanes, lanes->texts[i]);
	leases_take_told(q);
	orderbox_start(q->orderbox);
	groupcommit_soon(q->groupcommit); /* what an agent before us has noted */
	spoolwatch_rescan(q->spoolwatch);
	gangs_start(q->gangs);
	on_end_start(q->on_end);
	q->ops->over(q->user);
}

static void reclaimed(void *user)
{
	struct dispatch *q = user;

	on_end_look(q->on_end);
	spoolwatch_rescan_batches(q->spoolwatch);
	q->ops->over(q->user);
}

static bool owns(void *user, struct sched_ref ref)
{
	const struct dispatch *q = user;

	return attempt_by_ref(&q->place, ref);
}

/* As far as the view shows them now; what is missing is told by the guard's answer. */
static struct devset slots_of(const struct view *v, const struct text_list *uuids)
{
	struct devset slots = { 0 };

	for (uint32_t slot = 0; slot < v->n_slots; slot++)
		for (size_t i = 0; i < uuids->n; i++)
			if (v->seen[slot] && strcmp(v->devices[slot].uuid, uuids->texts[i]) == 0)
				devset_add(&slots, slot);
	return slots;
}

static void adopt(void *user, struct adoptee *a)
{
	struct dispatch *q = user;
	const struct task_spec *s = a->spec;
	struct sched_task t;
	struct devset slots;
	struct attempt *r;

	/* Where nothing was written down, the guard's ledger knows them. */
	if (!a->devices.n)
		leases_find_devices(q, &a->claim.name, &a->devices);
	slots = slots_of(q->place.view, &a->devices);
	sched_task_from_spec(&a->claim.name, s, &t);
	t.lane = planview_lane(q->plan, s->lane);
	(void)sched_adopt(q->plan, &t, slots, clock_mono_ns(), NULL);
	task_events_adopted(&q->place, planview_ref(&a->claim.name), s);
	r = attempt_adopt(&q->place, a, slots);
	if (q->place.view->life.how >= DRAIN_REQUEUE)
		stops_for_drain(q, r);
	leases_adopted(q, r);
}

static void settled(void *user, uint64_t id)
{
	const struct dispatch *q = user;

	spoolwatch_look_at(q->spoolwatch, id, false);
}

struct recovery *nodes_recovery(struct dispatch *q)
{
	static const struct recovery_ops ops = { .no_queue = no_queue,
						 .opened = opened,
						 .recovered = recovered,
						 .reclaimed = reclaimed,
						 .owns = owns,
						 .adopt = adopt,
						 .settled = settled };
	const struct recovery_parts parts = { .c = q->c,
					      .agent = q->self->name,
					      .run_dir = q->run_dir,
					      .spooler = q->spooler,
					      .plan = q->plan,
					      .eventlog = q->place.eventlog,
					      .watch = spoolwatch_dirwatch(q->spoolwatch) };

	return recovery_new(q->loop, &parts, &ops, q);
}

/* Shims leave their records on a disk of this node, so that no network stands in the way. */
static void places_work(struct spool_job *job, struct spool_place *p)
{
	struct dispatch *q = job->user;
	cleanup_free char *name = xasprintf("tenure-%u", (unsigned int)getuid());
	cleanup_free char *dir = fs_private_dir("/var/tmp", name);

	(void)str_print(q->run_dir, sizeof(q->run_dir), dir ? "%s/%s" : "%s/%s/run",
			dir ? dir : q->c->state_dir, q->c->instance);
	login_read(&q->place.login);
}

static void places_done(struct spool_job *job)
{
	free(job);
}

void nodes_find_places(struct dispatch *q)
{
	struct spool_job *job = xcalloc(1, sizeof(*job));

	*job = (struct spool_job){ .work = places_work, .done = places_done, .user = q };
	spooler_do(q->spooler, job);
}
