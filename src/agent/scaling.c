/* SPDX-License-Identifier: MIT */
#include "agent/scaling.h"

#include <inttypes.h>
#include <string.h>

#include "agent/attempt/resize.h"
#include "agent/dispatch_state.h"
#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "hold/device_state.h"
#include "sched/grow.h"

#define STALE_NS   (5 * NS_PER_S) /* the guard tells figures each second */
#define LEAVING_MS 30000	  /* beyond its grace a program has so long to leave a device */
#define COMING_MS  10000	  /* at least, to come to one that it got */
#define REFUSED_MS 10000	  /* at least, until the guard is asked again */

#define NOTHING_BYTES (64 * MIB) /* of memory in use: less than a context takes */

static struct scale_rule rule_of(const struct task_spec *s)
{
	return (struct scale_rule){ .min = (uint32_t)(s->gpus_min ? s->gpus_min : s->gpus),
				    .max = (uint32_t)s->gpus_max,
				    .up_permille = (uint32_t)s->scale_up,
				    .down_permille = (uint32_t)s->scale_down,
				    .window_ms = s->scale_window,
				    .cooldown_ms = s->scale_cooldown };
}

static bool is_scalable(const struct attempt *r)
{
	return r->resize && r->state == AT_RUNNING && r->started_ns && r->leased && !r->freed &&
	       !r->unleased && r->uuids.n;
}

/* As the guard shows it now; NULL: it does not. */
static const struct dev_status *device_of(const struct view *v, const char *uuid)
{
	for (uint32_t i = 0; i < v->n_slots; i++)
		if (v->seen[i] && strcmp(v->devices[i].uuid, uuid) == 0)
			return &v->devices[i];
	return NULL;
}

static const char *last_of(const struct attempt *r)
{
	return r->uuids.texts[r->uuids.n - 1];
}

/* ---- how busy they are ---- */

static uint32_t utilisation_of(const struct dev_status *d, uint64_t now_ns)
{
	if (!d || !(d->known & KNOWN_UTIL) || now_ns > d->looked_ns + STALE_NS)
		return SCALE_UNKNOWN;
	if (d->state == DEV_HELD || d->state == DEV_HOLDING)
		return 0; /* what is busy there is our own load, until the task comes */
	if (!(d->flags & DEVICE_VACANT) && d->who_pid > 0)
		return SCALE_UNKNOWN; /* somebody else's as well */
	return d->util <= 100 ? d->util * 10 : SCALE_UNKNOWN;
}

/*
 * Whether the task is on the device, as far as that can be seen: memory in use that nobody listed
 * explains may be its own, where processes are not listed.
 */
static bool is_on(const struct dev_status *d)
{
	bool hidden = !d->n_procs && !d->holder_pid && d->known & KNOWN_MEM &&
		      d->mem_used > NOTHING_BYTES;

	return d->n_lease_procs || hidden;
}

/* While no process is on any of its devices, an allocation waits for its program, or that has not
 * come to them yet: it keeps them whatever they do. */
static bool waits_for_program(const struct view *v, const struct attempt *r)
{
	for (size_t i = 0; i < r->uuids.n; i++) {
		const struct dev_status *d = device_of(v, r->uuids.texts[i]);

		if (d && is_on(d))
			return false;
	}
	return r->spec->allocation;
}

static uint32_t utilisation(const struct view *v, const struct attempt *r, uint64_t now_ns)
{
	uint64_t sum = 0;

	if (waits_for_program(v, r))
		return SCALE_UNKNOWN;
	for (size_t i = 0; i < r->uuids.n; i++) {
		uint32_t one = utilisation_of(device_of(v, r->uuids.texts[i]), now_ns);

		if (one == SCALE_UNKNOWN)
			return SCALE_UNKNOWN;
		sum += one;
	}
	return (uint32_t)(sum / r->uuids.n);
}

/* Whether it has come to the device that it got last; false too where nobody can tell. */
static bool is_unused(const struct view *v, const struct attempt *r)
{
	struct resize *s = r->resize;
	const struct dev_status *d = device_of(v, last_of(r));

	if (!s->grown || s->used || !d || !(d->known & KNOWN_PROCS))
		return false;
	s->used = is_on(d);
	if (s->used)
		scale_used(&s->scale);
	return !s->used;
}

/* Until what runs is stopped, or its node begins to drain for good. */
static uint64_t left_ms(const struct view *v)
{
	static const enum deadline_id ends[] = { DEADLINE_LIFETIME, DEADLINE_JOB };
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		const struct deadline *d = &v->deadlines[ends[i]];
		uint64_t ms = d->at_ns ? deadline_left_ms(d, clock_boot_ns(), clock_wall_ns())
				       : UINT64_MAX;

		least = ms < least ? ms : least;
	}
	return least;
}

/* ---- the decision ---- */

/* Where the program has to leave a device: it has, or will not. */
static void await(struct attempt *r, uint64_t now_ns)
{
	const struct resize *s = r->resize;
	const struct view *v = r->place->view;
	const struct dev_status *d = device_of(v, s->uuid);
	uint64_t limit_ms = r->spec->grace + LEAVING_MS;

	/* By a look that was begun after it was told. */
	if (d && v->guard_up && d->known & KNOWN_PROCS && d->looked_ns > s->since_ns &&
	    now_ns < d->looked_ns + STALE_NS && !is_on(d))
		resize_left(r);
	else if (now_ns - s->since_ns > limit_ms * NS_PER_MS)
		resize_keep(r);
}

static void keep_reason(struct resize *s)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	scale_text(&s->scale, &s->rule, &s->at, s->verdict, &b);
	(void)str_copy(s->because, sizeof(s->because), strbuf_str(&b));
	s->mean = scale_mean(&s->scale, &s->rule, s->at.now_ns);
}

static void give_taken(struct attempt *r)
{
	struct resize *s = r->resize;
	char uuid[sizeof(s->taken)];

	(void)str_copy(uuid, sizeof(uuid), s->taken);
	s->taken[0] = '\0';
	if (!text_list_has(&r->uuids, uuid) || r->uuids.n <= s->rule.min)
		return;
	(void)str_copy(s->because, sizeof(s->because),
		       "somebody else has come to it before the task did");
	s->mean = SCALE_UNKNOWN;
	resize_shrink(r, uuid, RESIZE_TAKEN);
}

static void decide(struct dispatch *q, struct attempt *r, uint64_t now_ns)
{
	const struct view *v = q->place.view;
	struct resize *s = r->resize;

	s->at = (struct scale_at){
		.now_ns = now_ns,
		.n = (uint32_t)r->uuids.n,
		.left_ms = left_ms(v),
		.draining = q->mode != DISPATCH_RUN || q->paused || v->life.phase != LIFE_SERVING,
		.blind = v->guard.pid_class == PIDS_NONE,
		.unused = is_unused(v, r) && now_ns - s->scale.since_ns > COMING_MS * NS_PER_MS,
	};
	s->verdict = scale_decide(&s->scale, &s->rule, &s->at);
	s->wants = s->verdict == SCALE_GROW;
	if (s->verdict != SCALE_SHRINK && s->verdict != SCALE_SHRINK_UNUSED)
		return;
	keep_reason(s);
	resize_shrink(r, last_of(r), s->verdict == SCALE_SHRINK ? RESIZE_IDLE : RESIZE_UNUSED);
}

/* It runs since before this agent, or has just begun. */
static void begin(struct attempt *r, uint64_t now_ns)
{
	struct resize *s = r->resize;

	s->begun = true;
	s->rule = rule_of(r->spec);
	s->at.now_ns = now_ns;
	s->verdict = SCALE_COOLING;
	scale_begin(&s->scale, now_ns);
	if (r->adopted)
		resize_check_file(r);
}

static bool are_seen(const struct view *v, const struct attempt *r)
{
	for (size_t i = 0; i < r->uuids.n; i++)
		if (!device_of(v, r->uuids.texts[i]))
			return false;
	return true;
}

static void look_at(struct dispatch *q, struct attempt *r, uint64_t now_ns)
{
	const struct view *v = q->place.view;
	struct resize *s = r->resize;

	s->wants = false;
	/* The indices of the file are those of the view. */
	if (!s->begun && are_seen(v, r))
		begin(r, now_ns);
	if (!s->begun)
		return;
	scale_sample(&s->scale, &s->rule, now_ns, utilisation(v, r, now_ns));
	if (s->step == RESIZE_AWAITING)
		await(r, now_ns);
	else if (s->step == RESIZE_NONE && s->taken[0])
		give_taken(r);
	else if (s->step == RESIZE_NONE)
		decide(q, r, now_ns);
}

void scaling_look(struct dispatch *q)
{
	uint64_t now_ns = clock_mono_ns();
	bool wants = false;

	for (struct attempt *r = q->place.tasks; r; r = r->next) {
		if (!is_scalable(r))
			continue;
		look_at(q, r, now_ns);
		wants = wants || r->resize->wants;
	}
	if (wants)
		dispatch_plan_soon(q);
	else
		q->growing = (struct devset){ { 0 } };
}

/* ---- one more ---- */

/* What allocations may have is counted when they are made; those of this agent when they grow. */
static bool allocations_are_full(const struct dispatch *q, const struct attempt *r)
{
	uint32_t n = 0;

	if (!r->spec->allocation || !q->c->alloc_most)
		return false;
	for (const struct attempt *a = q->place.tasks; a; a = a->next)
		if (a->spec && a->spec->allocation)
			n += (uint32_t)a->uuids.n;
	return n >= q->c->alloc_most;
}

static void grow(struct dispatch *q, struct attempt *r, const struct sched_view *view)
{
	struct resize *s = r->resize;
	struct sched_growth g;

	s->wants = false;
	sched_room(q->plan, r->ref, view, &g);
	if (g.room == SCALE_ROOM_FREE && allocations_are_full(q, r))
		g.room = SCALE_ROOM_ALLOCATIONS;
	s->at.room = g.room;
	s->at.wanted_by = g.wanted_by;
	s->verdict = scale_decide(&s->scale, &s->rule, &s->at);
	if (g.room != SCALE_ROOM_FREE)
		return;
	if (g.workload) { /* and it is asked again each second until that has gone */
		devset_add(&q->growing, g.slot);
		workload_stop(q->workload, g.slot, "a task that grows needs the GPU");
		return;
	}
	keep_reason(s);
	if (sched_grow(q->plan, r->ref, g.slot) < 0)
		return;
	devset_add(&q->growing, g.slot);
	resize_grow(r, g.slot);
}

void scaling_plan(struct dispatch *q, const struct sched_view *view)
{
	/* Before all that waits is known, nobody knows what comes first. */
	if (spoolwatch_state(q->spoolwatch) != QUEUE_KNOWN)
		return;
	for (struct attempt *r = q->place.tasks; r; r = r->next)
		if (is_scalable(r) && r->resize->wants && r->resize->step == RESIZE_NONE)
			grow(q, r, view);
}

/* ---- what came of it ---- */

static json_t *members(const struct attempt *r)
{
	const struct resize_last *l = &r->resize->last;
	uint32_t mean = r->resize->mean;
	json_t *o = json_pack("{sI si si si ss ss so so}", "task", (json_int_t)r->ref.id, "from",
			      (int)l->from, "to", (int)l->to, "gpu", (int)l->index, "uuid", l->uuid,
			      "reason", l->reason, "mean_utilisation",
			      mean == SCALE_UNKNOWN ? json_null() : json_real((double)mean / 10),
			      "because", json_new_text(r->resize->because));

	if (r->ref.element)
		(void)json_object_set_new(o, "element", json_integer((json_int_t)r->ref.element));
	return o;
}

static void add_task(const struct attempt *r, struct strbuf *b)
{
	strbuf_addf(b, "task %" PRIu64, r->ref.id);
	if (r->ref.element)
		strbuf_addf(b, ".%" PRIu32, r->ref.element);
}

/* "task 7 has 2 GPUs now, and had 1: GPU 3 was added, because .." */
static void tell_changed(struct dispatch *q, struct attempt *r, bool grown)
{
	static const char *const reasons[] = {
		[RESIZE_IDLE] = "idle",
		[RESIZE_UNUSED] = "unused",
		[RESIZE_TAKEN] = "taken",
	};
	struct resize *s = r->resize;
	struct resize_last *l = &s->last;
	cleanup_strbuf struct strbuf line = STRBUF_INIT;
	json_t *o;

	l->wall_ns = clock_wall_ns();
	l->to = (unsigned int)r->uuids.n;
	l->from = grown ? l->to - 1 : l->to + 1;
	l->index = s->index;
	l->reason = grown ? "busy" : reasons[s->reason];
	(void)str_copy(l->uuid, sizeof(l->uuid), s->uuid);
	o = members(r);
	sentence_own(OWN_SCALED, o, &line);
	(void)str_copy(l->text, sizeof(l->text), strbuf_str(&line));
	eventlog_tell(q->place.eventlog, OWN_SCALED, o);
}

static void tell_unchanged(struct dispatch *q, const struct attempt *r, enum log_level level,
			   const char *how)
{
	const struct resize *s = r->resize;
	cleanup_strbuf struct strbuf line = STRBUF_INIT;

	add_task(r, &line);
	strbuf_addf(&line, " %s GPU %u%s%s", how, s->index, s->why[0] ? ": " : "", s->why);
	eventlog_say(q->place.eventlog, level, "%s", strbuf_str(&line));
}

void scaling_on_resized(struct dispatch *q, struct attempt *r, enum resize_end end)
{
	struct resize *s = r->resize;
	uint64_t now_ns = clock_mono_ns();
	uint64_t wait_ms = s->rule.window_ms > REFUSED_MS ? s->rule.window_ms : REFUSED_MS;

	switch (end) {
	case RESIZE_GROWN:
		tell_changed(q, r, true);
		s->grown = true;
		s->used = false;
		scale_begin(&s->scale, now_ns);
		break;
	case RESIZE_REFUSED:
		(void)sched_shrink(q->plan, r->ref, s->slot);
		tell_unchanged(q, r, LOG_LEVEL_INFO, "does not get one more,");
		scale_wait(&s->scale, now_ns + wait_ms * NS_PER_MS);
		break;
	case RESIZE_SHRUNK:
		(void)sched_shrink(q->plan, r->ref, s->slot);
		tell_changed(q, r, false);
		s->grown = false;
		scale_begin(&s->scale, now_ns);
		if (s->reason == RESIZE_UNUSED)
			scale_vain(&s->scale, &s->rule, now_ns);
		break;
	case RESIZE_KEPT:
		tell_unchanged(q, r, LOG_LEVEL_WARNING,
			       s->why[0] ? "keeps" : "was told to leave, uses yet, and so keeps");
		scale_begin(&s->scale, now_ns);
		break;
	}
	dispatch_plan_soon(q);
}

bool scaling_on_taken(struct dispatch *q, struct attempt *r, const struct msg_lease_taken *m)
{
	const struct dev_status *d = &q->place.view->devices[m->slot];
	struct resize *s = r->resize;

	if (!s)
		return false;
	if (resize_on_taken(r, m))
		return true;
	if (!s->begun || r->state != AT_RUNNING || r->uuids.n <= s->rule.min || d->n_lease_procs ||
	    !text_list_has(&r->uuids, d->uuid))
		return false;
	(void)str_copy(s->taken, sizeof(s->taken), d->uuid);
	if (s->step == RESIZE_NONE)
		give_taken(r);
	return true;
}
