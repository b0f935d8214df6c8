/* SPDX-License-Identifier: MIT */

/*
 * Three things make the queue think again: the spool has changed (agent/queue/spoolwatch.h), the
 * devices have, an attempt is over. All of them end in one plan per turn of the loop; what the plan
 * says is carried out by attempts.
 *
 * What waits lives in the planner alone. Names, lanes and specs are read from the spool when a task
 * is claimed, so that a hundred thousand of them cost little here.
 */

#include "agent/dispatch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/allocations.h"
#include "agent/attempt/steps.h"
#include "agent/attempt/sweep.h"
#include "agent/attempt/task.h"
#include "agent/device_trust.h"
#include "agent/dispatch_state.h"
#include "agent/gangs.h"
#include "agent/leases.h"
#include "agent/nodes.h"
#include "agent/on_end.h"
#include "agent/pool_ticks.h"
#include "agent/queue/cancel.h"
#include "agent/queue/planview.h"
#include "agent/scaling.h"
#include "agent/stops.h"
#include "agent/task_events.h"
#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "sched/forecast.h"
#include "sched/plan.h"
#include "sched/queue_empty.h"
#include "sched/why.h"

#define ACTIONS_MAX 64
#define AFTER_MAX   20000

/* ---- the plan ---- */

static void carry_out(struct dispatch *q, const struct sched_action *a)
{
	struct sched_task t;
	struct attempt *r;

	reserving_plan(&q->reserving, a);
	switch (a->kind) {
	case SCHED_START:
		if (sched_get(q->plan, a->ref, &t) == 0)
			(void)attempt_start(&q->place, a->ref, t.edits, a->devices);
		break;
	case SCHED_PREEMPT:
		if (a->ref.id == LEASE_WORKLOAD)
			workload_stop(q->workload, a->ref.element - 1, "a task needs the GPU");
		r = attempt_by_ref(&q->place, a->ref);
		if (r)
			attempt_stop(r, END_PREEMPTED, UINT32_MAX,
				     "preempted by a task that is not preemptible");
		break;
	case SCHED_RESERVE:
	case SCHED_UNRESERVE:
	case SCHED_ACTION_MAX:
		break;
	}
}

/* What an agent before us had reserved stays so until it is known what waits. */
static void tell_reservations(struct dispatch *q)
{
	if (spoolwatch_state(q->spoolwatch) == QUEUE_KNOWN)
		reserving_tell(&q->reserving, q->place.link, q->place.view,
			       devset_or(dispatch_busy_devices(q), workload_devices(q->workload)));
}

/* Where it is wanted, and no task is. */
static void look_at_workload(struct dispatch *q)
{
	const struct view *v = q->place.view;
	struct devset busy = devset_or(dispatch_busy_devices(q), q->growing);
	bool wanted = v->c->workload && v->life.phase == LIFE_SERVING && !v->life.released &&
		      !q->paused && !q->unwatched;

	for (unsigned int i = 0; i < PROTO_DEVICES_MAX; i++)
		if (q->reserving.slots[i].want.id)
			devset_add(&busy, i);
	workload_look(q->workload, wanted, busy);
}

static uint64_t ms_until(uint64_t at_ns, uint64_t now_ns)
{
	return at_ns <= now_ns ? 0 : (at_ns - now_ns) / NS_PER_MS + 1;
}

static void on_plan(uv_timer_t *timer)
{
	struct dispatch *q = timer->data;
	struct sched_device devices[PROTO_DEVICES_MAX];
	struct sched_action actions[ACTIONS_MAX];
	struct sched_out out = { .actions = actions, .cap = ACTIONS_MAX };
	struct sched_view view;
	uint64_t wait = UINT64_MAX;

	if (!dispatch_is_open(q) || q->mode == DISPATCH_END || q->paused ||
	    view_is_behind(q->place.view))
		return;
	/* Before all was read once it is not known which lanes are paused. */
	if (q->mode == DISPATCH_DRAIN || spoolwatch_state(q->spoolwatch) < QUEUE_LISTED) {
		tell_reservations(q);
		look_at_workload(q);
		return;
	}
	device_trust_look(q->trust);
	planview_make(q->place.view, q->c->instance, devices, &view);
	do {
		sched_plan(q->plan, &view, &out);
		for (size_t i = 0; i < out.n; i++)
			carry_out(q, &actions[i]);
	} while (out.more);
	scaling_plan(q, &view);
	tell_reservations(q);
	look_at_workload(q);
	if (out.next_ns != UINT64_MAX)
		wait = ms_until(out.next_ns, view.now_ns);
	if (out.next_wall_ns != UINT64_MAX && ms_until(out.next_wall_ns, view.now_wall_ns) < wait)
		wait = ms_until(out.next_wall_ns, view.now_wall_ns);
	if (wait != UINT64_MAX) /* the wall clock may be stepped */
		(void)uv_timer_start(&q->plan_timer, on_plan, wait < 10000 ? wait : 10000, 0);
}

void dispatch_pause(struct dispatch *q, bool pause)
{
	q->paused = pause;
	if (pause)
		workload_stop_all(q->workload, "the agent is stopped (Ctrl-Z)");
	else
		reserving_forget_told(&q->reserving);
	dispatch_plan_soon(q);
}

void dispatch_look(struct dispatch *q)
{
	nodes_look(q);
	dispatch_plan_soon(q);
}

/* ---- attempts tell ---- */

static struct retry_streak *streak_of(void *user, const struct attempt *r)
{
	struct dispatch *q = user;
	const struct task_spec *spec = r->spec;

	return lanes_streak(&q->lanes, spec ? spec->lane : NULL, r->ref.id);
}

static void on_lanes(void *user, const struct lanes_met *met)
{
	struct dispatch *q = user;

	lanes_met(&q->lanes, met);
}

static void on_started(void *user, struct attempt *r)
{
	struct dispatch *q = user;

	q->claim_code = 0;
	(void)sched_started(q->plan, r->ref, r->started_ns, r->spec ? r->spec->grace : 0);
	task_events_started(&q->place, r);
	allocations_on_started(q, r);
	gangs_soon(q->gangs);
	q->ops->moved(q->user);
	q->ops->changed(q->user);
}

static void on_mustered(void *user, struct attempt *r)
{
	const struct dispatch *q = user;

	gangs_soon(q->gangs);
}

static void on_stopped(void *user, struct attempt *r)
{
	stops_write(user, r);
}

static void on_closing(void *user, struct attempt *r)
{
	const struct dispatch *q = user;

	q->ops->closing(q->user, r);
}

static void on_moved(void *user, struct attempt *r)
{
	struct dispatch *q = user;

	q->ops->moved(q->user);
	(void)sched_moved(q->plan, r->ref, r->devices);
	dispatch_plan_soon(q);
}

static void on_resized(void *user, struct attempt *r, enum resize_end end)
{
	scaling_on_resized(user, r, end);
}

static void on_succeeded(void *user, struct attempt *r)
{
	struct dispatch *q = user;

	(void)sched_end(q->plan, r->ref);
	dispatch_plan_soon(q);
}

/* It never was ours. What cannot be claimed now is told once, not for each that waits. */
static void tell_not_claimed(struct dispatch *q, const struct attempt *r,
			     const struct retry_verdict *v)
{
	int code = r->claim_code;

	if (code == CLAIM_REFUSED)
		eventlog_tell(q->place.eventlog, OWN_TASK_REFUSED,
			      json_pack("{sI so}", "task", (json_int_t)r->ref.id, "why",
					json_new_text(v->text)));
	else if (code < 0 && code != q->claim_code)
		eventlog_say(q->place.eventlog, LOG_LEVEL_ERROR,
			     "what waits cannot be started now: %s; trying again", v->text);
	if (code < 0)
		q->claim_code = code;
}

static void tell_over(struct dispatch *q, const struct attempt *r, const struct retry_verdict *v)
{
	task_events_ended(&q->place, r, v);
}

/* What became of it meanwhile was told while it was ours. */
static void tell_late(struct dispatch *q, const struct attempt *r, const struct retry_verdict *v)
{
	eventlog_tell_trouble(q->place.eventlog, r->ref.id, r->ref.element, "late",
			      "the task had been given to another node", NULL);
	dispatch_rescan(q);
}

/* It is in the spool so, too; there may be more of a batch than this. */
static void pause_task(struct dispatch *q, uint64_t id, const char *why)
{
	eventlog_tell(q->place.eventlog, OWN_TASK_PAUSED,
		      json_pack("{sI so}", "task", (json_int_t)id, "why", json_new_text(why)));
	dispatch_rescan(q);
}

static void pause_lane(struct dispatch *q, const char *lane, const char *why)
{
	if (lanes_pause(&q->lanes, lane, why))
		eventlog_tell(q->place.eventlog, OWN_LANE_PAUSED,
			      json_pack("{so so}", "lane", json_new_text(lane), "why",
					json_new_text(why)));
}

/* Of what waits for others: for estimates. Of very many nothing is kept. */
static void note_after(struct dispatch *q, const struct index_change *c)
{
	size_t at = q->n_after, old = 0, n = c->waits ? c->after.n : 0;

	if (c->dep_only)
		return;
	while (at > 0 && q->after[at - 1].id >= c->task.id)
		at--;
	while (at + old < q->n_after && q->after[at + old].id == c->task.id)
		old++;
	if (q->n_after - old + n > AFTER_MAX)
		n = 0;
	if (n > old)
		q->after = xrealloc(q->after, q->n_after + n - old, sizeof(*q->after));
	if (n != old)
		(void)memmove(q->after + at + n, q->after + at + old,
			      (q->n_after - at - old) * sizeof(*q->after));
	for (size_t i = 0; i < n; i++)
		q->after[at + i] = (struct forecast_after){ c->task.id, c->after.nums[i] };
	q->n_after += n - old;
}

static void on_over(void *user, struct attempt *r, const struct retry_verdict *v)
{
	struct dispatch *q = user;
	const struct task_spec *spec = r->spec;

	(r->late ? tell_late : r->claim_code ? tell_not_claimed : tell_over)(q, r, v);
	if (!r->late && !r->claim_code) {
		allocations_on_over(q, r);
		device_trust_on_over(q->trust, r, v->what == RETRY_DONE);
	}
	/* Somebody has it, or it is called otherwise since it was planned. */
	if (r->claim_code == CLAIM_LOST) {
		gangs_claim_lost(q->gangs, r->ref);
		spoolwatch_look_at(q->spoolwatch, r->ref.id, true);
	}
	if (r->claim_code > 0 && r->end_kind == END_STOPPED)
		stops_keep_vain(q, r->ref, true, "");
	if (v->what == RETRY_AGAIN) {
		q->n_retried += !r->claim_code;
		(void)sched_requeue(q->plan, r->ref, v->at_ns, r->next_memory, v->text);
		/* By name, and before it was claimed, which has failed. What others start is
		 * theirs. */
		if (r->end_kind == END_STOPPED && r->claim_code <= 0 &&
		    q->place.view->life.how < DRAIN_REQUEUE)
			stops_write_by_name(q, r->ref);
	} else {
		q->n_done += v->what == RETRY_DONE;
		q->n_failed += v->what == RETRY_FAILED;
		if (q->c->n_ended)
			*q->c->n_ended = q->n_done + q->n_failed;
		(void)sched_end(q->plan, r->ref);
		lanes_streak_drop(&q->lanes, r->ref.id);
		if (!r->ref.element)
			note_after(q, &(struct index_change){ .task.id = r->ref.id });
	}
	if (v->pause && spec && spec->lane)
		pause_lane(q, spec->lane, v->text);
	else if (v->pause && v->what == RETRY_AGAIN)
		pause_task(q, r->ref.id, v->text);
	reserving_on_left(&q->reserving, r->devices);
	if (r->stop.elsewhere || r->stop.unwritten[0])
		stops_keep_vain(q, r->ref, r->stop.elsewhere, r->stop.unwritten);
	groupcommit_soon(q->groupcommit);
	dispatch_plan_soon(q);
	if (spec && spec_is_gang(spec))
		gangs_soon(q->gangs);
	if (r->followed || (spec && spec_is_gang(spec)))
		on_end_look(q->on_end);
	q->ops->changed(q->user);
	q->ops->over(q->user);
}

static const struct attempt_owner attempt_owner = {
	.over = on_over,
	.succeeded = on_succeeded,
	.mustered = on_mustered,
	.started = on_started,
	.moved = on_moved,
	.closing = on_closing,
	.resized = on_resized,
	.stopped = on_stopped,
	.lanes = on_lanes,
	.streak = streak_of,
};

static void on_synced(void *user)
{
	const struct dispatch *q = user;

	spoolwatch_settle(q->spoolwatch); /* somebody may have waited for one of them */
}

/* ---- the spool has changed ---- */

static void on_rescan(void *user)
{
	const struct dispatch *q = user;

	orderbox_look(q->orderbox);
}

static void on_read(void *user, struct index_reading *b, bool first)
{
	struct dispatch *q = user;

	for (size_t i = 0; i < b->n_changes; i++)
		note_after(q, &b->changes[i]);
	for (size_t i = 0; i < b->n_changes; i++)
		index_apply(q->plan, q->place.eventlog, &b->changes[i]);
	if (b->filed) {
		groupcommit_soon(q->groupcommit);
		on_end_look(q->on_end);
	}
	if (b->times_known) {
		free(q->times);
		q->times = take_ptr(b->times);
		q->n_times = b->n_times;
	}
	if (b->lanes_read && lanes_set_paused(&q->lanes, &b->lanes, &b->reasons))
		dispatch_plan_soon(q);
	if (b->ordered)
		q->ops->file_order(q->user, &b->order);
	eventlog_say_lines(q->place.eventlog, LOG_LEVEL_WARNING, strbuf_str(&b->notes));
	if (b->n_changes || b->ordered || first)
		dispatch_plan_soon(q);
	if (b->n_changes || first)
		gangs_after_reading(q->gangs);
	if (b->n_changes || b->lanes_read)
		q->ops->changed(q->user);
}

static void after_reading(void *user)
{
	struct dispatch *q = user;

	lanes_look(&q->lanes);
}

static bool owns(void *user, struct sched_ref ref)
{
	const struct dispatch *q = user;

	return attempt_by_ref(&q->place, ref) != NULL;
}

static const struct spoolwatch_ops spoolwatch_ops = {
	.rescan = on_rescan, .read = on_read, .after = after_reading, .owns = owns
};

void dispatch_rescan(struct dispatch *q)
{
	spoolwatch_rescan(q->spoolwatch);
}

int dispatch_when_read(struct dispatch *q, struct spool_reader *r)
{
	return spoolwatch_when_read(q->spoolwatch, r);
}

void dispatch_forget_reader(struct dispatch *q, const struct spool_reader *r)
{
	spoolwatch_forget_reader(q->spoolwatch, r);
}

static void init_handles(struct dispatch *q)
{
	uv_timer_t *timers[] = { &q->plan_timer, &q->lease_timer };

	for (size_t i = 0; i < ARRAY_LEN(timers); i++) {
		(void)uv_timer_init(q->loop, timers[i]);
		timers[i]->data = q;
	}
	q->spoolwatch = spoolwatch_new(q->loop, q->spooler, q->place.eventlog, &spoolwatch_ops, q);
	q->handles = ARRAY_LEN(timers);
}

static void on_lanes_changed(void *user)
{
	dispatch_plan_soon(user);
}

/* The list says it, not the plan: what has succeeded has left that, while its end is written. */
static bool runs_of_lane(void *user, uint32_t lane, uint64_t array)
{
	const struct dispatch *q = user;
	struct sched_task t;

	for (const struct attempt *r = q->place.tasks; r; r = r->next)
		if (lane ? sched_get(q->plan, r->ref, &t) == 0 && t.lane == lane
			 : r->ref.id == array)
			return true;
	return recovery_may_run(q->recovery, lane, array);
}

static void clear_place(struct spool_place *p)
{
	lanes_forget_epochs(p);
	index_forget(p);
}

static void on_workload_changed(void *user)
{
	struct dispatch *q = user;

	dispatch_plan_soon(q);
	q->ops->over(q->user);
}

static void on_trust_changed(void *user)
{
	dispatch_plan_soon(user);
}

static void make_workload(struct dispatch *q)
{
	const struct agent_config *c = q->c;
	cleanup_free char *logs = xasprintf("%s/%s/logs", c->state_dir, c->instance);

	q->workload = workload_new(&(struct workload_config){ .log_dir = logs,
							      .place = &q->place,
							      .plan = q->plan,
							      .changed = on_workload_changed,
							      .user = q });
}

void dispatch_watch_workload(struct dispatch *q, const char *why)
{
	q->unwatched = why != NULL;
	if (why)
		workload_stop_all(q->workload, why);
	workload_attend(q->workload);
	if (q->mode < DISPATCH_END)
		device_trust_watch(q->trust);
}

const struct view_quarantine *dispatch_quarantine_view(const struct dispatch *q)
{
	return device_trust_view(q->trust);
}

size_t dispatch_workloads(const struct dispatch *q)
{
	return devset_count(workload_devices(q->workload));
}

const struct view_workload *dispatch_workload_view(const struct dispatch *q)
{
	return workload_view(q->workload);
}

static void set_lane_width(struct dispatch *q, const char *name, uint32_t width)
{
	sched_lane_width(q->plan, sched_lane(q->plan, name), width);
	if (!text_list_has(&q->wide_lanes, name))
		text_list_add(&q->wide_lanes, name);
}

void dispatch_lane_widths(struct dispatch *q, const struct settings *s)
{
	struct text_list before = q->wide_lanes;
	char name[SETTINGS_LANE_MAX];
	uint32_t width;

	q->wide_lanes = (struct text_list){ .n = 0 };
	for (size_t i = 0; settings_lane_width(s, i, name, &width); i++)
		set_lane_width(q, name, width);
	for (size_t i = 0; i < before.n; i++)
		if (!text_list_has(&q->wide_lanes, before.texts[i]))
			sched_lane_width(q->plan, sched_lane(q->plan, before.texts[i]), 1);
	text_list_clear(&before);
	dispatch_plan_soon(q);
}

struct dispatch *dispatch_new(uv_loop_t *loop, const struct view *view, struct eventlog *eventlog,
			      struct guardlink *link, const struct dispatch_ops *ops, void *user)
{
	struct dispatch *q = xcalloc(1, sizeof(*q));
	const struct agent_config *c = q->c = view->c;

	q->loop = loop;
	q->self = view->self;
	q->ops = ops;
	q->user = user;
	q->plan = sched_queue_new();
	q->stops = stops_new();
	q->on_plan = on_plan;
	for (size_t i = 0; i < c->n_lanes; i++)
		set_lane_width(q, c->lanes[i].name, c->lanes[i].width);
	q->spooler = spooler_new(loop, clear_place);
	q->lanes = (struct lanes){ .plan = q->plan,
				   .spooler = q->spooler,
				   .changed = on_lanes_changed,
				   .runs = runs_of_lane,
				   .user = q };
	q->groupcommit = groupcommit_new(loop, q->spooler, eventlog, on_synced, q);
	q->sweeping = (struct sweep_place){
		.c = c, .run = { .self = q->self, .loop = loop, .eventlog = eventlog }
	};
	q->place = (struct attempt_place){ .c = c,
					   .self = q->self,
					   .loop = loop,
					   .sweeping = &q->sweeping,
					   .spooler = q->spooler,
					   .link = link,
					   .eventlog = eventlog,
					   .view = view,
					   .fork_server = { .fd = -1, .nofile = q->self->nofile },
					   .run_dir = q->run_dir,
					   .owner = &attempt_owner,
					   .user = q };
	make_workload(q);
	q->trust = device_trust_new(view, q->spooler, eventlog, on_trust_changed, q);
	init_handles(q);
	q->node_watch = nodes_watch(q);
	q->recovery = nodes_recovery(q);
	q->ticks = pool_ticks_new(q);
	q->gangs = gangs_new(q, dispatch_why);
	q->on_end = on_end_new(q);
	q->place.key = recovery_key(q->recovery);
	q->place.fork_server.key = q->place.key;
	q->orderbox = orderbox_new(loop,
				   &(struct orderbox_parts){ .spooler = q->spooler,
							     .spoolwatch = q->spoolwatch,
							     .eventlog = eventlog },
				   q->ops->orders, q->user);
	q->spool_dir = xasprintf("%s/%s", c->root, c->instance);
	q->place.spool_dir = q->spool_dir;
	q->place.node_watch = q->node_watch;
	nodes_find_places(q);
	return q;
}

void dispatch_start(struct dispatch *q)
{
	node_watch_start(q->node_watch);
}

/* ---- what clients say ---- */

static const struct index_unread *find_unread(const struct dispatch *q, uint64_t id)
{
	size_t n;
	const struct index_unread *unread = spoolwatch_unread(q->spoolwatch, &n);

	for (size_t i = 0; i < n; i++)
		if (unread[i].id == id)
			return &unread[i];
	return NULL;
}

/* What a rank waits for beside its own devices are those of the others. */
static void tell_gang(const struct dispatch *q, struct reason *ret)
{
	const struct attempt *r = attempt_by_ref(&q->place, ret->task);

	if (ret->code == REASON_RUNS && r && r->state == AT_MUSTERED)
		ret->code = REASON_GANG;
	if (ret->code == REASON_GANG) {
		ret->text = gangs_why(q->gangs, ret->task.id);
		ret->note = reason_repeats(ret->text, ret->note) ? NULL : ret->note;
	} else if (ret->code != REASON_RUNS && gangs_why(q->gangs, ret->task.id)) {
		ret->note = gangs_why(q->gangs, ret->task.id);
	}
}

/* As sched_why(); *ref becomes the one that is meant of a batch. */
static int find_reason(struct dispatch *q, struct sched_ref *ref, const struct sched_view *view,
		       struct reason_device *devices, struct reason *ret, struct err *e)
{
	const char *trouble = spoolwatch_trouble(q->spoolwatch);
	const struct index_unread *unread;
	uint64_t id = ref->id;
	int r;

	if (q->mode != DISPATCH_RUN && !attempt_by_ref(&q->place, *ref)) {
		*ret = (struct reason){ .code = REASON_DRAINING,
					.task = *ref,
					.where = q->self->host,
					.text = q->why };
		return 0;
	}
	r = sched_why(q->plan, *ref, view, devices, ret);
	if (r < 0 && !ref->element) {
		ref->element = 1;
		r = sched_why(q->plan, *ref, view, devices, ret);
	}
	if (r >= 0) {
		tell_gang(q, ret);
		return r;
	}
	unread = find_unread(q, id);
	if (unread) {
		*ret = (struct reason){ .code = REASON_READ_AGAIN,
					.task.id = id,
					.text = unread->why ? unread->why
							    : "as those of many tasks" };
		return 0;
	}
	return trouble ? err_set(e, -ENOENT, "the queue cannot be read now: %s", trouble)
		       : err_set(e, -ENOENT, "task %llu is not in the queue of this node",
				 (unsigned long long)id);
}

static struct forecast_times known_times(const struct dispatch *q)
{
	return (struct forecast_times){ q->n_times, q->times, q->n_after, q->after };
}

/* Of what this node will start, and not with its next plan. */
static struct forecast forecast(const struct dispatch *q, struct sched_ref ref,
				const struct sched_view *view, const struct reason *why)
{
	const struct forecast_times times = known_times(q);

	if (q->mode != DISPATCH_RUN || why->code == REASON_RUNS || why->code == REASON_NEXT_PLAN)
		return (struct forecast){ .what = FORECAST_NOTHING };
	return sched_forecast(q->plan, view, &times, ref);
}

int dispatch_why(struct dispatch *q, uint64_t id, uint32_t element, json_t **ret, struct err *e)
{
	struct planview_words said = { q->place.view, eventlog_names(q->place.eventlog) };
	const struct reason_words words = planview_words(&said);
	struct reason_device looked[SCHED_DEVICES_MAX];
	struct sched_device devices[PROTO_DEVICES_MAX];
	cleanup_strbuf struct strbuf text = STRBUF_INIT, said_when = STRBUF_INIT;
	struct sched_ref ref = { id, element };
	struct forecast when;
	struct sched_view view;
	struct sched_task t;
	struct reason reason;
	int r;

	planview_make(q->place.view, q->c->instance, devices, &view);
	r = find_reason(q, &ref, &view, looked, &reason, e);
	if (r < 0)
		return r;
	reason_text(&reason, &words, &text);
	when = forecast(q, ref, &view, &reason);
	if (when.what != FORECAST_NOTHING && text.len) {
		strbuf_adds(&said_when, "; ");
		forecast_text(&when, &said_when);
		strbuf_adds(&text, said_when.len > 2 ? strbuf_str(&said_when) : "");
	}
	if (r == SCHED_WHY_NOT_HERE && sched_get(q->plan, ref, &t) == 0)
		nodes_tell_room(q, t.gpus == SCHED_ALL_GPUS ? 1 : t.gpus, &text);
	/* What a lane is paused with, or a task waits for, others may have written. */
	if (text.len)
		text.len = strlen(utf8_clean(text.data));
	*ret = json_pack("{s:i, s:s, s:b, s:o, s:o*}", "code", 0, "why", strbuf_str(&text),
			 "elsewhere", r > 0, "reason", reason_json(&reason, &words), "forecast",
			 forecast_json(&when, view.now_wall_ns));
	return 0;
}

struct forecasts {
	json_t *tasks;
	uint64_t now_wall_ns;
};

static void add_forecast(void *user, struct sched_ref ref, const struct forecast *f)
{
	const struct forecasts *all = user;
	json_t *o = json_pack("{s:I, s:I}", "id", (json_int_t)ref.id, "element",
			      (json_int_t)ref.element);
	json_t *when = forecast_json(f, all->now_wall_ns);
	cleanup_strbuf struct strbuf text = STRBUF_INIT;

	forecast_text(f, &text);
	(void)json_object_set_new(o, "forecast", when);
	(void)json_object_set_new(o, "text", json_string(strbuf_str(&text)));
	(void)json_array_append_new(all->tasks, o);
}

json_t *dispatch_forecast(const struct dispatch *q)
{
	const struct forecast_times times = known_times(q);
	struct sched_device devices[PROTO_DEVICES_MAX];
	struct forecasts all = { .tasks = json_array() };
	struct sched_view view;

	planview_make(q->place.view, q->c->instance, devices, &view);
	all.now_wall_ns = view.now_wall_ns;
	if (q->mode == DISPATCH_RUN)
		(void)sched_forecast_all(q->plan, &view, &times, add_forecast, &all);
	return json_pack("{s:i, s:o}", "code", 0, "tasks", all.tasks);
}

struct reasons {
	const struct dispatch *q;
	json_t *groups;	  /* as they are answered */
	json_t *by_words; /* the same groups */
};

static json_t *group_of(struct reasons *all, const struct reason *r)
{
	cleanup_strbuf struct strbuf words = STRBUF_INIT;
	json_t *group;

	reason_brief(r, &words);
	if (words.len)
		words.len = strlen(utf8_clean(words.data));
	group = json_object_get(all->by_words, strbuf_str(&words));
	if (group)
		return group;
	group = json_pack("{ss ss so}", "code", reason_code_name(r->code), "text",
			  strbuf_str(&words), "tasks", json_array());
	(void)json_object_set(all->by_words, strbuf_str(&words), group);
	(void)json_array_append_new(all->groups, group);
	return group;
}

static bool is_in_plan(const struct dispatch *q, uint64_t id)
{
	struct sched_task t;

	return sched_get(q->plan, (struct sched_ref){ id, 0 }, &t) == 0 ||
	       sched_get(q->plan, (struct sched_ref){ id, 1 }, &t) == 0;
}

/* The first of those that it waits for, where that is known. */
static void find_others(const struct dispatch *q, struct reason *r)
{
	size_t low = 0, high = q->n_after;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (q->after[mid].id < r->task.id)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < q->n_after && q->after[low].id == r->task.id; low++) {
		if (!is_in_plan(q, q->after[low].on))
			continue;
		if (r->other.id)
			r->more++;
		else
			r->other.id = q->after[low].on;
	}
}

static void add_to_group(void *user, struct reason *r)
{
	struct reasons *all = user;
	json_t *id = json_integer((json_int_t)r->task.id), *tasks;

	if (r->code == REASON_DEPENDS)
		find_others(all->q, r);
	tasks = json_object_get(group_of(all, r), "tasks");
	if (r->task.element)
		id = json_pack("[oI]", id, (json_int_t)r->task.element);
	(void)json_array_append_new(tasks, id);
}

/* Those with the same words together: of 10,000 that wait most have them. */
json_t *dispatch_reasons(struct dispatch *q)
{
	struct reasons all = { .q = q, .groups = json_array(), .by_words = json_object() };
	struct sched_device devices[PROTO_DEVICES_MAX];
	struct sched_view view;

	planview_make(q->place.view, q->c->instance, devices, &view);
	if (q->mode == DISPATCH_RUN)
		sched_why_all(q->plan, &view, add_to_group, &all);
	else
		(void)json_object_del(group_of(&all, &(struct reason){ .code = REASON_DRAINING }),
				      "tasks");
	json_decref(all.by_words);
	return json_pack("{s:i, s:o}", "code", 0, "groups", all.groups);
}

void dispatch_stop_all(struct dispatch *q)
{
	for (struct attempt *r = q->place.tasks; r; r = r->next)
		stops_for_drain(q, r);
}

void dispatch_on_lease(struct dispatch *q, const struct msg_head *m)
{
	if (leases_on_message(q, m))
		dispatch_plan_soon(q);
}

bool dispatch_may_run(const struct dispatch *q)
{
	bool waits = q->place.view->life.how < DRAIN_REQUEUE; /* else the agent has no time */

	return q->place.tasks || (waits && on_end_is_busy(q->on_end)) ||
	       !recovery_is_settled(q->recovery) ||
	       !(dispatch_is_open(q) || spoolwatch_trouble(q->spoolwatch));
}

const char *dispatch_unseen(const struct dispatch *q)
{
	return dispatch_is_open(q) ? NULL : spoolwatch_trouble(q->spoolwatch);
}

bool dispatch_is_known(const struct dispatch *q)
{
	return spoolwatch_state(q->spoolwatch) == QUEUE_KNOWN && !spoolwatch_trouble(q->spoolwatch);
}

bool dispatch_may_leave(struct dispatch *q)
{
	return !q->ticks || pool_ticks_may_leave(q->ticks);
}

bool dispatch_is_empty(const struct dispatch *q)
{
	struct sched_device devices[PROTO_DEVICES_MAX];
	struct sched_view view;
	size_t n;
	const struct index_unread *unread = spoolwatch_unread(q->spoolwatch, &n);

	for (size_t i = 0; i < n; i++)
		if (!unread[i].bad)
			return false;
	if (spoolwatch_raw_waits(q->spoolwatch))
		return false;
	planview_make(q->place.view, q->c->instance, devices, &view);
	return !q->place.tasks && sched_is_empty(q->plan, &view);
}

json_t *dispatch_report(const struct dispatch *q)
{
	struct sched_counts c = sched_count(q->plan);
	const char *trouble = spoolwatch_trouble(q->spoolwatch);
	json_t *runs = json_array();

	for (struct attempt *r = q->place.tasks; r; r = r->next)
		(void)json_array_append_new(runs, attempt_report(r));
	return json_pack("{sb sb sI sI sI sI sI sI ss so so}", "open", dispatch_is_open(q),
			 "draining", q->mode != DISPATCH_RUN, "waiting", (json_int_t)c.waiting,
			 "running", (json_int_t)c.running, "done", (json_int_t)q->n_done, "failed",
			 (json_int_t)q->n_failed, "retried", (json_int_t)q->n_retried,
			 "awaiting_retry", (json_int_t)c.retries, "trouble", trouble ? trouble : "",
			 "tasks", runs, "others", node_watch_report(q->node_watch));
}

/* ---- the end ---- */

void dispatch_end(struct dispatch *q, const char *why)
{
	if (q->mode == DISPATCH_RUN)
		(void)str_copy(q->why, sizeof(q->why), why);
	q->mode = DISPATCH_END;
	spoolwatch_stop(q->spoolwatch);
	(void)uv_timer_stop(&q->plan_timer);
	(void)uv_timer_stop(&q->lease_timer);
	pool_ticks_stop(q->ticks);
	gangs_stop(q->gangs);
	on_end_stop(q->on_end);
	recovery_stop(q->recovery);
	groupcommit_stop(q->groupcommit);
	orderbox_stop(q->orderbox);
	device_trust_end(q->trust);
	/* What is not known yet may run on as well, and then our name is what keeps its lanes. */
	node_watch_end(q->node_watch,
		       q->place.tasks || !recovery_is_settled(q->recovery) || !dispatch_is_open(q));
	workload_stop_all(q->workload, "the agent ends");
}

bool dispatch_is_quiet(const struct dispatch *q)
{
	return spooler_is_idle(q->spooler) && node_watch_are_quiet(q->node_watch);
}

static void on_closed(uv_handle_t *h)
{
	struct dispatch *q = h->data;

	if (--q->handles)
		return;
	free(q->stops);
	sched_queue_free(q->plan);
	login_clear(&q->place.login);
	free(q->spool_dir);
	free(q->leases);
	free(q->early);
	free(q->times);
	free(q->after);
	free(q);
}

int dispatch_free(struct dispatch *q)
{
	if (!spooler_is_idle(q->spooler) || node_watch_free(q->node_watch) < 0)
		return -EBUSY;
	while (q->place.tasks) {
		struct attempt *r = q->place.tasks;

		q->place.tasks = r->next;
		(void)attempt_forget(r);
	}
	groupcommit_free(take_ptr(q->groupcommit));
	orderbox_free(take_ptr(q->orderbox));
	q->workload = workload_free(q->workload);
	device_trust_free(take_ptr(q->trust));
	lanes_clear(&q->lanes);
	text_list_clear(&q->wide_lanes);
	recovery_free(take_ptr(q->recovery));
	pool_ticks_free(take_ptr(q->ticks));
	gangs_free(take_ptr(q->gangs));
	on_end_free(take_ptr(q->on_end));
	fork_server_close(&q->place.fork_server);
	spoolwatch_free(take_ptr(q->spoolwatch));
	uv_close((uv_handle_t *)&q->plan_timer, on_closed);
	uv_close((uv_handle_t *)&q->lease_timer, on_closed);
	return spooler_free(take_ptr(q->spooler));
}
